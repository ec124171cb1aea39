"""``perdix replay operators``: policies that size operators, side by side on the twin of a dataflow.

For people it is a row per policy, and the steps that each took.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table

from perdix.cli.output import UserError, console, mean_and_sd
from perdix.cli.replay import options
from perdix.cli.replay.options import seeds_from, sink_of
from perdix.replay.labels import OPERATORS_DEFAULT

if TYPE_CHECKING:
    from perdix.twin.dataflow.parameters import DataflowParameters

HEADS = ("steps", "converged", "ends with", "x least", "achieved", "turns")
EXAMPLES = """
Example: perdix replay operators heron-wordcount --policy ds2,dhalion,flink-autoscaler

Example: perdix replay operators nexmark-q5 --start window=4 --skew 0.3 --seeds 3
"""


def replay_operators(
    dataflow: options.DataflowArgument,
    *,
    policy: options.PolicyOfKindOption = OPERATORS_DEFAULT,
    hours: options.HoursOfFileOption = None,
    start: options.StartOption = None,
    skew: options.SkewOption = None,
    seeds: options.SeedsOption = 1,
    first_seed: options.FirstSeedOption = 1,
    processes: options.ProcessesOption = None,
    out: options.OutOption = None,
    pictures: options.PicturesOption = True,
    mlflow: options.MlflowOption = True,
    as_json: options.JsonFileOption = None,
) -> None:
    """Policies that size each operator of a dataflow, on its twin.

    Options of a policy follow colons: ds2:activation=5. What the figures mean: docs/replay.md.
    """
    from perdix.cli.how_long import OPERATORS_S_PER_H
    from perdix.cli.replay.results import carry_out
    from perdix.replay.kinds import OPERATORS
    from perdix.replay.operators.campaign import DataflowSetup, dataflow_contenders

    sink = sink_of(as_json, out, pictures=pictures, mlflow=mlflow)
    who = dataflow_contenders(policy)
    seconds = None if hours is None else round(3600 * hours)
    setup = DataflowSetup(who, _parameters(dataflow, start, skew), seeds_from(first_seed, seeds), seconds)
    runs, per_h_s = len(setup.cases()), OPERATORS_S_PER_H
    carry_out(OPERATORS, setup, sink, runs=runs, per_h_s=per_h_s, processes=processes, show=_show)


def _parameters(name: str, start: str | None, skew: float | None) -> DataflowParameters:
    """Return the dataflow, with other instances to start with and another skew where they are given."""
    from perdix.twin.dataflow.parameters import load_dataflow

    parameters = load_dataflow(name)
    try:
        if start is not None:
            parameters = parameters.with_start(_counts(start))
        return parameters if skew is None else parameters.with_skew(skew)
    except ValueError as error:
        raise UserError(f"dataflow {name}: {error}") from None


def _counts(text: str) -> dict[str, int]:
    found = {}
    for pair in text.split(","):
        name, _, count = (part.strip() for part in pair.partition("="))
        if not name or not count.isdecimal():
            raise UserError(f"--start: expected operator=instances, found '{pair.strip()}'; write flatmap=10,count=5")
        if name in found:
            raise UserError(f"--start: '{name}' is given twice; name every operator once")
        found[name] = int(count)
    return found


def _show(document: Mapping[str, Any]) -> None:
    """Print a campaign's document."""
    from perdix.cli.replay.results import print_head

    dataflow = document["dataflow"]
    print_head(document, dataflow["name"], f"instances in the order {' / '.join(dataflow['operators'])}")
    grid = Table(header_style="bold", box=box.SIMPLE_HEAD)
    grid.add_column("policy", overflow="fold")
    for head in HEADS:
        grid.add_column(head, justify="right", overflow="fold")
    for row in document["summary"]:
        grid.add_row(row["policy"], *(_cells(row, document) if row["seeds"] else "-" * len(HEADS)))
    console.print(grid)
    for result in document["results"]:
        if result["seed"] == document["seeds"][0]:
            console.print(f"{result['policy']}: {_path(result)}")


def _cells(row: Mapping[str, Any], document: Mapping[str, Any]) -> list[str]:
    mine = [result for result in document["results"] if result["policy"] == row["policy"]]
    ends = {_slashed(result["parallelism"]) for result in mine}
    return [
        mean_and_sd(row["steps"]),
        "-" if not row["converged"] else f"{row['converged_s']['mean']:.0f} s{_of(row)}",
        sorted(ends)[0] + (f" (+{len(ends) - 1})" if len(ends) > 1 else ""),
        "-" if "instance_ratio" not in row else f"{row['instance_ratio']['mean']:.2f}",
        f"{row['achieved']['mean']:.1%}",
        mean_and_sd(row["oscillations"]),
    ]


def _of(row: Mapping[str, Any]) -> str:
    return "" if row["converged"] == row["seeds"] else f" in {row['converged']} of {row['seeds']}"


def _path(row: Mapping[str, Any]) -> str:
    """Return the steps of each phase, and the least that would have sustained it."""
    phases = []
    for phase in row["phases"]:
        least = "nothing sustains it" if phase["optimum"] is None else f"least {_slashed(phase['optimum'])}"
        phases.append(f"{' -> '.join(_slashed(step) for step in phase['path'])} ({least})")
    return "; then ".join(phases)


def _slashed(parallelism: Mapping[str, int]) -> str:
    return "/".join(str(count) for count in parallelism.values())

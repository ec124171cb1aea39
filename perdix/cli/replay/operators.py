"""``perdix replay operators``: policies that size operators, side by side on the twin of a dataflow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdix.cli.output import UserError
from perdix.cli.replay import options
from perdix.cli.replay.options import seeds_from, sink_of

if TYPE_CHECKING:
    from perdix.twin.dataflow.parameters import DataflowParameters


EXAMPLES = """
Example: perdix replay operators heron-wordcount --policy ds2,dhalion,flink-autoscaler

Example: perdix replay operators nexmark-q5 --start window=4 --skew 0.3 --seeds 3
"""


def replay_operators(
    dataflow: options.DataflowArgument,
    *,
    policy: options.PolicyOption = None,
    hours: options.HoursOption = None,
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
    from perdix.cli.replay.operators_text import show_dataflow
    from perdix.cli.replay.results import Work, carry_out
    from perdix.replay.kinds import OPERATORS
    from perdix.replay.operators.campaign import DataflowSetup
    from perdix.replay.operators.case import DEFAULT_POLICIES, dataflow_contenders

    sink = sink_of(as_json, out, pictures=pictures, mlflow=mlflow)
    who = dataflow_contenders(policy or DEFAULT_POLICIES)
    seconds = None if hours is None else round(3600 * hours)
    setup = DataflowSetup(who, _parameters(dataflow, start, skew), seeds_from(first_seed, seeds), seconds)
    work = Work(len(setup.cases()), setup.length_s / 3600.0, setup.simulated_s, OPERATORS_S_PER_H, processes)
    carry_out(OPERATORS, setup, work, sink, show=show_dataflow)


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
        if not name or not count.isdigit():
            raise UserError(f"--start: expected operator=instances, found '{pair.strip()}'; write flatmap=10,count=5")
        found[name] = int(count)
    return found

"""``perdix replay operators``: policies that size operators, side by side on the twin of a dataflow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perdix.cli.output import UserError
from perdix.cli.replay.options import (
    DataflowArgument,
    FirstSeedOption,
    HoursOption,
    JsonFileOption,
    MlflowOption,
    OutOption,
    PicturesOption,
    PolicyOption,
    ProcessesOption,
    SeedsOption,
    SkewOption,
    StartOption,
    seeds_from,
    sink_of,
)

if TYPE_CHECKING:
    from perdix.cli.replay.options import Sink
    from perdix.twin.dataflow.parameters import DataflowParameters


EXAMPLES = """
Example: perdix replay operators heron-wordcount --policy ds2,dhalion,flink-autoscaler

Example: perdix replay operators nexmark-q5 --start window=4 --skew 0.3 --seeds 3
"""


def replay_operators(
    dataflow: DataflowArgument,
    *,
    policy: PolicyOption = None,
    hours: HoursOption = None,
    start: StartOption = None,
    skew: SkewOption = None,
    seeds: SeedsOption = 1,
    first_seed: FirstSeedOption = 1,
    processes: ProcessesOption = None,
    out: OutOption = None,
    pictures: PicturesOption = True,
    mlflow: MlflowOption = True,
    as_json: JsonFileOption = None,
) -> None:
    """Policies that size each operator of a dataflow, on its twin.

    Options of a policy follow colons: ds2:activation=5. What the figures mean: docs/replay.md.
    """
    sink, chosen = sink_of(as_json, out, pictures=pictures, mlflow=mlflow), seeds_from(first_seed, seeds)
    asked = Asked(dataflow, policy, chosen, hours, start, skew, processes)
    _replay(asked, sink)


@dataclass(frozen=True)
class Asked:
    """What was asked for on the command line."""

    dataflow: str
    policies: str | None
    seeds: tuple[int, ...]
    hours: float | None
    start: str | None  # ``flatmap=10,count=5``; ``None``: as the dataflow's file says
    skew: float | None  # share of the records that one instance of every operator gets; ``None``: as the file says
    processes: int | None


def _replay(asked: Asked, sink: Sink) -> None:
    from perdix.cli.how_long import OPERATORS_S_PER_H
    from perdix.cli.replay.operators_text import show_dataflow
    from perdix.cli.replay.results import Work, carry_out
    from perdix.replay.kinds import OPERATORS
    from perdix.replay.operators.campaign import DataflowSetup
    from perdix.replay.operators.case import DEFAULT_POLICIES, dataflow_contenders

    seconds = None if asked.hours is None else round(3600 * asked.hours)
    who = dataflow_contenders(asked.policies or DEFAULT_POLICIES)
    setup = DataflowSetup(who, _parameters(asked), asked.seeds, seconds)
    runs, hours = len(setup.cases()), setup.length_s / 3600.0
    work = Work(runs, hours, setup.simulated_s, OPERATORS_S_PER_H, asked.processes)
    carry_out(OPERATORS, setup, work, sink, show=show_dataflow)


def _parameters(asked: Asked) -> DataflowParameters:
    from perdix.twin.dataflow.parameters import load_dataflow

    parameters = load_dataflow(asked.dataflow)
    try:
        if asked.start is not None:
            parameters = parameters.with_start(_counts(asked.start))
        return parameters if asked.skew is None else parameters.with_skew(asked.skew)
    except ValueError as error:
        raise UserError(f"dataflow {asked.dataflow}: {error}") from None


def _counts(text: str) -> dict[str, int]:
    found = {}
    for pair in text.split(","):
        name, _, count = (part.strip() for part in pair.partition("="))
        if not name or not count.isdigit():
            raise UserError(f"--start: expected operator=instances, found '{pair.strip()}'; write flatmap=10,count=5")
        found[name] = int(count)
    return found

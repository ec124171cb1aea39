"""``perdix replay hosts``: policies that lease hosts, side by side on the twin of a topology."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perdix.cli.replay.options import (
    FailuresOption,
    FirstSeedOption,
    ForecasterOption,
    HoursOption,
    JsonFileOption,
    MlflowOption,
    OutOption,
    PatternOption,
    PicturesOption,
    PolicyOption,
    ProcessesOption,
    SeedsOption,
    TopologyArgument,
    family_or_none,
    seeds_from,
    sink_of,
)

if TYPE_CHECKING:
    from perdix.cli.replay.options import Sink
    from perdix.replay.hosts.campaign import HostsSetup

ALL = "all"
EXAMPLES = """
Example: perdix replay hosts manufacturing --pattern stepwise --policy btu:unit_min=10,threshold --seeds 3
"""


def replay_hosts(
    topology: TopologyArgument,
    *,
    pattern: PatternOption = None,
    policy: PolicyOption = None,
    hours: HoursOption = None,
    failures: FailuresOption = 0,
    forecaster: ForecasterOption = None,
    seeds: SeedsOption = 1,
    first_seed: FirstSeedOption = 1,
    processes: ProcessesOption = None,
    out: OutOption = None,
    pictures: PicturesOption = True,
    mlflow: MlflowOption = True,
    as_json: JsonFileOption = None,
) -> None:
    """Policies that lease hosts and place containers on them, on the twin of a topology.

    Options of a policy follow colons: btu:unit_min=60. What the figures mean: docs/hosts.md.
    """
    from perdix.replay.hosts.case import FORECASTER

    sink, chosen = sink_of(as_json, out, pictures=pictures, mlflow=mlflow), seeds_from(first_seed, seeds)
    family = family_or_none(forecaster, FORECASTER)
    asked = Asked(topology, pattern, policy, chosen, hours, failures, family, processes)
    _replay(asked, sink)


@dataclass(frozen=True)
class Asked:
    """What was asked for on the command line."""

    topology: str
    patterns: str | None  # names, separated by commas; ``None`` or ``all``: all of the topology's
    policies: str | None
    seeds: tuple[int, ...]
    hours: float | None
    failures: int
    forecaster: str | None  # family; ``None``: none
    processes: int | None


def _replay(asked: Asked, sink: Sink) -> None:
    from perdix.cli.how_long import OPERATORS_S_PER_H
    from perdix.cli.replay.hosts_text import show_hosts
    from perdix.cli.replay.results import Work, carry_out
    from perdix.replay.kinds import HOSTS

    setup = _setup(asked)
    runs, hours = len(setup.cases()), setup.length_s / 3600.0
    work = Work(runs, hours, setup.simulated_s, OPERATORS_S_PER_H, asked.processes)
    carry_out(HOSTS, setup, work, sink, show=show_hosts)


def _setup(asked: Asked) -> HostsSetup:
    from perdix.replay.hosts.campaign import HostsSetup
    from perdix.replay.hosts.case import DEFAULT_POLICIES, hosts_contenders
    from perdix.twin.hosts.parameters import load_topology

    topology = load_topology(asked.topology)
    patterns = tuple(topology.patterns)
    if asked.patterns is not None and asked.patterns.strip() != ALL:
        patterns = tuple(word.strip() for word in asked.patterns.split(",") if word.strip())
    return HostsSetup(
        hosts_contenders(asked.policies or DEFAULT_POLICIES),
        topology,
        patterns,
        asked.seeds,
        None if asked.hours is None else round(3600 * asked.hours),
        asked.failures,
        asked.forecaster,
    )

"""``perdix replay hosts``: policies that lease hosts, side by side on the twin of a topology."""

from __future__ import annotations

from perdix.cli.replay import options
from perdix.cli.replay.options import family_or_none, seeds_from, sink_of

ALL = "all"
EXAMPLES = """
Example: perdix replay hosts manufacturing --pattern stepwise --policy btu:unit_min=10,threshold --seeds 3
"""


def replay_hosts(
    topology: options.TopologyArgument,
    *,
    pattern: options.PatternOption = None,
    policy: options.PolicyOption = None,
    hours: options.HoursOption = None,
    failures: options.FailuresOption = 0,
    forecaster: options.ForecasterOption = None,
    seeds: options.SeedsOption = 1,
    first_seed: options.FirstSeedOption = 1,
    processes: options.ProcessesOption = None,
    out: options.OutOption = None,
    pictures: options.PicturesOption = True,
    mlflow: options.MlflowOption = True,
    as_json: options.JsonFileOption = None,
) -> None:
    """Policies that lease hosts and place containers on them, on the twin of a topology.

    Options of a policy follow colons: btu:unit_min=60. What the figures mean: docs/hosts.md.
    """
    from perdix.cli.how_long import OPERATORS_S_PER_H
    from perdix.cli.replay.hosts_text import show_hosts
    from perdix.cli.replay.results import Work, carry_out
    from perdix.replay.hosts.campaign import HostsSetup
    from perdix.replay.hosts.case import DEFAULT_POLICIES, FORECASTER, hosts_contenders
    from perdix.replay.kinds import HOSTS
    from perdix.twin.hosts.parameters import load_topology

    sink = sink_of(as_json, out, pictures=pictures, mlflow=mlflow)
    family = family_or_none(forecaster, FORECASTER)
    found = load_topology(topology)
    patterns = tuple(found.patterns)
    if pattern is not None and pattern.strip() != ALL:
        patterns = tuple(word.strip() for word in pattern.split(",") if word.strip())
    who = hosts_contenders(policy or DEFAULT_POLICIES)
    seconds = None if hours is None else round(3600 * hours)
    setup = HostsSetup(who, found, patterns, seeds_from(first_seed, seeds), seconds, failures, family)
    work = Work(len(setup.cases()), setup.length_s / 3600.0, setup.simulated_s, OPERATORS_S_PER_H, processes)
    carry_out(HOSTS, setup, work, sink, show=show_hosts)

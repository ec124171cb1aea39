"""``perdix replay hosts``: policies that lease hosts, side by side on the twin of a topology.

For people it is a table per pattern, laid out as tables 3 to 6 of the paper.
"""

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.table import Table

from perdix.cli.output import console, mean_and_sd
from perdix.cli.replay import options
from perdix.cli.replay.options import family_or_none, seeds_from, sink_of
from perdix.replay.labels import HOSTS_DEFAULT, HOSTS_FORECASTER

ALL = "all"
FIGURES = (
    ("left waiting", "unprocessed"),
    ("hosts, mean", "hosts_mean"),
    ("hosts leased", "hosts_leased"),
    ("instances, mean", "instances_mean"),
    ("upscalings", "upscalings"),
    ("downscalings", "downscalings"),
    ("migrations", "migrations"),
    ("time to adapt, s", "time_to_adapt_s"),
)
EXAMPLES = """
Example: perdix replay hosts manufacturing --pattern stepwise --policy btu:unit_min=10,threshold --seeds 3
"""


def replay_hosts(
    topology: options.TopologyArgument,
    *,
    pattern: options.PatternOption = None,
    policy: options.PolicyOfKindOption = HOSTS_DEFAULT,
    hours: options.HoursOfFileOption = None,
    failures: options.FailuresOption = 0,
    forecaster: options.ForecasterOption = HOSTS_FORECASTER,
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
    from perdix.cli.replay.results import carry_out
    from perdix.replay.hosts.run import HostsSetup, hosts_contenders
    from perdix.replay.kinds import HOSTS
    from perdix.twin.hosts.parameters import load_topology

    sink = sink_of(as_json, out, pictures=pictures, mlflow=mlflow)
    family = family_or_none(forecaster)
    found = load_topology(topology)
    patterns = tuple(found.patterns)
    if pattern is not None and pattern.strip() != ALL:
        patterns = tuple(word.strip() for word in pattern.split(","))
    who = hosts_contenders(policy)
    seconds = None if hours is None else round(3600 * hours)
    setup = HostsSetup(who, found, patterns, seeds_from(first_seed, seeds), seconds, failures, family)
    runs, per_h_s = len(setup.cases()), OPERATORS_S_PER_H
    carry_out(HOSTS, setup, sink, runs=runs, per_h_s=per_h_s, processes=processes, show=_show)


def _show(document: Mapping[str, Any]) -> None:
    """Print a campaign's document."""
    from perdix.cli.replay.results import print_head

    topology = document["topology"]
    costs = f"a host costs {topology['price_per_h']:g} an hour, a delayed item {topology['penalty']:g}"
    print_head(document, topology["name"], costs)
    for pattern in document["patterns"]:
        mine = [row for row in document["summary"] if row["pattern"] == pattern and row["seeds"]]
        if mine:
            console.print(f"\n{pattern}")
            console.print(_table(mine, list(topology["levels"])))


def _table(summaries: list[Mapping[str, Any]], levels: list[str]) -> Table:
    """Return a table with a column per policy and billing time unit; what does not depend on the unit appears once."""
    columns = [(summary, unit, place) for summary in summaries for place, unit in enumerate(summary["bills"])]
    grid = Table(header_style="bold", box=box.SIMPLE_HEAD)
    grid.add_column("", overflow="fold")
    for row, unit, _ in columns:
        name = ":".join(word for word in row["policy"].split(":") if word != f"unit_min={unit}")
        grid.add_column(f"{name}\n{unit} min", justify="right", overflow="fold")
    for level in levels:
        grid.add_row(
            f"{level} compliance", *("" if place else _share(row["compliance"][level]) for row, _, place in columns)
        )
    grid.add_row("resource cost", *(mean_and_sd(row["bills"][unit]["resource_cost"]) for row, unit, _ in columns))
    for level in levels:
        grid.add_row(
            f"{level} total cost", *(mean_and_sd(row["bills"][unit]["total_cost"][level]) for row, unit, _ in columns)
        )
    grid.add_row("given back early", *(mean_and_sd(row["bills"][unit]["premature"]) for row, unit, _ in columns))
    for head, name in FIGURES:
        grid.add_row(head, *("" if place else mean_and_sd(values.get(name)) for values, _, place in columns))
    return grid


def _share(spread: Mapping[str, float | None]) -> str:
    sd = spread["sd"]
    return f"{spread['mean']:.0%}" + (f" ± {sd:.0%}" if sd else "")

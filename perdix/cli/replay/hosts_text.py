"""How ``perdix replay hosts`` looks to people: a table per pattern, laid out as tables 3 to 6 of the paper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.table import Table

from perdix.cli.output import console, number, styled

FIGURES = (
    ("hosts, mean", "hosts_mean"),
    ("hosts leased", "hosts_leased"),
    ("instances, mean", "instances_mean"),
    ("upscalings", "upscalings"),
    ("downscalings", "downscalings"),
    ("migrations", "migrations"),
    ("time to adapt, s", "time_to_adapt_s"),
)


def show_hosts(document: Mapping[str, Any]) -> None:
    """Print a campaign's document."""
    topology, seeds = document["topology"], document["seeds"]
    console.print(
        styled(f"\n{topology['name']}:", "bold"),
        f"{document['seconds'] / 60:.4g} min, "
        f"{len(seeds)} seed{'s' if len(seeds) > 1 else ''}; a host costs {topology['price_per_h']:g} an hour, "
        f"a delayed item {topology['penalty']:g}",
    )
    for pattern in document["patterns"]:
        mine = [one for one in document["summary"] if one["pattern"] == pattern and one["seeds"]]
        if mine:
            console.print(f"\n{pattern}")
            console.print(_table(mine, list(topology["levels"])))
    if document["mlflow"]:
        console.print(f"MLflow, side by side: {document['mlflow']['compare_url']}", soft_wrap=True)
    console.print(f"series, pictures and replay.json: {document['folder']}", soft_wrap=True)


def _table(summaries: list[Mapping[str, Any]], levels: list[str]) -> Table:
    """Return a table with a column per policy and billing time unit; what does not depend on the unit appears once."""
    columns = [(one, unit, place) for one in summaries for place, unit in enumerate(one["bills"])]
    grid = Table(header_style="bold", box=box.SIMPLE_HEAD)
    grid.add_column("", overflow="fold")
    for one, unit, _ in columns:
        name = one["policy"].split(":")[0] if f"unit_min={unit}" in one["policy"] else one["policy"]
        grid.add_column(f"{name}\n{unit} min", justify="right")
    for level in levels:
        grid.add_row(
            f"{level} compliance",
            *("" if place else _share(one["compliance"][level]) for one, _, place in columns),
        )
    grid.add_row("resource cost", *(_spread(one["bills"][unit]["resource_cost"]) for one, unit, _ in columns))
    for level in levels:
        grid.add_row(
            f"{level} total cost", *(_spread(one["bills"][unit]["total_cost"][level]) for one, unit, _ in columns)
        )
    grid.add_row("given back early", *(_spread(one["bills"][unit]["premature"]) for one, unit, _ in columns))
    for head, name in FIGURES:
        grid.add_row(head, *("" if place else _spread(one.get(name)) for one, _, place in columns))
    return grid


def _share(spread: Mapping[str, float | None]) -> str:
    sd = spread["sd"]
    return f"{spread['mean']:.0%}" + (f" ± {sd:.0%}" if sd else "")


def _spread(spread: Mapping[str, float | None] | None) -> str:
    if spread is None:
        return "-"
    sd = spread["sd"]
    return number(spread["mean"]) + (f" ± {number(sd)}" if sd else "")

"""How ``perdix replay operators`` looks to people: a row per policy, and the steps that each took."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.table import Table

from perdix.cli.output import console, number, styled

HEADS = ("steps", "converged", "ends with", "x least", "achieved", "turns")
POLICY_WIDTH = 16


def show_dataflow(document: Mapping[str, Any]) -> None:
    """Print a campaign's document."""
    dataflow, seeds = document["dataflow"], document["seeds"]
    console.print(
        styled(f"\n{dataflow['name']}:", "bold"),
        f"{document['seconds'] / 60:.4g} min, "
        f"{len(seeds)} seed{'s' if len(seeds) > 1 else ''}; instances in the order "
        f"{' / '.join(dataflow['operators'])}",
    )
    grid = Table(header_style="bold", box=box.SIMPLE_HEAD)
    grid.add_column("policy", overflow="fold", min_width=POLICY_WIDTH)
    for head in HEADS:
        grid.add_column(head, justify="right")
    for one in document["summary"]:
        grid.add_row(one["policy"], *(_cells(one, document) if one["seeds"] else "-" * len(HEADS)))
    console.print(grid)
    for one in document["results"]:
        if one["seed"] == seeds[0]:
            console.print(f"{one['policy']}: {_path(one)}")
    if document["mlflow"]:
        console.print(f"MLflow, side by side: {document['mlflow']['compare_url']}", soft_wrap=True)
    console.print(f"series, picture and replay.json: {document['folder']}", soft_wrap=True)


def _cells(one: Mapping[str, Any], document: Mapping[str, Any]) -> list[str]:
    mine = [result for result in document["results"] if result["policy"] == one["policy"]]
    ends = {_counts(result["parallelism"]) for result in mine}
    return [
        _spread(one["steps"]),
        "-" if not one["converged"] else f"{one['converged_s']['mean']:.0f} s{_of(one)}",
        sorted(ends)[0] + (f" (+{len(ends) - 1})" if len(ends) > 1 else ""),
        "-" if "instance_ratio" not in one else f"{one['instance_ratio']['mean']:.2f}",
        f"{one['achieved']['mean']:.1%}",
        _spread(one["oscillations"]),
    ]


def _of(one: Mapping[str, Any]) -> str:
    return "" if one["converged"] == one["seeds"] else f" in {one['converged']} of {one['seeds']}"


def _spread(spread: Mapping[str, float | None]) -> str:
    sd = spread["sd"]
    return number(spread["mean"]) + (f" ± {number(sd)}" if sd else "")


def _path(one: Mapping[str, Any]) -> str:
    """Return the steps of each phase, and the least that would have sustained it."""
    phases = []
    for phase in one["phases"]:
        least = "nothing sustains it" if phase["optimum"] is None else f"least {_counts(phase['optimum'])}"
        phases.append(f"{' -> '.join(_counts(step) for step in phase['path'])} ({least})")
    return "; then ".join(phases)


def _counts(parallelism: Mapping[str, int]) -> str:
    return "/".join(str(count) for count in parallelism.values())

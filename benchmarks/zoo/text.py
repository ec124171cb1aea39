"""How the zoo looks to people: tables, targets, the worst jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table

from benchmarks.zoo.coverage import HERE
from perdix.cli.output import console, styled

Document = Mapping[str, Any]
SHOWN = 8  # missed cases of a target
LEGEND = """\
held: share of the jobs in which the best fixed size holds the objective
late: mean share of the time above it, in these jobs
x best: worker-seconds against the best fixed size, geometric mean
most: the largest of these, where the objective was held
x frontier: worker-seconds against the fewest of any plan that is late as often, where frontier is among the policies
rescales: a day
"""
COVERAGE_LEGEND = """\
held: intervals that hold the true capacity; below, above: where it lies otherwise
width: upper over lower end; bias: estimate over truth (geometric means)
"""


def show(document: Document) -> None:
    """Print what came of it."""
    console.print(
        styled(f"\nZoo, seed {document['seed']}:", "bold"),
        f"{len(document['jobs_played'])} jobs of {document['hours']:g} h, a look every 60 s",
        highlight=False,
    )
    for note in document["notes"]:
        console.print(styled(note, "dim"))
    console.print(_policies(document["policies"], "policy"))
    console.print(styled(LEGEND, "dim"))
    console.print(f"The same for {document['judged']}, by kind of workload:", highlight=False)
    console.print(_policies(document["kinds"], "kind"))
    console.print(f"Capacity intervals of 90 % of {document['judged']}, by how much of its capacity the job used:")
    console.print(_coverage(document["coverage"]))
    console.print(styled(COVERAGE_LEGEND, "dim"))
    for target in document["violations"]:
        _target(target)
    console.print(f"\nThe worst jobs of {document['judged']}:", highlight=False)
    for row in document["worst"]:
        console.print(f"  job {row['job']} ({row['kind']}): {row['why']}", highlight=False, soft_wrap=True)
        console.print(f"    {row['command']}", highlight=False, soft_wrap=True)
    console.print(f"\npicture and results: {document['folder']}", highlight=False, soft_wrap=True)


def _policies(rows: Sequence[Document], first: str) -> Table:
    columns = {
        first: [row[first] for row in rows],
        "jobs": [f"{row['jobs']}" for row in rows],
        "failed": [f"{row['failed'] or ''}" for row in rows],
        "held": [_of(row["held_share"], row["holdable"]) for row in rows],
        "late": [_percent(row["late_share"]) for row in rows],
        "x best": [_number(row["of_best_static"]) for row in rows],
        "most": [_number(row["most_of_best_static"]) for row in rows],
        "x frontier": [_number(row["of_frontier"]) for row in rows],
        "rescales": [_number(row["rescales_per_day"], 1) for row in rows],
    }
    return _table({head: cells for head, cells in columns.items() if set(cells) - {"", "-"}}, (first,))


def _coverage(rows: Sequence[Document]) -> Table:
    columns = {
        "scale-out": ["that runs" if row["where"] == HERE else "others" for row in rows],
        "used": [row["utilisation"] for row in rows],
        "intervals": [f"{row['intervals']:,}" for row in rows],
        **{name: [_percent(row[name]) for row in rows] for name in ("held", "below", "above")},
        **{name: [f"x {row[name]:.2f}" for row in rows] for name in ("width", "bias")},
    }
    return _table(columns, ("scale-out", "used"))


def _table(columns: Mapping[str, Sequence[str]], words: Sequence[str]) -> Table:
    """Return a table of columns, which are numbers but for those of ``words``."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for head in columns:
        table.add_column(head, justify="left" if head in words else "right", no_wrap=True)
    for cells in zip(*columns.values(), strict=True):
        table.add_row(*cells)
    return table


def _target(target: Document) -> None:
    missed = target["missed"]
    verdict = styled(f"{len(missed)} missed", "red") if missed else styled("pass", "green")
    console.print(verdict, f"of {target['judged']}: {target['asks']}", highlight=False, soft_wrap=True)
    for row in missed[:SHOWN]:
        what = f"job {row['job']} ({row['kind']})" if "job" in row else f"{row['where']}, {row['utilisation']}"
        console.print(f"    {what}: {row['why']}", highlight=False, soft_wrap=True)
    if len(missed) > SHOWN:
        console.print(f"    and {len(missed) - SHOWN} more", highlight=False)


def _of(share: float | None, count: int) -> str:
    return "-" if share is None else f"{share:.0%} of {count}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def _number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"

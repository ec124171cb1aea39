"""One page to hand on: what is saved in money first, then each job with its picture. It asks nothing of any server."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from perdix.scan.confidence import legend
from perdix.scan.judging import Judged
from perdix.scan.pictures import picture

TEMPLATES: Final = Path(__file__).parent / "templates"


def page(document: Mapping[str, Any], jobs: Sequence[Judged]) -> str:
    """Return the page.

    ``document``: as :func:`perdix.scan.document.document` returns it.
    ``jobs``: the same jobs, in any order, with their courses.
    """
    drawn = {judged.job.name: picture(judged) for judged in jobs}
    pictures = {name: base64.b64encode(png).decode() for name, png in drawn.items() if png is not None}
    money = document["price"] is not None
    return (
        environment()
        .get_template("scan.html")
        .render(
            found=document,
            summary=document["summary"],
            judged=[row for row in document["jobs"] if row["advice"] is not None],
            others=[row for row in document["jobs"] if row["advice"] is None],
            pictures=pictures,
            unit=(document["price"]["currency"] or "in the currency of the price") if money else "worker-hours",
            saved=lambda row: row["saved_cost_per_month"] if money else row["saved_worker_h_per_month"],
            share=_share(document["summary"]),
            legend=legend(),
        )
    )


def environment(*folders: Path) -> Environment:
    """Return where pages to hand on are made: what they all look like (``base.html``), and how numbers are written.

    ``folders``: of further templates.
    """
    made = Environment(loader=FileSystemLoader([*folders, TEMPLATES]), autoescape=True, undefined=StrictUndefined)
    made.filters |= {
        "percent": lambda share: "not known" if share is None else f"{100 * share:.1f} %",
        "workers": _workers,
        "counted": lambda count: f"{_workers(count)} worker{'' if _workers(count) == '1' else 's'}",
        "whole": lambda value: f"{value:,.0f}",
        "day": lambda time_s: datetime.fromtimestamp(time_s, UTC).strftime("%d %b %Y"),
    }
    return made


def _share(summary: Mapping[str, Any]) -> float | None:
    """Return the saving as a share of what runs now; ``None`` where nothing runs."""
    now = summary["workers_now"]
    return None if now <= 0 else 1.0 - summary["workers_advised"] / now


def _workers(count: float) -> str:
    return f"{count:.0f}" if abs(count - round(count)) < 0.05 else f"{count:.1f}"

"""One page to hand on: what is saved in money first, then each job with its picture. It asks nothing of any server."""

import base64
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from matplotlib.ticker import MaxNLocator

from perdix.replay.canvas import BLUE, GREEN, GREY, ORANGE, canvas, moments, moments_axis, rate_axis, to_png
from perdix.scan.confidence import legend
from perdix.scan.judging import Judged

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


WIDTH_IN, HEIGHT_IN = 6.4, 4.6  # narrow, so that its words can still be read on a telephone
TEXT_PT: Final = 10


def picture(judged: Judged) -> bytes | None:
    """Return a PNG; ``None`` of a job that was not judged."""
    advice, course = judged.advice, judged.course
    if advice is None or course is None:
        return None
    figure, grid = canvas(2, 1, width_in=WIDTH_IN, height_in=HEIGHT_IN, height_ratios=(1.1, 1.0), same_x=True)
    load, workers = grid[0, 0], grid[1, 0]
    days = moments(course.times_s)
    load.plot(days, course.load_per_s, color=GREY, lw=1.0)
    for count, colour in {advice.peak_workers_now: ORANGE, advice.fixed.workers: GREEN}.items():
        low, takes, high = judged.capacities[count]
        load.axhline(takes, color=colour, lw=1.4, label=f"{count} worker{'' if count == 1 else 's'}")
        load.axhspan(low, high, color=colour, alpha=0.12, lw=0)
    highest = max(float(np.nanmax(course.load_per_s)), judged.capacities[advice.fixed.workers][1])
    load.set_ylim(0.0, 1.7 * highest)
    load.set_title("load, and what sizes take (90 % interval)", loc="left", fontsize=TEXT_PT)
    load.legend(loc="upper left", frameon=False, ncols=2, fontsize=TEXT_PT - 1)
    rate_axis(load, "load", from_zero=False)
    workers.step(days, course.workers, where="post", color=ORANGE, lw=1.6, label="now")
    workers.axhline(advice.fixed.workers, color=GREEN, lw=1.6, label="best fixed size")
    if len(course.perdix_workers):
        label = "perdix" if advice.perdix.method == "played" else "perdix, on the busiest day"
        workers.step(
            moments(course.perdix_from_s), course.perdix_workers, where="post", color=BLUE, lw=1.4, label=label
        )
    workers.set_ylim(bottom=0.0, top=1.35 * max(advice.peak_workers_now, advice.fixed.workers, advice.bounds.maximum))
    workers.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    workers.set_ylabel("workers")
    workers.legend(loc="upper left", frameon=False, ncols=3, fontsize=TEXT_PT - 1)
    moments_axis(workers)
    return to_png(figure, dpi=110)

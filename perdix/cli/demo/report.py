"""The demo's report: a page with money and lateness first, then each job, and its picture as a PNG of its own."""

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from perdix.cli.demo.comparison import BEST_FIXED, HOURS, HPA, PERDIX, POLICIES, TODAY, Course
from perdix.cli.output import clock_time
from perdix.control.explain import Explanation
from perdix.control.explain_text import sizes_around
from perdix.replay.canvas import BLUE, GREEN, GREY, ORANGE, RED, canvas, hours_axis, legend_below, rate_axis, to_png
from perdix.scan.page import environment
from perdix.scan.saving import WorkerPrice, worker_h_per_month
from perdix.settings.home import Home
from perdix.settings.stream_job import Objectives

COLOURS = dict(zip(POLICIES, (BLUE, GREEN, ORANGE, GREY), strict=True))
NAMES = {PERDIX: "perdix", BEST_FIXED: "best fixed size", HPA: "HPA at 80 % CPU", TODAY: "today: the largest size"}
TEMPLATES = Path(__file__).parent / "templates"


class Side(NamedTuple):
    """What a policy came to: workers on average, cost a month, rescales, and the share of the time that was late."""

    name: str
    workers: float
    cost: float
    rescales: int
    late_share: float
    p95_s: float


def write_report(
    place: Home,
    rows: Sequence[Mapping[str, Any]],
    courses: Mapping[str, Sequence[Course]],
    explained: Mapping[str, Explanation],
    price: WorkerPrice,
) -> dict[str, Path]:
    """Write ``demo.png`` and ``demo.html`` to the reports folder; returns their paths as ``png`` and ``html``."""
    place.reports.mkdir(parents=True, exist_ok=True)
    png, html = place.reports / "demo.png", place.reports / "demo.html"
    png.write_bytes(to_png(draw(courses)))
    page = (
        environment(TEMPLATES)
        .get_template("demo.html")
        .render(
            jobs=[_job(row, courses[row["job"]], explained.get(row["job"]), price) for row in rows],
            sides=over_all_jobs(rows, price),
            price=price,
            hours=f"{HOURS:g}",
            budget=Objectives().error_budget,
            objective_s=Objectives().latency_p95_ms / 1_000.0,
            made=clock_time(
                max(
                    (explanation.entry.intent.made_s for explanation in explained.values() if explanation.entry),
                    default=0.0,
                )
            ),
        )
    )
    html.write_text(page, encoding="utf-8")
    return {"html": html, "png": png}


def over_all_jobs(rows: Sequence[Mapping[str, Any]], price: WorkerPrice) -> list[Side]:
    """Return what each policy came to over all jobs; of lateness and latency what the worst of them came to."""
    found = []
    for policy in POLICIES:
        sides = [side(row, policy, price) for row in rows]
        sums = [sum(getattr(demo_job, name) for demo_job in sides) for name in ("workers", "cost", "rescales")]
        worst = (max(demo_job.late_share for demo_job in sides), max(demo_job.p95_s for demo_job in sides))
        found.append(Side(NAMES[policy], sums[0], sums[1], sums[2], *worst))
    return found


def side(row: Mapping[str, Any], policy: str, price: WorkerPrice) -> Side:
    """Return what a policy came to on one job."""
    workers = row[f"{policy}_workers"]
    return Side(
        NAMES[policy],
        workers,
        worker_h_per_month(workers) * price.per_h,
        row[f"{policy}_rescales"],
        row[f"{policy}_above_objective"],
        row[f"{policy}_p95_ms"] / 1_000.0,
    )


def _job(
    row: Mapping[str, Any], courses: Sequence[Course], explained: Explanation | None, price: WorkerPrice
) -> dict[str, Any]:
    rescale = None if explained is None else explained.of_last_rescale
    intent = None if rescale is None or rescale.entry is None else rescale.entry.intent
    picture = to_png(draw({row["job"]: courses}))
    return {
        **row,
        "sides": [side(row, policy, price) for policy in POLICIES],
        "picture": base64.b64encode(picture).decode(),
        "intent": intent,
        "sizes": [] if intent is None else sizes_around(intent),
    }


def draw(courses: Mapping[str, Sequence[Course]]) -> Figure:
    """Draw, per job, the workload, the workers and the p95 latency of each policy over the same minutes."""
    figure, grid = canvas(3, len(courses), width_in=2.0 + 4.4 * len(courses), height_in=6.2, same_x=True)
    for column, (job, played) in enumerate(courses.items()):
        workload, workers, latency = grid[:, column]
        hours = np.arange(len(played[0].workload_per_s)) / 60.0
        workload.plot(hours, played[0].workload_per_s, color="black", lw=1.2)
        for course in reversed(played):
            style: dict[str, Any] = {"color": COLOURS[course.policy], "label": NAMES[course.policy]}
            style["lw"] = 2.0 if course.policy == PERDIX else 1.2
            workers.step(hours, course.workers, where="post", **style)
            latency.plot(hours, np.asarray(course.latency_p95_ms) / 1_000.0, **style)
        workload.set_title(job, loc="left", fontweight="bold")
        rate_axis(workload, "workload")
        workers.set_ylim(bottom=0)
        workers.yaxis.set_major_locator(MaxNLocator(5, integer=True))
        workers.set_ylabel("workers")
        latency.set_yscale("log")
        latency.axhline(Objectives().latency_p95_ms / 1_000.0, color=RED, lw=1.0, ls=(0, (4, 2)), label="objective")
        latency.yaxis.set_major_locator(LogLocator(numticks=6))
        latency.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        latency.yaxis.set_minor_formatter(NullFormatter())
        latency.set_ylabel("p95 latency (s)")
        hours_axis(latency, float(hours[-1]))
        for axes in (workload, workers):
            axes.tick_params(labelbottom=False)
    handles, labels = grid[2, 0].get_legend_handles_labels()
    named = dict(zip(labels, handles, strict=True))
    legend_below(figure, [named[name] for name in (*NAMES.values(), "objective") if name in named], fontsize=9)
    figure.align_ylabels()
    return figure

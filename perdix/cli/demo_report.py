"""The demo's report: one PNG with the courses of all policies, and an HTML page around it."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, select_autoescape
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from perdix.cli.demo_comparison import POLICIES, Course
from perdix.cli.output import clock_time, number
from perdix.control.explain import Explanation
from perdix.control.explain_text import render
from perdix.settings.home import Home

COLOURS = dict(zip(POLICIES, ("#0072B2", "#E69F00", "#999999"), strict=True))
LABELS = dict(zip(POLICIES, ("perdix", "HPA 80 %", "static"), strict=True))
TEMPLATES = Path(__file__).parent / "templates"


def write_report(
    place: Home,
    rows: Sequence[Mapping[str, Any]],
    courses: Mapping[str, Sequence[Course]],
    explained: Mapping[str, Explanation],
) -> dict[str, Path]:
    """Write ``demo.png`` and ``demo.html`` to the reports folder; returns their paths as ``png`` and ``html``."""
    place.reports.mkdir(parents=True, exist_ok=True)
    png, html = place.reports / "demo.png", place.reports / "demo.html"
    drawn = draw(courses)
    png.write_bytes(drawn)
    environment = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=select_autoescape())
    environment.filters["number"] = number
    environment.filters["percent"] = lambda value: "-" if value is None else f"{100 * value:.1f} %"
    page = environment.get_template("demo.html").render(
        rows=rows,
        labels=LABELS,
        policies=POLICIES,
        picture=base64.b64encode(drawn).decode(),
        explained={name: render(one, verbose=True) for name, one in explained.items()},
        made=clock_time(max((one.entry.intent.made_s for one in explained.values() if one.entry), default=0.0)),
    )
    html.write_text(page, encoding="utf-8")
    return {"html": html, "png": png}


def draw(courses: Mapping[str, Sequence[Course]]) -> bytes:
    """Draw, per job, the workload, the workers and the p95 latency of each policy over the same minutes."""
    import io

    figure = Figure(figsize=(4.6 * len(courses), 7.2), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(3, len(courses), sharex=True, squeeze=False)
    for column, (job, played) in enumerate(courses.items()):
        workload, workers, latency = grid[:, column]
        minutes = range(len(played[0].workload_per_s))
        workload.plot(minutes, played[0].workload_per_s, color="black", lw=1.2)
        for course in played:
            style = {"color": COLOURS[course.policy], "label": LABELS[course.policy], "lw": 1.6}
            workers.step(minutes, course.workers, where="post", **style)
            latency.plot(minutes, [value / 1000 for value in course.latency_p95_ms], **style)
        workload.set_title(job, loc="left", fontweight="bold")
        workload.yaxis.set_major_formatter(EngFormatter())
        workload.set_ylim(bottom=0)
        workers.set_ylim(bottom=0)
        latency.set_yscale("log")
        latency.set_xlabel("minutes")
        for axes, name in ((workload, "workload, records/s"), (workers, "workers"), (latency, "p95 latency, s")):
            axes.grid(alpha=0.25)
            axes.spines[["top", "right"]].set_visible(False)
            if column == 0:
                axes.set_ylabel(name)
    grid[1, 0].legend(frameon=False, loc="best", fontsize=8)
    content = io.BytesIO()
    figure.savefig(content, format="png")
    return content.getvalue()

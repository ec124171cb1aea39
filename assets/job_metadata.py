"""One job's last hours as Dagster metadata: why, the picture, and the numbers that its page plots over time."""

import html
import re
from typing import Any

import dagster as dg
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from perdix.assets.metadata import picture
from perdix.control.course import JobCourse
from perdix.control.explain_text import render
from perdix.replay.canvas import BLUE, GREEN, GREY, ORANGE, canvas, moments, moments_axis, rate_axis, to_png
from perdix.replay.course_picture import latency_panel
from perdix.replay.curves import extremes
from perdix.settings.counting import counted
from perdix.telemetry.metrics import LATENCY, SCALE_OUT, WORKLOAD
from perdix.telemetry.window import Window


def metadata_of(course: JobCourse) -> dict[str, Any]:
    """Return what the page of a job shows: texts, a picture, and numbers as far as they are known."""
    explained, drawn = course.explanation, job_picture(course)
    why = explained.of_last_rescale if course.rescales else explained
    entry = explained.entry
    numbers = {
        "load_per_s": course.load_per_s,
        "late_percent": None if course.late_share is None else 100.0 * course.late_share,
        "error_budget_left_percent": None if course.budget_left is None else 100.0 * course.budget_left,
    }
    return {
        "why": dg.MetadataValue.md(_wrapping(render(why, now_s=course.now_s))),
        **({} if drawn is None else {"picture": picture(drawn, f"the last hours of {course.job.name}")}),
        **({} if drawn is not None else {"no picture": dg.MetadataValue.text(course.unread)}),
        **({} if entry is None else {"workers": entry.intent.scale_out, "now": entry.intent.sentence}),
        "rescales": len(course.rescales),
        **{name: round(value, 3) for name, value in numbers.items() if value is not None},
    }


def _wrapping(text: str) -> str:
    """Return an explanation as Markdown: a code block would not wrap, but be cut off at the edge of the page."""
    found, in_table = list[str](), False
    for line in html.escape(text, quote=False).splitlines():
        cells = re.split(" {2,}", line.strip(), maxsplit=2)
        if cells[0] == "workers":  # the head of the table
            found += ["", f"| {' | '.join(cells)} |", "|---:|---:|---|"]
        else:
            found += [f"| {' | '.join(cells)} |"] if in_table and line.startswith("  ") else ["", line.strip()]
        in_table = cells[0] == "workers" or (in_table and line.startswith("  "))
    return "\n".join(found).strip()


LIKELY = 0.9  # what stays below it with this probability is drawn above the mean


def job_picture(course: JobCourse) -> bytes | None:
    """Return a PNG; ``None`` where no metrics could be read."""
    window = course.window
    if window is None:
        return None
    figure, grid = canvas(3, 1, width_in=7.6, height_in=6.0, height_ratios=(1.3, 1.0, 1.2), same_x=True)
    load, workers, latency = grid[:, 0]
    times = moments(window.times_s)
    _load(load, times, course, window)
    ran = window.job_metric(SCALE_OUT.name)
    workers.plot(times, ran, drawstyle="steps-post", color=BLUE, lw=1.4)
    workers.set_ylim(0.0, 1.15 * max(float(np.nanmax(ran, initial=1.0)), course.job.bounds.minimum))
    workers.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    workers.set_ylabel("workers")
    objective_ms = course.job.objectives.latency_p95_ms
    handles = latency_panel(latency, times, window.job_metric(LATENCY.name), objective_ms)
    latency.legend(handles=handles, frameon=False, fontsize=8, loc="upper left")
    for entry in course.rescales:
        colour = GREEN if entry.intent.scale_out > entry.intent.from_scale_out else ORANGE
        for axes in grid[:, 0]:
            axes.axvline(moments([entry.applied_s or entry.intent.made_s])[0], color=colour, lw=1.0, alpha=0.8)
    for axes in (load, workers):
        axes.tick_params(labelbottom=False)
    moments_axis(latency)
    figure.align_ylabels()
    figure.suptitle(_title(course), fontsize=11, ha="left", x=0.01, wrap=True)
    return to_png(figure)


def _title(course: JobCourse) -> str:
    late = None if course.late_share is None else f"late in {course.late_share:.1%} of the time shown"
    # The budget counts what perdix saw, and the picture shows what was before as well
    left = None if course.budget_left is None else f"perdix has {course.budget_left:.0%} of the error budget left"
    rescales = f"{counted(len(course.rescales), 'rescale')} by perdix"
    return f"{course.job.name}: {rescales} (green: out, orange: in)\n{'; '.join(filter(None, (late, left)))}".rstrip()


def _load(axes: Axes, times: np.ndarray, course: JobCourse, window: Window) -> None:
    axes.plot(*extremes(times, window.job_metric(WORKLOAD.name)), color="black", lw=0.9, label="load")
    for k, forecast in enumerate(course.forecasts):
        ends = moments(forecast.origin_s + forecast.step_s * np.arange(1.0, len(forecast.mean) + 1.0, dtype=np.float64))
        newest = k == len(course.forecasts) - 1
        axes.plot(ends, forecast.mean, color=BLUE if newest else GREY, lw=1.4 if newest else 0.7, alpha=0.9)
        if newest:
            likely = forecast.quantiles.get(LIKELY, forecast.mean)
            axes.fill_between(ends, forecast.mean, likely, color=BLUE, alpha=0.2, lw=0)
            axes.plot([], [], color=BLUE, lw=1.4, label="forecast, and what stays above it once in ten times")
    rate_axis(axes, "load")
    axes.legend(frameon=False, fontsize=8, loc="lower left", ncols=2)

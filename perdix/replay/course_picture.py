"""One replay on its own, and recoveries as they were predicted and as they truly were."""

import textwrap
from collections.abc import Sequence

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, LogLocator, MaxNLocator, NullFormatter

from perdix.replay.canvas import BLUE, GREEN, GREY, ORANGE, RED, canvas, hours_axis, legend_below, rate_axis, single
from perdix.replay.curves import averages, elapsed_h, extremes, row_s
from perdix.replay.outcome import Course, Outcome, Played, Recovery
from perdix.telemetry.window import Values

CAUSES = {"out": ("scale-out", GREEN, "^"), "in": ("scale-in", ORANGE, "v"), "failure": ("failure", RED, "X")}
TITLE, NARROW_TITLE = 100, 68  # letters in a line
NEAR = 0.15  # a prediction within this share of the truth is good


def course_picture(played: Played, *, objective_ms: float | None = None) -> Figure:
    """Draw one replay so that it says why latency was high at a time.

    ``objective_ms``: the p95 latency that was to be held, in ms; what lies above it is filled.
    """
    course, outcome, hours = played.course, played.outcome, elapsed_h(played.course)
    columns = course.columns()
    figure, grid = canvas(4, 1, height_in=7.0, height_ratios=(3, 2, 2, 3), same_x=True)
    workload, workers, lag, latency = grid[:, 0]
    handles = _workload(workload, hours, columns)
    workers.plot(*extremes(hours, columns["workers"]), color=BLUE, lw=1.3, drawstyle="steps-post")
    workers.set_ylim(0.0, 1.1 * float(columns["workers"].max()))
    workers.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    workers.set_ylabel("workers")
    lag.fill_between(*extremes(hours, columns["lag_records"]), color=GREY, alpha=0.6, lw=0)
    lag.set_ylim(0.0, max(1.1 * float(columns["lag_records"].max()), 1.0))
    lag.yaxis.set_major_formatter(EngFormatter(sep=""))
    lag.set_ylabel("lag (records)")
    handles += latency_panel(latency, hours, columns["latency_p95_ms"], objective_ms)
    handles += _mark(list(grid[:, 0]), course, outcome.recoveries)
    for axes in grid[:-1, 0]:
        axes.tick_params(labelbottom=False)
    hours_axis(latency, len(hours) * row_s(course) / 3600.0)
    legend_below(figure, handles, fontsize=9)
    figure.suptitle(_came_to(outcome), fontsize=11)
    figure.align_ylabels()
    return figure


def _came_to(outcome: Outcome) -> str:
    return textwrap.fill(
        f"{outcome.policy} on {outcome.trace}, seed {outcome.seed}: {outcome.average_workers:.1f} workers, "
        f"{outcome.rescales} rescales, {outcome.share_above_objective:.1%} of the time above the objective",
        TITLE,
    )


def _workload(axes: Axes, at_h: Values, columns: dict[str, Values]) -> list[Artist]:
    at, capacity = averages(at_h, columns["capacity_per_s"])  # its peaks are noise that nobody can use
    handles: list[Artist] = [
        axes.fill_between(at, capacity, color=BLUE, alpha=0.22, lw=0, step="post", label="capacity")
    ]
    handles += axes.plot(*extremes(at_h, columns["workload_per_s"]), color="black", lw=0.9, label="workload")
    rate_axis(axes, "workload")
    return handles


def latency_panel(axes: Axes, times: Values, latency_ms: Values, objective_ms: float | None) -> list[Artist]:
    """Draw p95 latency in ms over times of any unit; what lies above the objective is filled."""
    axes.set_yscale("log")
    at, drawn_ms = extremes(times, latency_ms)
    axes.plot(at, drawn_ms, color="black", lw=0.9)
    axes.yaxis.set_major_formatter(EngFormatter(sep=""))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_ylabel("p95 latency (ms)")
    if objective_ms is None:
        return []
    above = np.nan_to_num(drawn_ms) > objective_ms
    axes.fill_between(at, objective_ms, drawn_ms, where=above, color=RED, alpha=0.3, lw=0)
    return [axes.axhline(objective_ms, color=RED, lw=1.0, ls=(0, (4, 2)), label=f"objective {objective_ms:,.0f} ms")]


def _mark(rows: Sequence[Axes], course: Course, recoveries: Sequence[Recovery]) -> list[Artist]:
    """Draw a line through all rows where a rescale or a failure began, and on top a symbol that says which."""
    handles: list[Artist] = []
    for cause, (name, colour, symbol) in CAUSES.items():
        hours = [(recovery.at_s - course.times_s[0]) / 3600.0 for recovery in recoveries if recovery.cause == cause]
        if not hours:
            continue
        for axes in rows:
            axes.vlines(hours, 0.0, 1.0, transform=axes.get_xaxis_transform(), color=colour, lw=0.7, alpha=0.7)
        marks = rows[0].plot(
            hours, np.full(len(hours), 1.04), color=colour, marker=symbol, ms=6, mec="white", mew=0.4, lw=0, label=name
        )
        marks[0].set(transform=rows[0].get_xaxis_transform(), clip_on=False)
        handles += marks
    return handles


def recovery_picture(played: Sequence[Played]) -> Figure | None:
    """Draw one policy's predicted recovery times against the true ones, both logarithmic, with a band of +-15 %.

    Left out, and counted in the title, is what no prediction can be held against: recoveries that another rescale or
    failure interrupted, and those that were not predicted or had not ended. ``None`` where nothing can be compared.
    """
    recoveries = [recovery for replay in played for recovery in replay.outcome.recoveries]
    known = [
        (recovery.cause, recovery.true_s, recovery.predicted_s)
        for recovery in recoveries
        if recovery.error is not None and recovery.true_s and recovery.predicted_s
    ]
    if not known:
        return None
    figure, axes = single(width_in=5.4, height_in=5.2)
    times_s = np.array([both for _, *both in known])
    reach = np.array([0.8 * times_s.min(), 1.25 * times_s.max()])
    axes.fill_between(
        reach, (1 - NEAR) * reach, (1 + NEAR) * reach, color=GREY, alpha=0.18, lw=0, label=f"within {NEAR:.0%}"
    )
    axes.plot(reach, reach, color=GREY, lw=0.9)
    for cause, (name, colour, symbol) in CAUSES.items():
        true_s, predicted_s = times_s[[seen_cause == cause for seen_cause, *_ in known]].T
        if len(true_s):
            label = f"{name} ({len(true_s)})"
            axes.scatter(true_s, predicted_s, color=colour, marker=symbol, s=34, lw=0.4, edgecolor="white", label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(*reach)
    axes.set_ylim(*reach)
    axes.set_aspect("equal")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(EngFormatter(sep=""))
        axis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("true recovery time (s)")
    axes.set_ylabel("predicted recovery time (s)")
    axes.legend(loc="upper left", frameon=False, fontsize=9)
    outcome = played[0].outcome
    true_s, predicted_s = times_s.T
    errors = np.abs(predicted_s - true_s) / true_s
    title = textwrap.fill(f"{outcome.policy} on {outcome.trace}: mean error {errors.mean():.0%}", NARROW_TITLE)
    near = f"{int((errors <= NEAR).sum())} of {len(errors)} within {NEAR:.0%}"
    axes.set_title(f"{title}\n{near}; {len(recoveries) - len(known)} left out", fontsize=10)
    return figure

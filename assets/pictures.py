"""Pictures of a training for MLflow and Dagster, as PNG bytes. Each says its unit, and what a reader should see first.

How they look is in :mod:`replay.canvas`, with which the pictures of a replay are drawn, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.ticker import EngFormatter, PercentFormatter

from models.capacity.contract import Estimate
from models.capacity.line import Fit
from models.forecasting.backtest import Backtest
from models.forecasting.contract import Values
from replay.canvas import BLUE, CYCLE, GREEN, GREY, ORANGE, RED, SKY, canvas, rate_axis, single, to_png

_MOST_LEGEND = 12
_MOST_DOTS = 300  # per worker: more only darken the picture


def forecast_against_truth(job: str, backtest: Backtest) -> bytes:
    """Draw the truth and what was forecast from each origin; origins that overlap earlier forecasts are left out."""
    figure, axes = single()
    last_end = -np.inf
    shown = 0
    for index, origin_s in enumerate(backtest.origins_s):
        times = origin_s + backtest.step_s * np.arange(backtest.actual.shape[1])
        axes.plot(_dates(times), backtest.actual[index], color=GREY, lw=1.0, label=None if index else "measured")
        if origin_s < last_end:
            continue
        last_end = times[-1] + backtest.step_s
        label = None if shown else f"forecast ({backtest.family})"
        axes.plot(_dates(times), backtest.forecast[index], color=BLUE, lw=1.6, label=label)
        upper = None if shown else "0.9 quantile"
        axes.plot(_dates(times), backtest.upper[index], color=ORANGE, lw=1.0, ls=(0, (4, 2)), label=upper)
        axes.axvline(_dates(np.array([origin_s]))[0], color=GREY, lw=0.5, alpha=0.5)
        shown += 1
    _time_axis(axes)
    rate_axis(axes, "workload")
    highest = np.nanmax([np.nanmax(backtest.forecast), *backtest.actual[np.isfinite(backtest.actual)]])
    axes.set_ylim(top=min(axes.get_ylim()[1], 2.5 * highest))  # a quantile that runs away must not flatten the rest
    figure.legend(loc="outside lower center", frameon=False, ncols=3)
    horizon_s = backtest.step_s * backtest.actual.shape[1]
    axes.set_title(_titled(job, f"forecasts over {horizon_s:.0f} s from {shown} origins", _percent(backtest.wape())))
    return to_png(figure)


def residuals(job: str, backtest: Backtest) -> bytes:
    """Draw the error of the forecast against how far ahead it looks, and the distribution of errors."""
    error = backtest.forecast - backtest.actual
    figure, grid = canvas(columns=2, width_ratios=(3, 2))
    ahead, spread = grid[0]
    lead_s = backtest.step_s * (1 + np.arange(error.shape[1]))
    seen = np.isfinite(error).any(axis=0)
    if seen.any():
        low, middle, high = np.nanpercentile(error[:, seen], [10, 50, 90], axis=0)
        ahead.fill_between(lead_s[seen], low, high, color=SKY, alpha=0.35, lw=0, label="8 of 10 origins")
        ahead.plot(lead_s[seen], middle, color=BLUE, lw=1.6, label="median")
    ahead.axhline(0.0, color=GREY, lw=0.8)
    ahead.set_xlabel("ahead of the origin (s)")
    rate_axis(ahead, "forecast - measured", from_zero=False)
    if seen.any():
        ahead.legend(loc="best", frameon=False)
    finite = error[np.isfinite(error)]
    spread.hist(finite, bins=min(40, max(5, finite.size // 20)), color=SKY, edgecolor="white", lw=0.4)
    spread.axvline(0.0, color=GREY, lw=0.8)
    if finite.size:
        spread.axvline(float(finite.mean()), color=RED, lw=1.4)
        spread.set_title(f"mean {_rate(float(finite.mean()))}", fontsize=9, color=RED)
    spread.set_xlabel("forecast - measured (records/s)")
    spread.xaxis.set_major_formatter(EngFormatter(sep=""))
    spread.set_ylabel("forecast steps")
    figure.suptitle(_titled(job, f"errors of {backtest.family}", _percent(backtest.wape())), fontsize=11)
    return to_png(figure)


def capacity_over_scale_outs(
    job: str,
    estimates: Sequence[Estimate],
    *,
    truth_per_s: Mapping[int, float] | None = None,
) -> bytes:
    """Draw the capacity at each scale-out with its 90 % interval; ``truth_per_s`` is known for a twin only."""
    figure, axes = single()
    for seen, colour, label in ((True, BLUE, "observed at this scale-out"), (False, ORANGE, "not seen yet")):
        chosen = [estimate for estimate in estimates if estimate.seen is seen]
        if not chosen:
            continue
        values = np.array([estimate.per_s for estimate in chosen])
        reach = np.array([[e.per_s - e.low_per_s for e in chosen], [e.high_per_s - e.per_s for e in chosen]])
        workers = [estimate.scale_out for estimate in chosen]
        axes.errorbar(workers, values, yerr=np.maximum(reach, 0.0), fmt="o", color=colour, capsize=3, label=label)
    if truth_per_s:
        at = sorted(truth_per_s)
        axes.plot(at, [truth_per_s[n] for n in at], color=GREEN, lw=1.2, marker="_", label="true capacity (twin)")
    axes.set_xlabel("scale-out (workers)")
    axes.xaxis.get_major_locator().set_params(integer=True)
    rate_axis(axes, "capacity")
    axes.legend(loc="upper left", frameon=False)
    axes.set_title(_titled(job, "capacity, bars: 90 % interval"))
    return to_png(figure)


def cpu_throughput_lines(job: str, features: pd.DataFrame, lines: Mapping[str, Fit], cpu_at_capacity: float) -> bytes:
    """Draw each worker's throughput against its CPU load, and the line learnt from it up to a CPU load.

    Parameters
    ----------
    features
        ``worker, cpu_load, throughput_per_s``: rows of ``capacity_features`` at one scale-out.
    lines
        Worker -> fitted line.
    cpu_at_capacity
        CPU load at which capacity is read off, for example 1.0.
    """
    figure, axes = single()
    for index, (worker, rows) in enumerate(features.dropna(subset=["cpu_load"]).groupby("worker", sort=True)):
        colour = CYCLE[index % len(CYCLE)]
        shown = rows.iloc[:: max(1, len(rows) // _MOST_DOTS)]
        axes.scatter(shown["cpu_load"], shown["throughput_per_s"], s=6, color=colour, alpha=0.45, lw=0)
        fit = lines.get(str(worker))
        if fit is None:
            continue
        lowest, reach = float(rows["cpu_load"].min()), min(fit.reach, cpu_at_capacity)
        label = str(worker) if index < _MOST_LEGEND else None
        for start, end, style, name in ((lowest, reach, "-", label), (reach, cpu_at_capacity, (0, (3, 2)), None)):
            cpu = np.linspace(start, end, 20)
            axes.plot(cpu, [fit.predict(one) for one in cpu], color=colour, lw=1.4, ls=style, label=name)
    axes.axvline(cpu_at_capacity, color=GREY, lw=0.8)
    axes.set_xlim(left=0.0)
    axes.set_xlabel("CPU load of the worker (one-minute mean)")
    axes.xaxis.set_major_formatter(PercentFormatter(xmax=1.0, decimals=0))
    rate_axis(axes, "throughput of the worker")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="upper left", frameon=False, fontsize=8, ncols=2)
    axes.set_title(_titled(job, "one line per worker; dashed beyond the CPU loads it has seen"))
    return to_png(figure)


def candidates_error(
    errors: pd.DataFrame, *, metric: str = "wape", title: str = "WAPE over 900 s", chosen: Sequence[str] = ()
) -> bytes:
    """Draw the median error of each family over jobs, a dot per job; families in ``chosen`` are coloured.

    Parameters
    ----------
    errors
        One row per family and job: ``family, job`` and ``metric`` (ratio; NaN where it could not be judged).
    """
    medians = errors.groupby("family")[metric].median().sort_values(ascending=False, na_position="first")
    figure, axes = single(1.4 + 0.42 * max(len(medians), 2))
    for row, (family, median) in enumerate(medians.items()):
        values = errors.loc[errors["family"] == family, metric].dropna()
        axes.barh(row, 0.0 if np.isnan(median) else median, color=BLUE if family in chosen else "#B8C7D3", height=0.62)
        axes.scatter(values, np.full(len(values), row), s=12, color="black", alpha=0.55, zorder=3, lw=0)
        note = "could not be judged" if np.isnan(median) else f"{median:.1%}"
        axes.annotate(
            note,
            (values.max() if len(values) else 0.0, row),
            (6, 0),
            va="center",
            fontsize=9,
            textcoords="offset points",
        )
    axes.set_yticks(range(len(medians)), [str(family) for family in medians.index])
    axes.xaxis.set_major_formatter(PercentFormatter(xmax=1.0))
    axes.margins(x=0.14)
    axes.set_xlim(left=0.0)
    axes.set_xlabel(title)
    axes.grid(visible=False, axis="y")
    jobs = errors["job"].nunique()
    axes.set_title(
        f"bar: median of {jobs} job{'s' if jobs != 1 else ''}, dot: one job; blue: chosen", loc="left", fontsize=10
    )
    return to_png(figure)


def _dates(times_s: Values) -> Values:
    return np.asarray(date2num([datetime.fromtimestamp(float(time), UTC) for time in times_s]))


def _time_axis(axes: Axes) -> None:
    locator = AutoDateLocator(tz=UTC, minticks=4, maxticks=9)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=UTC))
    axes.set_xlabel("time (UTC)")


def _rate(per_s: float) -> str:
    return f"{EngFormatter(sep='', places=1)(per_s)} records/s"


def _percent(wape: float) -> str:
    return f"WAPE {wape:.1%}" if np.isfinite(wape) else "WAPE not known"


def _titled(job: str, *parts: str) -> str:
    return ": ".join([job, ", ".join(parts)])

"""Pictures of how one job's forecasts turned out, for MLflow and Dagster, as PNG bytes."""

from datetime import UTC, datetime
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import EngFormatter
from numpy.typing import NDArray

from perdix.models.forecasting.judgement import Backtest
from perdix.replay.canvas import BLUE, GREY, ORANGE, RED, SKY, canvas, rate_axis, to_png
from perdix.telemetry.window import Values

MOST_STRETCHES = 4


def forecast_against_truth(job: str, backtest: Backtest) -> bytes:
    """Draw the truth and what was forecast, one panel per stretch of the history that was judged.

    Forecasts that overlap an earlier one are left out.
    """
    stretches = _stretches(backtest)[-MOST_STRETCHES:]
    figure, grid = canvas(columns=len(stretches))
    shown = 0
    for axes, indices in zip(grid[0], stretches, strict=True):
        shown += _stretch(axes, backtest, indices)
    highest = max((axes.get_ylim()[1] for axes in grid[0]), default=1.0)
    truth = backtest.actual[np.isfinite(backtest.actual)]
    seen = np.nanmax([np.nanmax(backtest.forecast, initial=0.0), truth.max(initial=0.0), 1e-9])
    for axes in grid[0]:
        rate_axis(axes, "workload")
        axes.set_ylim(top=min(highest, 2.5 * seen))  # a quantile that runs away must not flatten the rest
        if axes is not grid[0, 0]:
            axes.set_ylabel("")
            axes.tick_params(labelleft=False)
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", frameon=False, ncols=4)
    title = f"forecasts over {backtest.horizon_s:.0f} s from {shown} origins, {_percent(backtest.wape())}"
    figure.suptitle(f"{job}: {title}", fontsize=11)
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
        mean = float(finite.mean())
        spread.axvline(mean, color=RED, lw=1.4)
        spread.set_title(f"mean {EngFormatter(sep='', places=1)(mean)} records/s", fontsize=9, color=RED)
    spread.set_xlabel("forecast - measured (records/s)")
    spread.xaxis.set_major_formatter(EngFormatter(sep=""))
    spread.set_ylabel("forecast steps")
    figure.suptitle(f"{job}: errors of {backtest.family}, {_percent(backtest.wape())}", fontsize=11)
    return to_png(figure)


def _stretches(backtest: Backtest) -> list[NDArray[np.int_]]:
    """Return the indices of origins that lie together: those of days apart would be dots on one axis."""
    apart = np.flatnonzero(np.diff(backtest.origins_s) > 2.0 * backtest.horizon_s) + 1
    return list(np.split(np.arange(len(backtest.origins_s)), apart))


def _stretch(axes: Axes, backtest: Backtest, indices: NDArray[np.int_]) -> int:
    """Draw the origins of one stretch; return of how many the forecast is shown."""
    first_s = float(backtest.origins_s[indices[0]])

    def minutes(times_s: Values) -> Values:
        return (times_s - first_s) / 60.0

    times_s, per_s = _truth(backtest, indices)
    axes.plot(minutes(times_s), per_s, color=GREY, lw=1.0, label="measured")
    last_end_s, shown = -np.inf, 0
    for index in indices:
        origin_s = float(backtest.origins_s[index])
        if origin_s < last_end_s - 1e-6:
            continue
        times = (origin_s - first_s + backtest.step_s * (0.5 + np.arange(backtest.actual.shape[1]))) / 60.0
        last_end_s = origin_s + backtest.horizon_s
        lines: tuple[tuple[Values, dict[str, Any]], ...] = (
            (backtest.forecast[index], {"color": BLUE, "lw": 1.6, "label": f"forecast ({backtest.family})"}),
            (backtest.upper[index], {"color": ORANGE, "lw": 1.0, "ls": (0, (4, 2)), "label": "0.9 quantile"}),
            *(
                [(backtest.highest[index], {"color": RED, "lw": 1.0, "label": "maximum so far, 0.9 quantile"})]
                if backtest.highest.size
                else []
            ),
        )
        for values, style in lines:
            axes.plot(times, values, **{**style, "label": None if shown else style["label"]})
        axes.axvline((origin_s - first_s) / 60.0, color=GREY, lw=0.5, alpha=0.5)
        shown += 1
    axes.set_title(datetime.fromtimestamp(first_s, UTC).strftime("%b %d, %H:%M UTC"), fontsize=9)
    axes.set_xlabel("minutes")
    return shown


def _truth(backtest: Backtest, indices: NDArray[np.int_]) -> tuple[Values, Values]:
    """Return the middles of the steps that the origins' truths cover, and the rates, NaN where nothing is known."""
    first_s = backtest.origins_s[indices[0]]
    starts = np.round((backtest.origins_s[indices] - first_s) / backtest.step_s).astype(int)
    per_s = np.full(starts[-1] + backtest.actual.shape[1], np.nan)
    for start, actual in zip(starts, backtest.actual[indices], strict=True):
        per_s[start : start + len(actual)] = actual
    return first_s + backtest.step_s * (0.5 + np.arange(len(per_s))), per_s


def _percent(wape: float) -> str:
    return f"WAPE {wape:.1%}" if np.isfinite(wape) else "WAPE not known"

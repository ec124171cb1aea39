"""Pictures of a training for MLflow and Dagster, as PNG bytes. Each says its unit, and what a reader should see first.

Those of one job's forecasts are in :mod:`perdix.assets.forecast_pictures`; how all look is in
:mod:`perdix.replay.canvas`, with which the pictures of a replay are drawn, too.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.ticker import PercentFormatter

from perdix.models.capacity.contract import Estimate
from perdix.models.capacity.line import Fit
from perdix.replay.canvas import BLUE, CYCLE, GREY, ORANGE, rate_axis, single, to_png
from perdix.settings.counting import counted

_MOST_LEGEND = 12
_MOST_DOTS = 300  # per worker: more only darken the picture


def capacity_over_scale_outs(job: str, estimates: Sequence[Estimate]) -> bytes:
    """Draw the capacity at each scale-out with its 90 % interval."""
    figure, axes = single()
    for seen, colour, label in ((True, BLUE, "observed at this scale-out"), (False, ORANGE, "not seen yet")):
        chosen = [estimate for estimate in estimates if estimate.seen is seen]
        if not chosen:
            continue
        values = np.array([estimate.per_s for estimate in chosen])
        reach = np.array([[e.per_s - e.low_per_s for e in chosen], [e.high_per_s - e.per_s for e in chosen]])
        workers = [estimate.scale_out for estimate in chosen]
        axes.errorbar(workers, values, yerr=np.maximum(reach, 0.0), fmt="o", color=colour, capsize=3, label=label)
    axes.set_xlabel("scale-out (workers)")
    axes.locator_params(axis="x", integer=True)
    rate_axis(axes, "capacity")
    axes.legend(loc="upper left", frameon=False)
    axes.set_title(f"{job}: capacity, bars: 90 % interval")
    return to_png(figure)


def cpu_throughput_lines(job: str, features: pd.DataFrame, lines: Mapping[str, Fit]) -> bytes:
    """Draw each worker's throughput against its CPU load, and the line learnt from it up to a load of 1: its capacity.

    ``features``: ``worker, cpu_load, throughput_per_s``: rows of ``capacity_features`` at one scale-out.
    ``lines``: worker -> fitted line.
    """
    figure, axes = single()
    for index, (worker, rows) in enumerate(features.dropna(subset=["cpu_load"]).groupby("worker", sort=True)):
        colour = CYCLE[index % len(CYCLE)]
        shown = rows.iloc[:: max(1, len(rows) // _MOST_DOTS)]
        axes.scatter(shown["cpu_load"], shown["throughput_per_s"], s=6, color=colour, alpha=0.45, lw=0)
        fit = lines.get(str(worker))
        if fit is None:
            continue
        lowest, reach = float(rows["cpu_load"].min()), min(fit.reach, 1.0)
        label = str(worker) if index < _MOST_LEGEND else None
        for start, end, style, name in ((lowest, reach, "-", label), (reach, 1.0, (0, (3, 2)), None)):
            cpu = np.linspace(start, end, 20)
            axes.plot(cpu, [fit.predict(load) for load in cpu], color=colour, lw=1.4, ls=style, label=name)
    axes.axvline(1.0, color=GREY, lw=0.8)
    axes.set_xlim(left=0.0)
    axes.set_xlabel("CPU load of the worker (one-minute mean)")
    axes.xaxis.set_major_formatter(PercentFormatter(xmax=1.0, decimals=0))
    rate_axis(axes, "throughput of the worker")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="upper left", frameon=False, fontsize=8, ncols=2)
    axes.set_title(f"{job}: one line per worker; dashed beyond the CPU loads it has seen")
    return to_png(figure)


def candidates_error(errors: pd.DataFrame, *, metric: str, title: str, chosen: Sequence[str]) -> bytes:
    """Draw the median error of each family over jobs, a dot per job; families in ``chosen`` are coloured.

    ``errors``: one row per family and job: ``family, job`` and ``metric`` (ratio; NaN where it could not be judged).
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
    jobs = counted(errors["job"].nunique(), "job")
    axes.set_title(f"bar: median of {jobs}, dot: one job; blue: chosen", loc="left", fontsize=10)
    return to_png(figure)

"""Pictures of a profile, as it was measured, and of its models: latency with what is normal of it, and T_max."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter
from numpy.typing import NDArray

from perdix.models.latency.contract import LatencyModel
from perdix.models.profiling import tmax
from perdix.models.profiling.profile import Profile, ProfilePoint
from perdix.models.profiling.tmax import HighestRates
from perdix.replay.canvas import BLUE, CYCLE, GREY, ORANGE, RED, canvas, rate_axis, single, to_png


def profile_picture(profile: Profile) -> bytes:
    """Draw a profile: left the latency of each deployment (a cross where it no longer kept up), right T_max."""
    figure, grid = canvas(1, 2, width_in=12.0, height_in=4.6, width_ratios=(3, 2))
    left, right = grid[0]
    for index, scale_out in enumerate(sorted({point.scale_out for point in profile.points})):
        points = sorted((p for p in profile.points if p.scale_out == scale_out), key=lambda point: point.rate_per_s)
        colour = CYCLE[index % len(CYCLE)]
        rates, latencies = [p.rate_per_s for p in points], [p.latency_ms for p in points]
        left.plot(rates, latencies, color=colour, lw=1.2, label=f"{scale_out} workers")
        for valid, marker, size in ((True, "o", 14), (False, "X", 46)):
            shown = [p for p in points if p.valid is valid]
            left.scatter(
                [p.rate_per_s for p in shown], [p.latency_ms for p in shown], color=colour, marker=marker, s=size, lw=0
            )
    left.set_yscale("log")
    left.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    left.yaxis.set_major_formatter(EngFormatter(sep=""))
    left.yaxis.set_minor_formatter(NullFormatter())
    left.set_ylabel("p95 latency (ms)")
    left.xaxis.set_major_formatter(EngFormatter(sep=""))
    left.set_xlabel("offered rate (records/s)")
    left.legend(frameon=False, fontsize=8, ncols=2)
    left.set_title(f"{profile.job}: a cross where it no longer kept up", loc="left", fontsize=10)
    known = profile.maximum_per_s
    if known:
        right.scatter(list(known), list(known.values()), color=RED, s=26, label="measured", zorder=3)
        sizes = np.arange(1, max(known) + 1)
        right.plot(sizes, HighestRates.fit(known).per_s(sizes), color=BLUE, lw=1.4, label="regression")
        right.legend(frameon=False, loc="upper left")
    right.set_xlabel("scale-out (workers)")
    rate_axis(right, "highest rate, T_max")
    hours = profile.worker_s / 3600.0
    right.set_title(f"profiling took {hours:,.0f} worker-hours", loc="left", fontsize=10)
    return to_png(figure)


_RATES = 120  # rates at which the surface is drawn
_BEYOND = 1.05  # of the highest rate and scale-out that were profiled
_LABELS = {tmax.RIDGE: "ridge regression, as published", tmax.LINE: "line", tmax.USL: "scalability law"}
_COLOURS = {tmax.RIDGE: GREY, tmax.LINE: BLUE, tmax.USL: ORANGE}


def latency_surface(
    job: str, model: LatencyModel, points: Sequence[ProfilePoint], overloaded: NDArray[np.bool_], rates: HighestRates
) -> bytes:
    """Draw latency over scale-out and rate as colours, white where it is not normal, and the measured points on it.

    ``overloaded``: of each point, shape ``(len(points),)``: a cross instead of a dot.
    ``rates``: T_max, drawn as a line.
    """
    sizes = np.arange(1, int(np.ceil(_BEYOND * max(point.scale_out for point in points))) + 1)
    offered = np.linspace(0.0, _BEYOND * max(point.rate_per_s for point in points), _RATES)
    grid_n, grid_rate = np.meshgrid(sizes, offered)
    found = model.predict(grid_n.ravel(), grid_rate.ravel())
    latency = np.where(found.normal, found.latency_ms, np.nan).reshape(grid_n.shape)
    figure, axes = single(5.0)
    shown = latency[np.isfinite(latency) & (latency > 0.0)]
    norm = LogNorm(float(shown.min()), float(shown.max()) * 1.001) if shown.size else None
    surface = axes.pcolormesh(sizes, offered, latency, cmap="viridis_r", norm=norm, shading="nearest", alpha=0.75)
    bar = figure.colorbar(surface, ax=axes, label="p95 latency where normal (ms)")
    bar.ax.yaxis.set_major_formatter(EngFormatter(sep=""))
    bar.ax.yaxis.set_minor_formatter(EngFormatter(sep=""))
    axes.plot(sizes, rates.per_s(sizes), color="black", lw=1.2, label="highest rate (T_max)")
    for chosen, marker, colour, label in (
        (~overloaded, "o", "black", "measured, normal"),
        (overloaded, "X", RED, "measured, overloaded"),
    ):
        at = [point for point, picked in zip(points, chosen, strict=True) if picked]
        axes.scatter(
            [point.scale_out for point in at],
            [point.rate_per_s for point in at],
            s=14 if marker == "o" else 42,
            marker=marker,
            color=colour,
            lw=0,
            label=label,
            zorder=3,
        )
    axes.set_xlabel("scale-out (workers)")
    axes.locator_params(axis="x", integer=True)
    rate_axis(axes, "workload")
    axes.set_ylim(0.0, float(offered[-1]))
    axes.legend(loc="upper left", frameon=True, fontsize=8)
    axes.set_title(f"{job}: {model.family}; white: latency is not normal")
    return to_png(figure)


def highest_rates(job: str, maximum_per_s: Mapping[int, float]) -> bytes:
    """Draw T_max of the profiled scale-outs and its regressions, with what each is off left-out ones."""
    known = {n: value for n, value in sorted(maximum_per_s.items()) if np.isfinite(value) and value > 0.0}
    figure, axes = single()
    sizes = np.arange(1, max(known, default=1) + 2)
    for family in tmax.FAMILIES:
        try:
            found = HighestRates.fit(known, family)
        except ValueError:  # too few scale-outs for that regression
            continue
        off = tmax.leave_one_out(known, family).mape
        said = f", {off:.1%} off left-out ones" if np.isfinite(off) else ""
        axes.plot(sizes, found.per_s(sizes), color=_COLOURS[family], lw=1.4, label=f"{_LABELS[family]}{said}")
    axes.scatter(list(known), list(known.values()), s=30, color="black", zorder=3, label="measured")
    axes.set_xlabel("scale-out (workers)")
    axes.locator_params(axis="x", integer=True)
    rate_axis(axes, "highest rate (T_max)")
    axes.legend(loc="upper left", frameon=False)
    axes.set_title(f"{job}: T_max of every scale-out from those that were profiled")
    return to_png(figure)

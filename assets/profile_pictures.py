"""The picture of a profile: latency over the rate for each deployment, and the highest rate over the scale-out."""

import numpy as np
from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter

from perdix.models.profiling.profile import Profile
from perdix.models.profiling.tmax import HighestRates
from perdix.replay.canvas import BLUE, CYCLE, RED, canvas, rate_axis, to_png


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

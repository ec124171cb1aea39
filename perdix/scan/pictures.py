"""The picture of one job: its load against what sizes take, and the workers that it had and that are advised."""

from __future__ import annotations

from typing import Final

import numpy as np
from matplotlib.ticker import MaxNLocator

from perdix.replay.canvas import BLUE, GREEN, GREY, ORANGE, canvas, moments, moments_axis, rate_axis, to_png
from perdix.scan.judging import Judged

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
    for count, colour in ((advice.fixed.workers, GREEN), (advice.peak_workers_now, ORANGE)):
        low, takes, high = judged.capacities[count]
        load.axhline(takes, color=colour, lw=1.4)
        load.axhspan(low, high, color=colour, alpha=0.12, lw=0)
    highest = max(float(np.nanmax(course.load_per_s)), judged.capacities[advice.fixed.workers][1])
    load.set_ylim(0.0, 1.6 * highest)
    load.set_title("load, and what sizes take (90 % interval)", loc="left", fontsize=TEXT_PT)
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

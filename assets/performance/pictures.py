"""The picture of a performance model: what it predicts over cores and over memory, and how far off it was left out."""

import numpy as np
from matplotlib.axes import Axes

from perdix.models.performance.fitted import FittedPerformance
from perdix.models.performance.samples import rates_of, sizes_of
from perdix.replay.canvas import BLUE, GREY, ORANGE, SKY, canvas, rate_axis, to_png
from perdix.telemetry.window import Values

_POINTS = 120  # at which a curve is drawn
_BEYOND = 1.15  # of the largest that was sampled
_RESOURCES = ("cores", "memory (MB)")
_LEVELS = ((1.0, BLUE), (0.5, SKY), (0.0, ORANGE))  # of the other resource: from the least that was sampled to the most


def performance_curves(job: str, model: FittedPerformance, held_out: Values) -> bytes:
    """Draw predictions over each resource at three amounts of the other, broken where they are extrapolated.

    ``held_out``: what the family predicted of each sample when that was left out, in the order of the model's samples,
    shape ``(n,)``: drawn as a grey line from the sample to it.
    """
    sizes, rates = sizes_of(model.samples), rates_of(model.samples)
    figure, grid = canvas(1, 2, width_in=12.0, height_in=4.4)
    for column, resource in enumerate(_RESOURCES):
        axes, other = grid[0, column], sizes[:, 1 - column]
        for level, colour in _LEVELS if np.ptp(other) > 0.0 else _LEVELS[:1]:
            held, most = float(other.min() + level * np.ptp(other)), float(sizes[:, column].max())
            _curve(axes, model, column, other=held, most=most, colour=colour)
        for at, rate, predicted in zip(sizes[:, column], rates, held_out, strict=True):
            axes.plot([at, at], [rate, predicted], color=GREY, lw=0.8, alpha=0.7, zorder=2)
        axes.scatter(sizes[:, column], rates, color="black", s=16, zorder=3, lw=0, label="samples")
        axes.set_xlabel(resource)
        axes.set_ylim(bottom=0.0)
        rate_axis(axes, "performance")
        axes.legend(frameon=False, loc="best", fontsize=8)
    grid[0, 0].set_title(f"{job}: {model.family}; grey: off, left out", loc="left", fontsize=10)
    grid[0, 1].set_title("dotted: not sampled, extrapolated", loc="left", fontsize=10)
    return to_png(figure)


def _curve(axes: Axes, model: FittedPerformance, column: int, *, other: float, most: float, colour: str) -> None:
    amounts = np.linspace(0.0, _BEYOND * most, _POINTS + 1)[1:]
    found = model.predict(*((amounts, other) if column == 0 else (other, amounts)))
    named = f"{other:g} MB" if column == 0 else f"{other:g} cores"
    axes.plot(amounts, found.per_s, color=colour, lw=1.0, ls=":")
    axes.plot(amounts, np.where(found.extrapolated, np.nan, found.per_s), color=colour, lw=1.6, label=named)

"""Pictures of sampled sizes, and of a model of them: over cores and over memory, and how far off it was left out."""

import itertools
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from perdix.models.performance.fitted import FittedPerformance
from perdix.models.performance.samples import rates_of, sizes_of
from perdix.models.sampling.rows import OperatorSamples
from perdix.replay.canvas import BLUE, GREY, ORANGE, RED, SKY, canvas, rate_axis, to_png
from perdix.settings.size_grid import Grid
from perdix.telemetry.window import Values
from perdix.twin.operators.parameters import OperatorTwinParameters
from perdix.twin.operators.physics import true_performance

Point = tuple[float, float]


def samples_picture(found: OperatorSamples, sizes: Grid, twin: OperatorTwinParameters | None = None) -> bytes:
    """Draw the two sweeps: samples in the order of the resource, steps in units, failures, and a twin's true curve."""
    most_cpu, most_mb = sizes.size(sizes.largest)
    failed = {(size.cpu_cores, size.memory_mb) for size in found.failed}
    figure, grid = canvas(2, 2, width_in=12.0, height_in=5.2, height_ratios=(3, 1), same_x=False)
    for column, (axis, name) in enumerate(((sizes.cpu, "cores"), (sizes.memory, "memory (MB)"))):
        held = most_mb if column == 0 else most_cpu
        other = 1 - column
        points = sorted(
            ((sample.cpu_cores, sample.memory_mb)[column], sample.per_s)
            for sample in found.samples
            if (sample.cpu_cores, sample.memory_mb)[other] == held
        )
        lost = sorted(size[column] for size in failed if size[other] == held)
        above, below = grid[0, column], grid[1, column]
        amounts = axis.values()
        if twin is not None:
            truth = true_performance(twin, *((amounts, held) if column == 0 else (held, amounts)))
            above.plot(amounts, truth, color=GREY, lw=1.2, label="the twin's truth")
        above.plot(*_columns(points), color=BLUE, lw=0.8, alpha=0.5)
        above.scatter(*_columns(points), color=BLUE, s=22, zorder=3, label=f"{found.method}: {len(points)} samples")
        if lost:
            above.scatter(
                lost, np.zeros(len(lost)), color=RED, marker="X", s=46, zorder=3, label="failed", clip_on=False
            )
        rate_axis(above, "performance")
        above.legend(frameon=False, loc="lower right", fontsize=8)
        fixed = f"{most_mb:g} MB" if column == 0 else f"{most_cpu:g} cores"
        above.set_title(f"{found.operator}: over {name.split()[0]}, with {fixed}", loc="left", fontsize=10)
        _steps(below, [amount for amount, _ in points], axis.unit)
        below.set_xlabel(name)
        for axes in (above, below):
            axes.set_xlim(0.0, float(amounts[-1]) + axis.unit)
    return to_png(figure)


def _steps(axes: Axes, amounts: Sequence[float], unit: float) -> None:
    """Draw the distance between neighbouring samples, in units, as bars."""
    for low, high in itertools.pairwise(amounts):
        axes.bar((low + high) / 2.0, (high - low) / unit, width=0.9 * (high - low), color=BLUE, alpha=0.6)
    axes.set_ylabel("step (units)")
    axes.set_ylim(bottom=0.0)


def _columns(points: Sequence[Point]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]


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

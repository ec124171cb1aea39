"""From means over bins or cells to rates at second level, between any edges, and across gaps: pure array functions."""

import numpy as np

from perdix.telemetry.window import Values


def mean_preserving(knots_s: Values, means: Values, edges_s: Values) -> Values:
    """Return mean rates between ``edges_s`` of a smooth curve whose mean over every bin is the one given.

    The cumulative amount is interpolated by a cubic whose rate at a knot is the mean of the two bins beside it, held
    below three times the smaller one (Fritsch and Carlson's condition): it never falls, so no rate is negative; it
    passes through every knot, so every bin keeps its mean; and bins on a straight line give a straight line.

    ``knots_s``: boundaries of the bins, shape ``(n + 1,)``.
    ``means``: non-negative means, shape ``(n,)``.
    ``edges_s``: boundaries of the wanted steps, inside the knots.
    """
    amounts = np.zeros(len(knots_s))
    (means * (knots_s[1:] - knots_s[:-1])).cumsum(out=amounts[1:])
    before, after = np.concatenate([means[:1], means]), np.concatenate([means, means[-1:]])
    rates = (before + after) / 2
    if len(means) > 1:
        rates[0] += (means[0] - means[1]) / 2
        rates[-1] += (means[-1] - means[-2]) / 2
    rates = np.minimum(np.maximum(rates, 0.0), 3.0 * np.minimum(before, after))
    found = _hermite(knots_s, amounts, rates, edges_s)
    return np.asarray((found[1:] - found[:-1]) / (edges_s[1:] - edges_s[:-1]))


def _hermite(knots: Values, values: Values, slopes: Values, at: Values) -> Values:
    """Return the cubic through values with those slopes: bit by bit SciPy's ``CubicHermiteSpline``, in a third of it.

    A tick asks for sixteen of them, and SciPy spends most of each on checks.
    """
    width = knots[1:] - knots[:-1]  # as np.diff, at a third of its cost: so is all that follows
    rise = (values[1:] - values[:-1]) / width
    bend = (slopes[:-1] + slopes[1:] - 2 * rise) / width
    piece = np.minimum(np.maximum(knots.searchsorted(at, side="right") - 1, 0), len(width) - 1)
    along = at - knots[piece]
    found = values[piece] + slopes[piece] * along
    power = along * along
    found += ((rise - slopes[:-1]) / width - bend)[piece] * power
    power *= along
    found += (bend / width)[piece] * power
    return np.asarray(found)


def bridged(series: Values, longest: int) -> Values:
    """Return the newest part of ``series`` without NaN: short gaps are bridged linearly, a long one ends the part.

    Leading and trailing NaN are dropped. Empty when nothing is finite.
    """
    known = np.isfinite(series)
    if known.all():
        return series
    finite = np.flatnonzero(known)
    if not len(finite):
        return np.empty(0)
    breaks = np.flatnonzero(np.diff(finite) > longest + 1)
    if len(breaks):
        finite = finite[breaks[-1] + 1 :]
    span = np.arange(finite[0], finite[-1] + 1)
    return np.interp(span, finite, series[finite])


def rates_between(edges_s: Values, measured: Values, ahead: Values, cell_s: float) -> Values:
    """Return mean rates between edges of a smooth curve through cells; beyond the last cell its value is held.

    ``edges_s``: seconds after the newest measurement, ascending from zero or more, shape ``(n + 1,)``.
    ``measured``: the newest one or two measured cells, records/s: the curve comes from there.
    ``ahead``: forecast cells, records/s; negative ones count as zero.
    Returns shape ``(n,)``, never negative; each whole cell keeps its mean.
    """
    means = np.concatenate([measured, np.maximum(ahead, 0.0)])
    knots_s = cell_s * np.arange(-len(measured), len(ahead) + 1, dtype=np.float64)
    if edges_s[-1] <= knots_s[-1] + 1e-6:
        return np.maximum(mean_preserving(knots_s, means, np.minimum(edges_s, knots_s[-1])), 0.0)
    end_s = float(knots_s[-1])
    inside = np.clip(edges_s, knots_s[0], end_s)
    lengths_s, covered_s = np.diff(edges_s), np.diff(inside)
    some = covered_s > 0.0
    amounts = np.zeros(len(lengths_s))
    if some.any():
        within = np.append(inside[:-1][some], inside[1:][some][-1])
        amounts[some] = np.maximum(mean_preserving(knots_s, means, within), 0.0) * covered_s[some]
    return np.asarray((amounts + means[-1] * (lengths_s - covered_s)) / lengths_s)

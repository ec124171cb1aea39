"""From means over long bins to rates at second level, and across gaps: pure array functions."""

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
    finite = np.flatnonzero(np.isfinite(series))
    if not len(finite):
        return np.empty(0)
    breaks = np.flatnonzero(np.diff(finite) > longest + 1)
    if len(breaks):
        finite = finite[breaks[-1] + 1 :]
    span = np.arange(finite[0], finite[-1] + 1)
    return np.interp(span, finite, series[finite])

"""From means over long bins to rates at second level, and across gaps: pure array functions."""

from __future__ import annotations

import numpy as np
from scipy.interpolate import PchipInterpolator

from models.forecasting.contract import Values


def mean_preserving(knots_s: Values, means: Values, edges_s: Values) -> Values:
    """Return mean rates between ``edges_s`` of a smooth curve whose mean over every bin is the one given.

    The cumulative amount is interpolated by a monotone cubic: since it never falls, no rate is negative, and since it
    passes through every knot, every bin keeps its mean.

    Parameters
    ----------
    knots_s
        Boundaries of the bins, shape ``(n + 1,)``.
    means
        Non-negative means, shape ``(n,)``.
    edges_s
        Boundaries of the wanted steps, inside the knots.
    """
    amounts = np.concatenate([[0.0], np.cumsum(means * np.diff(knots_s))])
    return np.asarray(np.diff(PchipInterpolator(knots_s, amounts)(edges_s)) / np.diff(edges_s))


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

"""How long data items wait, and how many take longer than allowed: first in, first out, from cumulative counts."""

import numpy as np
from scipy.special import ndtr

from perdix.telemetry.window import Values

POINTS = (np.arange(4) + 0.5) / 4.0  # of the items that leave in a second: each stands for a quarter


def waits_s(arrived: Values, left: Values, seconds: slice, utilisation: Values, burst_s: float) -> Values:
    """Return how long the items waited that were begun in each second, shape ``(seconds, 4)``.

    Both curves are lines between the ends of seconds, so an item that is the n-th to be begun is the n-th that came.
    Where nobody waits in the long run, items still wait within a burst, the longer the busier the instances are.

    ``arrived``, ``left``: items that had come, and that had been begun, by the end of each second, from 0 on; shape
    ``(n + 1,)``.
    ``seconds``: which seconds, of ``n``.
    ``utilisation``: share of what could have been worked off that was, in those seconds.
    ``burst_s``: time between two bursts of arrivals.
    """
    begin, end = seconds.start, seconds.stop
    before, after = left[begin:end, None], left[begin + 1 : end + 1, None]
    numbers = before + (after - before) * POINTS
    # What waits before this stretch came earlier: only from there on must be looked.
    first = max(int(np.searchsorted(arrived, left[begin], side="right")) - 1, 0)
    came_s = np.interp(numbers, arrived[first : end + 1], np.arange(first, end + 1, dtype=np.float64))
    begun_s = np.arange(begin, end, dtype=np.float64)[:, None] + POINTS
    in_burst_s = burst_s * np.clip(utilisation, 0.0, 1.0)[:, None] * POINTS
    return np.asarray(np.maximum(np.maximum(begun_s - came_s, 0.0), in_burst_s))


def share_within(
    waited_s: Values, slowness: Values, duration_s: float, factor: float, own: tuple[float, float]
) -> Values:
    """Return the share of the items of each second that took at most ``factor`` times the objective, ``(seconds,)``.

    ``waited_s``: of :func:`waits_s`.
    ``slowness``: how many times as long as usual the work itself took, ``(seconds,)``.
    ``own``: median of an item's own duration as a share of the objective, and standard deviation of its log.
    """
    usual, spread = own
    left = factor - waited_s / duration_s
    with np.errstate(divide="ignore"):
        distance = np.log(np.maximum(left, 0.0) / (usual * slowness[:, None])) / spread
    return np.asarray(ndtr(distance).mean(axis=1))


def mean_own(usual: float, spread: float) -> float:
    """Return the mean of an item's own duration as a share of the objective."""
    return float(usual * np.exp(spread**2 / 2.0))

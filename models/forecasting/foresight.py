"""How far ahead a load can be foreseen at all, whoever forecasts: how long a high minute is followed by others."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perdix.settings.durations import MINUTE_S
from perdix.telemetry.window import Values

KEPT_S = 12 * 3600.0  # of minutes: what is learned from them
LEAST_MINUTES = 10
FOLLOWED = 0.2  # correlation below which what is high now says next to nothing of later
FURTHEST = 30  # minutes ahead
HALF_LIFE = 180.0  # minutes: a load may change its nature
STEADY = 0.02  # relative sd of minutes below which there is nothing to foresee and nothing to chase


@dataclass(frozen=True)
class Foresight:
    """What minutes of a load say of those that follow."""

    correlation: float  # of consecutive minutes: 0 for white noise, near 1 for a load that rises and falls over hours
    ahead_s: float  # up to how long after it a high minute is still followed by high ones, seconds; 0 for white noise
    minutes: int  # how many were looked at
    furthest_s: float  # how far ahead could be looked with this many, seconds


def foresight(minutes: Values) -> Foresight | None:
    """Return how far ahead a load can be foreseen, from its minute means.

    Correlations at rising lags, newer minutes weighing more, are held against what white noise of as many minutes would
    show by chance. A load that hardly varies is foreseen for as long as is looked.

    ``minutes``: records/s, shape ``(n,)``, NaN where nothing was measured, the newest last.
    Returns ``None`` while there are fewer than ten minutes.
    """
    known = np.isfinite(minutes)
    count = int(known.sum())
    if count < LEAST_MINUTES:
        return None
    weights = np.where(known, 0.5 ** (np.arange(len(minutes))[::-1] / HALF_LIFE), 0.0)
    mean = float(weights @ np.where(known, minutes, 0.0) / weights.sum())
    apart = np.where(known, minutes - mean, 0.0)
    furthest = min(FURTHEST, len(minutes) // 5)  # further, a ramp would look like noise: its mean is taken off
    if float(weights @ apart**2 / weights.sum()) <= (STEADY * mean) ** 2:
        return Foresight(1.0, furthest * MINUTE_S, count, furthest * MINUTE_S)
    effective = float(weights.sum() ** 2 / (weights**2).sum())
    enough = FOLLOWED + 1.0 / math.sqrt(effective)
    found = _correlations(apart, weights, furthest)
    ahead = next((lag for lag, value in enumerate(found) if value < enough), furthest)
    return Foresight(_carried(found), ahead * MINUTE_S, count, furthest * MINUTE_S)


def _carried(found: Sequence[float]) -> float:
    """Return the correlation of consecutive minutes as far as that of minutes two apart bears it out.

    What is measured as a minute may be the end of one and the beginning of the next: then two in a row share seconds,
    and seem to be like each other in white noise, too.
    """
    return min(found[0], math.sqrt(max(found[1], 0.0)))


def _correlations(apart: Values, weights: Values, furthest: int) -> list[float]:
    """Return the correlation of minutes that are 1, 2, ... ``furthest`` apart, both of which were measured.

    ``apart``, ``weights``: how far each minute is from the mean, and what it counts: both 0 where nothing was measured.
    """
    together = _lagged(apart, weights * apart, furthest)
    there = (weights > 0).astype(np.float64)
    scale = np.sqrt(_lagged(apart**2, weights, furthest) * _lagged(there, weights * apart**2, furthest))
    found: list[float] = np.divide(together, scale, out=np.zeros(furthest), where=scale > 0).tolist()
    return found


def _lagged(earlier: Values, later: Values, furthest: int) -> Values:
    """Return the sums of products of what is 1, 2, ... ``furthest`` minutes apart, shape ``(furthest,)``."""
    padded = np.concatenate([np.zeros(furthest), earlier[:-1]])
    return np.correlate(padded, later, "valid")[::-1]

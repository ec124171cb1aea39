"""What a forecast may miss by: quantiles from recent errors, by conformal prediction.

An error counts in units of how far the members disagreed when the forecast was made (locally weighted conformal
prediction, Lei et al. 2018, section 5.2): where they agree, the margin is narrow, at the foot of a ramp it is wide.
On the measured traces that halves the over-provision of the maximum at the same share of under-forecasts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from perdix.models.forecasting.contract import PROBABILITIES, Paths
from perdix.models.forecasting.tail import Tail
from perdix.models.forecasting.track_record import TrackRecord
from perdix.models.forecasting.weighting import apart
from perdix.telemetry.window import Values

_NORMAL_QUANTILES = dict(zip(PROBABILITIES, (0.0, 0.8416, 1.2816, 1.6449), strict=True))
LEAST_ORIGINS = 8
NOISE_LEADS = 10


@dataclass(frozen=True)
class Calibration:
    """Quantiles of errors by lead, of the path and of the highest rate so far, in units of the members' disagreement.

    With one member the unit is one record per second.
    """

    record: TrackRecord  # what has come true
    tail: Tail  # the newest part of the workload, in the finest cells

    @cached_property
    def leads_s(self) -> Values:
        """Middle of each part of the horizon, shape ``(leads,)``."""
        return self.record.lead_s * (np.arange(self.record.leads, dtype=np.float64) + 0.5)

    @cached_property
    def path(self) -> Values:
        """``(actual - forecast) / disagreement`` at each probability, shape ``(probabilities, leads)``."""
        return _ordered(_quantiles((self.record.actual - self.record.combined) / self.record.units[0]))

    @cached_property
    def highest(self) -> Values:
        """The like of :attr:`path` for the highest rate so far."""
        _, tops, unit = self.record.units
        return _ordered(_quantiles((np.maximum.accumulate(self.record.peaks, axis=1) - tops) / unit))

    @cached_property
    def walk(self) -> Values:
        """What a random walk would miss by, records/s, shape as :attr:`path`: where too little has come true."""
        return _random_walk(self.tail, self.leads_s)

    @cached_property
    def noise_per_s(self) -> float:
        """Standard deviation of single cells around their part's line, records/s: what means over a part do not show.

        0 where a part has fewer than four cells.
        """
        return _noise(self.tail, self.record.lead_s)

    def quantiles(self, mean: Values, leads_s: Values, projections: Values) -> Paths:
        """Return the quantiles of a forecast, probability -> records/s, never negative, each of ``mean``'s shape.

        ``leads_s``: middle of each step, seconds after the origin, ascending.
        ``projections``: what each member said, shape ``(members, steps)``; NaN where it could not.
        """
        single = len(leads_s) > 1 and leads_s[1] - leads_s[0] < 2.0 * self.leads_s[0] - 1e-6
        unit = apart(projections[None], mean[None])[0]

        def quantile(probability: float) -> Values:
            normal = _NORMAL_QUANTILES[probability]
            row = self._missed(self.path, probability, leads_s, unit)
            row = np.hypot(row, normal * (self.noise_per_s if single else 0.0)) if normal else row
            return np.maximum(mean + row, 0.0)

        return Paths(PROBABILITIES, quantile)

    def maxima(self, mean: Values, leads_s: Values, projections: Values) -> Paths:
        """Return what the highest rate up to each step stays below, probability -> records/s, never decreasing."""
        tops = np.maximum.accumulate(mean)
        unit = apart(np.maximum.accumulate(projections, axis=1)[None], tops[None])[0]

        def maximum(probability: float) -> Values:
            row = self._missed(self.highest, probability, leads_s, unit)
            return np.maximum.accumulate(np.maximum(tops + row, 0.0))

        return Paths(PROBABILITIES, maximum)

    def _missed(self, scores: Values, probability: float, leads_s: Values, unit: Values) -> Values:
        """Return what is missed by at one probability, records/s, shape ``(steps,)``.

        ``unit``: how far the members are apart at each step, records/s.
        """
        k = PROBABILITIES.index(probability)
        growth = np.sqrt(np.maximum(leads_s / self.leads_s[-1], 1.0))
        known = np.isfinite(scores[k])
        if not known.any():
            return np.asarray(growth * self._walked(k, leads_s))
        known_s = self.leads_s[known]
        missed = np.interp(leads_s, known_s, scores[k, known]) * unit
        beyond = leads_s > known_s[-1] + self.leads_s[0]
        if beyond.any():
            missed[beyond] = np.maximum(missed, self._walked(k, leads_s))[beyond]
        return np.asarray(growth * missed)

    def _walked(self, k: int, leads_s: Values) -> Values:
        return np.asarray(np.interp(leads_s, self.leads_s, self.walk[k]))


def _quantiles(values: Values) -> Values:
    """Return the quantiles of every column, NaN left out: ``nanquantile``, 20 times as fast.

    Shape ``(probabilities, columns)``; NaN for a column with fewer than eight values.
    """
    if len(values) < LEAST_ORIGINS:
        return np.full((len(PROBABILITIES), values.shape[1]), np.nan)
    counted = np.isfinite(values).sum(axis=0)
    ascending = np.sort(values, axis=0)  # NaN come last
    at = np.outer(PROBABILITIES, np.maximum(counted - 1, 0))
    below, columns = at.astype(int), np.arange(len(counted))
    lower, upper = ascending[below, columns], ascending[np.ceil(at).astype(int), columns]
    return np.where(counted >= LEAST_ORIGINS, lower + (at - below) * (upper - lower), np.nan)


def _ordered(scores: Values) -> Values:
    """Let upper quantiles be at least the forecast."""
    scores = scores.copy()
    scores[1:] = np.maximum(scores[1:], 0.0)
    return np.maximum.accumulate(scores, axis=0)


def _random_walk(tail: Tail, leads_s: Values) -> Values:
    steps = np.diff(tail.per_s)
    steps = steps[np.isfinite(steps)]
    sigma = float(np.sqrt(np.mean(steps**2))) if len(steps) else 0.0
    return sigma * np.outer(list(_NORMAL_QUANTILES.values()), np.sqrt(np.maximum(leads_s / tail.cell_s, 1.0)))


def _noise(tail: Tail, lead_s: float) -> float:
    """Return the standard deviation of the newest cells around a straight line through each part, records/s."""
    cells = round(lead_s / tail.cell_s)
    parts = min(NOISE_LEADS, len(tail.per_s) // cells) if cells >= 4 else 0
    if not parts:
        return 0.0
    rates = tail.per_s[-parts * cells :].reshape(parts, cells)
    if not tail.gapless:
        rates = rates[np.isfinite(rates).all(axis=1)]
    if not len(rates):
        return 0.0
    at = np.arange(cells) - (cells - 1) / 2
    rates = rates - rates.mean(axis=1, keepdims=True)
    left = rates - np.outer(rates @ at / (at @ at), at)
    return float(np.sqrt((left**2).sum() / (len(left) * (cells - 2))))

"""What a forecast may miss by: quantiles from recent errors, by conformal prediction.

An error counts in units of how far the members disagreed when the forecast was made (locally weighted conformal
prediction, Lei et al. 2018, section 5.2): where they agree, the margin is narrow, at the foot of a ramp it is wide.
On the measured traces that halves the over-provision of the maximum at the same share of under-forecasts.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from perdix.models.forecasting.contract import PROBABILITIES
from perdix.models.forecasting.tail import Tail
from perdix.models.forecasting.track_record import TrackRecord
from perdix.models.forecasting.weighting import apart
from perdix.telemetry.window import Values

NORMAL_QUANTILES = (0.0, 0.8416, 1.2816, 1.6449)
LEAST_ORIGINS = 8
NOISE_LEADS = 10


@dataclass(frozen=True)
class Calibration:
    """Quantiles of errors by lead, of the path and of the highest rate so far, in units of the members' disagreement.

    ``leads_s``: middle of each part of the horizon, shape ``(leads,)``.
    ``path``, ``highest``: ``(actual - forecast) / disagreement`` at each probability, shape ``(probabilities, leads)``.
    With one member the unit is one record per second.
    ``walk``: what a random walk would miss by, records/s, of the same shape: it stands where too little has come true.
    ``noise_per_s``: standard deviation of single cells around their part's line, records/s: what means over a part do
    not show.
    """

    leads_s: Values
    path: Values
    highest: Values
    walk: Values
    noise_per_s: float

    @classmethod
    def of(cls, record: TrackRecord, tail: Tail) -> Self:
        """Calibrate on what has come true."""
        leads_s = record.lead_s * (np.arange(record.leads, dtype=np.float64) + 0.5)
        unit, tops, tops_unit = record.units
        path = _quantiles((record.actual - record.combined) / unit)
        highest = _quantiles((np.maximum.accumulate(record.peaks, axis=1) - tops) / tops_unit)
        return cls(leads_s, _ordered(path), _ordered(highest), _random_walk(tail, leads_s), _noise(tail, record.lead_s))

    def quantiles(self, mean: Values, leads_s: Values, projections: Values) -> dict[float, Values]:
        """Return the quantiles of a forecast, probability -> records/s, never negative, each of ``mean``'s shape.

        ``leads_s``: middle of each step, seconds after the origin, ascending.
        ``projections``: what each member said, shape ``(members, steps)``; NaN where it could not.
        """
        single = len(leads_s) > 1 and leads_s[1] - leads_s[0] < 2.0 * self.leads_s[0] - 1e-6
        noise = self.noise_per_s if single else 0.0
        rows = self._at(self.path, leads_s, apart(projections[None], mean[None])[0])
        return {
            probability: np.maximum(mean + (np.hypot(row, normal * noise) if normal else row), 0.0)
            for probability, normal, row in zip(PROBABILITIES, NORMAL_QUANTILES, rows, strict=True)
        }

    def maxima(self, mean: Values, leads_s: Values, projections: Values) -> dict[float, Values]:
        """Return what the highest rate up to each step stays below, probability -> records/s, never decreasing."""
        tops = np.maximum.accumulate(mean)
        unit = apart(np.maximum.accumulate(projections, axis=1)[None], tops[None])[0]
        rows = self._at(self.highest, leads_s, unit)
        return {
            probability: np.maximum.accumulate(np.maximum(tops + row, 0.0))
            for probability, row in zip(PROBABILITIES, rows, strict=True)
        }

    def _at(self, scores: Values, leads_s: Values, unit: Values) -> Values:
        """Return offsets in records/s at each probability, shape ``(probabilities, steps)``, ascending with it."""
        growth = np.sqrt(np.maximum(leads_s / self.leads_s[-1], 1.0))
        known = np.isfinite(scores[0])
        if not known.any():
            return np.asarray(growth * self._walked(leads_s))
        offsets = np.array([np.interp(leads_s, self.leads_s[known], row[known]) * unit for row in scores])
        beyond = leads_s > self.leads_s[known][-1] + self.leads_s[0]
        if beyond.any():
            offsets[:, beyond] = np.maximum(offsets, self._walked(leads_s))[:, beyond]
        return np.asarray(growth * offsets)

    def _walked(self, leads_s: Values) -> Values:
        return np.array([np.interp(leads_s, self.leads_s, row) for row in self.walk])


def _quantiles(values: Values) -> Values:
    """Return the quantiles of every column, NaN left out: ``nanquantile``, 20 times as fast.

    Shape ``(probabilities, columns)``; NaN for a column with fewer than eight values.
    """
    counted = np.isfinite(values).sum(axis=0)
    enough = counted >= LEAST_ORIGINS
    made = np.full((len(PROBABILITIES), values.shape[1]), np.nan)
    if enough.any():
        ascending = np.sort(values[:, enough], axis=0)  # NaN come last
        at = np.outer(PROBABILITIES, counted[enough] - 1)
        below = np.floor(at).astype(int)
        lower = np.take_along_axis(ascending, below, axis=0)
        upper = np.take_along_axis(ascending, np.ceil(at).astype(int), axis=0)
        made[:, enough] = lower + (at - below) * (upper - lower)
    return made


def _ordered(scores: Values) -> Values:
    """Let upper quantiles be at least the forecast."""
    scores = scores.copy()
    scores[1:] = np.maximum(scores[1:], 0.0)
    return np.maximum.accumulate(scores, axis=0)


def _random_walk(tail: Tail, leads_s: Values) -> Values:
    steps = np.diff(tail.per_s)
    steps = steps[np.isfinite(steps)]
    sigma = float(np.sqrt(np.mean(steps**2))) if len(steps) else 0.0
    return sigma * np.outer(NORMAL_QUANTILES, np.sqrt(np.maximum(leads_s / tail.cell_s, 1.0)))


def _noise(tail: Tail, lead_s: float) -> float:
    """Return the standard deviation of the newest cells around a straight line through each part, records/s."""
    cells = round(lead_s / tail.cell_s)
    parts = min(NOISE_LEADS, len(tail.per_s) // cells) if cells >= 4 else 0
    if not parts:
        return 0.0
    rates = tail.per_s[-parts * cells :].reshape(parts, cells)
    rates = rates[np.isfinite(rates).all(axis=1)]
    if not len(rates):
        return 0.0
    at = np.arange(cells) - (cells - 1) / 2
    rates = rates - rates.mean(axis=1, keepdims=True)
    left = rates - np.outer(rates @ at / (at @ at), at)
    return float(np.sqrt((left**2).sum() / (len(left) * (cells - 2))))

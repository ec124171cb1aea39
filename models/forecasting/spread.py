"""How far forecasts miss, by lead: measured from rolling origins inside the history, turned into quantiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from models.forecasting.contract import Values
from models.forecasting.tail import Tail

PROBABILITIES = (0.5, 0.9, 0.95)
NORMAL_QUANTILES = (0.0, 1.2816, 1.6449)
BUCKET_S = 60.0
HORIZON_S = 900.0
ORIGINS = 60
LEAST_ORIGINS = 8

Projection = Callable[[Tail, Values], Values]
"""(tail, edges in seconds after the newest measurement) -> mean rates between the edges."""


@dataclass(frozen=True)
class Spread:
    """Quantiles of ``actual - forecast`` by lead, records/s.

    Errors are not divided by the level of the workload: on the measured traces that made the 0.9 quantile two to twelve
    times as costly (pinball loss) where the workload had once been near zero.

    Attributes
    ----------
    leads_s
        Centres of the buckets of lead, shape ``(buckets,)``.
    offsets
        Records/s, one row per probability of :data:`PROBABILITIES`, shape ``(3, buckets)``; rows never decrease with
        the probability, and the upper ones never with the lead.
    """

    leads_s: Values
    offsets: Values

    def around(self, mean: Values, leads_s: Values) -> dict[float, Values]:
        """Return the quantiles of a forecast, probability -> records/s, never negative, each of ``mean``'s shape."""
        growth = np.sqrt(np.maximum(leads_s / self.leads_s[-1], 1.0))
        return {
            probability: np.maximum(mean + growth * np.interp(leads_s, self.leads_s, row), 0.0)
            for probability, row in zip(PROBABILITIES, self.offsets, strict=True)
        }

    def to_state(self) -> dict[str, Any]:
        """Return a JSON-serialisable state."""
        return {"leads_s": self.leads_s.tolist(), "offsets": self.offsets.tolist()}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Rebuild from :meth:`to_state`."""
        return cls(np.asarray(state["leads_s"], dtype=np.float64), np.asarray(state["offsets"], dtype=np.float64))


def measure(project: Projection, history: Tail, needed_s: float) -> Spread:
    """Forecast from origins spread over the history, each from what came before it, and keep the errors' quantiles.

    Parameters
    ----------
    needed_s
        Seconds of history that the first origin needs.

    Notes
    -----
    With fewer than eight origins a random walk takes their place: normal quantiles that grow with the root of the lead.
    """
    edges_s = np.arange(0.0, HORIZON_S + BUCKET_S / 2, max(BUCKET_S, history.cell_s))
    errors = _errors(project, history, needed_s, edges_s)
    centres_s = (edges_s[:-1] + edges_s[1:]) / 2
    counted = np.isfinite(errors).sum(axis=0) if len(errors) else np.zeros(len(centres_s), dtype=np.int64)
    known = counted >= LEAST_ORIGINS
    if not known.any():
        return _random_walk(history, centres_s)
    offsets = np.nanquantile(errors[:, known], PROBABILITIES, axis=0)
    return Spread(centres_s[known], _ordered(offsets))


def _errors(project: Projection, history: Tail, needed_s: float, edges_s: Values) -> Values:
    first_s, last_s = history.start_s + needed_s, history.measured_end_s - edges_s[1]
    if last_s < first_s:
        return np.empty((0, len(edges_s) - 1))
    rows = []
    for origin_s in np.linspace(first_s, last_s, ORIGINS):
        seen = history.until(origin_s)
        if not len(seen.per_s) or not np.isfinite(seen.per_s[-1]):
            continue
        try:
            forecast = np.maximum(project(seen, edges_s), 0.0)
        except ValueError:  # a gap left this origin with too little: it says nothing of the others
            continue
        absolute = seen.end_s + edges_s
        actual = np.where(absolute[1:] <= history.measured_end_s + 1e-6, history.means(absolute), np.nan)
        rows.append(actual - forecast)
    return np.array(rows).reshape(-1, len(edges_s) - 1)


def _ordered(offsets: Values) -> Values:
    offsets = offsets.copy()
    offsets[1:] = np.maximum.accumulate(np.maximum(offsets[1:], 0.0), axis=1)
    return np.maximum.accumulate(offsets, axis=0)


def _random_walk(history: Tail, leads_s: Values) -> Spread:
    steps = np.diff(history.per_s)
    steps = steps[np.isfinite(steps)]
    sigma = float(np.sqrt(np.mean(steps**2))) if len(steps) else 0.0
    growth = np.sqrt(np.maximum(leads_s / history.cell_s, 1.0))
    return Spread(leads_s, sigma * np.outer(NORMAL_QUANTILES, growth))

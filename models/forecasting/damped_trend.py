"""A trend that fades: the forecaster for noisy workloads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from models.forecasting.contract import Values, Workload
from models.forecasting.linear import LEAST_CELLS, line_through
from models.forecasting.spread import HORIZON_S, Spread, measure
from models.forecasting.tail import Tail
from models.forecasting.tail_forecaster import TailForecaster

WINDOWS_S = (30.0, 60.0, 120.0, 180.0, 300.0)
FADES_S = (150.0, 300.0, 450.0, 600.0, 900.0, 1800.0)
DEFAULT = (120.0, 450.0)
ORIGINS = 60
LEADS_S = np.arange(0.0, HORIZON_S + 1.0, 60.0)


@dataclass(frozen=True)
class DampedTrend(TailForecaster):
    """A least-squares line whose slope fades with ``exp(-t / fade_s)``, so that it levels off instead of running away.

    Window and fade are those with the least error over rolling origins of the history: a long window where the workload
    is noisy, a long fade where its trends last.
    """

    family: ClassVar[str] = "damped-trend"
    keep_s: ClassVar[float] = 600.0

    window_s: float
    fade_s: float

    @classmethod
    def fit(cls, history: Workload, *, seed: int = 0) -> Self:  # noqa: ARG003 -- nothing here is random
        """Fit to a history. Raises ``ValueError`` when it has no finite rate."""
        tail = Tail.of(history, cls.least_cell_s)
        needed_s = max(WINDOWS_S[-1], LEAST_CELLS * tail.cell_s)
        window_s, fade_s = _chosen(tail, needed_s)
        spread = measure(lambda seen, edges_s: _fade(seen, edges_s, window_s, fade_s), tail, needed_s)
        return cls(tail.cut(cls.keep_s), spread, window_s, fade_s)

    def project(self, tail: Tail, edges_s: Values) -> Values:
        """Return the fading line's mean in every step."""
        return _fade(tail, edges_s, self.window_s, self.fade_s)

    def parameters(self) -> dict[str, Any]:
        """Return window and fade in seconds."""
        return {"window_s": self.window_s, "fade_s": self.fade_s}

    @classmethod
    def with_parameters(cls, tail: Tail, spread: Spread, parameters: Mapping[str, Any]) -> Self:
        """Rebuild."""
        return cls(tail, spread, float(parameters["window_s"]), float(parameters["fade_s"]))


def _fade(tail: Tail, edges_s: Values, window_s: float, fade_s: float) -> Values:
    level, slope = line_through(tail, window_s)
    return level + slope * _mean_travel(edges_s, fade_s)


def _mean_travel(edges_s: Values, fade_s: float) -> Values:
    """Mean over each step of ``fade_s * (1 - exp(-t / fade_s))``: how far a unit slope has gone, seconds."""
    decayed = np.diff(np.exp(-edges_s / fade_s)) / np.diff(edges_s)
    return fade_s * (1.0 + fade_s * decayed)


def _chosen(tail: Tail, needed_s: float) -> tuple[float, float]:
    """Return the window and fade with the least absolute error over rolling origins."""
    first_s, last_s = tail.start_s + needed_s, tail.measured_end_s - LEADS_S[1]
    if last_s < first_s:
        return DEFAULT
    travel = np.array([_mean_travel(LEADS_S, fade_s) for fade_s in FADES_S])
    missed = np.zeros((len(WINDOWS_S), len(FADES_S)))
    for origin_s in np.linspace(first_s, last_s, ORIGINS):
        seen = tail.until(origin_s)
        if not len(seen.per_s) or not np.isfinite(seen.per_s[-1]):
            continue
        at_s = seen.end_s + LEADS_S
        actual = np.where(at_s[1:] <= tail.measured_end_s + 1e-6, tail.means(at_s), np.nan)
        for row, window_s in enumerate(WINDOWS_S):
            level, slope = line_through(seen, window_s)
            missed[row] += np.nansum(np.abs(np.maximum(level + slope * travel, 0.0) - actual), axis=1)
    if not missed.any():
        return DEFAULT
    best_row, best_column = np.unravel_index(int(np.argmin(missed)), missed.shape)
    return WINDOWS_S[best_row], FADES_S[best_column]

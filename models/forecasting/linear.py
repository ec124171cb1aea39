"""The fallback forecaster: a straight line through the last minute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from models.forecasting.contract import Values, Workload
from models.forecasting.spread import Spread, measure
from models.forecasting.tail import Tail
from models.forecasting.tail_forecaster import TailForecaster

WINDOW_S = 60.0
LEAST_CELLS = 3


@dataclass(frozen=True)
class Linear(TailForecaster):
    """Least squares over the last 60 s (Daedalus 3.2: the fallback), over the whole horizon and never negative.

    The paper's program extends the line by 600 s only and lets it go below zero.
    """

    family: ClassVar[str] = "linear"
    keep_s: ClassVar[float] = 600.0

    @classmethod
    def fit(cls, history: Workload, *, seed: int = 0) -> Self:  # noqa: ARG003 -- nothing here is random
        """Fit to a history. Raises ``ValueError`` when it has no finite rate."""
        tail = Tail.of(history, cls.least_cell_s)
        return cls(tail.cut(cls.keep_s), measure(_extend, tail, max(WINDOW_S, LEAST_CELLS * tail.cell_s)))

    def project(self, tail: Tail, edges_s: Values) -> Values:
        """Return the line at the middle of every step."""
        return _extend(tail, edges_s)

    def parameters(self) -> dict[str, Any]:
        """Return nothing: the line is drawn anew at every forecast."""
        return {}

    @classmethod
    def with_parameters(cls, tail: Tail, spread: Spread, parameters: Mapping[str, Any]) -> Self:  # noqa: ARG003
        """Rebuild."""
        return cls(tail, spread)


def line_through(tail: Tail, window_s: float) -> tuple[float, float]:
    """Return level (records/s) at the newest measurement, and slope (records/s per s), over the last ``window_s``.

    The window is widened to three cells where cells are long; a single finite cell has no slope.
    """
    end_s = tail.measured_end_s
    newest = max(1, int(np.ceil((end_s - tail.start_s) / tail.cell_s - 1e-6)))
    cells = max(LEAST_CELLS, int(np.ceil(window_s / tail.cell_s - 1e-6)))
    chosen = slice(max(0, newest - cells), newest)
    edges = tail.edges_s()
    at_s = (edges[:-1] + edges[1:])[chosen] / 2 - end_s
    rates = tail.per_s[chosen]
    finite = np.isfinite(rates)
    at_s, rates = at_s[finite], rates[finite]
    away_s = at_s - at_s.mean()
    spread = float(away_s @ away_s)
    slope = float(away_s @ rates) / spread if spread > 0.0 else 0.0
    return float(rates.mean() - slope * at_s.mean()), slope


def _extend(tail: Tail, edges_s: Values) -> Values:
    level, slope = line_through(tail, WINDOW_S)
    return level + slope * (edges_s[:-1] + edges_s[1:]) / 2

"""A straight line through the last minute: the fallback of the Daedalus paper."""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from perdix.models.forecasting.contract import HORIZON_S, Workload
from perdix.models.forecasting.member import Member, stretched
from perdix.models.forecasting.tail import Tail
from perdix.telemetry.window import Values

WINDOW_S = 60.0
KEEP_S = 600.0
LEAST_CELLS = 3


@dataclass(frozen=True)
class Linear(Member):
    """Least squares over the last 60 s (Daedalus 3.2: the fallback), over the whole horizon and never negative.

    The paper's program extends the line by 600 s only and lets it go below zero.
    """

    family: ClassVar[str] = "linear"

    window_s: float  # all that is kept: the line is drawn anew at every forecast

    @classmethod
    def fit(cls, history: Workload, *, horizon_s: float = HORIZON_S, seed: int = 0) -> Self:  # noqa: ARG003
        """Fit to a history. Raises ``ValueError`` when it has no finite rate."""
        cell_s = Tail.of(history, stretched(1.0, horizon_s)).cell_s
        return cls(cell_s, stretched(KEEP_S, horizon_s), stretched(WINDOW_S, horizon_s))

    def project(self, tail: Tail, edges_s: Values) -> Values:
        """Return the line at the middle of every step."""
        level, slope = line_through(tail, self.window_s)
        return level + slope * (edges_s[:-1] + edges_s[1:]) / 2


def line_through(tail: Tail, window_s: float) -> tuple[float, float]:
    """Return level (records/s) at the newest measurement, and slope (records/s per s), over the last ``window_s``.

    The window is widened to three cells where cells are long; a single finite cell has no slope.
    """
    if window_s not in tail.lines:
        tail.lines[window_s] = _line_through(tail, window_s)
    return tail.lines[window_s]


def _line_through(tail: Tail, window_s: float) -> tuple[float, float]:
    end_s = tail.measured_end_s
    newest = max(1, int(np.ceil((end_s - tail.start_s) / tail.cell_s - 1e-6)))
    cells = max(LEAST_CELLS, int(np.ceil(window_s / tail.cell_s - 1e-6)))
    first = max(0, newest - cells)
    edges, rates = tail.edges_s()[first : newest + 1], tail.per_s[first:newest]
    at_s = (edges[:-1] + edges[1:]) / 2 - end_s
    finite = np.isfinite(rates)
    if not finite.all():
        at_s, rates = at_s[finite], rates[finite]
    centre_s = float(np.add.reduce(at_s)) / len(at_s)  # at a fifth of the cost of mean(), dozens of times in a tick
    away_s = at_s - centre_s
    spread = float(away_s @ away_s)
    slope = float(away_s @ rates) / spread if spread > 0.0 else 0.0
    return float(np.add.reduce(rates)) / len(rates) - slope * centre_s, slope

"""A trend that fades: the forecaster for noisy workloads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from models.forecasting.contract import HORIZON_S, Values, Workload
from models.forecasting.linear import LEAST_CELLS, line_through
from models.forecasting.member import LEADS, Member, stretched
from models.forecasting.tail import Tail

WINDOWS_S = (30.0, 60.0, 120.0, 180.0, 300.0)
FADES_S = (150.0, 300.0, 450.0, 600.0, 900.0, 1800.0)
DEFAULT = (120.0, 450.0)
ORIGINS = 60
KEEP_S = 600.0


@dataclass(frozen=True)
class DampedTrend(Member):
    """A least-squares line whose slope fades with ``exp(-t / fade_s)``, so that it levels off instead of running away.

    Window and fade are those with the least error over rolling origins of the history: a long window where the workload
    is noisy, a long fade where its trends last.
    """

    family: ClassVar[str] = "damped-trend"

    window_s: float
    fade_s: float

    @classmethod
    def fit(cls, history: Workload, *, horizon_s: float = HORIZON_S, seed: int = 0) -> Self:  # noqa: ARG003
        """Fit to a history. Raises ``ValueError`` when it has no finite rate."""
        tail = Tail.of(history, stretched(1.0, horizon_s))
        window_s, fade_s = _chosen(tail, horizon_s)
        return cls(tail.cell_s, stretched(KEEP_S, horizon_s), window_s, fade_s)

    def project(self, tail: Tail, edges_s: Values) -> Values:
        """Return the fading line's mean in every step."""
        return _fade(tail, edges_s, self.window_s, self.fade_s)

    def parameters(self) -> dict[str, Any]:
        """Return window and fade in seconds."""
        return {"window_s": self.window_s, "fade_s": self.fade_s}

    @classmethod
    def with_parameters(cls, cell_s: float, keep_s: float, parameters: Mapping[str, Any]) -> Self:
        """Rebuild."""
        return cls(cell_s, keep_s, float(parameters["window_s"]), float(parameters["fade_s"]))


def _fade(tail: Tail, edges_s: Values, window_s: float, fade_s: float) -> Values:
    level, slope = line_through(tail, window_s)
    return level + slope * _mean_travel(edges_s, fade_s)


def _mean_travel(edges_s: Values, fade_s: float) -> Values:
    """Mean over each step of ``fade_s * (1 - exp(-t / fade_s))``: how far a unit slope has gone, seconds."""
    decayed = np.diff(np.exp(-edges_s / fade_s)) / np.diff(edges_s)
    return fade_s * (1.0 + fade_s * decayed)


def _chosen(tail: Tail, horizon_s: float) -> tuple[float, float]:
    """Return the window and fade with the least absolute error over rolling origins."""
    windows_s = [stretched(window_s, horizon_s) for window_s in WINDOWS_S]
    fades_s = [stretched(fade_s, horizon_s) for fade_s in FADES_S]
    leads_s = np.linspace(0.0, horizon_s, LEADS + 1)
    default = (stretched(DEFAULT[0], horizon_s), stretched(DEFAULT[1], horizon_s))
    first_s = tail.start_s + max(windows_s[-1], LEAST_CELLS * tail.cell_s)
    last_s = tail.measured_end_s - leads_s[1]
    if last_s < first_s:
        return default
    travel = np.array([_mean_travel(leads_s, fade_s) for fade_s in fades_s])
    missed = np.zeros((len(windows_s), len(fades_s)))
    for origin_s in np.linspace(first_s, last_s, ORIGINS):
        seen = tail.until(origin_s)
        if not len(seen.per_s) or not np.isfinite(seen.per_s[-1]):
            continue
        at_s = seen.end_s + leads_s
        actual = np.where(at_s[1:] <= tail.measured_end_s + 1e-6, tail.means(at_s), np.nan)
        for row, window_s in enumerate(windows_s):
            level, slope = line_through(seen, window_s)
            missed[row] += np.nansum(np.abs(np.maximum(level + slope * travel, 0.0) - actual), axis=1)
    if not missed.any():
        return default
    best_row, best_column = np.unravel_index(int(np.argmin(missed)), missed.shape)
    return windows_s[best_row], fades_s[best_column]

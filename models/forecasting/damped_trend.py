"""Lines: straight through the last minute, the fallback of the Daedalus paper; or fading, for noisy workloads."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np

from perdix.models.forecasting.contract import HORIZON_S, Workload
from perdix.models.forecasting.member import LEADS, Member, stretched
from perdix.models.forecasting.tail import Tail
from perdix.telemetry.window import Values

WINDOW_S = 60.0
LEAST_CELLS = 3
WINDOWS_S = (60.0, 120.0, 180.0, 300.0)
FADES_S = (300.0, 450.0, 600.0, 900.0)
SHARPNESS = 12.0  # weights are errors to the power of minus this
ORIGINS = 60
KEEP_S = 600.0


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
    cells = max(LEAST_CELLS, math.ceil(window_s / tail.cell_s - 1e-6))
    at_s, rates = tail.ages_s(cells), tail.per_s[: tail.measured][-cells:]
    if not tail.gapless:
        finite = np.isfinite(rates)
        at_s, rates = at_s[finite], rates[finite]
    centre_s = float(np.add.reduce(at_s)) / len(at_s)  # at a fifth of the cost of mean(), dozens of times in a tick
    away_s = at_s - centre_s
    spread = float(away_s @ away_s)
    slope = float(away_s @ rates) / spread if spread > 0.0 else 0.0
    return float(np.add.reduce(rates)) / len(rates) - slope * centre_s, slope


@dataclass(frozen=True)
class DampedTrend(Member):
    """Least-squares lines whose slopes fade with ``exp(-t / fade_s)``, so that they level off instead of running away.

    Long windows suit noisy workloads, long fades lasting trends. Each pair of window and fade counts by its errors over
    rolling origins of the history: the mean of the good ones is better than the best one, which chance picks too.
    """

    family: ClassVar[str] = "damped-trend"

    windows_s: tuple[float, ...]
    fades_s: tuple[float, ...]
    weights: tuple[tuple[float, ...], ...]

    @classmethod
    def fit(cls, history: Workload, *, horizon_s: float = HORIZON_S, seed: int = 0) -> Self:  # noqa: ARG003
        """Fit to a history. Raises ``ValueError`` when it has no finite rate."""
        tail = Tail.of(history, stretched(1.0, horizon_s))
        windows_s = tuple(stretched(window_s, horizon_s) for window_s in WINDOWS_S)
        fades_s = tuple(stretched(fade_s, horizon_s) for fade_s in FADES_S)
        weights = _weights(tail, horizon_s, windows_s, fades_s)
        rows = tuple(tuple(float(weight) for weight in row) for row in weights)
        return cls(tail.cell_s, stretched(KEEP_S, horizon_s), windows_s, fades_s, rows)

    def project(self, tail: Tail, edges_s: Values) -> Values:
        """Return the fading lines' weighted mean in every step."""
        travel = _travels(np.ascontiguousarray(edges_s).tobytes(), self.fades_s)
        made = _extended(np.array([line_through(tail, window_s) for window_s in self.windows_s]), travel)
        return np.asarray((np.array(self.weights)[:, None, :] @ made)[:, 0].sum(axis=0))

    @classmethod
    def with_parameters(cls, cell_s: float, keep_s: float, parameters: Mapping[str, Any]) -> Self:
        """Rebuild. Raises ``ValueError`` when the weights do not belong to the windows and fades."""
        made = super().with_parameters(cell_s, keep_s, parameters)
        if len(made.weights) != len(made.windows_s) or any(len(row) != len(made.fades_s) for row in made.weights):
            raise ValueError("the weights of a damped trend do not belong to its windows and fades")
        return made


def _extended(lines: Values, travel: Values) -> Values:
    """Return where each line, ``(level, slope)`` along the last axis, leads as it fades; records/s, at least 0.

    ``travel``: how far each slope has carried in every step, seconds, shape ``(fades, steps)``: those follow the lines.
    """
    return np.maximum(lines[..., 0, None, None] + lines[..., 1, None, None] * travel, 0.0)


@lru_cache(maxsize=32)
def _travels(edges: bytes, fades_s: tuple[float, ...]) -> Values:
    """Return how far each slope has carried in every step, shape ``(fades, steps)``: the same steps at every tick."""
    edges_s = np.frombuffer(edges)
    return np.array([_mean_travel(edges_s, fade_s) for fade_s in fades_s])


def _mean_travel(edges_s: Values, fade_s: float) -> Values:
    """Mean over each step of ``fade_s * (1 - exp(-t / fade_s))``: how far a unit slope has gone, seconds."""
    left = np.exp(-edges_s / fade_s)
    decayed = (left[1:] - left[:-1]) / (edges_s[1:] - edges_s[:-1])
    return np.asarray(fade_s * (1.0 + fade_s * decayed))


def _weights(tail: Tail, horizon_s: float, windows_s: tuple[float, ...], fades_s: tuple[float, ...]) -> Values:
    """Return the weight of each pair by its mean absolute error, which is divided by the mean of all pairs' errors.

    So a calm origin says as much as one at a high rate. Without an origin all pairs count alike.
    """
    shape = (len(windows_s), len(fades_s))
    leads_s = np.linspace(0.0, horizon_s, LEADS + 1)
    first_s = tail.start_s + max(windows_s[-1], LEAST_CELLS * tail.cell_s)
    last_s = tail.measured_end_s - leads_s[1]
    travel = np.array([_mean_travel(leads_s, fade_s) for fade_s in fades_s])
    parts = [tail.until(origin_s) for origin_s in np.linspace(first_s, last_s, ORIGINS)] if last_s >= first_s else []
    parts = [part for part in parts if len(part.per_s) and np.isfinite(part.per_s[-1])]
    at_s = np.array([part.end_s for part in parts])[:, None] + leads_s
    actual = tail.means_between(at_s[:, :-1], at_s[:, 1:])
    actual = np.where(at_s[:, 1:] <= tail.measured_end_s + 1e-6, actual, np.nan)
    lines = [[line_through(part, window_s) for window_s in windows_s] for part in parts]
    said = _extended(np.array(lines).reshape(len(parts), len(windows_s), 2), travel)
    missed, counted = np.zeros(shape), 0
    for off, known in zip(np.abs(said - actual[:, None, None]), np.isfinite(actual), strict=True):
        errors = off[..., known]
        usual = errors.mean(axis=(0, 1), keepdims=True) if errors.size else errors
        erred = usual[0, 0] > 0.0 if errors.size else np.empty(0, dtype=bool)
        if erred.any():
            missed += (errors[..., erred] / usual[..., erred]).mean(axis=-1)
            counted += 1
    if not counted:
        return np.full(shape, 1.0 / np.prod(shape))
    raw = np.maximum(missed / counted, 1e-3) ** -SHARPNESS
    return np.asarray(raw / raw.sum())

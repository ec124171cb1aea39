"""Normal latency as a smooth function of rate and utilisation, and which points of a profile lie far above it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import nnls

from perdix.models.forecasting.contract import LARGEST_PER_S
from perdix.models.profiling.profile import KEEPS_UP, ProfilePoint
from perdix.models.profiling.tmax import HighestRates
from perdix.telemetry.window import Values

Flags = NDArray[np.bool_]

TERMS = 4
HIGHEST_UTILISATION = 0.97  # in the queueing term, which has no value at 1
LEAST_UTILISATION = 0.05  # in the filling term: a worker hands an unfilled buffer on after a while
STABILITY = 1e-6  # ridge, as a share of the mean diagonal: terms that the points cannot tell apart stay finite
HUBER = 1.345  # robust standard deviations up to which a residual counts fully
SMALLEST_SPREAD = 0.01  # of residuals, as a share: points that lie on the curve must not make all others outliers
REWEIGHTED = 8
RUNNING_MEMORY = 100.0  # measurements of the running job that are remembered
FAR_ABOVE = 1.75  # factor on normal latency that the least noisy job must exceed; measured overloads begin at 2.1
SPREADS = 8.0  # robust standard deviations that a noisier one must
ROUNDS = 5
LEAST_MS, LARGEST_MS = 1e-6, 1e12  # squares of what lies between stay finite


@dataclass(frozen=True)
class LatencyCurve:
    """``base + queueing u / (1 - u) + load (rate / unit)^2 + filling / (u + 0.05)``, no coefficient negative.

    Every term is convex in the rate of a given scale-out, so their sum is: above its minimum, a higher rate never has a
    lower latency. Relative errors are minimised, and points far off the others count less (Huber).
    """

    unit_per_s: float  # rate that the load term is relative to, records/s
    spread: float  # robust standard deviation of the residuals, as a share of the prediction
    # profiled, running: normal equations, shape ``(4, 5)``: matrix, and right-hand side as the last column. Those of
    # the profile stay, those of the running job fade, so that runtime evidence can correct the profile and never
    # replace all of it
    profiled: Values
    running: Values

    @classmethod
    def fit(cls, utilisations: Values, rates_per_s: Values, latencies_ms: Values) -> Self:
        """Fit to normal points; all of shape ``(n,)``, finite, latencies above 0. Raises ``ValueError`` without one."""
        if not len(latencies_ms):
            raise ValueError("no point has a normal latency: profile at lower rates")
        unit_per_s = float(max(rates_per_s.max(), 1.0))
        rows = _terms(utilisations, rates_per_s, unit_per_s)
        weights, spread = 1.0 / latencies_ms**2, SMALLEST_SPREAD
        for _ in range(REWEIGHTED):
            equations = _equations(rows, latencies_ms, weights)
            predicted = np.maximum(rows @ _solved(equations), 1e-9)
            residuals = np.abs(latencies_ms / predicted - 1.0)
            spread = max(1.4826 * float(np.median(residuals)), SMALLEST_SPREAD)
            weights = _huber(residuals, spread) / predicted**2
        return cls(unit_per_s, spread, _equations(rows, latencies_ms, weights), np.zeros((TERMS, TERMS + 1)))

    @property
    def coefficients(self) -> Values:
        """Base, queueing, load and filling in ms; shape ``(4,)``."""
        return _solved(self.profiled + self.running)

    def latency_ms(self, utilisations: ArrayLike, rates_per_s: ArrayLike) -> Values:
        """Return the normal latency in ms, of the inputs' shape."""
        used, rates = np.asarray(utilisations, float), np.asarray(rates_per_s, float)
        return np.asarray(_terms(used, rates, self.unit_per_s) @ self.coefficients, float)

    def learned(self, utilisation: float, rate_per_s: float, latency_ms: float) -> Self:
        """Return the curve after one more normal measurement of the running job."""
        row = _terms(np.array([utilisation]), np.array([rate_per_s]), self.unit_per_s)
        predicted = max(float((row @ self.coefficients)[0]), 1e-9)
        off = np.array([abs(latency_ms / predicted - 1.0)])
        # What moved for good lies off the profile's curve, too: three spreads before it counts for less.
        weight = _huber(off, 3.0 * self.spread) / predicted**2
        seen = _equations(row, np.array([latency_ms]), weight)
        return replace(self, running=(1.0 - 1.0 / RUNNING_MEMORY) * self.running + seen)

    def to_state(self) -> dict[str, Any]:
        """Return a JSON-serialisable state."""
        return {
            "unit_per_s": self.unit_per_s,
            "spread": self.spread,
            "profiled": self.profiled.tolist(),
            "running": self.running.tolist(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Rebuild from :meth:`to_state`. Raises ``ValueError`` when the state is not one of a curve."""
        try:
            equations = [np.asarray(state[name], float) for name in ("profiled", "running")]
            curve = cls(float(state["unit_per_s"]), float(state["spread"]), *equations)
        except (KeyError, TypeError) as error:
            raise ValueError(f"a latency curve lacks something or holds what is no number ({error!r})") from None
        if any(equation.shape != (TERMS, TERMS + 1) or not np.isfinite(equation).all() for equation in equations):
            raise ValueError(f"a latency curve has {TERMS} finite equations of {TERMS + 1} numbers")
        return curve


def _terms(utilisations: Values, rates_per_s: Values, unit_per_s: float) -> Values:
    """Return the four terms, shape ``(*inputs, 4)``."""
    used, rates = np.broadcast_arrays(utilisations, rates_per_s)
    busy = np.clip(used, 0.0, HIGHEST_UTILISATION)
    filling = LEAST_UTILISATION / (busy + LEAST_UTILISATION)
    return np.stack([np.ones_like(busy), busy / (1.0 - busy), (rates / unit_per_s) ** 2, filling], axis=-1)


def _equations(rows: Values, latencies_ms: Values, weights: Values) -> Values:
    weighted = rows * weights[:, None]
    return np.column_stack([weighted.T @ rows, weighted.T @ latencies_ms])


def _solved(equations: Values) -> Values:
    """Return the non-negative coefficients that solve normal equations best."""
    matrix, target = equations[:, :TERMS], equations[:, TERMS]
    ridge = STABILITY * max(float(np.trace(matrix)) / TERMS, 1e-300)
    root = np.linalg.cholesky(matrix + ridge * np.eye(TERMS))
    found, _ = nnls(root.T, np.linalg.solve(root, target))
    return np.asarray(found, float)


def _huber(residuals: Values, spread: float) -> Values:
    return np.asarray(np.minimum(1.0, HUBER * spread / np.maximum(residuals, 1e-12)), float)


def highest_rates_of(points: Sequence[ProfilePoint], maximum_per_s: dict[int, float]) -> HighestRates:
    """Return T_max over the scale-out; where none was measured, the highest throughput of each stands for it."""
    if maximum_per_s:
        return HighestRates.fit(maximum_per_s)
    highest: dict[int, float] = {}
    for point in points:
        if point.throughput_per_s > highest.get(point.scale_out, 0.0):  # False of NaN
            highest[point.scale_out] = point.throughput_per_s
    return HighestRates.fit(highest)


def measured(points: Sequence[ProfilePoint]) -> list[ProfilePoint]:
    """Return the points that have a latency and a rate. Raises ``ValueError`` when none has."""
    kept = [point for point in points if is_measured(point.rate_per_s, point.latency_ms)]
    if not kept:
        raise ValueError("no point of the profile has a rate and a latency: profile the job anew")
    return kept


def is_measured(rate_per_s: float, latency_ms: float) -> bool:
    """Return whether both can have been measured: finite, a rate that is not negative, a latency above 0."""
    return 0.0 <= rate_per_s <= LARGEST_PER_S and LEAST_MS <= latency_ms <= LARGEST_MS


def overload_factor(curve: LatencyCurve) -> float:
    """Return by which factor a latency must exceed the normal one to be an overload's."""
    return max(FAR_ABOVE, 1.0 + SPREADS * curve.spread)


def overloaded_points(points: Sequence[ProfilePoint], rates: HighestRates) -> tuple[Flags, LatencyCurve]:
    """Return which points are overloaded, and the curve of the others' latency.

    A point is overloaded when its throughput stayed below what was offered, or its latency lies far above both the
    level of the less utilised half and the curve through the normal ones. The curve is fitted and the points are judged
    in turn, so that latency which grows with utilisation as queueing does is not taken for overload.

    Unlike two clusters, this finds no overload where there is none, and one measurement more or less does not move the
    boundary by its scale. Raises ``ValueError`` when no point kept up.

    ``points``: with finite rates and latencies; see :func:`measured`.
    """
    offered, latencies, throughputs, sizes = (
        np.array([getattr(point, name) for point in points], float)
        for name in ("rate_per_s", "latency_ms", "throughput_per_s", "scale_out")
    )
    utilisations = offered / rates.per_s(sizes)
    behind = throughputs < KEEPS_UP * offered  # a throughput that was not measured (NaN) says nothing
    if behind.all():
        raise ValueError("no point of the profile kept up with what was offered: profile at lower rates")
    calm = ~behind & (utilisations <= np.median(utilisations[~behind]))
    level_ms = float(np.median(latencies[calm]))
    overloaded = behind | (latencies > FAR_ABOVE * level_ms)
    for _ in range(ROUNDS):
        normal = ~overloaded
        curve = LatencyCurve.fit(utilisations[normal], offered[normal], latencies[normal])
        usual = np.maximum(curve.latency_ms(utilisations, offered), level_ms)
        found = behind | (latencies > overload_factor(curve) * usual)
        if (found == overloaded).all():
            break
        overloaded = found
    return overloaded, curve

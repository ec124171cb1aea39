"""How a workload varies together with itself some time later, as a stationary covariance, and its fit to a series.

A sum of what workloads are made of: a level that drifts over days, a day and a week that repeat and slowly change,
swings of hours, swings of minutes, what repeats every hour (jobs of a clock), and noise.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from perdix.settings.durations import DAY_S
from perdix.telemetry.window import Values

WEEK_DAYS, HOURS = 7.0, 24.0
HOUR_FADES_DAYS = 3.0
SHORT_CELL_S = 1800.0  # above, swings of minutes and the hour cannot be seen
DEGREES_OF_FREEDOM = 4.0  # of Student's t, where outliers are expected
_STEP = 1e-3  # of the numerical gradient, in logarithms
_JITTER = 1e-8  # of the variance of a standardised series: keeps matrices regular

# name: (expected, least, most, width of the prior in logarithms); deviations in those of the series, times in days
_PRIOR: dict[str, tuple[float, float, float, float]] = {
    "level": (0.3, 0.02, 3.0, 1.0),
    "level_days": (2.0, 0.3, 30.0, 1.0),
    "day": (0.6, 0.02, 3.0, 1.0),
    "day_fades_days": (20.0, 2.0, 100.0, 0.7),
    "day_roughness": (0.5, 0.1, 2.0, 0.7),
    "week": (0.3, 0.02, 3.0, 1.0),
    "week_fades_days": (40.0, 7.0, 300.0, 0.7),
    "week_roughness": (0.3, 0.05, 2.0, 0.7),
    "swing": (0.4, 0.02, 3.0, 1.0),
    "swing_days": (0.15, 0.04, 2.0, 1.0),
    "noise": (0.12, 0.01, 1.0, 1.0),
    "flutter": (0.2, 0.01, 3.0, 1.0),
    "flutter_days": (0.02, 0.003, 0.08, 1.0),
    "hour": (0.1, 0.01, 2.0, 1.0),
    "hour_roughness": (0.5, 0.1, 2.0, 0.7),
}
NAMES = tuple(_PRIOR)
SLOW = NAMES[:10]
SHORT = NAMES[11:]
_INDEX = {name: index for index, name in enumerate(NAMES)}


@dataclass(frozen=True)
class Covariance:
    """A fitted covariance of the standardised series."""

    logarithms: Values  # natural logarithms of the parameters, in the order of :data:`NAMES`, shape ``(15,)``
    cell_s: float  # length of the cells of which it is the covariance, seconds

    @classmethod
    def expected(cls, cell_s: float) -> Self:
        """Return what is expected of a workload before it is seen."""
        start, _, _ = _priors(cell_s)
        return cls(start, cell_s)

    @classmethod
    def of(cls, parameters: Mapping[str, float], cell_s: float) -> Self:
        """Rebuild from :attr:`parameters`. Raises ``KeyError`` when one is missing, ``ValueError`` for a wrong one."""
        values = np.array([float(parameters[name]) for name in NAMES])
        if not (np.isfinite(values).all() and (values > 0.0).all()):
            raise ValueError("a parameter of the covariance is not above zero")
        return cls(np.log(values), cell_s)

    @property
    def parameters(self) -> dict[str, float]:
        """Parameters by name."""
        return dict(zip(NAMES, np.exp(self.logarithms).tolist(), strict=True))

    def at(self, lags: Values) -> Values:
        """Return the covariance at lags in cells, of the lags' shape."""
        flat = np.abs(np.ravel(np.asarray(lags, dtype=np.float64)))
        return np.asarray(by_lag(self.logarithms[None], flat, self.cell_s)[0].reshape(np.shape(lags)))

    def between(self, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> Values:
        """Return the covariance between means over bins of whole cells, shape ``(bins, bins)``.

        ``starts``, ``ends``: boundaries of the bins in cells, both of shape ``(bins,)``.

        The sum over all pairs of cells of two bins needs only the second cumulative sum ``G`` of the covariance: it is
        ``G(b - c) - G(a - c) - G(b - d) + G(a - d)`` for bins ``[a, b)`` and ``[c, d)``.
        """
        reach = int(ends.max() - starts.min())
        cells = self.at(np.arange(reach + 1, dtype=np.float64))
        cells[0] += _JITTER
        slopes = 0.5 * cells[0] + np.concatenate([[0.0], np.cumsum(cells[1:-1])])
        double = np.concatenate([[0.0], np.cumsum(slopes)])
        sums = (
            double[np.abs(ends[:, None] - starts[None, :])]
            - double[np.abs(starts[:, None] - starts[None, :])]
            - double[np.abs(ends[:, None] - ends[None, :])]
            + double[np.abs(starts[:, None] - ends[None, :])]
        )
        lengths = (ends - starts).astype(np.float64)
        return np.asarray(sums / np.outer(lengths, lengths))


def by_lag(logarithms: Values, lags: Values, cell_s: float) -> Values:
    """Return the covariances of several sets of parameters, shape ``(sets, lags)``; lags in cells, not negative."""
    terms = np.exp(logarithms)[:, :, None]

    def of(name: str) -> Values:
        return np.asarray(terms[:, _INDEX[name]])

    days = lags[None] * (cell_s / DAY_S)
    daily = 2.0 * np.sin(np.pi * days) ** 2
    weekly = (np.sin(np.pi * days / WEEK_DAYS) * WEEK_DAYS / np.pi) ** 2
    total = of("level") ** 2 * np.exp(-days / of("level_days"))
    total = total + of("day") ** 2 * np.exp(-days / of("day_fades_days") - daily / of("day_roughness") ** 2)
    total += of("week") ** 2 * np.exp(-days / of("week_fades_days") - weekly / of("week_roughness") ** 2)
    total += of("swing") ** 2 * np.exp(-days / of("swing_days"))
    if cell_s < SHORT_CELL_S:
        hourly = 2.0 * np.sin(np.pi * days * HOURS) ** 2
        total += of("flutter") ** 2 * np.exp(-days / of("flutter_days"))
        total += of("hour") ** 2 * np.exp(-days / HOUR_FADES_DAYS - hourly / of("hour_roughness") ** 2)
    return np.asarray(total + np.where(lags[None] < 0.5, of("noise") ** 2, 0.0))


def fitted(start: Covariance, series: Values, free: tuple[str, ...], *, robust: bool, steps: int) -> Covariance:
    """Fit some parameters to a series by maximum a-posteriori likelihood, the others left as they are.

    ``series``: standardised, without gaps, in cells of ``start.cell_s``, shape ``(n,)``.
    ``robust``: take the errors of forecasts one cell ahead to have Student's t distribution instead of the normal one.
    ``steps``: of the optimiser, at most.
    """
    chosen = np.array([_INDEX[name] for name in free if start.cell_s < SHORT_CELL_S or name not in SHORT])
    expected, least, most = _priors(start.cell_s)
    widths = np.array([_PRIOR[name][3] for name in NAMES])

    def objective(values: Values) -> tuple[float, Values]:
        sets = np.repeat(start.logarithms[None], len(chosen) + 1, axis=0)
        sets[:, chosen] = values
        sets[np.arange(1, len(chosen) + 1), chosen] += _STEP
        penalties = 0.5 * np.sum(((sets - expected) / widths) ** 2, axis=1)
        losses = _surprise(sets, series, start.cell_s, robust=robust) + penalties
        return float(losses[0]), (losses[1:] - losses[0]) / _STEP

    found = minimize(
        objective,
        np.clip(start.logarithms[chosen], least[chosen], most[chosen]),
        jac=True,
        method="L-BFGS-B",
        bounds=list(zip(least[chosen], most[chosen], strict=True)),
        options={"maxiter": steps},
    )
    best = start.logarithms.copy()
    best[chosen] = found.x
    return Covariance(best, start.cell_s)


def _priors(cell_s: float) -> tuple[Values, Values, Values]:
    """Return logarithms of what is expected, least and most; swings of minutes are given in cells."""
    expected, least, most = (np.array([_PRIOR[name][part] for name in NAMES]) for part in range(3))
    cell_days = cell_s / DAY_S
    index = _INDEX["flutter_days"]
    most[index] = min(most[index], 24.0 * cell_days)
    least[index] = min(least[index], 0.5 * cell_days)
    expected[index] = min(expected[index], 4.0 * cell_days)
    return np.log(expected), np.log(least), np.log(most)


def _surprise(logarithms: Values, series: Values, cell_s: float, *, robust: bool) -> Values:
    """Return minus the log-likelihood of a series under several sets of parameters, shape ``(sets,)``.

    By Durbin's recursion over all sets at once: the best linear forecast of each value from those before it, and the
    variance of its error, without any matrix. Constants are left out.
    """
    count = len(series)
    covariances = by_lag(logarithms, np.arange(count, dtype=np.float64), cell_s)
    covariances[:, 0] += _JITTER
    variances = covariances[:, 0].copy()
    coefficients = np.zeros_like(covariances)
    total = _loss(np.broadcast_to(series[0], variances.shape), variances, robust=robust)
    backwards = series[::-1]
    for k in range(1, count):
        known = coefficients[:, : k - 1]
        partial = (covariances[:, k] - np.einsum("ij,ij->i", known, covariances[:, k - 1 : 0 : -1])) / variances
        if k > 1:
            coefficients[:, : k - 1] = known - partial[:, None] * known[:, ::-1]
        coefficients[:, k - 1] = partial
        variances = variances * np.maximum(1.0 - partial**2, _JITTER)
        errors = series[k] - coefficients[:, :k] @ backwards[count - k :]
        total += _loss(errors, variances, robust=robust)
    return total


def _loss(errors: Values, variances: Values, *, robust: bool) -> Values:
    if not robust:
        return np.asarray(0.5 * (np.log(variances) + errors**2 / variances))
    degrees = DEGREES_OF_FREEDOM
    scales = variances * (degrees - 2.0) / degrees  # so that the variance is the one forecast
    return np.asarray(0.5 * np.log(scales) + 0.5 * (degrees + 1.0) * np.log1p(errors**2 / (degrees * scales)))

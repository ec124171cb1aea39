"""ARIMA models of fixed shape, fitted in a fraction of a second.

On the measured second-level traces an order chosen by AICc does worse than one for all (``benchmarks/forecast.py``):
what fits one step best runs away, or lies flat, over 30 of them.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from perdix.models.forecasting.arma import LEAST_SERIES, Arima, bins_of, project
from perdix.models.forecasting.contract import HORIZON_S, Workload
from perdix.models.forecasting.member import Member, stretched
from perdix.models.forecasting.tail import Tail
from perdix.telemetry.window import Values

LARGEST_ORDER = 3
STEPS_PER_LAG = 3  # differences, at least, to tell what one lag counts
UNCHANGING = Arima(1, 0.0, (), (), 0.0)  # what was constant stays as it is
LARGEST_INVERSE_ROOT = 0.99  # of a moving average; nearer to 1 the filter never forgets how it began


def fit_fixed(series: Values, order: tuple[int, int, int]) -> Arima:
    """Fit one order to a gap-free series by maximum likelihood; a smaller one where the optimiser fails.

    Raises ``ValueError`` when no order can be fitted.
    """
    p, d, q = order
    smaller = ((max(p - down, 0), d, max(q - down, 0)) for down in range(max(p, q) + 1))
    reasons: list[str] = []
    for candidate in smaller:
        try:
            return _fitted(series, d, order=candidate)
        except (ValueError, ArithmeticError, IndexError, np.linalg.LinAlgError) as error:
            reasons.append(f"{candidate}: {error}")
    raise ValueError(f"no ARIMA could be fitted to {len(series)} values ({'; '.join(reasons)})")


def fit_stepwise(series: Values, d: int) -> Arima:
    """Choose p and q by AICc, with differencing ``d`` given. Raises ``ValueError`` when no order can be fitted."""
    try:
        return _fitted(series, d, order=None)
    except (ValueError, ArithmeticError, IndexError, np.linalg.LinAlgError) as error:
        raise ValueError(f"no ARIMA with d = {d} could be fitted to {len(series)} values ({error})") from error


def fit_autoregression(series: Values, p: int) -> Arima:
    """Fit ARIMA(p, 1, 0) to a gap-free series by Burg's method: in a millisecond, and always stationary.

    Of a short series fewer lags are taken, one for three differences.
    """
    if len(series) <= STEPS_PER_LAG or _constant(series):
        return UNCHANGING
    from statsmodels.regression.linear_model import burg  # noqa: PLC0415 -- a second of import that only training pays

    steps = np.diff(series)
    ar, sigma2 = burg(steps, order=min(p, len(steps) // STEPS_PER_LAG), demean=False)
    return Arima(1, 0.0, tuple(float(value) for value in ar), (), float(sigma2))


def _constant(series: Values) -> bool:
    return bool(np.std(np.diff(series)) <= 1e-12 * np.max(np.abs(series), initial=1.0))


def _fitted(series: Values, d: int, order: tuple[int, int, int] | None) -> Arima:
    """Fit the series divided by the size of its steps: the optimiser's tolerances are made for numbers near one."""
    if len(series) < 2 or _constant(series):
        return UNCHANGING
    scale = float(np.std(np.diff(series)))
    from statsforecast.models import ARIMA, AutoARIMA  # noqa: PLC0415 -- a second of import that only training pays

    if order is None:
        model: Any = AutoARIMA(
            d=d, max_p=LARGEST_ORDER, max_q=LARGEST_ORDER, seasonal=False, allowdrift=False, allowmean=False
        )
    else:
        model = ARIMA(order=order, include_mean=False)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        found: Mapping[str, Any] = model.fit(series / scale).model_
    p, q = int(found["arma"][0]), int(found["arma"][1])
    ar = tuple(float(found["coef"][f"ar{lag}"]) for lag in range(1, p + 1))
    ma = invertible(tuple(float(found["coef"][f"ma{lag}"]) for lag in range(1, q + 1)))
    sigma2 = float(found["sigma2"]) * scale**2
    if not np.isfinite([*ar, *ma, sigma2]).all():
        raise ValueError("the optimiser ended at coefficients that are not finite")
    fitted = Arima(d, 0.0, ar, ma, sigma2)
    if not np.isfinite(fitted.forecast(series, 1)).all():
        raise ValueError("the coefficients do not filter the series that they were fitted to")
    return fitted


def invertible(ma: tuple[float, ...]) -> tuple[float, ...]:
    """Return the moving average with the same autocorrelations whose filter forgets.

    Likelihood does not tell an inverse root from its reciprocal, and means over bins of a smooth workload drive roots
    to the unit circle; run as a recursion, a filter with a root outside it explodes.
    """
    if not ma:
        return ()
    inverse = np.roots([1.0, *ma])
    size = np.abs(inverse)
    inverse = np.where(size > 1.0, inverse / np.maximum(size, 1.0) ** 2, inverse)
    size = np.abs(inverse)
    inverse = np.where(size > LARGEST_INVERSE_ROOT, inverse / np.maximum(size, 1e-12) * LARGEST_INVERSE_ROOT, inverse)
    return tuple(float(value) for value in np.real(np.poly(inverse)[1:]))


LEAST_CELL_S = 10.0
KEEP_S = 7200.0


@dataclass(frozen=True)
class _Binned(Member):
    bin_wanted_s: ClassVar[float]
    series_wanted: ClassVar[int]  # bins to fit to, the newest
    least_series: ClassVar[int] = LEAST_SERIES
    order: ClassVar[tuple[int, int, int]]

    bin_s: float
    arima: Arima

    @classmethod
    def fit(cls, history: Workload, *, horizon_s: float = HORIZON_S, seed: int = 0) -> Self:  # noqa: ARG003
        """Fit to a history. Raises ``ValueError`` when too few bins follow its last long gap: 20, or 10 minutes."""
        span_s = stretched((cls.series_wanted + 1) * cls.bin_wanted_s, horizon_s)
        tail = Tail.of(history, stretched(LEAST_CELL_S, horizon_s), max(span_s, stretched(KEEP_S, horizon_s)))
        bin_s = max(stretched(cls.bin_wanted_s, horizon_s), tail.cell_s)
        series = bins_of(tail, bin_s)
        if len(series) < cls.least_series:
            raise ValueError(
                f"{cls.family} needs {cls.least_series} bins of {bin_s:g} s in a row; the history has {len(series)} "
                "since its last long gap"
            )
        return cls(tail.cell_s, stretched(KEEP_S, horizon_s), bin_s, cls._fitted(series[-cls.series_wanted :]))

    @classmethod
    def _fitted(cls, series: Values) -> Arima:
        return fit_fixed(series, cls.order)

    def project(self, tail: Tail, edges_s: Values) -> Values:
        """Return the model's forecast, bin means interpolated so that they keep their means."""
        return project(self.arima, self.bin_s, tail, edges_s)


@dataclass(frozen=True)
class FastArima(_Binned):
    """ARIMA(2, 1, 3) on means over 30 s of the last six hours: two modes of change that fade, under noise."""

    family: ClassVar[str] = "fast-arima"
    bin_wanted_s: ClassVar[float] = 30.0
    series_wanted: ClassVar[int] = 720
    order: ClassVar[tuple[int, int, int]] = (2, 1, 3)


@dataclass(frozen=True)
class LocalArima(_Binned):
    """ARIMA(p, 2, q) on means over 10 s of the last hour, orders by AICc: what goes on changing as it does just now."""

    family: ClassVar[str] = "local-arima"
    bin_wanted_s: ClassVar[float] = 10.0
    series_wanted: ClassVar[int] = 360

    @classmethod
    def _fitted(cls, series: Values) -> Arima:
        return fit_stepwise(series, 2)


@dataclass(frozen=True)
class MinuteArima(_Binned):
    """ARIMA(2, 1, 3) on means over a minute of the last six hours: less noise in each, and slower to see a turn."""

    family: ClassVar[str] = "minute-arima"
    bin_wanted_s: ClassVar[float] = 60.0
    series_wanted: ClassVar[int] = 360
    least_series: ClassVar[int] = 10
    order: ClassVar[tuple[int, int, int]] = (2, 1, 3)


@dataclass(frozen=True)
class Autoregression(_Binned):
    """ARIMA(12, 1, 0) on means over 30 s of the last six hours: what followed the same six minutes before."""

    family: ClassVar[str] = "autoregression"
    bin_wanted_s: ClassVar[float] = 30.0
    series_wanted: ClassVar[int] = 720

    @classmethod
    def _fitted(cls, series: Values) -> Arima:
        return fit_autoregression(series, 12)

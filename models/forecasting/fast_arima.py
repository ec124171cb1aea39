"""ARIMA models of fixed shape, fitted in a fraction of a second.

On the measured second-level traces an order chosen by AICc does worse than one for all (``benchmarks/forecast.py``):
what fits one step best runs away, or lies flat, over 30 of them.
"""

from dataclasses import dataclass
from typing import ClassVar, Self

from perdix.models.forecasting.arma import Arima
from perdix.models.forecasting.binned import LEAST_SERIES, bins_of, project
from perdix.models.forecasting.contract import HORIZON_S, Workload
from perdix.models.forecasting.fast_fit import fit_autoregression, fit_fixed, fit_stepwise
from perdix.models.forecasting.member import Member, stretched
from perdix.models.forecasting.tail import Tail
from perdix.telemetry.window import Values

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

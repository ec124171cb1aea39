"""Exponential smoothing and Theta, kept as the ARIMA models that they are.

statsforecast fits; the filter and the forecast are :class:`~perdix.models.forecasting.arma.Arima`'s. Additive
exponential smoothing without season is ARIMA(0, 1, 1), with trend ARIMA(0, 2, 2), with damped trend ARIMA(1, 1, 2)
(Hyndman et al. 2008, chapter 11); Theta is simple exponential smoothing with half the slope as drift (Hyndman and
Billah 2003).
"""

import warnings
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from perdix.models.forecasting.arma import LEAST_SERIES, Arima, bins_of, project
from perdix.models.forecasting.contract import HORIZON_S, Workload
from perdix.models.forecasting.failures import NotForecastableError
from perdix.models.forecasting.member import Member, lead_s, stretched
from perdix.models.forecasting.tail import Tail
from perdix.telemetry.window import Values

CELLS_FITTED = 360
KEEP_S = 7200.0


@dataclass(frozen=True)
class _Smoothed(Member):
    """A linear model of parts of the horizon, one after the other."""

    arima: Arima

    @classmethod
    def fit(cls, history: Workload, *, horizon_s: float = HORIZON_S, seed: int = 0) -> Self:  # noqa: ARG003
        """Fit to a history. Raises ``ValueError`` when fewer than 20 cells follow its last long gap."""
        cell_s = lead_s(history.step_s, horizon_s)
        tail = Tail.of(history, cell_s, (CELLS_FITTED + 1) * cell_s)
        series = bins_of(tail, cell_s)[-CELLS_FITTED:]
        if len(series) < LEAST_SERIES:
            raise NotForecastableError(
                f"{cls.family} needs {LEAST_SERIES} cells of {cell_s:g} s in a row; the history has {len(series)} "
                "since its last long gap"
            )
        size = float(np.std(np.diff(series)))
        if size <= 1e-12 * float(np.max(np.abs(series), initial=1.0)):
            return cls(cell_s, stretched(KEEP_S, horizon_s), Arima(1, 0.0, (), (), 0.0))  # constant: it stays so
        scaled = cls._fitted((series - series[0]) / size)
        arima = Arima(scaled.d, scaled.constant * size, scaled.ar, scaled.ma, scaled.sigma2 * size**2)
        return cls(cell_s, stretched(KEEP_S, horizon_s), arima)

    @classmethod
    @abstractmethod
    def _fitted(cls, series: Values) -> Arima:
        """Fit to a gap-free series whose steps have the size of one."""

    def project(self, tail: Tail, edges_s: Values) -> Values:
        """Return the model's forecast. Raises ``ValueError`` when nothing was measured lately."""
        return project(self.arima, self.cell_s, tail, edges_s)


@dataclass(frozen=True)
class ExponentialSmoothing(_Smoothed):
    """Additive error; no trend, a trend or a damped one by AICc."""

    family: ClassVar[str] = "ets"

    @classmethod
    def _fitted(cls, series: Values) -> Arima:
        found = _exponential(series, "AZN")
        _, trend, _, damped = found["components"]
        alpha, beta, _, phi = (float(value) for value in found["par"][:4])
        return as_arima(alpha, beta if trend == "A" else None, phi if damped == "D" else 1.0, float(found["sigma2"]))


@dataclass(frozen=True)
class Theta(_Smoothed):
    """Simple exponential smoothing that drifts by half the slope of the history."""

    family: ClassVar[str] = "theta"

    @classmethod
    def _fitted(cls, series: Values) -> Arima:
        found = _exponential(series, "ANN")
        slope = float(np.polynomial.Polynomial.fit(np.arange(len(series)), series, 1).convert().coef[1])
        plain = as_arima(float(found["par"][0]), None, 1.0, float(found["sigma2"]))
        return Arima(1, slope / 2.0, plain.ar, plain.ma, plain.sigma2)


def as_arima(alpha: float, beta: float | None, phi: float, sigma2: float) -> Arima:
    """Return the ARIMA that additive exponential smoothing is.

    ``alpha``, ``beta``: how much of an error goes into the level and into the slope; ``beta`` is ``None`` without a
    slope.
    ``phi``: what is left of the slope one step later; 1 undamped.
    """
    if beta is None:
        return Arima(1, 0.0, (), (alpha - 1.0,), sigma2)
    if phi >= 1.0:
        return Arima(2, 0.0, (), (alpha + beta - 2.0, 1.0 - alpha), sigma2)
    return Arima(1, 0.0, (phi,), (alpha + phi * beta - 1.0 - phi, phi * (1.0 - alpha)), sigma2)


def _exponential(series: Values, model: str) -> Mapping[str, Any]:
    """Fit exponential smoothing by statsforecast; return what it found."""
    from statsforecast.models import AutoETS  # noqa: PLC0415 -- seconds of import that only training pays

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        found: Mapping[str, Any] = AutoETS(season_length=1, model=model).fit(series).model_
    return found

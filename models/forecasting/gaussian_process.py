"""Kriging of the workload: the best linear forecast from two weeks of it, by a covariance that knows day and week.

Everything that was seen weighs in by how it varies together with what comes: the last minutes, the same time
yesterday, a week ago, and the level of the days between. No calendar is needed, only distances in time.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from perdix.models.forecasting.contract import HORIZON_S, Workload
from perdix.models.forecasting.covariance import NAMES, SHORT, SHORT_CELL_S, SLOW, Covariance, fitted
from perdix.models.forecasting.failures import NotForecastableError
from perdix.models.forecasting.member import Member, lead_s
from perdix.models.forecasting.regrid import rates_between
from perdix.models.forecasting.seasons import filled
from perdix.models.forecasting.tail import Tail
from perdix.settings.durations import DAY_S
from perdix.telemetry.window import Values

HOUR_S, BIN_S = 3600.0, 900.0
KEEP_DAYS = 15.0
KEEP_CELLS = 11_520  # eight days of minutes
LEAST_DAYS = 2.0
FINE_CELLS = 96  # the newest ones, taken one by one; older ones in bins of 15 min
WINDOW_DAYS = 0.5  # tails are taken in whole multiples of it, so that few sets of weights are needed
HOURS_FITTED, CELLS_FITTED = 504, 600
STEPS = (25, 15)  # of the optimiser: what is slow, what is fast


@dataclass(frozen=True)
class GaussianProcess(Member):
    """A Gaussian process on the standardised workload; its forecast is one product with a matrix of weights.

    Parameters of the covariance are fitted by maximum a-posteriori likelihood: what is slow on means over hours, what
    is fast on the newest cells. Slow and fast together reach from the next minute to the next week.
    """

    robust: ClassVar[bool]

    covariance: Covariance  # of the standardised series in cells of ``cell_s``
    ahead: int  # cells that are forecast; what lies beyond stays at the last one
    # centre, spread: mean and standard deviation of the transformed history, by which it is standardised
    centre: float
    spread: float
    # floor_per_s, offset_per_s: of the transformation, if it has any
    floor_per_s: float
    offset_per_s: float

    @classmethod
    @abstractmethod
    def shape(cls, per_s: Values) -> tuple[float, float]:
        """Return floor and offset of the transformation for finite rates of a history."""

    @classmethod
    @abstractmethod
    def transformed(cls, per_s: Values, floor_per_s: float, offset_per_s: float) -> Values:
        """Return rates on the scale on which they are taken to be normal."""

    @classmethod
    @abstractmethod
    def restored(cls, values: Values, floor_per_s: float, offset_per_s: float) -> Values:
        """Undo :meth:`transformed`."""

    @classmethod
    def fit(cls, history: Workload, *, horizon_s: float = HORIZON_S, seed: int = 0) -> Self:  # noqa: ARG003
        """Fit to a history.

        Raises ``ValueError`` when it spans less than two days, is mostly missing, or does not vary.
        """
        cell_s = lead_s(history.step_s, horizon_s)
        keep_s = min(KEEP_DAYS * DAY_S, KEEP_CELLS * cell_s)
        rates = filled(Tail.of(history, cell_s), LEAST_DAYS * DAY_S, cls.family)
        shape = cls.shape(rates)
        series = cls.transformed(rates, *shape)
        centre, spread = float(series.mean()), float(series.std())
        if not spread > 1e-9 * max(1.0, abs(centre)):
            raise NotForecastableError(f"{cls.family}: the workload does not vary; last-value says all there is to say")
        covariance = _fitted((series - centre) / spread, cell_s, robust=cls.robust)
        ahead = 2 * max(1, round(horizon_s / cell_s))
        return cls(cell_s, keep_s, covariance, ahead, centre, spread, *shape)

    def project(self, tail: Tail, edges_s: Values) -> Values:
        """Return the median forecast. Raises ``ValueError`` when less than half a day was measured lately."""
        means = tail.once(self, self.ahead, lambda: self._newest_and_ahead(tail))
        return rates_between(edges_s, means[:2], means[2:], self.cell_s)

    def _newest_and_ahead(self, tail: Tail) -> Values:
        rates = filled(tail, WINDOW_DAYS * DAY_S, self.family, self.keep_s)
        shape = self.floor_per_s, self.offset_per_s
        series = (self.transformed(rates, *shape) - self.centre) / self.spread
        window = max(1, round(WINDOW_DAYS * DAY_S / self.cell_s))
        series = series[-window * (len(series) // window) :]
        starts, ends = _bins(len(series), self.cell_s)
        means = np.add.reduceat(series, starts) / (ends - starts)
        level = series.mean()
        expected = level + self._weights(len(series)) @ (means - level)
        return np.concatenate([rates[-2:], self.restored(self.centre + self.spread * expected, *shape)])

    def _weights(self, count: int) -> Values:
        """Return what each bin of a tail of ``count`` cells weighs at each cell ahead, shape ``(ahead, bins)``."""
        if count not in self._known_weights:
            starts, ends = _bins(count, self.cell_s)
            lags = count + np.arange(self.ahead)[:, None] - np.arange(count)[None, :]
            lengths = (ends - starts).astype(np.float64)
            by_cell = self.covariance.at(np.arange(count + self.ahead, dtype=np.float64))[lags]
            towards = np.add.reduceat(by_cell, starts, axis=1) / lengths
            factor = cho_factor(self.covariance.between(starts, ends), lower=True)
            self._known_weights[count] = cho_solve(factor, towards.T).T
        return self._known_weights[count]

    @cached_property
    def _known_weights(self) -> dict[int, Values]:
        return {}

    def parameters(self) -> dict[str, Any]:
        """Return the covariance's parameters and the transformation."""
        return {
            "covariance": self.covariance.parameters,
            "ahead": self.ahead,
            "centre": self.centre,
            "spread": self.spread,
            "floor_per_s": self.floor_per_s,
            "offset_per_s": self.offset_per_s,
        }

    @classmethod
    def with_parameters(cls, cell_s: float, keep_s: float, parameters: Mapping[str, Any]) -> Self:
        """Rebuild."""
        return cls(
            cell_s,
            keep_s,
            Covariance.of(parameters["covariance"], cell_s),
            int(parameters["ahead"]),
            float(parameters["centre"]),
            float(parameters["spread"]),
            float(parameters["floor_per_s"]),
            float(parameters["offset_per_s"]),
        )


@dataclass(frozen=True)
class PlainGaussianProcess(GaussianProcess):
    """On the rates as they are: for workloads whose noise does not grow with them."""

    family: ClassVar[str] = "gaussian-process"
    robust: ClassVar[bool] = False

    @classmethod
    def shape(cls, per_s: Values) -> tuple[float, float]:  # noqa: ARG003
        """Return zeros: nothing is transformed."""
        return 0.0, 0.0

    @classmethod
    def transformed(cls, per_s: Values, floor_per_s: float, offset_per_s: float) -> Values:  # noqa: ARG003
        """Return the rates."""
        return per_s

    @classmethod
    def restored(cls, values: Values, floor_per_s: float, offset_per_s: float) -> Values:  # noqa: ARG003
        """Return the values."""
        return values


@dataclass(frozen=True)
class LogGaussianProcess(GaussianProcess):
    """On the logarithm of the rates above their floor: for a quiet base with bursts on it, and for rare outliers."""

    family: ClassVar[str] = "log-gaussian-process"
    robust: ClassVar[bool] = True

    @classmethod
    def shape(cls, per_s: Values) -> tuple[float, float]:
        """Return 98 % of the lowest rate, and a twentieth of what the median lies above that."""
        floor_per_s = 0.98 * float(per_s.min())
        offset_per_s = 0.05 * (float(np.median(per_s)) - floor_per_s)
        return floor_per_s, max(offset_per_s, 1e-3 * float(per_s.max()), 1e-9)

    @classmethod
    def transformed(cls, per_s: Values, floor_per_s: float, offset_per_s: float) -> Values:
        """Return the logarithm; what lies below the floor counts as the floor."""
        return np.asarray(np.log(np.maximum(per_s - floor_per_s, 0.0) + offset_per_s))

    @classmethod
    def restored(cls, values: Values, floor_per_s: float, offset_per_s: float) -> Values:
        """Undo the logarithm."""
        return np.asarray(np.exp(np.minimum(values, 50.0)) - offset_per_s + floor_per_s)


def _fitted(series: Values, cell_s: float, *, robust: bool) -> Covariance:
    """Fit what is slow on means over hours and then what is fast on the newest cells; all at once for long cells."""
    slow, fast = STEPS
    hour = max(1, round(HOUR_S / cell_s))
    start = Covariance.expected(cell_s)
    if cell_s >= SHORT_CELL_S:
        newest = series[-HOURS_FITTED:]
        return fitted(start, newest - newest.mean(), NAMES, robust=robust, steps=slow + fast)
    hours = series[len(series) % hour :].reshape(-1, hour).mean(axis=1)[-HOURS_FITTED:]
    by_hour = fitted(Covariance.expected(hour * cell_s), hours - hours.mean(), NAMES, robust=robust, steps=slow)
    logarithms = start.logarithms.copy()
    logarithms[: len(SLOW)] = by_hour.logarithms[: len(SLOW)]
    newest = series[-CELLS_FITTED:]
    level = series[-2 * CELLS_FITTED :].mean()
    free = ("level", "swing", "swing_days", "noise", *SHORT)
    return fitted(Covariance(logarithms, cell_s), newest - level, free, robust=robust, steps=fast)


def _bins(count: int, cell_s: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return boundaries of bins in cells: the newest cells one by one, those before in bins of 15 min or one cell."""
    length = max(1, round(BIN_S / cell_s))
    fine = min(count, FINE_CELLS) if length > 1 else 0
    coarse = np.arange(count - fine, 0, -length)[::-1]
    edges = np.concatenate([[0], coarse[coarse > 0], np.arange(count - fine + 1, count + 1)]).astype(np.int64)
    return edges[:-1], edges[1:]

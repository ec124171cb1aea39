"""MSTL: what repeats every day and week is taken off, the rest is forecast by an ARIMA, and what repeats is put back.

statsforecast decomposes and chooses the ARIMA when fitting; what is kept are one day, one week, and coefficients.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from perdix.models.forecasting.arma import Arima
from perdix.models.forecasting.contract import HORIZON_S, Workload
from perdix.models.forecasting.failures import NotForecastableError
from perdix.models.forecasting.fast_arima import fit_stepwise
from perdix.models.forecasting.member import Member, lead_s, stretched
from perdix.models.forecasting.regrid import rates_between
from perdix.models.forecasting.seasons import filled
from perdix.models.forecasting.tail import Tail
from perdix.settings.durations import DAY_S
from perdix.settings.stored import restored, stored
from perdix.telemetry.window import Values

WEEK_S = 7 * DAY_S
LEAST_DAYS, LEAST_WEEKS = 2.0, 2.0
BIN_S = 3600.0  # of what repeats: finer ones cost minutes for a week of them and follow noise
CELLS_FITTED = 500
KEEP_S = 14_400.0  # of the rest, at a horizon of 900 s: all that an ARIMA remembers


@dataclass(frozen=True)
class SeasonalTrend(Member):
    """A day and, from two weeks of history on, a week that repeat, and an ARIMA(p, 1, q) of the rest."""

    family: ClassVar[str] = "mstl"

    bin_s: float  # length of the bins of ``season``, seconds
    begin_s: float  # epoch seconds at which the first bin of ``season`` begins
    season: Values  # what repeats, records/s above the trend, one day or one week of bins
    arima: Arima  # of the rest, in cells of ``cell_s``

    @classmethod
    def fit(cls, history: Workload, *, horizon_s: float = HORIZON_S, seed: int = 0) -> Self:  # noqa: ARG003
        """Fit to a history. Raises ``ValueError`` when it spans less than two days or is mostly missing."""
        cell_s = lead_s(history.step_s, horizon_s)
        tail = Tail.of(history, cell_s)
        rates = filled(tail, LEAST_DAYS * DAY_S, cls.family)
        if float(np.ptp(rates)) <= 1e-9 * float(np.abs(rates).max()):
            raise NotForecastableError(f"{cls.family}: the workload does not vary; last-value says all there is to say")
        bins, bin_s = _binned(rates, cell_s)
        season = np.array([float(f"{value:.7g}") for value in _season(bins, bin_s)])  # as it is stored
        begin_s = tail.measured_end_s - bin_s * len(season)
        newest = rates[-CELLS_FITTED:]
        rest = newest - _at(season, bin_s, begin_s, _middles(tail.measured_end_s, len(newest), cell_s))
        return cls(cell_s, stretched(KEEP_S, horizon_s), bin_s, begin_s, season, fit_stepwise(rest, 1))

    def project(self, tail: Tail, edges_s: Values) -> Values:
        """Return the forecast. Raises ``ValueError`` when too little was measured lately."""
        steps = int(np.ceil(edges_s[-1] / self.cell_s - 1e-9))
        means = tail.once(self, steps, lambda: self._newest_and_ahead(tail, steps))
        return rates_between(edges_s, means[:2], means[2:], self.cell_s)

    def _newest_and_ahead(self, tail: Tail, steps: int) -> Values:
        rates = filled(tail, 2 * self.cell_s, self.family, self.keep_s)
        end_s = tail.measured_end_s
        repeats = _at(self.season, self.bin_s, self.begin_s, _middles(end_s, len(rates), self.cell_s))
        ahead_s = end_s + self.cell_s * (np.arange(steps, dtype=np.float64) + 0.5)
        ahead = self.arima.forecast(rates - repeats, steps) + _at(self.season, self.bin_s, self.begin_s, ahead_s)
        return np.concatenate([rates[-2:], ahead])

    def parameters(self) -> dict[str, Any]:
        """Return what repeats, and the ARIMA."""
        return {
            "bin_s": self.bin_s,
            "begin_s": self.begin_s,
            "season": self.season.tolist(),
            "arima": stored(self.arima),
        }

    @classmethod
    def with_parameters(cls, cell_s: float, keep_s: float, parameters: Mapping[str, Any]) -> Self:
        """Rebuild. Raises ``ValueError`` when nothing repeats in it."""
        season = np.asarray(parameters["season"], dtype=np.float64)
        if season.ndim != 1 or not len(season) or not np.isfinite(season).all():
            raise ValueError("what repeats is no row of numbers")
        arima = restored(Arima, parameters["arima"])
        return cls(cell_s, keep_s, float(parameters["bin_s"]), float(parameters["begin_s"]), season, arima)


def _binned(rates: Values, cell_s: float) -> tuple[Values, float]:
    """Return the means of bins of about an hour, the newest ends with the cells, and their length in seconds.

    They divide a day, and are of whole cells where such bins do.
    """
    each = max(1, round(BIN_S / cell_s))
    bin_s = each * cell_s
    if DAY_S % bin_s == 0.0:
        return rates[len(rates) % each :].reshape(-1, each).mean(axis=1), bin_s
    bin_s = BIN_S if cell_s <= BIN_S else DAY_S / max(1, int(DAY_S // cell_s))
    return Tail(0.0, cell_s, rates, cell_s * len(rates)).bins(bin_s, np.inf), bin_s


def _season(bins: Values, bin_s: float) -> Values:
    """Return the newest day, or week where there are two, of what repeats in a series."""
    from statsforecast.mstl import mstl  # noqa: PLC0415 -- seconds of import that only training pays

    day, week = round(DAY_S / bin_s), round(WEEK_S / bin_s)
    periods = [day, week] if len(bins) >= LEAST_WEEKS * week else [day]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        parts = mstl(bins, periods)
    seasons = [np.asarray(parts[name], dtype=np.float64) for name in parts.columns if name.startswith("seasonal")]
    return np.asarray(sum(seasons))[-periods[-1] :]


def _at(season: Values, bin_s: float, begin_s: float, epoch_s: Values) -> Values:
    """Return what repeats at moments in time, by lines between the middles of bins."""
    place = (epoch_s - begin_s) / bin_s - 0.5
    before = np.floor(place).astype(int)
    share = place - before
    count = len(season)
    return np.asarray((1.0 - share) * season[before % count] + share * season[(before + 1) % count])


def _middles(end_s: float, count: int, cell_s: float) -> Values:
    return end_s - cell_s * (np.arange(count, 0, -1, dtype=np.float64) - 0.5)

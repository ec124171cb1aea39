"""Rolling origins: what a forecaster would have said in the past, from what was known then, against what came."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TypeVar

import numpy as np

from models.forecasting.contract import Forecast, Forecaster, Values, Workload
from models.forecasting.errors import coverage, error_of_maximum, mae, under_forecast_rate, wape
from models.forecasting.tail_forecaster import TailForecaster

HORIZONS_S = (60.0, 300.0, 900.0)
QUANTILE = 0.9
Timer = Callable[[], float]
F = TypeVar("F", bound=Forecaster)


@dataclass(frozen=True)
class Backtest:
    """The forecasts of one family from a row of origins, and their errors.

    Attributes
    ----------
    origins_s
        Epoch seconds, ascending, shape ``(origins,)``.
    actual, forecast, upper
        Truth, mean forecast and its 0.9 quantile, records/s, shape ``(origins, steps)``; the truth is NaN where it was
        not measured or lies after the end of the history.
    in_sample
        True when the parameters had seen a part of the truth, so that the errors flatter.
    fit_s, update_s, forecast_s
        Median seconds of one fit (NaN when nothing was fitted), one update, one forecast.
    state_bytes
        Length of the state as JSON.
    """

    family: str
    step_s: float
    origins_s: Values
    actual: Values
    forecast: Values
    upper: Values
    in_sample: bool = False
    fit_s: float = float("nan")
    update_s: float = float("nan")
    forecast_s: float = float("nan")
    state_bytes: int = 0

    def wape(self, horizon_s: float = HORIZONS_S[-1]) -> float:
        """Return the WAPE of all steps up to ``horizon_s`` of all origins together."""
        steps = self._steps(horizon_s)
        return wape(self.actual[:, :steps], self.forecast[:, :steps])

    def wape_by_origin(self, horizon_s: float = HORIZONS_S[-1]) -> Values:
        """Return one WAPE per origin, shape ``(origins,)``; NaN where there was no truth."""
        steps = self._steps(horizon_s)
        pairs = zip(self.actual[:, :steps], self.forecast[:, :steps], strict=True)
        return np.array([wape(actual, forecast) for actual, forecast in pairs])

    def errors_of_maximum(self) -> Values:
        """Return the signed error of the highest rate of the horizon per origin, shape ``(origins,)``."""
        pairs = zip(self.actual, self.forecast, strict=True)
        return np.array([error_of_maximum(actual, forecast) for actual, forecast in pairs])

    @property
    def evidence(self) -> int:
        """How many origins have a measured truth in at least half of their steps."""
        return int((np.isfinite(self.actual).mean(axis=1) >= 0.5).sum()) if len(self.actual) else 0

    def _steps(self, horizon_s: float) -> int:
        return max(1, int(np.ceil(horizon_s / self.step_s - 1e-9)))

    def to_row(self) -> dict[str, float | int | str | bool]:
        """Return the metrics as one flat row: errors as shares of 1, times in seconds."""
        maxima = self.errors_of_maximum()
        finite = maxima[np.isfinite(maxima)]
        return {
            "family": self.family,
            "origins": len(self.origins_s),
            "evidence": self.evidence,
            "in_sample": self.in_sample,
            **{f"wape_{horizon_s:.0f}s": self.wape(horizon_s) for horizon_s in HORIZONS_S},
            "mae_per_s": mae(self.actual, self.forecast),
            "coverage_p90": coverage(self.actual, self.upper),
            "maximum_bias": float(finite.mean()) if len(finite) else float("nan"),
            "maximum_under_forecast_rate": under_forecast_rate(maxima),
            "fit_s": self.fit_s,
            "update_s": self.update_s,
            "forecast_s": self.forecast_s,
            "state_bytes": self.state_bytes,
        }


@dataclass
class _Record:
    """What accumulates over the origins of one backtest."""

    forecasts: list[Forecast] = field(default_factory=list)
    fits_s: list[float] = field(default_factory=list)
    updates_s: list[float] = field(default_factory=list)
    forecasts_s: list[float] = field(default_factory=list)


def spaced_origins(history: Workload, count: int, first_s: float, horizon_s: float = HORIZONS_S[-1]) -> Values:
    """Return up to ``count`` origins on the history's grid, from ``first_s`` to one horizon before its end.

    Fewer when the grid has fewer steps there; empty when the history ends before.
    """
    first = int(np.ceil((first_s - history.start_s) / history.step_s - 1e-9))
    last = len(history) - int(np.ceil(horizon_s / history.step_s - 1e-9))
    if last < max(first, 1):
        return np.empty(0)
    steps = np.unique(np.linspace(max(first, 1), last, count).astype(int))
    return history.start_s + history.step_s * steps


def backtest(
    family: type[Forecaster],
    history: Workload,
    *,
    origins_s: Sequence[float] | Values,
    horizon_s: float = HORIZONS_S[-1],
    refit_every: int = 0,
    seed: int = 0,
    timer: Timer = time.perf_counter,
) -> Backtest:
    """Judge a family: fit at the first origin, update to each next, and refit at every ``refit_every``-th (0: never).

    A forecast from an origin sees only the steps that had ended by then.

    Raises
    ------
    ValueError
        When there is no origin, or when the family cannot be fitted to what precedes the first.
    """
    record = _Record()
    forecaster: Forecaster | None = None
    for index, end in enumerate(_ends(history, origins_s)):
        if forecaster is None or (refit_every and index % refit_every == 0):
            began = timer()
            forecaster = family.fit(_until(history, end), seed=seed)
            record.fits_s.append(timer() - began)
            seen = end
        forecaster = _step(forecaster, _until(history, end, seen), horizon_s, record, timer)
        seen = end
    if forecaster is None:
        raise ValueError(_NO_ORIGIN)
    return _judged(forecaster, history, record)


def backtest_fitted(
    forecaster: TailForecaster,
    history: Workload,
    *,
    origins_s: Sequence[float] | Values,
    horizon_s: float = HORIZONS_S[-1],
    timer: Timer = time.perf_counter,
) -> Backtest:
    """Judge a forecaster as it is, a champion for instance, without refitting; its tail is rebuilt from the history.

    Its parameters may have seen what lies before the end of its own tail: ``in_sample`` says so.
    """
    record = _Record()
    fitted_until_s = forecaster.tail.end_s
    seen: int | None = None
    for end in _ends(history, origins_s):
        forecaster = forecaster.on(_until(history, end)) if seen is None else forecaster
        forecaster = _step(forecaster, _until(history, end, end if seen is None else seen), horizon_s, record, timer)
        seen = end
    if seen is None:
        raise ValueError(_NO_ORIGIN)
    return _judged(forecaster, history, record, in_sample=record.forecasts[0].origin_s < fitted_until_s)


_NO_ORIGIN = "no origin to forecast from; give origins inside the history, with a horizon of truth after them"


def _ends(history: Workload, origins_s: Sequence[float] | Values) -> list[int]:
    """Return, for every origin, how many steps of the history had ended by then."""
    ends = np.floor((np.sort(np.asarray(origins_s, dtype=np.float64)) - history.start_s) / history.step_s + 1e-9)
    return [int(end) for end in ends if 0 < end <= len(history)]


def _until(history: Workload, end: int, begin: int = 0) -> Workload:
    return Workload(history.start_s + begin * history.step_s, history.step_s, history.per_s[begin:end])


def _step(forecaster: F, newly: Workload, horizon_s: float, record: _Record, timer: Timer) -> F:
    if len(newly):
        began = timer()
        forecaster = forecaster.update(newly)
        record.updates_s.append(timer() - began)
    began = timer()
    record.forecasts.append(forecaster.forecast(horizon_s, newly.step_s))
    record.forecasts_s.append(timer() - began)
    return forecaster


def _judged(forecaster: Forecaster, history: Workload, record: _Record, *, in_sample: bool = False) -> Backtest:
    steps = len(record.forecasts[0].mean)
    padded = np.concatenate([history.per_s, np.full(steps, np.nan)])
    starts = [round((made.origin_s - history.start_s) / history.step_s) for made in record.forecasts]
    return Backtest(
        family=forecaster.family,
        step_s=history.step_s,
        origins_s=np.array([made.origin_s for made in record.forecasts]),
        actual=np.array([padded[start : start + steps] for start in starts]),
        forecast=np.array([made.mean for made in record.forecasts]),
        upper=np.array([made.quantiles[QUANTILE] for made in record.forecasts]),
        in_sample=in_sample,
        fit_s=median(record.fits_s) if record.fits_s else float("nan"),
        update_s=median(record.updates_s) if record.updates_s else float("nan"),
        forecast_s=median(record.forecasts_s),
        state_bytes=len(json.dumps(forecaster.to_state())),
    )

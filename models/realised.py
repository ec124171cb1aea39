"""How a forecast turned out, once its truth has come."""

import math
from dataclasses import dataclass

import numpy as np

from perdix.models.forecasting.contract import Forecast, Workload
from perdix.models.forecasting.errors import wape
from perdix.models.forecasting.tail import Tail
from perdix.telemetry.window import Values

FIRST_MINUTE_S = 60.0
PART_S = 60.0  # noise that no forecast can know averages out within a minute
NEEDED_COVERAGE = 0.5
LEAST_RECORDS = 1.0  # records are whole: where none arrives, a forecast of less than one is a forecast of none


@dataclass(frozen=True)
class Missed:
    """How far a forecast was off over its whole horizon, and how far the last value would have been.

    Sums over minutes, of means of a minute, in records/s.
    """

    origin_s: float  # epoch seconds of the forecast
    # by_forecast, by_last_value: sums of absolute errors; the last value is the mean of the minute before the origin
    by_forecast: float
    by_last_value: float
    actual: float  # sum of what arrived
    horizon_s: float = 0.0  # seconds that the forecast covered


@dataclass(frozen=True)
class Realised:
    """How a forecast turned out."""

    # first_minute_wape, horizon_wape: WAPE over the first 60 s (what Daedalus watches) and over all that has come true;
    # ``None`` where less than half of that part was measured
    first_minute_wape: float | None
    horizon_wape: float | None
    # The whole horizon against last value; ``None`` like ``horizon_wape``, and where the minute before is not known
    missed: Missed | None = None


def truth_of(observed: Workload) -> Tail:
    """Return what was measured in the form that forecasts are compared with: of many forecasts, made once."""
    return Tail(observed.start_s, observed.step_s, observed.per_s, observed.end_s)


def come_true(forecast: Forecast, observed: Workload | Tail) -> Realised:
    """Compare a forecast with what was measured since, on the forecast's own steps.

    Only steps that have ended count. The whole horizon is judged once all of it has passed.
    """
    truth = observed if isinstance(observed, Tail) else truth_of(observed)
    passed = truth.end_s >= forecast.origin_s + forecast.horizon_s - 1e-6
    minute = max(1, math.ceil(FIRST_MINUTE_S / forecast.step_s))
    steps = len(forecast.mean if passed else forecast.mean[:minute])
    edges_s = forecast.origin_s + forecast.step_s * np.arange(steps + 1, dtype=np.float64)
    actual = np.where(edges_s[1:] <= truth.end_s + 1e-6, truth.means(edges_s), np.nan)
    first, whole = _judged(forecast, actual[:minute]), _judged(forecast, actual) if passed else None
    return Realised(first, whole, None if whole is None else _missed(forecast, truth))


def _whole(forecast: Values, actual: Values, step_s: float) -> Values:
    """Return a forecast, records/s, shape ``(n,)``; zeros where no record arrived and it is of less than one in all.

    ``actual``: records/s, shape ``(n,)``, NaN where it was not measured.
    """
    known = np.isfinite(actual)
    if actual[known].any() or not forecast[known].sum() * step_s < LEAST_RECORDS:
        return forecast
    return np.zeros_like(forecast)


def _judged(forecast: Forecast, actual: Values) -> float | None:
    """Return the WAPE over as many steps as ``actual`` has, records/s; ``None`` where too few of them were measured."""
    said = forecast.mean[: len(actual)]
    if not len(said) or np.isfinite(actual).sum() < NEEDED_COVERAGE * len(said):
        return None
    return wape(actual, _whole(said, actual, forecast.step_s))


def _missed(forecast: Forecast, truth: Tail) -> Missed | None:
    width = max(1, round(PART_S / forecast.step_s))
    count = len(forecast.mean) // width
    if count == 0:
        return None
    said = forecast.mean[: count * width].reshape(count, width).mean(axis=1)
    part_s = width * forecast.step_s
    actual = truth.means(forecast.origin_s + part_s * np.arange(-1, count + 1, dtype=np.float64))
    last, actual = actual[0], actual[1:]
    said = _whole(said, actual, part_s)
    known = np.isfinite(actual)
    if not np.isfinite(last) or known.sum() < NEEDED_COVERAGE * count:
        return None
    by_forecast = float(np.abs(actual - said)[known].sum())
    by_last, arrived = float(np.abs(actual - last)[known].sum()), float(actual[known].sum())
    return Missed(forecast.origin_s, by_forecast, by_last, arrived, forecast.horizon_s)

"""For how long a scale-out is likely to suit: what the delay of going there is shared by."""

from __future__ import annotations

import numpy as np

from perdix.models.forecasting.contract import Forecast
from perdix.models.recovery.prediction import forecast_rates

SLOPE_SHARE = 1 / 3  # of the horizon, its end: what the load goes on doing beyond it


def expected_stay_s(
    forecast: Forecast, low_per_s: float, high_per_s: float, *, most_s: float, quantile: float | None = None
) -> float:
    """Return how long the load stays between two rates, at most ``most_s``.

    Beyond its horizon the forecast goes on along the slope of its last third.

    Raises ``ValueError`` when the forecast is empty or has NaN.

    ``low_per_s``, ``high_per_s``: below the one a smaller scale-out will do, above the other a larger one is needed;
    records/s.
    """
    rates, step_s = forecast_rates(forecast, quantile), forecast.step_s
    half = max(1, round(SLOPE_SHARE * len(rates) / 2))
    before = rates[-2 * half : -half] if len(rates) > half else rates
    slope = float(rates[-half:].mean() - before.mean()) / half
    beyond = max(0, int(np.ceil(most_s / step_s)) - len(rates))
    path = np.concatenate([rates, rates[-1] + slope * np.arange(1, beyond + 1)])
    outside = np.flatnonzero((path < low_per_s) | (path > high_per_s))
    return min(most_s, float(outside[0]) * step_s) if len(outside) else most_s

"""What a rescale costs those who wait for results: by how much it delays records."""

import math

import numpy as np

from perdix.models.forecasting.contract import Forecast
from perdix.models.recovery.prediction import forecast_rates


def mean_delay_s(downtime_s: float, recovery_s: float, *, over_s: float) -> float:
    """Return by how many seconds a stop delays each record that arrives within ``over_s`` of it, on average.

    Under a flat workload ``r`` the backlog grows to ``r * downtime`` while the job stands still, and is gone when it
    has recovered: a triangle of ``r * downtime * recovery / 2`` record-seconds, shared by ``r * over`` records.

    Raises ``ValueError`` when a time is NaN or negative, the downtime infinite, or ``over_s`` not above 0.

    ``downtime_s``, ``recovery_s``: from the stop until the restart, and until nothing waits any more; an infinite
    recovery delays without end.
    ``over_s``: time that shares the delay, such as the time for which a scale-out is kept.
    """
    if not (0 <= downtime_s < math.inf and recovery_s >= 0):
        raise ValueError(f"times must not be negative or NaN: downtime {downtime_s}, recovery {recovery_s}")
    if not 0 < over_s < math.inf:
        raise ValueError(f"the delay must be shared by a time above 0, found {over_s}")
    if downtime_s == 0:
        return 0.0
    return downtime_s * recovery_s / (2.0 * over_s)


def waiting_record_s(
    forecast: Forecast,
    capacity_per_s: float,
    downtime_s: float,
    backlog_records: float,
    *,
    over_s: float,
    quantile: float | None = None,
) -> float:
    """Return what waits within ``over_s`` of the forecast's origin: the backlog summed over time, in record-seconds.

    The job stands still for ``downtime_s``, then works ``capacity_per_s`` off; the backlog follows
    ``b_t = max(0, b_{t-1} + arrivals_t - work_t)`` step by step. The forecast keeps its last value beyond its horizon.

    Raises ``ValueError`` when the forecast is empty or has NaN.

    ``backlog_records``: what waits at the origin, and what is to be done again.
    """
    rates = forecast_rates(forecast, quantile)
    steps = max(1, round(over_s / forecast.step_s))
    rates = np.concatenate((rates[:steps], np.full(max(0, steps - len(rates)), rates[-1])))
    ends_s = forecast.step_s * np.arange(1, steps + 1)
    works_s = np.clip(ends_s - downtime_s, 0.0, forecast.step_s)
    surplus = np.cumsum(rates * forecast.step_s - capacity_per_s * works_s)
    waits = surplus - np.minimum(-backlog_records, np.minimum.accumulate(surplus))
    return float(waits.sum()) * forecast.step_s

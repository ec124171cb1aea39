"""How long a job will take to catch up after a stop, by forecast, capacity and downtime (Daedalus 3.4)."""

import math

import numpy as np
from numpy.typing import ArrayLike

from perdix.models.forecasting.contract import Forecast
from perdix.telemetry.window import Values


def predict_recoveries_s(
    forecast: Forecast,
    capacities_per_s: ArrayLike,
    downtimes_s: ArrayLike,
    checkpoint_interval_s: float,
    recent_workload_per_s: float,
    *,
    lag_records: float = 0.0,
    quantile: float | None = None,
) -> Values:
    """Return the recovery time of every candidate: from the stop until caught up, in seconds.

    The job stops at the forecast's origin. Work to do is the consumer lag, one whole checkpoint interval of the recent
    workload to be processed again (the worst case), and all that arrives. It is caught up at the first ``t`` with::

        capacity * (t - downtime)  >=  replay + lag + arrivals(t)

    so the downtime counts once, and a forecast above the capacity adds backlog. The forecast is constant within a step
    and keeps its last value beyond the horizon.

    Raises ``ValueError`` when the forecast is empty or has NaN, or a number is NaN or negative.

    ``capacities_per_s``, ``downtimes_s``: shape ``(n,)`` or broadcastable to it; records/s and seconds. A capacity that
    is NaN or not above 0 never catches up.
    ``checkpoint_interval_s``: time between checkpoints.
    ``recent_workload_per_s``: mean workload over the last checkpoint interval, records/s.
    ``lag_records``: consumer lag at the stop, records.
    ``quantile``: use this quantile of the forecast instead of its mean.

    Returns shape ``(n,)``; infinite where the job never catches up.
    """
    rates = forecast_rates(forecast, quantile)
    backlog = backlog_of(checkpoint_interval_s, recent_workload_per_s, lag_records)
    capacities, downtimes = candidates(capacities_per_s, downtimes_s)
    if rates.min() == rates.max() or downtimes.size == 0:
        return _beyond(capacities, downtimes, backlog, rates[-1], horizon_s=0.0, arrived=0.0)
    return _through(rates, forecast.step_s, capacities, downtimes, backlog)


def _through(rates: Values, step_s: float, capacities: Values, downtimes: Values, backlog: float) -> Values:
    """Find the step in which the work done first reaches the work to do; shape ``(n,)``."""
    ends = step_s * np.arange(1, len(rates) + 1)
    arrived = np.cumsum(rates) * step_s
    # Before the restart the job does nothing: the negative product there is below any backlog, as it must be.
    spare = capacities[:, None] * (ends - downtimes[:, None]) - arrived
    reached = (spare >= backlog) & (capacities > 0)[:, None]
    within = reached.any(axis=1)
    step = np.argmax(reached, axis=1)
    found = _beyond(capacities, downtimes, backlog, rates[-1], horizon_s=ends[-1], arrived=arrived[-1])
    gain = capacities - rates[step]
    with np.errstate(divide="ignore", invalid="ignore"):
        crossing = ends[step] - (spare[np.arange(len(step)), step] - backlog) / gain
    # A gain that is not positive can only reach the backlog at the restart itself, with nothing to catch up.
    crossing = np.where(gain > 0, crossing, ends[step] - step_s)
    return np.where(within, np.maximum(crossing, downtimes), found)


def _beyond(
    capacities: Values, downtimes: Values, backlog: float, rate: float, *, horizon_s: float, arrived: float
) -> Values:
    """Return when candidates that have not caught up by ``horizon_s`` do so, the workload staying at ``rate``."""
    start = np.maximum(downtimes, horizon_s)
    behind = backlog + arrived + rate * (start - horizon_s) - capacities * (start - downtimes)
    gain = capacities - rate
    with np.errstate(divide="ignore", invalid="ignore"):
        found = start + np.maximum(behind, 0.0) / gain
    caught_up = (behind <= 0) & (capacities > 0)
    return np.where(gain > 0, found, np.where(caught_up, start, np.inf))


def backlog_of(checkpoint_interval_s: float, recent_workload_per_s: float, lag_records: float) -> float:
    """Return the records that wait when a job stops: a whole checkpoint interval to be done again, and the lag.

    Raises ``ValueError`` when one is NaN, infinite or negative.
    """
    replay = _known("recent workload", recent_workload_per_s) * _known("checkpoint interval", checkpoint_interval_s)
    return replay + _known("consumer lag", lag_records)


def candidates(capacities_per_s: ArrayLike, downtimes_s: ArrayLike) -> tuple[Values, Values]:
    """Return capacities and downtimes in one shape. Raises ``ValueError`` for a NaN, infinite or negative downtime."""
    capacities, downtimes = np.broadcast_arrays(np.asarray(capacities_per_s, float), np.asarray(downtimes_s, float))
    if not (np.isfinite(downtimes).all() and (downtimes >= 0).all()):
        raise ValueError(f"downtimes must be finite and not negative: {downtimes.tolist()}")
    return capacities, downtimes


def forecast_rates(forecast: Forecast, quantile: float | None) -> Values:
    """Return the forecast that counts, records/s; raises ``ValueError`` when it is empty or has NaN."""
    rates = np.asarray(forecast.mean if quantile is None else forecast.quantiles[quantile], float)
    if rates.size == 0:
        raise ValueError("the forecast has no steps: forecast at least the target recovery time ahead")
    missing = int(np.count_nonzero(~np.isfinite(rates)))
    if missing:
        raise ValueError(f"{missing} of {rates.size} forecast steps are not finite: use the fallback forecast")
    return rates


def _known(name: str, value: float) -> float:
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{name} must be finite and not negative to predict a recovery, found {value}")
    return value

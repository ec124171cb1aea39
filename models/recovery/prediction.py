"""How long a job takes to catch up after a stop (Daedalus 3.4; Phoebe 3.4: M_R), and how much that delays records."""

import math

import numpy as np
from numpy.typing import ArrayLike

from perdix.models.forecasting.contract import Forecast
from perdix.telemetry.window import Values

CLOSE_TO_ZERO_S = 1.0  # the paper's: the step after which the job counts as caught up
MOST_STEPS = 10_000


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
    if (rates == rates[0]).all() or downtimes.size == 0:
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
    gain = capacities - rates[step]
    with np.errstate(divide="ignore", invalid="ignore"):
        crossing = ends[step] - (spare[np.arange(len(step)), step] - backlog) / gain
    # A gain that is not positive can only reach the backlog at the restart itself, with nothing to catch up.
    found: Values = np.maximum(np.where(gain > 0, crossing, ends[step] - step_s), downtimes)
    if within.all():
        return found
    beyond = _beyond(capacities, downtimes, backlog, rates[-1], horizon_s=ends[-1], arrived=arrived[-1])
    return np.where(within, found, beyond)


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
    capacities, downtimes = np.asarray(capacities_per_s, float), np.asarray(downtimes_s, float)
    if capacities.shape != downtimes.shape:
        capacities, downtimes = np.broadcast_arrays(capacities, downtimes)
    if not (np.isfinite(downtimes).all() and (downtimes >= 0).all()):
        raise ValueError(f"downtimes must be finite and not negative: {downtimes.tolist()}")
    return capacities, downtimes


def forecast_rates(forecast: Forecast, quantile: float | None) -> Values:
    """Return the forecast that counts, records/s; raises ``ValueError`` when it is empty or has NaN."""
    rates = np.asarray(forecast.mean if quantile is None else forecast.quantiles[quantile], float)
    if rates.size == 0:
        raise ValueError("the forecast has no steps: forecast at least the target recovery time ahead")
    known = np.isfinite(rates)
    if not known.all():
        missing = np.count_nonzero(~known)
        raise ValueError(f"{missing} of {rates.size} forecast steps are not finite: use the fallback forecast")
    return rates


def _known(name: str, value: float) -> float:
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{name} must be finite and not negative to predict a recovery, found {value}")
    return value


def geometric_recoveries_s(
    forecast: Forecast,
    capacities_per_s: ArrayLike,
    downtimes_s: ArrayLike,
    checkpoint_interval_s: float,
    recent_workload_per_s: float,
    *,
    lag_records: float = 0.0,
    quantile: float | None = None,
    close_to_zero_s: float = CLOSE_TO_ZERO_S,
) -> Values:
    """Return the recovery time ``R = D + sum of c(n)`` of every candidate, in seconds.

    The job stops at the forecast's origin ``t0``. ``c(0)`` is the time to process what arrives from the last checkpoint
    to the restart, ``c(n)`` the time to process what arrived during step ``n - 1``, each at T_max. The first step below
    ``close_to_zero_s`` ends the recursion and counts; so the sum approaches what ``predict_recoveries_s`` says exactly,
    from below.

    Beyond the horizon the forecast keeps its last value, as there. The published program stops at the horizon instead,
    so that a job which never catches up has a finite recovery time; here it is infinite.

    ``capacities_per_s``, ``downtimes_s``: t_max and D of the candidates.
    ``checkpoint_interval_s``: i: the last checkpoint completed that long before the stop, the worst case.
    ``lag_records``: processed in ``c(0)``, too. The paper has none.
    ``recent_workload_per_s``, ``quantile``: these and all the others as of
    :func:`predict_recoveries_s`, errors included.
    ``close_to_zero_s``: seconds below which a step is the last.

    Returns shape ``(n,)``; infinite where the job never catches up.
    """
    rates = forecast_rates(forecast, quantile)
    backlog = backlog_of(checkpoint_interval_s, recent_workload_per_s, lag_records)
    capacities, downtimes = candidates(capacities_per_s, downtimes_s)
    arrived = _Arrivals(rates, forecast.step_s)
    return _recursed(arrived, capacities, downtimes, backlog, close_to_zero_s)


class _Arrivals:
    """Records that arrive from the forecast's origin until a time, the last rate going on beyond the horizon."""

    def __init__(self, rates: Values, step_s: float) -> None:
        self.horizon_s = step_s * len(rates)
        self.last_per_s = float(rates[-1])
        self._ends = step_s * np.arange(len(rates) + 1)
        self._records = np.concatenate([[0.0], np.cumsum(rates) * step_s])

    def until(self, times_s: Values) -> Values:
        """Return the records, of the times' shape."""
        within = np.interp(times_s, self._ends, self._records)
        return np.asarray(within + self.last_per_s * np.maximum(times_s - self.horizon_s, 0.0), float)


def _recursed(
    arrived: _Arrivals, capacities: Values, downtimes: Values, backlog: float, close_to_zero_s: float
) -> Values:
    """Run the recursion of all candidates side by side."""
    shape = downtimes.shape
    per_s, began = capacities.reshape(-1), downtimes.reshape(-1)
    found = np.full(began.shape, np.inf)
    able = np.flatnonzero(np.isfinite(per_s) & (per_s > 0.0))
    ended = began[able]
    step = (backlog + arrived.until(ended)) / per_s[able]
    for _ in range(MOST_STEPS):
        beyond = ended >= arrived.horizon_s
        over = (step < close_to_zero_s) | beyond
        # From here on the rate is constant: the rest of the sequence is c / (1 - r), or without end.
        gain = per_s[able] - arrived.last_per_s
        with np.errstate(divide="ignore", invalid="ignore"):
            rest = np.where(step <= 0.0, 0.0, np.where(gain > 0.0, step * per_s[able] / gain, np.inf))
        found[able[over]] = (ended + np.where(step < close_to_zero_s, step, rest))[over]
        able, began, step, ended = able[~over], ended[~over], step[~over], (ended + step)[~over]
        if not able.size:
            break
        step = (arrived.until(ended) - arrived.until(began)) / per_s[able]
    else:
        found[able] = np.inf
    return found.reshape(shape)


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

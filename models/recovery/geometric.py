"""Recovery time by Phoebe's geometric recursion over the forecast (3.2 and 3.4: M_R)."""

import numpy as np
from numpy.typing import ArrayLike

from perdix.models.forecasting.contract import Forecast
from perdix.models.recovery.prediction import backlog_of, candidates, forecast_rates
from perdix.telemetry.window import Values

CLOSE_TO_ZERO_S = 1.0  # the paper's: the step after which the job counts as caught up
MOST_STEPS = 10_000


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
    :func:`perdix.models.recovery.prediction.predict_recoveries_s`, errors included.
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

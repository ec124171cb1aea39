"""What one decision of ``perdix`` costs, by how many scale-outs it may choose from: the policy alone, in one process.

``python -m benchmarks.tick`` prints it. The load is on and off by the half hour for twelve hours and rises now, so that
most sizes were overtaken before; capacities bend, as keys and contention have them.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from benchmarks.harness import seconds
from perdix.models.capacity.contract import Estimate
from perdix.models.forecasting.contract import HORIZON_S, Forecast
from perdix.models.recovery.downtime import Downtimes
from perdix.policies.contract import Situation
from perdix.policies.planning.policy import Perdix
from perdix.settings.stream_job import Bounds, Objectives

NOW_S = 1_700_000_000.0
MINUTES, HALF_HOUR = 720, 30
WORKER_PER_S = 1_000.0
REPEATS = 25


def decision_ms(sizes: int) -> float:
    """Return the milliseconds that a decision among ``sizes`` scale-outs takes, the median of some."""
    policy, situation = Perdix(), _situation(sizes, np.random.default_rng(1))
    return 1_000.0 * float(np.median([seconds(partial(policy.decide, situation)) for _ in range(REPEATS)]))


def _situation(sizes: int, rng: np.random.Generator) -> Situation:
    per_s = {n: WORKER_PER_S * n**0.9 for n in range(1, sizes + 1)}
    high, low = 0.9 * per_s[sizes], 0.1 * per_s[sizes]
    minutes = np.where(np.arange(MINUTES) // HALF_HOUR % 2, high, low) * rng.normal(1.0, 0.05, MINUTES)
    seconds = np.arange(HORIZON_S)
    mean = low + (high - low) * seconds / HORIZON_S
    quantiles = {0.5: mean, 0.9: 1.2 * mean}
    runs = max(sizes // 4, 1)
    return Situation(
        now_s=NOW_S,
        scale_out=runs,
        workload_per_s=low,
        recent_workload_per_s=low,
        lag_records=0.0,
        cpu_load=0.5,
        forecast=Forecast(NOW_S, 1.0, mean, quantiles, "ensemble", 1),
        capacities={n: Estimate(n, rate, 0.9 * rate, 1.1 * rate, False, "drawn") for n, rate in per_s.items()},
        downtimes=Downtimes.assumed(out_s=30.0, in_s=15.0, failure_s=30.0),
        bounds=Bounds(minimum=1, maximum=sizes),
        objectives=Objectives(recovery_time_s=600.0, checkpoint_interval_s=10.0),
        minutes=minutes,
        latency_p95_ms=1_000.0,
    )

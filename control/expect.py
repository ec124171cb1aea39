"""What a stop would cost: the recovery time to expect, which is recorded and held against what happens.

A policy may plan for the worst case; what is written down here is the middle, so that its errors mean something.
"""

from __future__ import annotations

import math

from models.recovery.prediction import predict_recovery_s
from policies.contract import Situation


def expected_recovery_s(situation: Situation, scale_out: int) -> float | None:
    """Return how long the job will take to catch up after a rescale to ``scale_out`` now, or after a failure there.

    Seconds from the stop; equal numbers mean a failure. ``None`` where the capacity is not known, or where the job
    would never catch up.
    """
    estimate = situation.capacities.get(scale_out)
    if estimate is None or not estimate.per_s > 0:
        return None
    downtimes = situation.downtimes
    expected_s = predict_recovery_s(
        situation.forecast,
        estimate.per_s,
        downtimes.between(situation.scale_out, scale_out) + downtimes.lost_s,
        0.0,  # what is done again is part of what is lost
        situation.recent_workload_per_s,
        lag_records=situation.lag_records or 0.0,
    )
    return expected_s if math.isfinite(expected_s) else None

"""What a stop would cost: the recovery time to expect, which is recorded and held against what happens.

A policy may plan for the worst case; what is written down here is the middle, so that its errors mean something.
"""

import math
from collections.abc import Mapping

from perdix.models.capacity.contract import Estimate
from perdix.models.profiling.profiled import Profiled
from perdix.models.recovery.downtime import rescaled
from perdix.models.recovery.prediction import predict_recoveries_s
from perdix.policies.contract import Situation

SUREST = 0.04  # relative standard deviation: neither model is surer of a deployment whose keys have just fallen


def expected_recovery_s(
    situation: Situation, scale_out: int, mix: Mapping[str, int] | None = None, *, planned: bool = False
) -> float | None:
    """Return how long the job will take to catch up after a rescale to ``scale_out`` now, or after a failure there.

    Seconds from the stop; equal numbers mean a failure, unless it is ``planned``: other sizes of as many workers.
    ``None`` where the capacity is not known, or where the job would never catch up.

    ``mix``: size -> workers; left out where they are equal.
    """
    capacity_per_s = situation.mix_per_s(mix or {})
    if capacity_per_s is None:
        capacity_per_s = expected_capacity_per_s(scale_out, situation.capacities.get(scale_out), situation.profiled)
    if capacity_per_s is None:
        return None
    change, downtimes = (situation.scale_out, scale_out), situation.downtimes
    change = rescaled(*change) if planned else change
    (expected_s,) = predict_recoveries_s(
        situation.forecast,
        [capacity_per_s],
        [downtimes.between(*change) + downtimes.lost_between(*change)],
        0.0,  # what is done again is part of what is lost
        situation.recent_workload_per_s,
        lag_records=situation.lag_records or 0.0,
    )
    return float(expected_s) if math.isfinite(expected_s) else None


def expected_capacity_per_s(scale_out: int, estimate: Estimate | None, profiled: Profiled | None) -> float | None:
    """Return what a scale-out will work off, records/s; ``None`` where nothing is known of it.

    Where the job was profiled, two models know of it that err for different reasons: the one learned from CPU, and the
    regression over profiled scale-outs. Each counts by the inverse of its variance.
    """
    known = [] if estimate is None or not estimate.per_s > 0 else [(estimate.per_s, _deviation(estimate))]
    if profiled is not None:
        highest_per_s = float(profiled.highest.per_s(scale_out))
        if math.isfinite(highest_per_s) and highest_per_s > 0:
            known.append((highest_per_s, max(profiled.highest.relative_spread(), SUREST)))
    if not known:
        return None
    if len(known) == 1:
        return known[0][0]
    weights = [1.0 / deviation**2 for _, deviation in known]
    return sum(weight * per_s for weight, (per_s, _) in zip(weights, known, strict=True)) / sum(weights)


def _deviation(estimate: Estimate) -> float:
    return max(estimate.log_sd, SUREST) if estimate.usable else math.inf

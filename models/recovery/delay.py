"""What a rescale costs those who wait for results: by how much it delays records."""

from __future__ import annotations

import math


def mean_delay_s(downtime_s: float, recovery_s: float, *, over_s: float) -> float:
    """Return by how many seconds a stop delays each record that arrives within ``over_s`` of it, on average.

    Under a flat workload ``r`` the backlog grows to ``r * downtime`` while the job stands still, and is gone when it
    has recovered: a triangle of ``r * downtime * recovery / 2`` record-seconds, shared by ``r * over`` records.

    Parameters
    ----------
    downtime_s, recovery_s
        From the stop until the restart, and until nothing waits any more; an infinite recovery delays without end.
    over_s
        Time that shares the delay, such as the time for which a scale-out is kept.

    Raises
    ------
    ValueError
        When a time is NaN or negative, the downtime infinite, or ``over_s`` not above 0.
    """
    if not (0 <= downtime_s < math.inf and recovery_s >= 0):
        raise ValueError(f"times must not be negative or NaN: downtime {downtime_s}, recovery {recovery_s}")
    if not 0 < over_s < math.inf:
        raise ValueError(f"the delay must be shared by a time above 0, found {over_s}")
    if downtime_s == 0:
        return 0.0
    return downtime_s * recovery_s / (2.0 * over_s)

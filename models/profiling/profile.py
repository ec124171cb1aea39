"""A profile: what was measured of some scale-outs at rising rates, and which of them kept up (Phoebe, 3.3)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perdix.telemetry.window import Values


@dataclass(frozen=True)
class ProfilePoint:
    """One profiling run."""

    scale_out: int
    rate_per_s: float  # records/s that were offered
    # throughput_per_s, latency_ms: measured means once conditions were normal: records/s, and the p95 end-to-end
    # latency in ms
    throughput_per_s: float
    latency_ms: float
    valid: bool  # whether the deployment kept up


@dataclass(frozen=True)
class Profile:
    """All runs of one profiling."""

    job: str
    points: tuple[ProfilePoint, ...]
    maximum_per_s: Mapping[int, float]  # scale-out -> highest throughput (T_max), records/s
    worker_s: float  # what the profiling cost, in worker-seconds
    # began_s, ended_s: epoch seconds
    began_s: float = 0.0
    ended_s: float = 0.0
    # How long deployments stood still after a worker was made to fail, from the failure to the first result, seconds
    downtimes_s: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()  # what went wrong, in words; the rest of the profile stands

    @property
    def downtime_s(self) -> float | None:
        """Mean of the downtimes; ``None`` where there is none."""
        return sum(self.downtimes_s) / len(self.downtimes_s) if self.downtimes_s else None


FAR = 3.0  # factor between latencies that are far apart, either way; the published relative distance of 2 means this
ENOUGH_TO_CLUSTER = 3  # deployments: "more than two scaleouts to evaluate"
KEEPS_UP = 0.95  # throughput as a share of what arrives: who does so much does not fall behind


def valid_deployments(
    latencies_ms: Mapping[int, float],
    rate_per_s: float,
    earlier: Sequence[ProfilePoint] = (),
    *,
    throughputs_per_s: Mapping[int, float] | None = None,
) -> dict[int, bool]:
    """Return for every deployment of a profiling step whether it is valid.

    A deployment is invalid

    * when its latency was not measured, or its throughput stayed below 95 % of what was offered;
    * when its latency is far above what its own earlier valid points lead to expect: a line through them over the rate,
      the one latency where there is only one, nothing where there is none;
    * with three or more deployments, when its latency lies in another group than the lowest ones. Groups are parted by
      gaps of a factor of three. One group is no reason to drop anybody.

    The published program counts neighbours within a distance that depends on the direction; groups of one size are
    merged, nobody is dropped where nobody has a neighbour, and one earlier point makes an undefined line that drops the
    job. None of that can happen here. Raises ``ValueError`` when the rate is not a positive number.

    ``latencies_ms``: scale-out -> p95 latency, ms; NaN when there was none.
    ``rate_per_s``: offered to each, records/s.
    ``earlier``: points of the profile so far, of any scale-out and in any order.
    ``throughputs_per_s``: scale-out -> measured throughput, where it is known.
    """
    if not (math.isfinite(rate_per_s) and rate_per_s > 0.0):
        raise ValueError(f"a profiling step has a rate above 0, not {rate_per_s} records/s")
    valid = {
        scale_out: _keeps_up(latency, rate_per_s, (throughputs_per_s or {}).get(scale_out))
        and not latency > FAR * expected_latency_ms(scale_out, rate_per_s, earlier)  # False where nothing is expected
        for scale_out, latency in latencies_ms.items()
    }
    known = {scale_out: value for scale_out, value in latencies_ms.items() if math.isfinite(value) and value > 0.0}
    if len(known) < ENOUGH_TO_CLUSTER:
        return valid
    limit_ms = _end_of_the_lowest_group(np.array(sorted(known.values())))
    return {scale_out: valid[scale_out] and latencies_ms[scale_out] <= limit_ms for scale_out in latencies_ms}


def expected_latency_ms(scale_out: int, rate_per_s: float, earlier: Sequence[ProfilePoint]) -> float:
    """Return what a deployment's earlier valid points lead to expect at a rate, ms; NaN when there is none.

    A least-squares line over the rate from two rates on, never below the lowest of those latencies.
    """
    points = [
        point
        for point in earlier
        if point.scale_out == scale_out and point.valid and math.isfinite(point.latency_ms) and point.latency_ms > 0.0
    ]
    if not points:
        return math.nan
    rates, latencies = np.array([(point.rate_per_s, point.latency_ms) for point in points], float).T
    spread = rates - rates.mean()
    if not (spread @ spread) > 0.0:
        return float(latencies.mean())
    slope = float(spread @ latencies) / float(spread @ spread)
    return max(float(latencies.mean() + slope * (rate_per_s - rates.mean())), float(latencies.min()))


def _keeps_up(latency_ms: float, rate_per_s: float, throughput_per_s: float | None) -> bool:
    if not (math.isfinite(latency_ms) and latency_ms > 0.0):
        return False
    return throughput_per_s is None or not throughput_per_s < KEEPS_UP * rate_per_s


def _end_of_the_lowest_group(ascending: Values) -> float:
    """Return the highest latency that is valid: up to the first far gap, and not far above the group's lower half.

    Without the second condition a chain of small gaps would reach from normal latencies to any other.
    """
    gaps = np.flatnonzero(ascending[1:] > FAR * ascending[:-1])
    group = ascending[: gaps[0] + 1] if gaps.size else ascending
    middle = float(np.median(group[: (len(group) + 1) // 2]))
    return float(group[group <= FAR * middle].max())

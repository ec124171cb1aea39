"""A profile: what was measured of some scale-outs at rising rates (Phoebe, 3.3)."""

from collections.abc import Mapping
from dataclasses import dataclass


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

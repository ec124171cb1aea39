"""A profile: what was measured of some scale-outs at rising rates (Phoebe, 3.3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class ProfilePoint:
    """One profiling run.

    Attributes
    ----------
    rate_per_s
        Records/s that were offered.
    throughput_per_s, latency_ms
        Measured means once conditions were normal: records/s, and the p95 end-to-end latency in ms.
    valid
        Whether the deployment kept up.
    """

    scale_out: int
    rate_per_s: float
    throughput_per_s: float
    latency_ms: float
    valid: bool


@dataclass(frozen=True)
class Profile:
    """All runs of one profiling.

    Attributes
    ----------
    maximum_per_s
        Scale-out -> highest throughput (T_max), records/s.
    worker_s
        What the profiling cost, in worker-seconds.
    began_s, ended_s
        Epoch seconds.
    downtimes_s
        How long deployments stood still after a worker was made to fail, from the failure to the first result, seconds.
    notes
        What went wrong, in words; the rest of the profile stands.
    """

    job: str
    points: tuple[ProfilePoint, ...]
    maximum_per_s: Mapping[int, float]
    worker_s: float
    began_s: float = 0.0
    ended_s: float = 0.0
    downtimes_s: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def downtime_s(self) -> float | None:
        """Mean of the downtimes; ``None`` where there is none."""
        return sum(self.downtimes_s) / len(self.downtimes_s) if self.downtimes_s else None

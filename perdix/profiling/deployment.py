"""The contract of what is profiled: deployments of one job."""

from dataclasses import dataclass
from typing import Protocol


class DeploymentError(RuntimeError):
    """A deployment could not be made, driven or measured; says why."""


@dataclass(frozen=True)
class Measured:
    """Means over the measured time."""

    # throughput_per_s, latency_ms: records/s over all workers, and the p95 end-to-end latency in ms; NaN where nothing
    # came out
    throughput_per_s: float
    latency_ms: float
    lag_growth_per_s: float  # by how much the consumer lag grew per second; NaN where it is not measured


class Deployment(Protocol):
    """One deployment; its calls may take minutes, and raise :class:`DeploymentError`."""

    @property
    def scale_out(self) -> int:
        """Workers."""

    def measure(self, rate_per_s: float, settle_s: int, measure_s: int) -> Measured:
        """Replay at ``rate_per_s``; wait ``settle_s`` seconds, then measure for ``measure_s``."""

    def fail(self, within_s: int) -> float | None:
        """Make a worker fail; return seconds until results come out again, ``None`` if not ``within_s`` seconds."""

    def delete(self) -> None:
        """Give the cluster's resources back; may be called twice."""

    @property
    def now_s(self) -> float:
        """Epoch seconds, of the clock that the deployment lives by."""


class Deployments(Protocol):
    """Where deployments are made: a twin, or a cluster. Its calls raise :class:`DeploymentError`."""

    @property
    def side_by_side(self) -> bool:
        """Whether all may run at once; else one is deleted before the next is deployed."""

    def deploy(self, scale_out: int) -> Deployment:
        """Deploy the job with ``scale_out`` workers."""

    def restore(self) -> None:
        """Leave everything as it was before the first deployment; called once, at the end."""

"""The contract of what is sampled: one instance of an operator, of a size of its own, beside the normal ones.

The live workload is shared: the sampling instance gets a part of it, the normal instances the rest, and what the
sampling instance cannot take goes back to them (QEScalor, 2.2: "we dynamically allocate the workload between the normal
instances and the single sampling instance"). No load is made for it.
"""

from dataclasses import dataclass
from typing import Protocol


class SamplingError(RuntimeError):
    """An instance could not be started, driven or measured, or it died; says why."""


@dataclass(frozen=True)
class Observed:
    """Means over the time that was watched."""

    # offered_per_s, throughput_per_s: records/s of the live workload that were for the instance, and that it processed
    offered_per_s: float
    throughput_per_s: float


class SamplingInstance(Protocol):
    """One instance; its calls may take minutes, and raise :class:`SamplingError`."""

    def process(self, share: float, for_s: int) -> Observed:
        """Give it ``share`` (0 to 1) of the live workload for ``for_s`` seconds, and watch it."""

    def stop(self) -> None:
        """Give its share and its resources back; may be called twice."""

    @property
    def now_s(self) -> float:
        """Epoch seconds, of the clock that the instance lives by."""


class SamplingInstances(Protocol):
    """Where sampling instances are started: a twin, or a cluster."""

    def start(self, cpu_cores: float, memory_mb: float) -> SamplingInstance:
        """Start an instance with this many cores and MB. Raises :class:`SamplingError` where that is impossible."""

    def restore(self) -> None:
        """Leave everything as it was before the first one; called once, at the end. Raises :class:`SamplingError`."""

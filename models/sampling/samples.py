"""What a sampling found of one operator: samples, sizes that failed, and what it cost."""

from __future__ import annotations

from dataclasses import dataclass

from perdix.models.performance.contract import Sample


@dataclass(frozen=True)
class FailedSize:
    """A size of which there is no sample.

    Attributes
    ----------
    cpu_cores, memory_mb
        What the instance was given, cores and MB.
    why
        What happened, in words.
    took_s
        Seconds that it took to find out.
    """

    cpu_cores: float
    memory_mb: float
    why: str
    took_s: float = 0.0


@dataclass(frozen=True)
class OperatorSamples:
    """All samples of one sampling.

    Attributes
    ----------
    operator
        Stream job or operator whose workers were sampled.
    method
        How sizes were chosen: ``dsa``, or ``fssa-<step>``.
    samples, failed
        In the order in which they were taken.
    core_s, worker_s
        What it cost: cores of the sampling instances times seconds, and seconds of them. They worked off live traffic
        meanwhile, so this is no extra cost but an upper bound of it.
    began_s, ended_s
        Epoch seconds.
    ended_because
        Why no further size was sampled.
    notes
        What else went wrong, in words; the samples stand.
    """

    operator: str
    method: str
    samples: tuple[Sample, ...]
    failed: tuple[FailedSize, ...] = ()
    core_s: float = 0.0
    worker_s: float = 0.0
    began_s: float = 0.0
    ended_s: float = 0.0
    ended_because: str = ""
    notes: tuple[str, ...] = ()

    @property
    def tried(self) -> int:
        """How many sizes were tried: samples, and those that failed."""
        return len(self.samples) + len(self.failed)

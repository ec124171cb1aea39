"""What a sampling found of one operator: samples, sizes that failed, and what it cost."""

from dataclasses import dataclass

from perdix.models.performance.samples import Sample


@dataclass(frozen=True)
class FailedSize:
    """A size of which there is no sample."""

    # cpu_cores, memory_mb: what the instance was given, cores and MB
    cpu_cores: float
    memory_mb: float
    why: str  # what happened, in words
    took_s: float = 0.0  # seconds that it took to find out


@dataclass(frozen=True)
class OperatorSamples:
    """All samples of one sampling."""

    operator: str  # stream job or operator whose workers were sampled
    method: str  # how sizes were chosen: ``dsa``, or ``fssa-<step>``
    # samples, failed: in the order in which they were taken
    samples: tuple[Sample, ...]
    failed: tuple[FailedSize, ...] = ()
    # core_s, worker_s: what it cost: cores of the sampling instances times seconds, and seconds of them. They worked
    # off live traffic meanwhile, so this is no extra cost but an upper bound of it
    core_s: float = 0.0
    worker_s: float = 0.0
    # began_s, ended_s: epoch seconds
    began_s: float = 0.0
    ended_s: float = 0.0
    ended_because: str = ""  # why no further size was sampled
    notes: tuple[str, ...] = ()  # what else went wrong, in words; the samples stand

    @property
    def tried(self) -> int:
        """How many sizes were tried: samples, and those that failed."""
        return len(self.samples) + len(self.failed)

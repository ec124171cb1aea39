"""What makes the twin of one operator instance: read from ``conf/operators/<name>.yaml``."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from perdix.settings.home import conf_part
from perdix.settings.size_grid import Grid
from perdix.settings.strict import Positive, Strict
from perdix.settings.yaml_files import known_names, load_known

NotNegative = Annotated[float, Field(ge=0)]


class Compute(Strict):
    """What the operator makes of cores."""

    cost_us: Positive  # CPU microseconds per record, of one thread with memory in plenty
    idle_cores: NotNegative = 0.02  # cores that the runtime takes for itself, whatever is processed
    # Threads that process: cores beyond them are of no use. This is the knee
    threads: Annotated[float, Field(ge=1)] = 4.0
    # Share of the work that only one thread can do at a time (Amdahl's law, from one core on)
    serial: Annotated[float, Field(ge=0, lt=1)] = 0.0
    # Share of the rate that is lost halfway between two whole numbers of cores, as long as not every thread has a core:
    # the quota stops one thread in the middle of each scheduling period while others wait for it
    throttling: Annotated[float, Field(ge=0, lt=1)] = 0.0


class Memory(Strict):
    """What the operator makes of memory."""

    live_mb: Positive  # what it always holds; given no more, it runs out of memory
    # Cost of collecting garbage: a record is dearer by ``collecting * live / (given - live)``
    collecting: NotNegative = 0.02
    working_set_mb: NotNegative = 0.0  # state beyond ``live_mb`` that records touch
    # How many times as dear a record is when none of the working set is held, and must be fetched. What is lacking
    # costs in proportion
    miss_factor: Annotated[float, Field(ge=1)] = 1.0
    # Records/s that the memory's bandwidth allows one instance; ``None``: no limit
    traffic_limit_per_s: Positive | None = None


class Noise(Strict):
    """What differs between seconds, minutes, and instances.

    ``flicker``: relative standard deviation of the speed from second to second; it persists for ten seconds.
    ``drift``, ``drift_s``: relative standard deviation of what neighbours on the host take, and seconds after which 1/e
    of it is left.
    ``instance_spread``: standard deviation of the log of an instance's own speed: hosts differ.
    """

    flicker: Annotated[float, Field(ge=0, le=0.5)] = 0.03
    drift: Annotated[float, Field(ge=0, le=0.5)] = 0.01
    drift_s: Annotated[float, Field(gt=0, le=3_600)] = 90.0
    instance_spread: Annotated[float, Field(ge=0, le=0.5)] = 0.01


class Start(Strict):
    """How an instance begins."""

    start_s: Annotated[int, Field(ge=0, le=600)] = 10  # until it takes its first record, seconds
    # warm_up_s, warm_up_speed: seconds until it is at its full speed, and the share of it at which it starts
    warm_up_s: Annotated[int, Field(ge=0, le=3_600)] = 90
    warm_up_speed: Annotated[float, Field(gt=0, le=1)] = 0.6
    # Until an instance without enough memory is killed, once it takes records, seconds
    out_of_memory_s: Annotated[int, Field(ge=0, le=3_600)] = 30


class LiveWorkload(Strict):
    """What all instances of the operator are offered together."""

    per_s: Positive  # mean, records/s
    # swing, period_s: relative amplitude and period of its sine
    swing: Annotated[float, Field(ge=0, lt=1)] = 0.2
    period_s: Annotated[float, Field(gt=0)] = 7_200.0
    # Relative standard deviation from second to second; it persists for ten seconds
    noise: Annotated[float, Field(ge=0, le=0.5)] = 0.03


class OperatorTwinParameters(Strict):
    """The twin of one operator's instances."""

    name: str
    description: str = ""
    compute: Compute
    memory: Memory
    noise: Noise = Noise()
    start: Start = Start()
    workload: LiveWorkload
    sizes: Grid  # what can be sampled
    # Seconds of work that wait before an instance at most; what does not fit goes back to the other instances
    buffer_s: Annotated[float, Field(ge=0, le=60)] = 1.0

    @model_validator(mode="after")
    def _can_be_sampled(self) -> Self:
        most = self.sizes.memory.at(self.sizes.memory.last)
        if most <= self.memory.live_mb:
            raise ValueError(
                f"every size has at most {most:g} MB and the operator holds {self.memory.live_mb:g} MB live, so each "
                "would die; raise sizes.memory.most, or lower memory.live_mb"
            )
        if self.sizes.cpu.at(self.sizes.cpu.last) <= self.compute.idle_cores:
            raise ValueError("no size has more cores than the runtime takes for itself; raise sizes.cpu.most")
        return self


def load_operator(name: str, folder: Path | None = None) -> OperatorTwinParameters:
    """Read an operator by name. Raises ``SettingsError``, naming file, line and fix, or the operators there are."""
    return load_known(name, folder or conf_part("operators"), OperatorTwinParameters, "operator")


def operator_names(folder: Path | None = None) -> list[str]:
    """Return the names of the operators that can be loaded."""
    return known_names(folder or conf_part("operators"))

"""What makes one stream job's twin: read from ``conf/twins/<name>.yaml``."""

import math
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from perdix.settings.home import conf_part
from perdix.settings.stream_job import Engine, WorkerSize, distinct
from perdix.settings.strict import Positive, Share, Spread, Strict
from perdix.settings.yaml_files import SettingsError, known_file, known_names, load_known
from perdix.telemetry.window import Values
from perdix.twin import physics
from perdix.twin.operators.parameters import OperatorTwinParameters, load_operator
from perdix.twin.operators.physics import true_performance
from perdix.twin.workloads import WorkloadSpec

FEW_PER_S = 1_000.0  # of a worker or of the job: below, whole records each second would make it another job
PART_OF_RECORD = 2.0**-10  # a power of two, so that sums stay exact
KEY_GROUPS = 128  # Flink's maximum parallelism of a small job that sets none


class TwinSize(WorkerSize):
    """A size of worker, and records/s of a mean worker of that size that runs alone at CPU 1.

    ``per_s`` is left out where the workers are of an operator whose twin gives it (:mod:`perdix.twin.operators`).
    """

    per_s: Positive | None = None


class Workers(Strict):
    """The workers, and how a second worker is worth less than the first."""

    capacity_per_s: Annotated[float, Field(ge=1)]  # records/s of a mean worker that runs alone at CPU 1
    maximum: Annotated[int, Field(ge=1, le=1_000)] = 12  # largest scale-out
    speed_spread: Spread = 0.08  # standard deviation of the log of a worker's own speed: hosts differ
    # contention, coherency: universal scalability law: efficiency of n workers is ``1 / (1 + contention (n-1) +
    # coherency n (n-1))``. Refused where it would make the job slower with another worker below ``maximum``
    contention: Share = 0.02
    coherency: Share = 0.0
    # Relative standard deviation of the capacity from second to second; it persists for ten seconds
    capacity_noise: Spread = 0.02
    # Size -> what its workers are, of a job whose workers may differ. What flows in is then dealt out by what a worker
    # of its size can do. Workers whose size nobody names have ``capacity_per_s``
    sizes: Annotated[dict[str, TwinSize], AfterValidator(distinct)] = Field(default_factory=dict)
    # Name of the operator (``conf/operators``) that the workers run: what is sampled of it is true of them
    operator: str | None = None
    operator_twin: Annotated[OperatorTwinParameters | None, Field(exclude=True)] = None  # what load_twin read of it
    # Instead of the law: records/s that 1, 2, ... ``maximum`` mean workers take, of a job where that was learned
    measured_per_s: Annotated[list[Positive] | None, Field(exclude_if=lambda table: table is None)] = None

    @field_validator("measured_per_s")
    @classmethod
    def _of_each_scale_out(cls, table: list[float] | None, others: ValidationInfo) -> list[float] | None:
        maximum = others.data.get("maximum")
        if table is not None and maximum is not None and len(table) != maximum:
            raise ValueError(f"gives {len(table)} capacities for {maximum} scale-outs; give one for each")
        return table

    @field_validator("coherency")
    @classmethod
    def _each_worker_adds(cls, coherency: float, others: ValidationInfo) -> float:
        maximum, contention = others.data.get("maximum"), others.data.get("contention")
        if maximum is None or contention is None:
            return coherency  # what is wrong with those is said there
        best = max(range(1, maximum + 1), key=lambda n: n * physics.efficiency(n, contention, coherency))
        if best < maximum:
            raise ValueError(
                f"with contention {contention} a job of more than {best} workers would be slower than one of {best}; "
                f"lower it, or set maximum to {best}"
            )
        return coherency

    @model_validator(mode="after")
    def _each_size_does_something(self) -> Self:
        silent = [name for name, size in self.sizes.items() if size.per_s is None]
        if silent and self.operator is None:
            raise ValueError(f"size '{silent[0]}': give 'per_s', or the 'operator' whose twin gives it")
        return self

    def per_s(self, size: str) -> float:
        """Return records/s of a mean worker of a size. Raises ``ValueError`` where the operator was not read yet."""
        known = self.sizes[size].per_s
        if known is None:
            raise ValueError(f"operator '{self.operator}' gives what size '{size}' can do; read it by load_twin")
        return known


class Keys(Strict):
    """How unevenly the work falls onto the workers; drawn anew at each rescale, as far as ``redrawn`` says.

    ``skew_spread``: standard deviation of the log of a worker's share, at any scale-out. Not used with ``count``.
    ``redrawn``: part of the variance of ``skew_spread`` that a rescale draws anew; the rest belongs to the scale-out,
    and is there again whenever the job comes back to it.
    ``count``, ``keyed``: instead: this many equally frequent keys are hashed onto the workers, and the part ``keyed``
    of the work follows them. The spread then grows with the scale-out.
    ``groups``: with ``count``: keys are hashed onto this many key groups (Flink's maximum parallelism), of which each
    worker gets a contiguous range, as Flink deals them. The loads of key groups belong to the keys, not to the
    deployment: the same scale-out always has the same shares.
    ``zipf``: with ``count``: the key of rank ``r`` is as frequent as ``r ** -zipf``. The keys are then dealt by key
    groups, 128 where ``groups`` does not say how many.
    ``towards_quick``: slope of the log of a worker's share over the log of its speed: above 0, quicker workers take
    more.
    ``wobble``: relative standard deviation of a worker's share from second to second; it persists for ten seconds.
    """

    skew_spread: Spread = 0.10
    redrawn: Share = 1.0
    count: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    keyed: Annotated[float, Field(gt=0, le=1)] = 1.0
    groups: Annotated[int, Field(ge=1, le=32_768)] | None = None
    zipf: Annotated[float, Field(ge=0, le=3)] | None = None
    towards_quick: Annotated[float, Field(ge=-1, le=1)] = 0.0
    wobble: Spread = 0.02

    @field_validator("keyed")
    @classmethod
    def _of_counted_keys(cls, keyed: float, others: ValidationInfo) -> float:
        if "count" in others.data and others.data["count"] is None:
            raise ValueError("says which part of the work follows counted keys; give their 'count', or leave it out")
        return keyed

    @field_validator("groups", "zipf")
    @classmethod
    def _of_those_counted(cls, value: float | None, others: ValidationInfo) -> float | None:
        if value is not None and "count" in others.data and others.data["count"] is None:
            raise ValueError("is about counted keys; give their 'count', or leave it out")
        return value

    @field_validator("towards_quick")
    @classmethod
    def _dealt_without_regard_to_speed(cls, slope: float, others: ValidationInfo) -> float:
        dealt = others.data.get("groups") is not None or others.data.get("zipf") is not None
        if slope and dealt:
            raise ValueError("key groups are dealt without regard to speed; leave it out, or 'groups' and 'zipf'")
        return slope

    @property
    def dealt_groups(self) -> int | None:
        """Key groups that the workers share; ``None`` where keys are not dealt by key groups."""
        if self.groups is None and self.zipf is not None:
            return KEY_GROUPS
        return self.groups


class Source(Strict):
    """What the job reads."""

    # The source has this many equally filled partitions, and each worker reads whole ones: of ``n`` workers the busiest
    # reads ``ceil(partitions / n)`` of them, and workers beyond ``partitions`` read nothing. ``None``: no limit
    partitions: Annotated[int, Field(ge=1, le=100_000)] | None = None


class Cpu(Strict):
    """CPU is linear in throughput, with a share that is used even when nothing is processed.

    A worker that works at full capacity (saturated, or catching up) is at CPU 1.
    """

    idle: Annotated[float, Field(ge=0, lt=1)] = 0.08
    # Above 0, CPU bends: a worker among many spends more on a record while it has little to do, since its buffers are
    # sent half empty. To the busy share ``b`` of one among ``n`` workers comes ``shuffling (1 - 1/n) b (1 - b)``
    shuffling: Share = 0.0
    # What a worker requests of the CPU that it may use: Kubernetes' HPA measures use against the request
    request: Annotated[float, Field(gt=0, le=1)] = 1.0
    noise: Share = 0.01
    averaged_over_s: Annotated[int, Field(ge=1, le=3_600)] = 60


class RandomTime(Strict):
    """A log-normal time in seconds; the twin rounds it up to whole seconds.

    ``spread`` is the standard deviation of its log.
    """

    median_s: Annotated[float, Field(ge=0.1, le=3_600)]
    spread: Spread = 0.18


class Restart(Strict):
    """How long the job stands still, and how it starts."""

    # Whether a rescale leaves the job's processes running, as Flink's adaptive scheduler does: so its target says
    in_place: Annotated[bool, Field(exclude_if=lambda own: not own)] = False
    out: RandomTime = RandomTime(median_s=28.0)
    in_: Annotated[RandomTime, Field(alias="in")] = RandomTime(median_s=16.0)
    failure: RandomTime = RandomTime(median_s=20.0)
    detection: RandomTime = RandomTime(median_s=8.0, spread=0.3)
    checkpoint_interval_s: Annotated[int, Field(ge=1, le=3_600)] = 10
    # Seconds of work that a planned rescale does again, where a checkpoint is made for it; ``None``: all since the last
    # of those that are made every ``checkpoint_interval_s``, as after a failure
    rescale_replay_s: Annotated[int, Field(ge=0, le=3_600)] | None = None
    warm_up_s: Annotated[int, Field(ge=0, le=600)] = 30
    warm_up_speed: Annotated[float, Field(gt=0, le=1)] = 0.7
    # Both after a failure, which restarts the workers' processes; ``None``: as after any start
    failure_warm_up: Annotated[tuple[int, float] | None, Field(exclude_if=lambda own: own is None)] = None

    def warm_up(self, uptime_s: Values, *, failed: bool = False) -> Values:
        """Return the speed so long after a start, which followed a failure or not; of the shape of ``uptime_s``."""
        own = (self.failure_warm_up if failed else None) or (self.warm_up_s, self.warm_up_speed)
        return physics.warm_up(uptime_s, *own)


class Latency(Strict):
    """End-to-end latency (p95): a base, queueing that grows with utilisation, filling, and the age of what waited."""

    base_ms: Positive = 1_000.0
    # Weight of ``u / (1 - u)`` in the base, ``u`` being utilisation
    queueing: Annotated[float, Field(ge=0, le=10)] = 0.02
    # fill_records, fill_at_most_ms: a worker hands its records on when this many have come together, at the latest
    # after this time: latency rises when there is little to do. Off by default
    fill_records: Annotated[float, Field(ge=0)] = 0.0
    fill_at_most_ms: Annotated[float, Field(ge=0, le=600_000)] = 10_000.0
    noise: Spread = 0.03


class Heap(Strict):
    """What a worker's heap holds: a part of its own, and its share of the job's state."""

    own: Share = 0.1  # share of the heap
    # Of the whole job, in heaps of one worker; it is spread evenly
    state: Annotated[float, Field(ge=0, le=10_000)] = 0.0


class TwinParameters(Strict):
    """One stream job's twin."""

    name: str
    demo: bool = True  # whether it lives in ``perdix demo`` and ``perdix dev``
    engine: Engine = "flink"
    workers: Workers
    keys: Keys = Keys()
    source: Source = Source()
    cpu: Cpu = Cpu()
    restart: Restart = Restart()
    latency: Latency = Latency()
    # ``None``: it does not report what its workers hold in memory
    heap: Annotated[Heap | None, Field(exclude_if=lambda heap: heap is None)] = None  # digests stay as they were
    workload: WorkloadSpec
    start_scale_out: Annotated[int, Field(ge=1)] = 4

    @property
    def least_records(self) -> float:
        """What the twin counts in: whole records, or parts of them where there are few per second."""
        few = min(self.workers.capacity_per_s, self.workload.peak_per_s or math.inf) < FEW_PER_S
        return PART_OF_RECORD if few else 1.0

    @field_validator("keys")
    @classmethod
    def _groups_for_all(cls, keys: Keys, others: ValidationInfo) -> Keys:
        groups, workers = keys.dealt_groups, others.data.get("workers")
        if groups is not None and workers is not None and workers.maximum > groups:
            raise ValueError(
                f"{groups} key groups are fewer than workers.maximum, which is {workers.maximum}: a parallelism above "
                "the maximum parallelism does not start; give more 'groups', or lower the maximum"
            )
        return keys

    @field_validator("start_scale_out")
    @classmethod
    def _can_start(cls, start: int, others: ValidationInfo) -> int:
        if "workers" in others.data and start > others.data["workers"].maximum:
            raise ValueError(f"is above workers.maximum, which is {others.data['workers'].maximum}")
        return start


def load_twin(name: str, folder: Path | None = None) -> TwinParameters:
    """Read a twin; a trace is relative to its file. Raises ``SettingsError``, naming file, line and fix."""
    folder = folder or conf_part("twins")
    path = known_file(name, folder)
    parameters = _with_operator(load_known(name, folder, TwinParameters, "twin"), path)
    trace = parameters.workload.file
    if trace is None or trace.is_absolute():
        return parameters
    found = parameters.workload.model_copy(update={"file": path.parent / trace})
    return parameters.model_copy(update={"workload": found})


def _with_operator(parameters: TwinParameters, path: Path) -> TwinParameters:
    """Return the twin with what its operator makes of each size."""
    workers = parameters.workers
    if workers.operator is None:
        return parameters
    beside = path.parent.parent / "operators"  # the folder beside the twin's; else that of the configuration
    there = (beside / f"{workers.operator}.yaml").is_file()
    operator = load_operator(workers.operator, beside if there else None)
    sizes = {}
    for name, size in workers.sizes.items():
        per_s = float(true_performance(operator, size.cpu_cores, size.memory_mb))
        if per_s <= 0:
            raise SettingsError(
                f"{path}: size '{name}' cannot work: operator '{workers.operator}' needs more "
                f"than {size.cpu_cores:g} cores and {size.memory_mb:g} MB; give it more, or leave the size out"
            )
        sizes[name] = size if size.per_s is not None else size.model_copy(update={"per_s": per_s})
    read = {"sizes": sizes, "operator_twin": operator}
    return parameters.model_copy(update={"workers": workers.model_copy(update=read)})


def load_twins(folder: Path | None = None) -> dict[str, TwinParameters]:
    """Read every twin of ``folder`` (default ``conf/twins``), by name."""
    folder = folder or conf_part("twins")
    return {name: load_twin(name, folder) for name in known_names(folder)}


def load_demo_twins(folder: Path | None = None) -> dict[str, TwinParameters]:
    """Read the twins of ``folder`` that live in ``perdix demo`` and ``perdix dev``, by name."""
    return {name: parameters for name, parameters in load_twins(folder).items() if parameters.demo}

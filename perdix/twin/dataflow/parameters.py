"""What makes a dataflow's twin: read from ``conf/dataflows/<name>.yaml``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from perdix.models.dataflow.graph import Dataflow, Operator
from perdix.settings.home import conf_part
from perdix.settings.strict import Positive, Share, Spread, Strict
from perdix.settings.yaml_files import load_known
from perdix.twin.dataflow import physics
from perdix.twin.parameters import RandomTime
from perdix.twin.physics import cost_factor

MOST_INSTANCES = 10_000
WHOLE = 1.0 + 1e-9  # shares of a split may miss a sum of 1 by rounding


class Overhead(Strict):
    """What every further instance adds to the cost of a record (Gunther's universal scalability law).

    A record costs ``cost_us * (1 + contention (n-1) + coherency n (n-1))`` among n instances.
    """

    contention: Share = 0.0
    coherency: Share = 0.0
    # Part of what is added that instrumentation does not count as useful time (DS2, section 4.2: overheads that are not
    # captured, which the target rate ratio is for)
    unseen: Share = 0.0


class Bursts(Strict):
    """Work that comes in bursts, as of a window that fires: ``factor`` times as dear, less in between; mean 1."""

    every_s: Annotated[int, Field(ge=2, le=3_600)]
    lasts_s: Annotated[int, Field(ge=1)]
    factor: Annotated[float, Field(ge=1)]

    @model_validator(mode="after")
    def _leaves_something(self) -> Self:
        if self.lasts_s >= self.every_s:
            raise ValueError(f"bursts of {self.lasts_s} s every {self.every_s} s leave no time between them")
        if self.factor * self.lasts_s >= self.every_s:
            raise ValueError(
                f"bursts of {self.lasts_s} s every {self.every_s} s can be at most "
                f"{self.every_s / self.lasts_s:g} times as dear; lower the factor"
            )
        return self


class Phase(Strict):
    """From second ``from_s`` after the start on, a source is to emit ``per_s`` records/s."""

    from_s: Annotated[int, Field(ge=0)] = 0
    per_s: Annotated[float, Field(ge=0)]


class Source(Strict):
    """Where records come from."""

    # ``generator``: what is not emitted in its second is never emitted, so a source that is held back falls to the
    # achieved rate. ``log`` (Kafka): it waits, as lag
    kind: Literal["generator", "log"] = "generator"
    phases: Annotated[tuple[Phase, ...], Field(min_length=1)]  # rates over time, constant in between
    noise: Spread = 0.0  # relative standard deviation of the rate; it persists for ten seconds

    @field_validator("phases")
    @classmethod
    def _in_order(cls, phases: tuple[Phase, ...]) -> tuple[Phase, ...]:
        starts = [phase.from_s for phase in phases]
        if starts[0] != 0 or starts != sorted(set(starts)):
            raise ValueError(f"phases begin at 0 and go on in order; found {', '.join(map(str, starts))}")
        return phases

    def rate_at(self, second: int) -> float:
        """Return records/s to be emitted in ``second`` after the start, without noise."""
        return next(phase.per_s for phase in reversed(self.phases) if phase.from_s <= second)


class OperatorParameters(Strict):
    """One operator."""

    # Upstream operator -> share of its output that comes here: 1.0 is a full copy; those of a split sum to 1. A list of
    # names stands for full copies. Empty: a source
    inputs: dict[str, Annotated[float, Field(gt=0, le=1)]] = Field(default_factory=dict)
    source: Source | None = None
    selectivity: Annotated[float, Field(ge=0, le=1e6)] = 1.0  # records that it emits per record that it processes
    cost_us: Positive | None = None  # microseconds of useful time per record, of one instance alone
    # Instead of ``cost_us``: records/s of one instance alone, for example a rate limit. Its useful time is then the
    # time that the limit makes of it
    capacity_per_s: Positive | None = None
    # start, maximum: instances at the start, and at most (key groups, or partitions of a source)
    start: Annotated[int, Field(ge=1, le=MOST_INSTANCES)] = 1
    maximum: Annotated[int, Field(ge=1, le=MOST_INSTANCES)] | None = None
    key_groups: Annotated[int, Field(ge=1)] | None = None
    # Whether its parallelism may be changed; by default of every operator that is not a source
    scalable: bool | None = None
    keyed: bool = False  # whether keys decide which instance gets a record; always so with ``key_groups``
    buffer_records: Positive = 20_000.0  # records that fit before one instance, for each of its inputs
    # Share of all records that one instance gets, because of its keys; the others get the rest evenly. ``None``: even
    hottest: Annotated[float, Field(gt=0, le=1)] | None = None
    overhead: Overhead = Overhead()
    bursts: Bursts | None = None

    @field_validator("inputs", mode="before")
    @classmethod
    def _full_copies(cls, inputs: Any) -> Any:
        if isinstance(inputs, list | tuple) and len({str(name) for name in inputs}) < len(inputs):
            raise ValueError(f"an input is named twice in {', '.join(map(str, inputs))}; name each once")
        return dict.fromkeys(inputs, 1.0) if isinstance(inputs, list | tuple) else inputs

    @model_validator(mode="after")
    def _source_or_operator(self) -> Self:
        if (self.source is None) == (not self.inputs):
            raise ValueError("give either 'inputs', or 'source' for one that has none")
        if self.cost_us is not None and self.capacity_per_s is not None:
            raise ValueError("give 'cost_us' or 'capacity_per_s', not both")
        if self.source is None and self.cost_us is None and self.capacity_per_s is None:
            raise ValueError("give 'cost_us' (microseconds per record) or 'capacity_per_s' (records/s of an instance)")
        if self.source is not None and self.selectivity != 1.0:
            raise ValueError("a source emits what its phases say; leave its selectivity out")
        return self

    @property
    def may_scale(self) -> bool:
        """Whether its parallelism may be changed."""
        return self.source is None if self.scalable is None else self.scalable

    @property
    def cost_s(self) -> float:
        """Seconds of useful time per record of one instance alone; 0 where nothing is said (a source)."""
        if self.capacity_per_s is not None:
            return 1.0 / self.capacity_per_s
        return 0.0 if self.cost_us is None else self.cost_us / 1e6

    def true_cost_s(self, instances: int) -> float:
        """Return what a record really costs an instance among ``instances``, seconds, overhead and all."""
        over = self.overhead
        return self.cost_s * cost_factor(instances, over.contention, over.coherency)

    def seen_cost_s(self, instances: int) -> float:
        """Return the part of :meth:`true_cost_s` that instrumentation counts as useful time."""
        return self.true_cost_s(instances) - self.overhead.unseen * (self.true_cost_s(instances) - self.cost_s)

    def capacity(self, instances: int) -> float:
        """Return records/s of ``instances``: the hottest one to be full stops all; infinite without a cost."""
        cost_s = self.true_cost_s(instances)
        hottest = float(physics.shares(instances, self.hottest).max())
        return 1.0 / (cost_s * hottest) if cost_s > 0 else float("inf")


class Noise(Strict):
    """What is not the same from second to second, and from look to look."""

    speed: Spread = 0.02  # relative standard deviation of an operator's speed; it persists for ten seconds
    # Relative standard deviation of an instance's useful time in a window, as it is measured
    instrumentation: Spread = 0.01


class DataflowRestart(Strict):
    """How long the dataflow stands still for a rescale, and how it starts."""

    standstill: RandomTime = RandomTime(median_s=38.0)
    warm_up_s: Annotated[int, Field(ge=0, le=600)] = 20
    warm_up_speed: Annotated[float, Field(gt=0, le=1)] = 0.8


class DataflowParameters(Strict):
    """A dataflow's twin."""

    name: str
    # ``blocking`` (Flink): who finds no room waits until there is some, the rest of its time. ``stop-and-go`` (Heron):
    # all sources stop once a queue has reached its bound, until it has fallen to ``resume_at`` of it; nobody else
    # waits, so queues may grow beyond. What is before such a queue is reported as held back
    back_pressure: Literal["blocking", "stop-and-go"] = "blocking"
    # Instances that the cluster can run; ``None``: no limit
    slots: Annotated[int, Field(ge=1, le=MOST_INSTANCES)] | None = None
    # Whether a slot runs an instance of every operator (Flink): then the largest operator must fit, else the sum
    sharing: bool = True
    # How often metrics are gathered and a policy is asked, unless another interval is asked for
    interval_s: Annotated[int, Field(ge=1, le=3_600)] = 10
    duration_s: Annotated[int, Field(ge=60, le=864_000)] = 1_800  # length of a replay, unless another is asked for
    main: str | None = None  # the operator that tables show where there is room for one
    resume_at: Share = 0.5
    operators: dict[str, OperatorParameters]
    noise: Noise = Noise()
    restart: DataflowRestart = DataflowRestart()

    @field_validator("operators")
    @classmethod
    def _a_dataflow(cls, operators: dict[str, OperatorParameters]) -> dict[str, OperatorParameters]:
        if len(operators) < 2:
            raise ValueError("a dataflow has two operators at least; give a source and what it feeds")
        graph = Dataflow.of(Operator(name, tuple(operator.inputs)) for name, operator in operators.items())
        for name in graph.names:
            shares = [operators[down].inputs[name] for down in graph.outputs[name]]
            if 1.0 not in shares and sum(shares) > WHOLE:
                raise ValueError(
                    f"operator '{name}': the shares of its output sum to {sum(shares):g}; "
                    "those of a split sum to at most 1, and a full copy is 1"
                )
        return {name: operators[name] for name in graph.names}

    @model_validator(mode="after")
    def _can_start(self) -> Self:
        if self.main is not None and self.main not in self.operators:
            raise ValueError(f"main: there is no operator '{self.main}'; known: {', '.join(self.operators)}")
        lacking = self.without_room(self.start)
        if lacking is not None:
            raise ValueError(f"slots: {lacking}; start with fewer instances, or let operators share slots")
        for name, operator in self.operators.items():
            if operator.start > self.maximum(name):
                raise ValueError(
                    f"operator '{name}': start {operator.start} is above its maximum, {self.maximum(name)}"
                )
            over = operator.overhead
            best = physics.most_useful(self.maximum(name), over.contention, over.coherency)
            if best < min(self.maximum(name), MOST_INSTANCES):
                raise ValueError(
                    f"operator '{name}': with coherency {over.coherency} more than {best} instances would be slower "
                    f"than {best}; lower it, or set its maximum to {best}"
                )
        return self

    @property
    def sources(self) -> Mapping[str, Source]:
        """Source -> where its records come from."""
        return {name: operator.source for name, operator in self.operators.items() if operator.source is not None}

    @property
    def start(self) -> Mapping[str, int]:
        """Operator -> instances at the start."""
        return {name: operator.start for name, operator in self.operators.items()}

    @property
    def shown(self) -> str:
        """The main operator; by default the dearest of those that scale."""
        scalable = [name for name, operator in self.operators.items() if operator.may_scale] or list(self.operators)
        return self.main or max(scalable, key=lambda name: self.operators[name].cost_s)

    def maximum(self, name: str) -> int:
        """Return how many instances an operator can have."""
        limits = [limit for limit in (self.operators[name].maximum, self.slots) if limit is not None]
        return min(limits, default=MOST_INSTANCES)

    def without_room(self, parallelism: Mapping[str, int]) -> str | None:
        """Return why the slots do not hold this many instances, or ``None`` where they do."""
        taken = max(parallelism.values()) if self.sharing else sum(parallelism.values())
        if self.slots is None or taken <= self.slots:
            return None
        return f"{taken} slots are taken{'' if self.sharing else ', as none is shared'}, and there are {self.slots}"

    def graph(self) -> Dataflow:
        """Return the logical dataflow, as a policy sees it."""
        return Dataflow(
            tuple(
                Operator(
                    name,
                    tuple(operator.inputs),
                    self.maximum(name),
                    operator.key_groups or (operator.maximum if operator.source else None),
                    operator.may_scale,
                )
                for name, operator in self.operators.items()
            )
        )

    def target_per_s(self, second: int) -> dict[str, float]:
        """Return source -> records/s that it is to emit in ``second`` after the start, without noise."""
        return {name: source.rate_at(second) for name, source in self.sources.items()}

    def change_times_s(self) -> tuple[int, ...]:
        """Return the seconds after the start at which a source's rate changes; the first is 0."""
        return tuple(sorted({phase.from_s for source in self.sources.values() for phase in source.phases}))

    def with_skew(self, hottest: float, operators: tuple[str, ...] = ()) -> DataflowParameters:
        """Return the same dataflow with one hot instance per operator (by default in every one that is keyed).

        Raises ``ValueError`` when the share is not within 0 and 1, or an operator is not there.
        """
        if not 0 < hottest <= 1:
            raise ValueError(f"the share of the hottest instance lies above 0 and is at most 1, found {hottest:g}")
        names = operators or tuple(
            name for name, operator in self.operators.items() if operator.keyed or operator.key_groups
        )
        if not names:
            raise ValueError("no operator is keyed, so there is no skew; set keyed or key_groups in its file")
        return self._changed({name: {"hottest": hottest} for name in names})

    def with_start(self, parallelism: Mapping[str, int]) -> DataflowParameters:
        """Return the same dataflow with another start; operators that are not named keep theirs.

        Raises ``ValueError`` when an operator is not there, or cannot have this many instances.
        """
        for name, instances in parallelism.items():
            if name in self.operators and not 1 <= instances <= self.maximum(name):
                raise ValueError(f"operator '{name}': {instances} instances are outside 1..{self.maximum(name)}")
        found = self._changed({name: {"start": instances} for name, instances in parallelism.items()})
        lacking = found.without_room(found.start)
        if lacking is not None:
            raise ValueError(f"{lacking}; start with fewer instances")
        return found

    def _changed(self, updates: Mapping[str, Mapping[str, Any]]) -> DataflowParameters:
        unknown = [name for name in updates if name not in self.operators]
        if unknown:
            raise ValueError(f"there is no operator '{unknown[0]}'; known: {', '.join(self.operators)}")
        operators = {
            name: operator.model_copy(update=updates.get(name, {})) for name, operator in self.operators.items()
        }
        return self.model_copy(update={"operators": operators})


def load_dataflow(name: str, folder: Path | None = None) -> DataflowParameters:
    """Read the dataflow called ``name``, or a YAML file.

    Raises ``SettingsError``, naming file, line and fix, or the dataflows that there are.
    """
    return load_known(name, folder or conf_part("dataflows"), DataflowParameters, "dataflow")

"""What makes the twin of a topology on leased hosts: read from ``conf/topologies/<name>.yaml``."""

from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Annotated, Self

import numpy as np
from pydantic import Field, model_validator

from perdix.settings.home import conf_part
from perdix.settings.strict import Positive, Share, Strict
from perdix.settings.yaml_files import SettingsError, load_known
from perdix.telemetry.window import Values

Seconds = Annotated[float, Field(ge=0, le=3_600)]
LEVELS = {"real-time": 1.0, "near": 2.0, "relaxed": 5.0}  # the paper's
NOTHING = 1e-9  # of room: what sums of cores are rounded by
DOWN_BELOW, UP_ABOVE = 0.4, 0.6  # equation 6: how a walk moves


class Between(Strict):
    """A time that is drawn evenly from ``low`` to ``high``, seconds."""

    low: Seconds
    high: Seconds

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.low > self.high:
            raise ValueError(f"low {self.low:g} s is above high {self.high:g} s; swap them")
        return self


class Sensor(Strict):
    """What emits data items: this many per machine and minute of the factory (Table 1)."""

    per_machine_minute: Positive


class Walk(Strict):
    """A random walk (equation 6): a machine less below .4, one more above .6, the same in between."""

    seed: Annotated[int, Field(ge=0)]  # of the walk, not of the replay: a pattern is the same in every run
    start: Annotated[int, Field(ge=0)] = 4
    # lowest, highest: the paper chose walks that stay within them; so must this one
    lowest: Annotated[int, Field(ge=0)] = 1
    highest: Annotated[int, Field(ge=1)] = 8

    @model_validator(mode="after")
    def _within_its_bounds(self) -> Self:
        if not self.lowest <= self.start <= self.highest:
            raise ValueError(f"start {self.start} is not within {self.lowest}..{self.highest}; change one of the three")
        return self

    def machines(self, count: int) -> Values:
        """Return the first ``count`` values of the walk, held within its bounds."""
        drawn = np.random.default_rng(self.seed).random(max(count - 1, 0))
        moves = np.where(drawn < DOWN_BELOW, -1, np.where(drawn > UP_ABOVE, 1, 0))
        found = [self.start]
        for move in moves:
            found.append(int(np.clip(found[-1] + move, self.lowest, self.highest)))
        return np.array(found[:count], dtype=np.float64)


class Pattern(Strict):
    """How many machines emit data at a time (section 'Data arrival pattern').

    Levels that are repeated, or a walk; each value holds for ``every_s`` seconds.
    """

    every_s: Annotated[int, Field(ge=1, le=86_400)]
    levels: Annotated[list[Annotated[float, Field(ge=0, le=10_000)]], Field(min_length=1)] | None = None
    walk: Walk | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.levels is None) == (self.walk is None):
            raise ValueError("give 'levels' or 'walk', one of both")
        return self

    def machines(self, seconds: int) -> Values:
        """Return the machines in each of the first ``seconds`` seconds, shape ``(seconds,)``."""
        count = -(-seconds // self.every_s)
        if self.walk is not None:
            values = self.walk.machines(count)
        else:
            values = np.resize(np.asarray(self.levels, dtype=np.float64), count)
        return np.repeat(values, self.every_s)[:seconds]


class OperatorParameters(Strict):
    """An operator type (Table 2)."""

    duration_ms: Positive  # what one data item takes where none has to wait: the objective ``o_slo``
    # cpu_cores, memory_mb: what each instance is guaranteed
    cpu_cores: Positive
    memory_mb: Positive
    image_mb: Annotated[float, Field(ge=0)] = 0.0  # of the container's image, downloaded at the first start on a host
    inputs: Annotated[list[str], Field(min_length=1)]  # sensors and operators whose data items it takes
    # consumes, emits: the outgoing ratio: of ``consumes`` data items ``emits`` are made, spread evenly over the
    # operators after it
    consumes: Positive = 1.0
    emits: Annotated[float, Field(ge=0)] = 1.0

    @property
    def duration_s(self) -> float:
        """The objective in seconds."""
        return self.duration_ms / 1_000.0


class HostParameters(Strict):
    """A virtual machine that can be leased."""

    cores: Positive = 4.0
    memory_mb: Positive = 7_168.0
    start_up_s: Between = Between(low=30.0, high=60.0)  # from the lease to the first container
    price_per_h: Annotated[float, Field(ge=0)] = 6.0  # of one host
    # Hosts that run when the twin begins, every operator once spread over them
    at_start: Annotated[int, Field(ge=1, le=1_000)] = 1
    most: Annotated[int, Field(ge=1, le=10_000)] | None = None  # how many may be leased at once; ``None``: no limit


class ContainerParameters(Strict):
    """How containers start and stop."""

    start_s: Between = Between(low=5.0, high=10.0)  # with the image on the host
    download_mb_per_s: Positive = 5.0  # of an image that is not there yet
    # From the request until it is gone: it works no more, but takes its room
    stop_s: Annotated[int, Field(ge=1, le=600)] = 10
    failing: Share = 0.0  # share of the starts that fail; the container is gone then


class Processing(Strict):
    """How fast containers work, and how long a data item takes that has not to wait.

    ``at_a_time``: data items that an instance works on at once with what it is guaranteed: it works off ``at_a_time``
    divided by the duration per second. The paper does not print it; it is calibrated (``docs/hosts.md``).
    ``boost``: how many times as much it works off at most, where its host has idle CPU left.
    ``usual``, ``spread``: median of a data item's own duration as a share of the objective, and standard deviation of
    its log: the noise of messaging and of neighbours in a cloud.
    ``arrivals_every_s``: data items come in bursts of one simulated minute, so some wait although the instances
    suffice.
    """

    at_a_time: Positive = 1.0
    boost: Annotated[float, Field(ge=1, le=100)] = 1.0
    usual: Positive = 1.0
    spread: Annotated[float, Field(gt=0, le=3)] = 0.3
    arrivals_every_s: Annotated[float, Field(ge=0, le=60)] = 0.0


class Neighbours(Strict):
    """What others do on the same cloud."""

    # speed, persists_s: relative standard deviation of a host's speed, and for about how long a value persists
    speed: Share = 0.0
    persists_s: Annotated[float, Field(ge=1, le=3_600)] = 60.0
    arrivals: Share = 0.0  # relative standard deviation of what a sensor emits per second
    # stalls_every_s, stall_s: mean time between two stalls of messaging, in which nothing is handed on, and how long
    # one lasts; 0: none
    stalls_every_s: Annotated[float, Field(ge=0)] = 0.0
    stall_s: Between = Between(low=1.0, high=1.0)


class Measuring(Strict):
    """What is measured, and when it is looked at."""

    # every_s, look_every_s: seconds between two measurements, and between two looks of a policy
    every_s: Annotated[int, Field(ge=1, le=3_600)] = 15
    look_every_s: Annotated[int, Field(ge=1, le=3_600)] = 60
    last: Annotated[int, Field(ge=2, le=100)] = 5  # durations that are kept per operator type (the paper's N)
    share: Annotated[float, Field(gt=0, le=1)] = 0.1  # of the data items whose duration is measured


class Costs(Strict):
    """What a replay is billed by."""

    # Billing time units, minutes; a policy that is named without one is billed by each
    units_min: Annotated[tuple[Annotated[int, Field(ge=1, le=44_640)], ...], Field(min_length=1)] = (10, 30, 60)
    penalty: Annotated[float, Field(ge=0)] = 0.0001  # for each data item that takes longer than allowed
    # Compliance level -> how many times the objective a data item may take
    levels: Annotated[dict[str, Positive], Field(min_length=1)] = Field(default_factory=lambda: dict(LEVELS))


class Topology(Strict):
    """A topology with its sensors, the hosts that it may run on, and what measuring and leasing are like."""

    name: str
    duration_s: Annotated[int, Field(ge=60, le=864_000)] = 7_200
    minute_s: Positive = 60.0  # seconds in which a minute of the factory is replayed
    sensors: Annotated[dict[str, Sensor], Field(min_length=1)]
    operators: Annotated[dict[str, OperatorParameters], Field(min_length=1)]
    patterns: Annotated[dict[str, Pattern], Field(min_length=1)]
    hosts: HostParameters = HostParameters()
    containers: ContainerParameters = ContainerParameters()
    processing: Processing = Processing()
    neighbours: Neighbours = Neighbours()
    measuring: Measuring = Measuring()
    costs: Costs = Costs()

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        both = set(self.sensors) & set(self.operators)
        if both:
            raise ValueError(f"'{min(both)}' is a sensor and an operator; rename one")
        for name, operator in self.operators.items():
            for source in operator.inputs:
                if source not in self.sensors and source not in self.operators:
                    known = ", ".join([*self.sensors, *self.operators])
                    raise ValueError(f"operator '{name}': there is no input '{source}'; known: {known}")
            if operator.cpu_cores > self.hosts.cores or operator.memory_mb > self.hosts.memory_mb:
                raise ValueError(
                    f"operator '{name}' needs {operator.cpu_cores:g} cores and {operator.memory_mb:g} MB, more than a "
                    f"host has ({self.hosts.cores:g} cores, {self.hosts.memory_mb:g} MB); take larger hosts"
                )
        self._no_circle()
        self._can_begin()
        if self.measuring.look_every_s % self.measuring.every_s:
            raise ValueError("measuring: look_every_s must be a multiple of every_s")
        return self

    def _no_circle(self) -> None:
        try:
            TopologicalSorter({name: operator.inputs for name, operator in self.operators.items()}).prepare()
        except CycleError as error:
            circle = " -> ".join(error.args[1])
            raise ValueError(f"operators go round in a circle: {circle}; take an input away") from None

    def _can_begin(self) -> None:
        hosts, operators = self.hosts, list(self.operators)
        if hosts.most is not None and hosts.at_start > hosts.most:
            raise ValueError(f"hosts: at_start is {hosts.at_start}, and at most {hosts.most} may be leased; lower it")
        for number in range(hosts.at_start):
            dealt = operators[number :: hosts.at_start]
            cores = sum(self.operators[name].cpu_cores for name in dealt)
            memory_mb = sum(self.operators[name].memory_mb for name in dealt)
            if cores > hosts.cores + NOTHING or memory_mb > hosts.memory_mb + NOTHING:
                raise ValueError(
                    f"hosts: the twin begins with an instance of {', '.join(dealt)} on one host: {cores:g} cores and "
                    f"{memory_mb:g} MB, more than a host has ({hosts.cores:g} cores, {hosts.memory_mb:g} MB); raise "
                    "at_start, or take larger hosts"
                )

    def targets(self, name: str) -> tuple[str, ...]:
        """Return the operators that take what a sensor or an operator emits."""
        return tuple(down for down, operator in self.operators.items() if name in operator.inputs)

    def pattern(self, name: str) -> Pattern:
        """Return an arrival pattern. Raises ``SettingsError`` with those that there are."""
        if name not in self.patterns:
            raise SettingsError(f"topology {self.name}: no pattern '{name}'; known: {', '.join(self.patterns)}")
        return self.patterns[name]


def load_topology(name: str, folder: Path | None = None) -> Topology:
    """Read the topology called ``name``, or a YAML file.

    Raises ``SettingsError``, naming file, line and fix, or the topologies that there are.
    """
    return load_known(name, folder or conf_part("topologies"), Topology, "topology")

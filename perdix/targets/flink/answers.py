"""What Flink's REST API answers, as far as a target needs it."""

import math
import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, RootModel

OVER = frozenset({"FAILED", "CANCELED", "FINISHED"})


class Renamed(BaseModel):
    """An answer some of whose fields have names of our own."""

    model_config = ConfigDict(populate_by_name=True)


class Summary(BaseModel):
    """One job of the overview."""

    jid: str
    name: str
    state: str


class Overview(BaseModel):
    """All jobs that the JobManager still knows, those that have ended among them."""

    jobs: list[Summary]


class Vertex(Renamed):
    """One vertex of a job: operators that are chained together."""

    id: str
    name: str
    parallelism: int  # subtasks; not positive while none are deployed
    max_parallelism: int = Field(alias="maxParallelism")
    tasks: dict[str, int] = Field(default_factory=dict)  # state -> subtasks in it
    # Id of its slot sharing group; ``None`` where Flink is too old to tell: all vertices are taken for one group
    group: str | None = Field(default=None, alias="slotSharingGroupId")

    @property
    def runs(self) -> bool:
        """Whether every subtask works, or has ended its work."""
        return self.tasks.get("RUNNING", 0) + self.tasks.get("FINISHED", 0) >= self.parallelism > 0


class Input(BaseModel):
    """One input of a vertex: the id of the vertex that feeds it, and how its records are dealt out."""

    id: str
    ship_strategy: str = ""


class Node(BaseModel):
    """One vertex in the plan of a job."""

    id: str
    inputs: list[Input] = Field(default_factory=list)


class Plan(BaseModel):
    """What feeds what."""

    nodes: list[Node] = Field(default_factory=list)


class Job(BaseModel):
    """A job in detail."""

    jid: str
    state: str
    vertices: list[Vertex]
    now: int = 0
    timestamps: dict[str, int] = Field(default_factory=dict)
    plan: Plan = Field(default_factory=Plan)

    @property
    def deployed(self) -> bool:
        """Whether every subtask works."""
        return self.state == "RUNNING" and all(vertex.runs for vertex in self.vertices)

    @property
    def runs_since_s(self) -> float:
        """Seconds since it was last deployed, by the JobManager's clock; infinite where it does not say."""
        since_ms = self.timestamps.get("RUNNING", 0)
        return max(self.now - since_ms, 0) / 1_000.0 if since_ms > 0 else math.inf

    @property
    def names(self) -> Mapping[str, str]:
        """Vertex id -> what it is called: its name where no other has it, else its id."""
        names = [vertex.name for vertex in self.vertices]
        return {vertex.id: vertex.name if names.count(vertex.name) == 1 else vertex.id for vertex in self.vertices}

    @property
    def parallelism(self) -> int:
        """Subtasks of the widest vertex."""
        return max((vertex.parallelism for vertex in self.vertices), default=0)

    @property
    def slots(self) -> int:
        """Slots that the job holds: of each slot sharing group, as many as its widest vertex has subtasks."""
        widest: dict[str | None, int] = {}
        for vertex in self.vertices:
            widest[vertex.group] = max(widest.get(vertex.group, 0), vertex.parallelism)
        return sum(widest.values())


class SubtaskMetrics(Renamed):
    """What one subtask has done since it began; times in ms.

    Until the JobManager has heard of it, every figure is 0 and ``complete`` is false.
    """

    read: float = Field(alias="read-records")
    written: float = Field(alias="write-records")
    complete: bool = Field(alias="write-records-complete")
    busy_ms: float = Field(alias="accumulated-busy-time")
    idle_ms: float = Field(alias="accumulated-idle-time")
    back_pressured_ms: float = Field(alias="accumulated-backpressured-time")


class Subtask(Renamed):
    """One subtask; another attempt begins at another time."""

    start_ms: int = Field(alias="start-time")
    metrics: SubtaskMetrics


class Subtasks(BaseModel):
    """The subtasks of one vertex."""

    subtasks: list[Subtask]


class PlacedSubtask(Renamed):
    """Where one subtask is."""

    subtask: int
    worker: str = Field(default="", alias="taskmanager-id")


class Placed(BaseModel):
    """Where the subtasks of one vertex are."""

    subtasks: list[PlacedSubtask]


class MetricId(BaseModel):
    """A metric that a vertex has."""

    id: str


class MetricIds(RootModel[list[MetricId]]):
    """The metrics that a vertex has."""


class MetricSum(BaseModel):
    """A metric over all subtasks of a vertex."""

    id: str
    sum: float


class MetricSums(RootModel[list[MetricSum]]):
    """Metrics over all subtasks of a vertex."""


class Slots(Renamed):
    """What the cluster has."""

    total: int = Field(alias="slots-total")


class Bounds(Renamed):
    """How many subtasks a vertex may have."""

    lower: int = Field(alias="lowerBound")
    upper: int = Field(alias="upperBound")


class Requirement(BaseModel):
    """What is asked for of one vertex."""

    parallelism: Bounds


class Requirements(RootModel[dict[str, Requirement]]):
    """Vertex id -> what is asked for."""

    def upper(self) -> Mapping[str, int]:
        """Return vertex id -> largest parallelism."""
        return {vertex: requirement.parallelism.upper for vertex, requirement in self.root.items()}


class Setting(BaseModel):
    """One key of a cluster's configuration; those that nobody set are not shown."""

    key: str
    value: str


class Configuration(RootModel[list[Setting]]):
    """The configuration of a cluster, as far as it was set."""

    def values(self) -> Mapping[str, str]:
        """Return key -> value."""
        return {pair.key: pair.value for pair in self.root}


class Version(Renamed):
    """Which Flink answers."""

    version: str = Field(alias="flink-version")

    @property
    def numbers(self) -> tuple[int, int]:
        """Major and minor; (0, 0) where it has none."""
        found = re.match(r"(\d+)\.(\d+)", self.version)
        return (0, 0) if found is None else (int(found[1]), int(found[2]))


class CheckpointConfig(BaseModel):
    """How a job makes checkpoints; the interval is in ms, and absent where it makes none of its own."""

    interval: int


class Triggered(Renamed):
    """A checkpoint that was asked for."""

    id: str = Field(alias="request-id")


class Stage(BaseModel):
    """How far something is: ``IN_PROGRESS`` or ``COMPLETED``, which it also is once it has failed."""

    id: str


class CheckpointOutcome(Renamed):
    """What came of a checkpoint; of one that failed, why."""

    id: int | None = Field(default=None, alias="checkpointId")
    failure: dict[str, object] | None = Field(default=None, alias="failureCause")


class CheckpointProgress(BaseModel):
    """Where a checkpoint stands that was asked for."""

    status: Stage
    operation: CheckpointOutcome | None = None


class Accepted(RootModel[dict[str, object]]):
    """An answer that says no more than that it was accepted."""


def gist(refusal: Any) -> str:
    """Return the telling line of Flink's refusal, which carries a stack trace: its last cause or message.

    Raises ``KeyError``, ``TypeError``, ``IndexError`` when no such line is in it.
    """
    errors = refusal["errors"]
    texts = [errors] if isinstance(errors, str) else errors
    lines = [line.strip() for error in texts for line in str(error).splitlines()]
    telling = [line for line in lines if line and not line.startswith(("at ", "... ", "<", "End of exception"))]
    return telling[-1].removeprefix("Caused by: ")

"""What Flink's REST API answers, as far as a target needs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, RootModel

OVER = frozenset({"FAILED", "CANCELED", "FINISHED"})


class Summary(BaseModel):
    """One job of the overview."""

    jid: str
    name: str
    state: str


class Overview(BaseModel):
    """All jobs that the JobManager still knows, those that have ended among them."""

    jobs: list[Summary]


class Vertex(BaseModel):
    """One vertex of a job: operators that are chained together.

    Attributes
    ----------
    parallelism
        Subtasks; not positive while none are deployed.
    tasks
        State -> subtasks in it.
    """

    model_config = ConfigDict(populate_by_name=True)

    id: str
    name: str
    parallelism: int
    max_parallelism: int = Field(alias="maxParallelism")
    tasks: dict[str, int] = Field(default_factory=dict)

    @property
    def runs(self) -> bool:
        """Whether every subtask works, or has ended its work."""
        return self.tasks.get("RUNNING", 0) + self.tasks.get("FINISHED", 0) >= self.parallelism > 0


class Input(BaseModel):
    """One input of a vertex: the id of the vertex that feeds it."""

    id: str


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
    plan: Plan = Field(default_factory=Plan)

    @property
    def names(self) -> Mapping[str, str]:
        """Vertex id -> what it is called: its name where no other has it, else its id."""
        told = [vertex.name for vertex in self.vertices]
        return {one.id: one.name if told.count(one.name) == 1 else one.id for one in self.vertices}

    @property
    def parallelism(self) -> int:
        """Subtasks of the widest vertex: the slots that the job holds, where all vertices share them."""
        return max((vertex.parallelism for vertex in self.vertices), default=0)


class SubtaskMetrics(BaseModel):
    """What one subtask has done since it began; times in ms.

    Until the JobManager has heard of it, every figure is 0 and ``complete`` is false.
    """

    model_config = ConfigDict(populate_by_name=True)

    read: float = Field(alias="read-records")
    written: float = Field(alias="write-records")
    complete: bool = Field(alias="write-records-complete")
    busy_ms: float = Field(alias="accumulated-busy-time")
    idle_ms: float = Field(alias="accumulated-idle-time")
    back_pressured_ms: float = Field(alias="accumulated-backpressured-time")


class Subtask(BaseModel):
    """One subtask; another attempt begins at another time."""

    model_config = ConfigDict(populate_by_name=True)

    start_ms: int = Field(alias="start-time")
    metrics: SubtaskMetrics


class Subtasks(BaseModel):
    """The subtasks of one vertex."""

    subtasks: list[Subtask]


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


class Slots(BaseModel):
    """What the cluster has."""

    model_config = ConfigDict(populate_by_name=True)

    total: int = Field(alias="slots-total")


class Bounds(BaseModel):
    """How many subtasks a vertex may have."""

    model_config = ConfigDict(populate_by_name=True)

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


class Accepted(RootModel[dict[str, object]]):
    """An answer that says no more than that it was accepted."""


def gist(refusal: Any) -> str:
    """Return the telling line of Flink's refusal, which carries a stack trace: its last cause or message.

    Raises
    ------
    KeyError, TypeError, IndexError
        When no such line is in it.
    """
    errors = refusal["errors"]
    told = [errors] if isinstance(errors, str) else errors
    lines = [line.strip() for error in told for line in str(error).splitlines()]
    telling = [line for line in lines if line and not line.startswith(("at ", "... ", "<", "End of exception"))]
    return telling[-1].removeprefix("Caused by: ")

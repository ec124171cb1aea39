"""A job graph as the rule sees it, and what is measured of it at one moment."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property


@dataclass(frozen=True)
class Vertex:
    """One vertex of a job graph."""

    name: str
    parallelism: int
    maximum: int  # the parallelism that can be used at most: key groups, unless ``groups`` says how many there are
    # Upstream vertex -> whether records are distributed to this one by the hash of a key. Empty: a source
    inputs: Mapping[str, bool] = field(default_factory=dict)
    partitions: int | None = None  # of a source, where they are known
    groups: int | None = None  # key groups, where something else, such as slots, bounds the parallelism, too

    @property
    def is_source(self) -> bool:
        """Whether nothing flows into it from another vertex."""
        return not self.inputs


@dataclass(frozen=True)
class Graph:
    """Vertices in topological order. Raises ``ValueError`` when a vertex comes before one of its inputs."""

    vertices: tuple[Vertex, ...]

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for vertex in self.vertices:
            late = [name for name in vertex.inputs if name not in seen]
            if late or vertex.name in seen:
                why = f"its inputs {', '.join(late)} do not come before it" if late else "it occurs twice"
                raise ValueError(f"vertex '{vertex.name}': {why}; give each vertex once, in topological order")
            seen.add(vertex.name)

    def __iter__(self) -> Iterator[Vertex]:
        return iter(self.vertices)

    @cached_property
    def outputs(self) -> Mapping[str, tuple[str, ...]]:
        """Vertex -> the vertices that it feeds."""
        return {
            vertex.name: tuple(v.name for v in self.vertices if vertex.name in v.inputs) for vertex in self.vertices
        }


@dataclass(frozen=True)
class Measured:
    """What was measured of a vertex at one moment; NaN: not known."""

    # records_in, records_out: counted since the job's start, over all subtasks
    records_in: float
    records_out: float = math.nan
    load: float = math.nan  # busy share of the subtask that stands for all (the greatest or the least), ratio
    in_per_s: float = math.nan  # records/s that come in, as the engine's meter says it
    busy_ms: float = math.nan  # time worked since the job's start, summed over subtasks: used with the aggregator AVG
    lag: float = 0.0  # records that wait at a source
    # True processing rate as observed at a source (:func:`perdix.policies.flink_autoscaler.window.observed_per_s`)
    observed_per_s: float = math.nan


@dataclass(frozen=True)
class Sample:
    """All vertices at one moment (epoch seconds)."""

    at_s: float
    vertices: Mapping[str, Measured]


Samples = Sequence[Sample]

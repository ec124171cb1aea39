"""The contract of a policy that sizes operators."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from perdix.models.dataflow.graph import Dataflow
from perdix.models.dataflow.rates import InstanceWindow
from perdix.policies.contract import Reason


@dataclass(frozen=True)
class DataflowSituation:
    """All that a policy may know of a dataflow at one policy interval."""

    now_s: float  # epoch seconds
    graph: Dataflow
    parallelism: Mapping[str, int]  # operator -> instances that really run
    # Operator -> what its instances did since the policy was asked last; an operator that is missing did not report
    windows: Mapping[str, InstanceWindow]
    # Source -> records/s that it should emit (what arrives); a source that is missing is not known
    source_per_s: Mapping[str, float]
    # Source -> records that wait before it; missing: not measured
    lag_records: Mapping[str, float] = field(default_factory=dict)
    # Instances that the cluster can run of all operators together, or with ``slots_shared`` of the largest; ``None``:
    # no limit
    slots: int | None = None
    slots_shared: bool = False
    since_rescale_s: float = float("inf")  # seconds since the last rescale took effect; infinite when there was none
    memory: Mapping[str, Any] = field(default_factory=dict)  # what the policy asked to remember with its last decision

    def most_instances(self, name: str) -> int | None:
        """Return how many instances an operator can have by its bound and the slots; ``None``: no limit.

        A shared slot holds one of each operator; else those that the other operators leave are there.
        """
        others = 0 if self.slots_shared else sum(self.parallelism.values()) - self.parallelism[name]
        of_slots = None if self.slots is None else self.slots - others
        return min((most for most in (self.graph[name].maximum, of_slots) if most is not None), default=None)


@dataclass(frozen=True)
class OperatorVerdict:
    """What was found of one operator: instances wanted where they are a division, unrounded, and why in words."""

    operator: str
    unrounded: float | None
    why: str


@dataclass(frozen=True)
class DataflowDecision:
    """What a policy chose, and why."""

    policy: str
    parallelism: Mapping[str, int]  # every operator -> instances to run
    reason: Reason
    sentence: str  # the binding reason in one sentence, with its numbers
    operators: tuple[OperatorVerdict, ...] = ()  # what was found of each operator that was examined
    memory: Mapping[str, Any] = field(default_factory=dict)  # JSON-serialisable
    # What is remembered where the changes are not made: what was seen. ``None``: what was remembered before
    seen: Mapping[str, Any] | None = None

    def changes(self, situation: DataflowSituation) -> Mapping[str, int]:
        """Return operator -> instances, for those that change."""
        return {name: n for name, n in self.parallelism.items() if situation.parallelism.get(name) != n}


class DataflowPolicy(Protocol):
    """Pure and deterministic: the same situation gives the same decision."""

    name: str

    def decide(self, situation: DataflowSituation) -> DataflowDecision:
        """Choose the parallelism of every operator."""

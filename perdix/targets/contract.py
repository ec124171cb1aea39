"""The contract of a target: read what runs, ask for another scale-out, idempotently."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, Self, runtime_checkable

from perdix.models.capacity.key_groups import Subtasks
from perdix.settings.plain_error import PlainError
from perdix.settings.stream_job import MOST_WORKERS

Guard = Callable[[], None]
"""Called at the last moment before a request that changes something leaves; raises when it must not leave any more."""


def unguarded() -> None:
    """Let every request leave."""


class Fault(StrEnum):
    """What a failed call says of the next one; stable names, which are stored."""

    PASSING = "passing"  # no answer, half of one, or "later": the same call may succeed in a minute
    LASTING = "lasting"  # who asks, or where: nothing succeeds before somebody has fixed it
    SIZE = "size"  # these workers cannot be had; others may


class TargetError(PlainError):
    """The target could not be read or did not accept.

    ``retriable``: whether the same call may succeed later.
    ``fault``: what is at fault; left out, it passes where the call may succeed later, and is the size where not.
    ``most``: workers that can be had, where the target says so of itself; ``None``: it does not.
    """

    def __init__(
        self, message: str, *, retriable: bool = True, fault: Fault | None = None, most: int | None = None
    ) -> None:
        super().__init__(message)
        self.retriable, self.most = retriable, most
        self.fault = fault or (Fault.PASSING if retriable else Fault.SIZE)


@dataclass(frozen=True)
class Running:
    """What a target says of itself.

    Raises ``TargetError`` where no job has this many workers: such an answer is as good as none.
    """

    scale_out: int  # workers that really run
    requested: int | None  # workers that were last asked for, as the target remembers it; ``None`` when it does not
    settled: bool  # false while a rescale is under way
    # mix, requested_mix: size -> workers, of those numbers, zeros left out; empty where workers are equal or not
    # distinguished
    mix: Mapping[str, int] = field(default_factory=dict)
    requested_mix: Mapping[str, int] = field(default_factory=dict)
    note: str = field(default="", compare=False)  # what of a request went otherwise than it should, in words
    # Which worker has which subtask of the job; ``None`` where the target does not report it, or each has several
    subtasks: Subtasks | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        for count in (self.scale_out, self.requested or 0):
            if not 0 <= count <= MOST_WORKERS:  # the number itself may have thousands of digits
                raise TargetError(f"the target reports a number of workers outside 0 to {MOST_WORKERS:,}")

    def is_at(self, scale_out: int, mix: Mapping[str, int]) -> bool:
        """Whether that deployment runs; without a mix the number alone counts."""
        return self.scale_out == scale_out and (not mix or dict(self.mix) == dict(mix))

    def is_asked_for(self, scale_out: int, mix: Mapping[str, int]) -> bool:
        """Whether that deployment is what was last asked for."""
        return self.requested == scale_out and (not mix or dict(self.requested_mix) == dict(mix))


class Target(Protocol):
    """Raises nothing but :class:`TargetError`, and what a guard raises."""

    def read(self) -> Running:
        """Return what really runs."""

    def scale(
        self, scale_out: int, idempotency_key: str, mix: Mapping[str, int] | None = None, guard: Guard = unguarded
    ) -> Running:
        """Ask for ``scale_out`` workers; a repeated key changes nothing more than that these are asked for.

        ``mix``: size -> workers, which sum to ``scale_out``; left out where workers are equal.
        ``guard``: after all that has to be read first, and again before each further attempt. When it raises, nothing
        leaves.
        """

    def close(self) -> None:
        """Close the connections, if there are any."""


@runtime_checkable
class ScalesOperators(Protocol):
    """A target that knows the operators of a job: :class:`perdix.targets.flink.target.FlinkTarget`."""

    def requested_operators(self) -> Mapping[str, int]:
        """Return operator -> instances that were last asked for."""

    def scale_operators(
        self, parallelism: Mapping[str, int], idempotency_key: str, guard: Guard = unguarded
    ) -> Running:
        """Ask for the instances of single operators."""


class Connected(ABC):
    """A target with connections, as a context that closes them."""

    @abstractmethod
    def close(self) -> None:
        """Close the connections."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

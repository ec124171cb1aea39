"""The contract of a target: read what runs, ask for another scale-out, idempotently."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class TargetError(Exception):
    """The target could not be read or did not accept. ``retriable`` says whether the same call may succeed later."""

    def __init__(self, message: str, *, retriable: bool = True) -> None:
        super().__init__(message)
        self.retriable = retriable


@dataclass(frozen=True)
class Running:
    """What a target says of itself.

    Attributes
    ----------
    scale_out
        Workers that really run.
    requested
        Workers that were last asked for, as the target remembers it; ``None`` when it does not.
    settled
        False while a rescale is under way.
    """

    scale_out: int
    requested: int | None
    settled: bool


class Target(Protocol):
    """Raises nothing but :class:`TargetError`."""

    def read(self) -> Running:
        """Return what really runs."""
        ...

    def scale(self, scale_out: int, idempotency_key: str) -> Running:
        """Ask for ``scale_out`` workers; a repeated key changes nothing more."""
        ...

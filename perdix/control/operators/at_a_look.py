"""The operators of a Flink job as a target: its mixes say how many instances each has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol, Self

from perdix.targets.contract import Guard, Running, unguarded


class ScalesOperators(Protocol):
    """Gives operators their instances: :class:`perdix.targets.flink.target.FlinkTarget`."""

    def scale_operators(
        self, parallelism: Mapping[str, int], idempotency_key: str, guard: Guard = unguarded
    ) -> Running:
        """Ask for the parallelism of single operators; raises ``TargetError``, and what the guard raises."""
        ...


def in_words(_: int, mix: Mapping[str, int]) -> str:
    """Return operators with their instances: ``count at 6, source at 2``."""
    return ", ".join(f"{name} at {count}" for name, count in sorted(mix.items()))


@dataclass
class AtALook:
    """Some operators as one look found them; nothing is read again.

    Attributes
    ----------
    running
        What runs of them, and what was asked for.
    accepted
        Whether Flink has accepted what was asked for since.
    """

    running: Running
    operators: ScalesOperators
    accepted: bool = False

    @classmethod
    def of(cls, running: Running, names: Iterable[str], operators: ScalesOperators) -> Self:
        """Return those that are named; how the others are scaled is not this loop's business."""
        runs, asked = ({name: of[name] for name in names if name in of} for of in (running.mix, running.requested_mix))
        largest, most = max(runs.values(), default=0), max(asked.values(), default=None)
        return cls(replace(running, scale_out=largest, requested=most, mix=runs, requested_mix=asked), operators)

    def read(self) -> Running:
        """Return what the look found."""
        return self.running

    def scale(
        self,
        scale_out: int,  # noqa: ARG002 - the mix says it
        idempotency_key: str,
        mix: Mapping[str, int] | None = None,
        guard: Guard = unguarded,
    ) -> Running:
        """Ask for the instances of ``mix``; raises ``TargetError``, and what the guard raises."""
        after = self.operators.scale_operators(mix or {}, idempotency_key, guard)
        self.accepted = True
        return after

    def close(self) -> None:
        """Nothing was opened."""

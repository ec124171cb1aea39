"""The operators of a Flink job as a target: its mixes say how many instances each has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from perdix.targets.contract import Guard, Running, ScalesOperators, unguarded


def in_words(_: int, mix: Mapping[str, int]) -> str:
    """Return operators with their instances: ``count at 6, source at 2``."""
    return ", ".join(f"{name} at {count}" for name, count in sorted(mix.items()))


def agrees(these: Mapping[str, int], mix: Mapping[str, int]) -> bool:
    """Whether the operators that a mix names are as it says; the others are not its business."""
    return all(these.get(name) == count for name, count in mix.items())


@dataclass(frozen=True)
class OfOperators(Running):
    """What runs of all operators; only those are compared that a decision names."""

    def is_at(self, _: int, mix: Mapping[str, int]) -> bool:
        """Whether those of the mix run so."""
        return agrees(self.mix, mix)

    def is_asked_for(self, _: int, mix: Mapping[str, int]) -> bool:
        """Whether those of the mix were asked for so."""
        return agrees(self.requested_mix, mix)


@dataclass
class AtALook:
    """The operators as one look found them; nothing is read again."""

    running: OfOperators
    operators: ScalesOperators
    accepted: bool = False  # whether Flink has accepted what was asked for since

    @classmethod
    def of(cls, running: Running, operators: ScalesOperators, wanted: Mapping[str, int]) -> AtALook:
        """Return what a look found; its scale-out is that of the operators in ``wanted``, if any."""
        found = OfOperators(**vars(running))
        largest = max((count for name, count in found.mix.items() if name in wanted), default=found.scale_out)
        return cls(replace(found, scale_out=largest), operators)

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

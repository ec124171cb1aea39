"""The size that was left for a larger one: who goes back to it while as much arrives is late again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from perdix.policies.remembering import number, part_of

MEMORY_S = 4 * 3600.0
AS_MUCH = 0.95  # of the load at which it was left


@dataclass(frozen=True)
class Outgrown:
    """The largest size that was left for a larger one in the last hours."""

    size: float = 0.0  # its scale-out; 0 where there is none
    per_s: float = 0.0  # the load at which it was left, records/s
    at_s: float = 0.0  # when, epoch seconds

    def looked(self, now_s: float, before: float | None, scale_out: int, per_s: float) -> Self:
        """Return what is known after another look at what runs, and ran ``before``, under a load in records/s."""
        if before is None or scale_out <= before or (before < self.size and self._remembered(now_s)):
            return self
        return type(self)(before, per_s, now_s)

    def too_small(self, scale_out: float, per_s: float, now_s: float) -> bool:
        """Whether a size would be left again for the load that there is, records/s."""
        return scale_out <= self.size and per_s >= AS_MUCH * self.per_s and self._remembered(now_s)

    def _remembered(self, now_s: float) -> bool:
        return 0.0 <= now_s - self.at_s <= MEMORY_S

    def to_state(self) -> dict[str, float]:
        """Return a JSON-serialisable state."""
        return dict(vars(self))

    @classmethod
    def of_memory(cls, memory: Mapping[str, Any]) -> Outgrown:
        """Return what a policy's memory holds; nothing where it holds nothing that can be read."""

        def read(state: Mapping[str, Any]) -> Outgrown:
            return cls(number(state["size"]), number(state["per_s"]), number(state["at_s"]))

        return part_of(memory.get("outgrown"), read) or cls()

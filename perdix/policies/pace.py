"""How fast a job uses up the rescales of its day: who would be out of them by noon pays more for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from perdix.policies import fading
from perdix.policies.remembering import number, part_of
from perdix.settings.durations import DAY_S

MEMORY_S = 4 * 3600.0  # after which a rescale weighs 1 / e
STEEP = 4.0  # power of how many times too fast they are used up
MOST = 1_000.0  # rescales that are counted


@dataclass(frozen=True)
class Pace:
    """How often a job was rescaled recently: a sum that fades with :data:`MEMORY_S`."""

    rescales: float = 0.0
    at_s: float | None = None  # epoch seconds up to which was counted; ``None`` before the first count

    def looked(self, now_s: float, *, rescaled: bool) -> Self:
        """Return what is known after another look, since which the job was rescaled or not."""
        fade, _ = fading.since(self.at_s, now_s, memory_s=MEMORY_S, longest_s=0.0)
        return type(self)(self.rescales * fade + rescaled, now_s)

    def dearer(self, per_day: int) -> float:
        """Return how many times as much a rescale must save as at an even pace of this many a day; 1 at least."""
        even = max(per_day, 1) * MEMORY_S / DAY_S
        return float(max(self.rescales / even, 1.0) ** STEEP)

    def to_state(self) -> dict[str, float | None]:
        """Return a JSON-serialisable state."""
        return dict(vars(self))

    @classmethod
    def of_memory(cls, memory: Mapping[str, Any]) -> Pace:
        """Return what a policy's memory holds; no rescale where it holds nothing that can be read."""

        def read(state: Mapping[str, Any]) -> Pace:
            return cls(min(max(number(state["rescales"]), 0.0), MOST), part_of(state["at_s"], number))

        return part_of(memory.get("pace"), read) or cls()

"""The rival of all plans is the best fixed size of the last hours: who loses against it stays at or above it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from perdix.models.forecasting.foresight import HALF_LIFE
from perdix.policies import fading
from perdix.policies.contract import AgainstFixed
from perdix.policies.remembering import number, part_of
from perdix.settings.durations import MINUTE_S
from perdix.settings.replacing import replace

MEMORY_S = HALF_LIFE * MINUTE_S / math.log(2.0)  # as the minutes by which the fixed size is judged fade
LEAST_S = 3_600.0  # faded seconds that must have been seen
DEARER = 1.1  # times the workers of the fixed size
STANDS_S = 6 * 3600.0  # after the first defeat; twice as long after each further one
LONGEST_S = 48 * 3600.0
MOST_DEFEATS = 8.0  # that are counted
NEVER_S = -1.0


@dataclass(frozen=True)
class Rival:
    """What ran and how late it was, in sums that fade with :data:`MEMORY_S`, and for how long the fixed size binds."""

    # worker_s, late_s, seen_s: faded worker-seconds, late seconds and seconds
    worker_s: float = 0.0
    late_s: float = 0.0
    seen_s: float = 0.0
    at_s: float | None = None  # epoch seconds up to which was counted; ``None`` before the first count
    stands_until_s: float = NEVER_S  # epoch seconds until which the fixed size stands; below 0: none does
    defeats: float = 0.0  # in a row
    size: float = math.inf  # fixed size that did better than the plans at the last defeat
    since_s: float | None = None  # epoch seconds from which on was counted; ``None``: not known
    fewest: float = math.inf  # workers that ran since then
    binds: bool = True  # whether fewer than ``size`` had run before the last defeat

    def counted(self, now_s: float, scale_out: int, late: float, *, longest_s: float) -> Self:
        """Return the sums with the time since the last count, of which ``late`` (0 to 1) was late."""
        fade, counted_s = fading.since(self.at_s, now_s, memory_s=MEMORY_S, longest_s=longest_s)
        if counted_s <= 0.0:
            return replace(self, at_s=now_s)
        return replace(
            self,
            worker_s=self.worker_s * fade + scale_out * counted_s,
            late_s=self.late_s * fade + late * counted_s,
            seen_s=self.seen_s * fade + counted_s,
            at_s=now_s,
            since_s=now_s - counted_s if self.seen_s <= 0.0 else self.since_s,
            fewest=min(self.fewest, float(scale_out)),
        )

    def stands(self, now_s: float) -> bool:
        """Whether the fixed size stands now; a clock that was set far back ends it."""
        return self.stands_until_s - LONGEST_S <= now_s < self.stands_until_s

    def stood_at(self, now_s: float, fixed: float) -> float:
        """Return the fixed size that is gone to from more workers now; 0 where none is.

        What carries a load that came after the defeat never did better than a plan.
        """
        return min(self.size, fixed) if self.stands(now_s) else 0.0

    def at_least(self, now_s: float, fixed: float) -> float:
        """Return the workers that no plan goes below now; 0 where all may.

        Who never went below the fixed size did not lose by it.
        """
        return self.stood_at(now_s, fixed) if self.binds else 0.0

    def judged(self, now_s: float, fixed: float, fixed_late: float) -> Self:
        """Return what follows from a fixed size that would have been late in a share ``fixed_late`` of the last hours.

        After that all plans are tried anew, and what was counted meanwhile says nothing of them.
        """
        if self.stands(now_s):
            return self
        if self.stands_until_s >= 0.0:
            return type(self)(at_s=self.at_s, defeats=self.defeats)
        compared = self.against(fixed, fixed_late)
        if compared is None:
            return self
        if compared.loses:
            stands_s = min(STANDS_S * 2.0**self.defeats, LONGEST_S)
            defeats = min(self.defeats + 1.0, MOST_DEFEATS)
            binds = self.fewest < fixed
            return replace(self, stands_until_s=now_s + stands_s, defeats=defeats, size=fixed, binds=binds)
        won = self.seen_s > 0.9 * MEMORY_S and self.workers < fixed
        return replace(self, defeats=0.0) if won else self

    @property
    def workers(self) -> float:
        """Mean workers that ran, of what was counted; NaN before anything was."""
        return self.worker_s / self.seen_s if self.seen_s > 0 else math.nan

    def against(self, fixed: float, fixed_late: float) -> AgainstFixed | None:
        """Return what was counted against that fixed size; ``None`` before an hour was."""
        if self.seen_s < LEAST_S:
            return None
        late = self.late_s / self.seen_s
        loses = self.workers > DEARER * fixed and late >= fixed_late
        return AgainstFixed(self.workers, late, fixed, fixed_late, loses)

    def to_state(self) -> dict[str, Any]:
        """Return a JSON-serialisable state."""
        unknown = {name: None for name in ("size", "fewest") if math.isinf(getattr(self, name))}
        return {**vars(self), **unknown}

    @classmethod
    def of_memory(cls, memory: Mapping[str, Any]) -> Rival:
        """Return what a policy's memory holds; nothing where it holds nothing that can be read."""

        def read(state: Mapping[str, Any]) -> Rival:
            sums = [number(state[name]) for name in ("worker_s", "late_s", "seen_s")]
            if min(sums) < 0:
                raise ValueError("times are not negative")
            at_s = part_of(state["at_s"], number)
            until_s, defeats = number(state["stands_until_s"]), min(max(number(state["defeats"]), 0.0), MOST_DEFEATS)
            size, since_s = (part_of(state.get(name), number) for name in ("size", "since_s"))
            fewest = part_of(state.get("fewest", 0.0), number)  # a state from before there was one binds
            return cls(
                sums[0],
                sums[1],
                sums[2],
                at_s,
                until_s,
                defeats,
                math.inf if size is None else size,
                since_s,
                math.inf if fewest is None else fewest,
                state.get("binds") is not False,
            )

        return part_of(memory.get("rival"), read) or cls()

"""How late a job was at each size that ran, as measured: a size that ran is judged by what it did."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from perdix.policies import fading
from perdix.policies.remembering import number, parts_by_name

MEMORY_S = 8 * 3600.0  # after which a second weighs 1 / e
BELIEVED_S = 3_600.0  # that what is believed of a size weighs beside what was measured of it
LEAST_S = 6 * 3600.0  # of whose budget is spent before a size is late too often: lateness comes in bursts
RAN_S = 30.0  # faded, above which a size is remembered to have run
MOST_SIZES = 12  # that are remembered, those that ran longest


@dataclass(frozen=True)
class LateAt:
    """Late and all seconds at each size, in sums that fade with :data:`MEMORY_S`."""

    sizes: Mapping[int, tuple[float, float]] = field(default_factory=dict)  # scale-out -> late seconds and seconds
    at_s: float | None = None  # epoch seconds up to which was counted; ``None`` before the first count

    def counted(self, now_s: float, scale_out: int, late: float | None, *, longest_s: float) -> Self:
        """Return the sums with the time since the last count; ``late`` (0 to 1) of it was, ``None`` is unknown."""
        fade, counted_s = fading.since(self.at_s, now_s, memory_s=MEMORY_S, longest_s=longest_s)
        sizes = {size: (late_s * fade, seen_s * fade) for size, (late_s, seen_s) in self.sizes.items()}
        if late is not None and counted_s > 0.0:
            late_s, seen_s = sizes.get(scale_out, (0.0, 0.0))
            sizes[scale_out] = late_s + late * counted_s, seen_s + counted_s
        longest = sorted(sizes, key=lambda size: -sizes[size][1])[:MOST_SIZES]
        return type(self)({size: sizes[size] for size in sorted(longest)}, now_s)

    def overspent(self, scale_out: int, budget: float) -> bool:
        """Whether a size was late for more than the share ``budget`` of the time, of hours at least."""
        late_s, seen_s = self.sizes.get(scale_out, (0.0, 0.0))
        return late_s > max(budget * max(seen_s, LEAST_S), fading.FORGOTTEN_S)

    def ran(self, scale_out: int) -> bool:
        """Whether a size ran, so long or so late that it is remembered."""
        return self.sizes.get(scale_out, (0.0, 0.0))[1] > RAN_S

    def share(self, scale_out: int, believed: float) -> float:
        """Return the share of the time in which a size is late: as measured, beside what is believed of it."""
        late_s, seen_s = self.sizes.get(scale_out, (0.0, 0.0))
        late_s = late_s if late_s > fading.FORGOTTEN_S else 0.0
        return (late_s + believed * BELIEVED_S) / (seen_s + BELIEVED_S)

    def to_state(self) -> dict[str, Any]:
        """Return a JSON-serialisable state."""
        return {"at_s": self.at_s, "sizes": {str(size): list(sums) for size, sums in self.sizes.items()}}

    @classmethod
    def of_memory(cls, memory: Mapping[str, Any]) -> LateAt:
        """Return what a policy's memory holds; nothing where it holds nothing that can be read."""
        state = memory.get("late_at")
        if not isinstance(state, Mapping):
            return cls()

        def sums(value: Any) -> tuple[float, float]:
            late_s, seen_s = map(number, value)
            if not 0.0 <= late_s <= seen_s:
                raise ValueError("no more than all seconds are late")
            return late_s, seen_s

        sizes = {
            int(name): found for name, found in parts_by_name(state.get("sizes"), sums).items() if name.isdecimal()
        }
        at_s = state.get("at_s")
        return cls(sizes, float(at_s) if isinstance(at_s, int | float) and math.isfinite(at_s) else None)

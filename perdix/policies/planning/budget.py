"""The error budget of a job: how much of it is spent, and what a late second costs therefore.

A price that stays as it is spends a budget best, but nobody knows which one a stranger's job needs. So it begins high,
falls for as long as next to nothing is late, and follows what is spent, within limits: where a late second is dearer
than that, no scale-in is worth its rescale any more, and the most workers stand until the budget is forgotten.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from perdix.policies import fading
from perdix.policies.remembering import number, part_of
from perdix.settings.replacing import replace

LATE_PRICE = 24.0  # busy workers that a late second weighs when the usual budget is spent as fast as it is given
USUAL_BUDGET = 0.05  # a smaller one makes each of its seconds dearer
MEMORY_S = 8 * 3600.0  # after which a late second weighs 1 / e; no day: what is overspent must be seen in time
ASSUMED = 1.0  # of what is meant to be spent, before anything was seen
STEEP = 1.5  # growth of the price's logarithm with what is spent
SLOW_S = 6 * 3600.0  # in which the usual price falls to 1 / e while nothing is late
LOWEST, HIGHEST = -1.5, 1.0  # of the usual price's logarithm
MOST = 3.0  # times the budget: more counts as that much
AIM = 0.8  # of the budget that is meant to be spent: the rest is for what nobody foresaw
NEW = 0.25  # of that is kept back while nothing was seen: a few bad minutes are a large share of a job's first hours
LEAST_LEFT = -10.0  # of the budget, however much more was spent
DEAREST = 0.9  # logarithm of a price
NO_BUDGET = 6.0  # likewise, where no second may be late


@dataclass(frozen=True)
class Spent:
    """Seconds, late and all, that fade with :data:`MEMORY_S`."""

    # late_s, seen_s: faded sums
    late_s: float = 0.0
    seen_s: float = 0.0
    at_s: float | None = None  # epoch seconds up to which was counted; ``None`` before the first count
    usual: float = 0.0  # logarithm of the usual price, beside the one that is assumed of a stranger's job
    ours_s: float = 0.0  # of the late seconds those that more workers would have spared: what the price follows

    def counted(self, now_s: float, late: float, budget: float, *, longest_s: float, curable: bool = True) -> Self:
        """Return the sums with the time since the last count, of which ``late`` (0 to 1) was late.

        ``curable``: whether more workers would have spared it.
        """
        fade, counted_s = fading.since(self.at_s, now_s, memory_s=MEMORY_S, longest_s=longest_s)
        late_s, seen_s = self.late_s * fade + late * counted_s, self.seen_s * fade + counted_s
        ours_s = self.ours_s * fade + curable * late * counted_s
        meant = self._meant(budget)
        times = curable * late / meant if meant > 0.0 else MOST
        usual = min(max(self.usual + (times - 1.0) * counted_s / SLOW_S, LOWEST), HIGHEST)
        return replace(self, late_s=late_s, seen_s=seen_s, at_s=now_s, usual=usual, ours_s=ours_s)

    def _meant(self, budget: float) -> float:
        """Return the share of the time that is meant to be late; it rises while a job is new."""
        return budget * AIM * (1.0 - NEW * max(1.0 - self.seen_s / MEMORY_S, 0.0))

    def share(self, budget: float) -> float:
        """Return how much is spent of what is meant to be: 1 when that is spent as fast as it is given."""
        budget = self._meant(budget)
        if budget <= 0.0:
            return math.inf if self.ours_s > fading.FORGOTTEN_S else 1.0
        unseen = max(MEMORY_S - self.seen_s, 0.0)
        return (self.ours_s + ASSUMED * budget * unseen) / (budget * (self.seen_s + unseen))

    def left(self, budget: float) -> float:
        """Return what is left of the whole budget of what is remembered: 1 is all of it, below 0 it is overspent."""
        if self.late_s <= fading.FORGOTTEN_S:
            return 1.0
        given_s = budget * max(self.seen_s, MEMORY_S)
        return max(1.0 - self.late_s / given_s, LEAST_LEFT) if given_s > 0.0 else LEAST_LEFT

    def left_s(self, budget: float) -> float:
        """Return how many seconds more may be late; 0 where the budget is overspent."""
        return max(budget * max(self.seen_s, MEMORY_S) - self.late_s, 0.0)

    def to_state(self) -> dict[str, Any]:
        """Return a JSON-serialisable state."""
        return dict(vars(self))

    @classmethod
    def of_memory(cls, memory: Mapping[str, Any]) -> Spent:
        """Return what a policy's memory holds; nothing spent where it holds nothing that can be read."""

        def read(state: Mapping[str, Any]) -> Spent:
            usual = min(max(number(state["usual"]), LOWEST), HIGHEST)
            late_s = number(state["late_s"])
            ours_s = number(state.get("ours_s", late_s))
            found = cls(late_s, number(state["seen_s"]), number(state["at_s"]), usual, ours_s)
            if found.late_s < 0 or found.seen_s < 0 or found.ours_s < 0:
                raise ValueError("times are not negative")
            return found

        return part_of(memory.get("spent"), read) or cls()

    def price(self, budget: float) -> float:
        """Return what a late second costs as a multiple of what is assumed of a stranger's job and the usual budget."""
        if budget <= 0.0:
            return math.exp(NO_BUDGET)
        follows = math.exp(min(STEEP * (min(self.share(budget), MOST) - 1.0) + self.usual, DEAREST))
        return min(follows * USUAL_BUDGET / budget, math.exp(NO_BUDGET))

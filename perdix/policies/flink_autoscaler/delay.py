"""Scaling in waits: an interval long it must have been wanted, and then the most that was wanted is taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from perdix.policies.remembering import number


class Wanted(NamedTuple):
    """A parallelism below the present one that was wanted at a time, and whether the vertex was outside its band."""

    at_s: float
    parallelism: int
    outside: bool


@dataclass(frozen=True)
class PendingScaleDown:
    """What was wanted since ``first_s`` (epoch seconds).

    ``wanted`` is a monotonic deque: later entries are smaller, so its first is the greatest within the interval and
    its length is at most the parallelism.
    """

    first_s: float
    wanted: tuple[Wanted, ...] = ()

    def below(self, parallelism: int) -> bool:
        """Whether every wish is one to scale in from ``parallelism``, and to something."""
        return all(0 < demand.parallelism < parallelism for demand in self.wanted)

    def due(self, now_s: float, interval_s: float) -> Wanted | None:
        """Return the greatest wish of the interval once it has lasted that long."""
        return self.wanted[0] if self.wanted and now_s - interval_s >= self.first_s else None

    def to_json(self) -> list[Any]:
        """Return it as JSON-serialisable values."""
        return [self.first_s, [list(demand) for demand in self.wanted]]

    @classmethod
    def of_json(cls, values: Sequence[Any]) -> PendingScaleDown:
        """Return that of :meth:`to_json`. Raises ``ValueError``, ``TypeError`` or ``LookupError`` where it is none."""
        wanted = tuple(Wanted(number(at_s), int(n), bool(outside)) for at_s, n, outside in values[1])
        if any(before.parallelism <= after.parallelism for before, after in pairwise(wanted)):
            raise ValueError("not a monotonic deque")
        return cls(number(values[0]), wanted)


def pend(
    pending: PendingScaleDown | None, now_s: float, parallelism: int, *, outside: bool, interval_s: float
) -> PendingScaleDown:
    """Return ``pending`` with one more wish, without those older than the interval or no longer the greatest.

    The first one starts the timer.
    """
    begun = PendingScaleDown(now_s) if pending is None else pending
    kept = (wish for wish in begun.wanted if wish.at_s >= now_s - interval_s and wish.parallelism > parallelism)
    return PendingScaleDown(begun.first_s, (*kept, Wanted(now_s, parallelism, outside)))

"""Sizes that were left: how long workers that were given back are not needed again, and what was too small.

The former is learned from stays that ended, and from a steady load.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from perdix.policies.remembering import number, part_of
from perdix.settings.durations import MINUTE_S
from perdix.settings.replacing import replace
from perdix.telemetry.window import Values

USUAL_S = 2_700.0  # before any ended
MOST_SEEN = 6.0  # stays that the mean rests on at most: a job changes
SHORTEST_S, LONGEST_S = 60.0, 6 * 3600.0
ALIKE = 0.15  # difference of the logarithms of two loads up to which they are one load
NOW = 3  # minutes whose mean is the load of now
MEMORY_S = 4 * 3600.0  # for which a size that was left for a larger one is remembered
AS_MUCH = 0.95  # of the load at which it was left


def steady_s(minutes: Values) -> float:
    """Return for how long the load has been what it is now, seconds; the time that was measured counts.

    As long again is what anybody can expect of a state of which nothing is known but its age.

    ``minutes``: mean loads, records/s, shape ``(n,)``, the newest last; NaN where nothing was measured.
    """
    known = minutes[np.isfinite(minutes)]
    if not len(known) or not known[-1] > 0.0:
        return 0.0
    logs = np.log(np.maximum(known, np.finfo(float).tiny))
    differs = np.abs(logs - logs[-NOW:].mean()) > ALIKE
    return MINUTE_S * float(differs[::-1].argmax() if differs.any() else len(known))


@dataclass(frozen=True)
class Stays:
    """Times from a scale-in to the next scale-out."""

    # log_s, seen: mean of their logarithms, and how many it rests on; the usual one counts as the first
    log_s: float = math.log(USUAL_S)
    seen: float = 1.0
    scale_out: float | None = None  # what ran when it was looked at last; ``None`` before
    since_s: float | None = None  # epoch seconds of the scale-in after which no scale-out came yet

    def looked(self, now_s: float, scale_out: int) -> Self:
        """Return what is known after another look at what runs."""
        before = self.scale_out
        found = replace(self, scale_out=float(scale_out))
        if before is None or scale_out == before:
            return found
        if scale_out < before:
            return replace(found, since_s=now_s) if self.since_s is None else found
        if self.since_s is None:
            return found
        log_s = math.log(min(max(now_s - self.since_s, SHORTEST_S), LONGEST_S))
        moved = self.log_s + (log_s - self.log_s) / (self.seen + 1.0)
        return replace(found, log_s=moved, seen=min(self.seen + 1.0, MOST_SEEN), since_s=None)

    def expected_s(self, now_s: float) -> float:
        """Return how long the next one is expected to last; one that goes on is known to last so long at least."""
        usual_s = math.exp(self.log_s)
        return usual_s if self.since_s is None else max(usual_s, now_s - self.since_s)

    def to_state(self) -> dict[str, float | None]:
        """Return a JSON-serialisable state."""
        return dict(vars(self))

    @classmethod
    def of_memory(cls, memory: Mapping[str, Any]) -> Stays:
        """Return what a policy's memory holds; nothing seen where it holds nothing that can be read."""

        def read(state: Mapping[str, Any]) -> Stays:
            log_s = min(max(number(state["log_s"]), math.log(SHORTEST_S)), math.log(LONGEST_S))
            seen = min(max(number(state["seen"]), 1.0), MOST_SEEN)
            return cls(log_s, seen, part_of(state["scale_out"], number), part_of(state["since_s"], number))

        return part_of(memory.get("stays"), read) or cls()


@dataclass(frozen=True)
class Outgrown:
    """The largest size that was left for a larger one in the last hours: while as much arrives, it is late again."""

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

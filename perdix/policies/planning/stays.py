"""How long workers that were given back are not needed again: learned from stays that ended, and from a steady load."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from perdix.models.forecasting.foresight import MINUTE_S
from perdix.policies.remembering import number, part_of
from perdix.telemetry.window import Values

USUAL_S = 2_700.0  # before any ended
MOST_SEEN = 6.0  # stays that the mean rests on at most: a job changes
SHORTEST_S, LONGEST_S = 60.0, 6 * 3600.0
ALIKE = 0.15  # difference of the logarithms of two loads up to which they are one load
NOW = 3  # minutes whose mean is the load of now


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

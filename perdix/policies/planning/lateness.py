"""How often a job is late at a utilisation, although nothing waits: learned from its own latency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy.optimize import isotonic_regression

from perdix.policies.remembering import number, part_of
from perdix.telemetry.window import Values

EDGES = np.linspace(0.5, 1.0, 11)  # utilisations between which lateness is counted; the first class is all below
MIDDLES = np.concatenate(([0.4], (EDGES[1:] + EDGES[:-1]) / 2.0, [1.05]))
FORGETS = 0.999  # per minute
DOUBT = 5.0  # minutes that what was assumed before weighs


@dataclass(frozen=True)
class Lateness:
    """Minutes, and late ones among them, by utilisation; shape ``(12,)``."""

    minutes: Values = field(default_factory=lambda: np.zeros(len(MIDDLES)))
    late: Values = field(default_factory=lambda: np.zeros(len(MIDDLES)))

    def seen(self, utilisation: float, late: float, minutes: float = 1.0) -> Self:
        """Return what is known after this many more ``minutes``, of which a share was late."""
        place = int(np.searchsorted(EDGES, utilisation, side="right"))
        more, kept = np.zeros(len(MIDDLES)), FORGETS**minutes
        more[place] = minutes
        return type(self)(self.minutes * kept + more, self.late * kept + late * more)

    def at(self, utilisations: Values) -> Values:
        """Return the share of the time that is late at utilisations, never falling with them; of their shape.

        Where it was late more often at a low utilisation than at higher ones, that is not for want of workers.
        """
        if not self._shares[-1] > 0.0:  # it never was
            return np.zeros(utilisations.shape)
        return np.asarray(np.interp(utilisations, MIDDLES, self._shares))

    @cached_property
    def _shares(self) -> Values:
        weights = self.minutes + DOUBT
        shares = isotonic_regression(self.late / weights, weights=weights).x
        return np.asarray(shares - shares[0])

    def to_state(self) -> list[list[float]]:
        """Return a JSON-serialisable state."""
        return [self.minutes.tolist(), self.late.tolist()]

    @classmethod
    def of_memory(cls, memory: Mapping[str, Any]) -> Lateness:
        """Return what a policy's memory holds; nothing where it holds nothing that can be read."""

        def read(state: Sequence[Sequence[float]]) -> Lateness:
            minutes, late = (np.array([number(value) for value in row]) for row in state)
            if minutes.shape != MIDDLES.shape or late.shape != MIDDLES.shape or min(minutes.min(), late.min()) < 0:
                raise ValueError("not minutes by utilisation")
            return cls(minutes, late)

        return part_of(memory.get("lateness"), read) or cls()

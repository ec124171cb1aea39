"""The highest utilisation at which a job keeps up: learned from a profile, corrected by the running job."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

MISSED_COSTS = 3.0  # false alarms: an overload goes on until somebody scales out, a false alarm is a worker more
FULL = 1.0  # the limit where no overload was seen: then only a rate above T_max is one
LOWEST, HIGHEST = 0.1, 1.25
MOST_DOWN = 0.05  # share by which one overload just below the limit lowers it
CREDIBLE = 0.2  # share below the limit at which an overload counts e times less: something else may be its cause
STEP_DOWN, STEP_UP = 0.25, 0.1
JUST_BELOW = 0.98  # of the utilisation at which an overload was measured
DRIFT = 0.005  # share of the way back to the profile's limit with each measurement that says nothing against it


@dataclass(frozen=True)
class UtilisationLimit:
    """A limit of utilisation."""

    profiled: float  # as the profile says
    now: float  # as the running job has moved it

    @classmethod
    def fit(
        cls, utilisations: NDArray[np.float64], overloaded: NDArray[np.bool_], missed_costs: float = MISSED_COSTS
    ) -> Self:
        """Return the limit that separates points at the lowest cost, in the middle of the widest such gap.

        ``utilisations``, ``overloaded``: shape ``(n,)``; without an overload the limit is 1, or the highest utilisation
        that was normal.
        ``missed_costs``: what an overload that is taken for normal costs, in false alarms.
        """
        if not overloaded.any():
            value = max(FULL, float(utilisations.max(initial=0.0)))
            return cls(value, value)
        order = np.argsort(utilisations, kind="stable")
        ordered, over = utilisations[order], overloaded[order]
        missed = np.concatenate([[0], np.cumsum(over)])
        alarms = np.count_nonzero(~over) - np.concatenate([[0], np.cumsum(~over)])
        cost = missed_costs * missed + alarms
        # Cut k lies behind the k lowest points; the ends have no gap to lie in the middle of.
        below = np.concatenate([[ordered[0] * JUST_BELOW], ordered])
        above = np.concatenate([ordered, [ordered[-1] / JUST_BELOW]])
        cheapest = np.flatnonzero(cost == cost.min())
        cut = cheapest[np.argmax((above - below)[cheapest])]
        value = float(np.clip((below[cut] + above[cut]) / 2.0, LOWEST, HIGHEST))
        return cls(value, value)

    def learned(self, utilisation: float, *, overloaded: bool) -> Self:
        """Return the limit after one measurement of the running job.

        An overload below the limit lowers it, the less the farther below (a failure elsewhere looks alike), normal
        operation above it raises it, and anything else lets it drift back to the profile's: what the running job once
        showed is forgotten.
        """
        if not math.isfinite(utilisation):
            return self
        if overloaded and utilisation < self.now:
            wanted = self.now + STEP_DOWN * (JUST_BELOW * utilisation - self.now)
            credible = math.exp((utilisation / self.now - 1.0) / CREDIBLE)
            moved = max(wanted, self.now * (1.0 - MOST_DOWN * credible))
        elif not overloaded and utilisation > self.now:
            moved = self.now + STEP_UP * (utilisation - self.now)
        else:
            moved = self.now + DRIFT * (self.profiled - self.now)
        return replace(self, now=float(np.clip(moved, LOWEST, HIGHEST)))

    def to_state(self) -> dict[str, float]:
        """Return a JSON-serialisable state."""
        return {"profiled": self.profiled, "now": self.now}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Rebuild from :meth:`to_state`. Raises ``ValueError`` when a limit is missing or cannot be."""
        try:
            limit = cls(float(state["profiled"]), float(state["now"]))
        except (KeyError, TypeError) as error:
            raise ValueError(f"a limit of utilisation lacks something or is no number ({error!r})") from None
        if not (limit.profiled > 0.0 and limit.now > 0.0):
            raise ValueError(f"a limit of utilisation is above 0, not {limit.profiled} and {limit.now}")
        return limit

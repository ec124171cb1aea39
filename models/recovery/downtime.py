"""How long a job stands still when it is rescaled or fails: learned from what was observed, within bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

OUT_S = 30.0  # Daedalus 3.4: anticipated downtimes before anything was observed
IN_S = 15.0
FLOOR_S = 1.0
CEILING_S = 600.0
LOST_S = 6.0  # before anything was observed: half a checkpoint interval, and a little of a warm-up
MOST_LOST_S = 30.0
MOST_FAILURES = 12.0


@dataclass(frozen=True)
class Downtimes:
    """Anticipated downtimes in seconds: scaling out, scaling in, and a failure (no change of scale-out).

    Attributes
    ----------
    lost_s
        What a restart costs beyond its downtime, in seconds of full capacity: work since the last checkpoint that is
        done again, and the warm-up. The paper counts a whole checkpoint interval, the worst case; this is what is seen.
    failures
        How many failures :attr:`failure_s` rests on; those that profiling made count, too.
    """

    out_s: float = OUT_S
    in_s: float = IN_S
    failure_s: float = OUT_S
    lost_s: float = LOST_S
    failures: float = 0.0

    def between(self, current: int, candidate: int) -> float:
        """Return the downtime of going from ``current`` to ``candidate`` workers; equal numbers mean a failure."""
        if candidate == current:
            return self.failure_s
        return self.out_s if candidate > current else self.in_s

    def observed(self, current: int, candidate: int, downtime_s: float, weight: float = 0.25) -> Self:
        """Return downtimes moved towards an observation by ``weight``, kept within 1 s and 10 min.

        What is more than twice, or less than half, of what is believed counts as just that: one recovery that went
        wrong, or was seen wrong, must not spoil the predictions of the next ten. The paper's program moves by one
        second per rescale for ever and without a floor; a share of the difference settles within a few rescales and can
        never become negative.

        Raises
        ------
        ValueError
            When the observation is NaN, infinite or negative: a failed observation must not become a belief.
        """
        if not (math.isfinite(downtime_s) and downtime_s >= 0):
            raise ValueError(f"an observed downtime is finite and not negative, found {downtime_s}")
        name = "failure_s" if candidate == current else ("out_s" if candidate > current else "in_s")
        believed_s: float = getattr(self, name)
        failures = self.failures
        if candidate == current:
            # Failures are rare and all alike: an average, as the paper has it, until it is slow to follow a change.
            failures = min(failures + 1.0, MOST_FAILURES)
            weight = min(weight, 1.0 / failures) if failures > 1.0 else weight
        moved = believed_s + weight * (min(max(downtime_s, believed_s / 2.0), 2.0 * believed_s) - believed_s)
        return replace(self, **{name: _within_bounds(moved), "failures": failures})

    def after_failures(self, mean_s: float, count: int) -> Self:
        """Return downtimes that rest on ``count`` more failures, which stopped the job for ``mean_s`` on average.

        Raises
        ------
        ValueError
            When the mean is NaN, infinite or negative.
        """
        if not (math.isfinite(mean_s) and mean_s >= 0):
            raise ValueError(f"a mean downtime is finite and not negative, found {mean_s}")
        added = max(float(count), 1.0)
        known = self.failures + added
        mean_of_all_s = (self.failures * self.failure_s + added * mean_s) / known
        return replace(self, failure_s=_within_bounds(mean_of_all_s), failures=min(known, MOST_FAILURES))

    def caught_up(self, downtime_s: float, recovery_s: float, utilisation: float, weight: float = 0.15) -> Self:
        """Return downtimes that have learnt what one recovery lost beyond its downtime.

        A job that caught up ``recovery_s`` after its stop has worked for all that arrived: with ``utilisation`` the
        mean workload since the stop over the capacity, ``recovery - downtime - lost = utilisation * recovery``.
        """
        lost_s = recovery_s - downtime_s - utilisation * recovery_s
        if not math.isfinite(lost_s):
            return self
        moved = self.lost_s + weight * (min(max(lost_s, 0.0), MOST_LOST_S) - self.lost_s)
        return replace(self, lost_s=moved)

    def to_state(self) -> dict[str, float]:
        """Return a JSON-serialisable state."""
        return dict(vars(self))

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Rebuild from :meth:`to_state`; a missing key, and one that is not finite, keeps its default."""
        names = ("out_s", "in_s", "failure_s", "lost_s", "failures")
        stored = {key: float(state[key]) for key in names if state.get(key) is not None}
        known = {key: value for key, value in stored.items() if math.isfinite(value)}
        lost_s = min(max(known.pop("lost_s", LOST_S), 0.0), MOST_LOST_S)
        failures = min(max(known.pop("failures", 0.0), 0.0), MOST_FAILURES)
        return cls(**{key: _within_bounds(value) for key, value in known.items()}, lost_s=lost_s, failures=failures)


def _within_bounds(downtime_s: float) -> float:
    return min(max(downtime_s, FLOOR_S), CEILING_S)

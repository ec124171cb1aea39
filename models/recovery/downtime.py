"""How long a job stands still when it is rescaled or fails: learned from what was observed, within bounds."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

OUT_S = 30.0  # Daedalus 3.4: anticipated downtimes before anything was observed
IN_S = 15.0
IN_PLACE_S, IN_PLACE_LOST_S = 3.0, 2.0  # as a real Flink with 1 GB of state at most (docs/results.md)
FLOOR_S = 1.0
CEILING_S = 600.0
LOST_S = 6.0  # before anything was observed: half a checkpoint interval, and a little of a warm-up
MOST_LOST_S = 30.0
UNCHECKPOINTED_S = 0.75 * MOST_LOST_S  # lost: more than what comes during a checkpoint that is made for a rescale
ASSUMED = 0.25  # of an observation, that what is only assumed weighs: jobs differ by far more than the restarts of one
MOST_SEEN = 12.0  # observations that an average rests on at most: more would be slow to follow a job that changes
ODD = 2.0  # times, or a fraction, of what is believed, from which one observation may have gone wrong
TRUSTED = 2.0  # observations, from which on what is believed may call another one odd


@dataclass(frozen=True)
class Anticipated:
    """A downtime that is believed: the geometric mean of what was observed.

    The mean of the logarithms, because downtimes of one job spread by a share of themselves, and the error of a
    prediction is a share, too.
    """

    s: float  # seconds
    seen: float = 0.0  # how many observations it rests on; 0 while it is only assumed
    odd_s: float | None = None  # the last observation, where it was too far off to be believed at once

    def observed(self, downtime_s: float) -> Self:
        """Return what is believed after one more observation.

        What was only assumed weighs a quarter of the first observation. Later one that is more than twice, or less than
        half, of what is believed counts as just that: a recovery that went wrong, or was seen wrong, must not spoil the
        predictions of the next ten. Two of them in a row on the same side are a change of the job: what was believed
        before is forgotten. The paper's program moves by one second per rescale, without end and without a floor.

        Raises ``ValueError`` when the observation is NaN, infinite or negative: a failed observation must not become a
        belief.
        """
        found_s = _observed(downtime_s)
        if self.seen < TRUSTED or self.s / ODD <= found_s <= self.s * ODD:
            return self.averaged(found_s)
        if self.odd_s is not None and (self.odd_s > self.s) == (found_s > self.s):
            return replace(self, s=math.sqrt(self.odd_s * found_s), seen=TRUSTED, odd_s=None)
        bounded_s = min(max(found_s, self.s / ODD), self.s * ODD)
        return replace(self.averaged(bounded_s), odd_s=found_s)

    def averaged(self, mean_s: float, count: float = 1.0) -> Self:
        """Return what is believed after ``count`` more observations, ``mean_s`` on average, however far off they are.

        Raises ``ValueError`` when the mean is NaN, infinite or negative.
        """
        found_s = _observed(mean_s)
        known = self.seen or ASSUMED
        moved_s = self.s * (found_s / self.s) ** (count / (known + count))
        return replace(self, s=_within_bounds(moved_s), seen=min(self.seen + count, MOST_SEEN), odd_s=None)

    def following(self, times: float) -> Self:
        """Return what is believed after a like downtime turned out this many times as long; nothing new where seen."""
        return self if self.seen > 0.0 else replace(self, s=_within_bounds(self.s * times))

    def to_state(self) -> list[float | None]:
        """Return a JSON-serialisable state."""
        return [self.s, self.seen, self.odd_s]

    @classmethod
    def from_state(cls, state: Any) -> Self:
        """Rebuild from :meth:`to_state`. Raises ``ValueError`` for what no downtime can be."""
        seconds, seen, odd_s = state
        known = [float(value) for value in (seconds, seen, 0.0 if odd_s is None else odd_s)]
        if not all(math.isfinite(value) and value >= 0.0 for value in known):
            raise ValueError(f"a downtime in seconds, and how often it was seen, are finite, found {state}")
        return cls(_within_bounds(known[0]), min(known[1], MOST_SEEN), None if odd_s is None else known[2])


@dataclass(frozen=True)
class Lost:
    """What a restart is believed to cost beyond its downtime: the mean of what was seen."""

    # Seconds of full capacity: work since the last checkpoint that is done again, and the warm-up. The paper counts a
    # whole checkpoint interval, the worst case
    s: float = LOST_S
    seen: float = 0.0  # how many recoveries it rests on; 0 while it is only assumed

    def observed(self, lost_s: float) -> Self:
        """Return what is believed after one more recovery; what was only assumed weighs a quarter of the first."""
        if not math.isfinite(lost_s):
            return self
        weight = 1.0 / ((self.seen or ASSUMED) + 1.0)
        moved_s = self.s + weight * (min(max(lost_s, 0.0), MOST_LOST_S) - self.s)
        return replace(self, s=moved_s, seen=min(self.seen + 1.0, MOST_SEEN))

    def to_state(self) -> list[float]:
        """Return a JSON-serialisable state."""
        return [self.s, self.seen]

    @classmethod
    def from_state(cls, state: Any) -> Self:
        """Rebuild from :meth:`to_state`. Raises ``ValueError`` for what cannot be lost."""
        lost_s, seen = (float(value) for value in state)
        if not (math.isfinite(lost_s) and math.isfinite(seen)):
            raise ValueError(f"what a restart loses is finite, found {state}")
        return cls(min(max(lost_s, 0.0), MOST_LOST_S), min(max(seen, 0.0), MOST_SEEN))


@dataclass(frozen=True)
class Downtimes:
    """Anticipated downtimes in seconds: scaling out, scaling in, and a failure (no change of scale-out)."""

    out: Anticipated = Anticipated(OUT_S)
    inward: Anticipated = Anticipated(IN_S)
    failure: Anticipated = Anticipated(OUT_S)  # rests on the failures that profiling made, too
    # lost, failure_lost: what a rescale and a failure cost beyond their downtime. A rescale may make a checkpoint
    # first, a failure not
    lost: Lost = Lost()
    failure_lost: Lost = Lost()

    @classmethod
    def assumed(
        cls, out_s: float = OUT_S, in_s: float = IN_S, failure_s: float = OUT_S, lost_s: float = LOST_S
    ) -> Self:
        """Return downtimes that rest on no observation."""
        return cls(Anticipated(out_s), Anticipated(in_s), Anticipated(failure_s), Lost(lost_s), Lost(lost_s))

    def in_place(self, *, checkpoint: bool = True) -> Self:
        """Return what is assumed where a target rescales in place, until a rescale was seen.

        ``checkpoint``: whether one is made for each rescale, so that little is done again.
        """
        if self.out.seen > 0.0 or self.inward.seen > 0.0:
            return self
        assumed = Anticipated(IN_PLACE_S)
        lost = Lost(IN_PLACE_LOST_S) if checkpoint and self.lost.seen <= 0.0 else self.lost
        return replace(self, out=assumed, inward=assumed, lost=lost)

    def restarting(self) -> Self:
        """Return what is assumed where a rescale restarts the job, instead of what :meth:`in_place` has assumed."""
        if self.out != Anticipated(IN_PLACE_S):
            return self
        lost = self.lost if self.lost.seen > 0.0 else Lost()
        return replace(self, out=Anticipated(OUT_S), inward=Anticipated(IN_S), lost=lost)

    @property
    def out_s(self) -> float:
        """Seconds that scaling out stops the job."""
        return self.out.s

    @property
    def in_s(self) -> float:
        """Seconds that scaling in stops the job."""
        return self.inward.s

    @property
    def failure_s(self) -> float:
        """Seconds that a failure stops the job, its detection included."""
        return self.failure.s

    @property
    def lost_s(self) -> float:
        """Seconds of full capacity that a rescale costs beyond its downtime."""
        return self.lost.s

    @property
    def failure_lost_s(self) -> float:
        """Seconds of full capacity that a failure costs beyond its downtime."""
        return self.failure_lost.s

    def between(self, current: int, candidate: int) -> float:
        """Return the downtime of going from ``current`` to ``candidate`` workers; equal numbers mean a failure."""
        return self.anticipated(current, candidate).s

    def anticipated(self, current: int, candidate: int) -> Anticipated:
        """Return that downtime, and what it rests on."""
        if candidate == current:
            return self.failure
        return self.out if candidate > current else self.inward

    def lost_between(self, current: int, candidate: int) -> float:
        """Return what going from ``current`` to ``candidate`` workers costs beyond its downtime; equal: a failure."""
        return self.failure_lost_s if candidate == current else self.lost_s

    def observed(self, current: int, candidate: int, downtime_s: float) -> Self:
        """Return downtimes after one from ``current`` to ``candidate`` workers, see :meth:`Anticipated.observed`.

        What is only assumed of the other direction follows in proportion: a job that stands still for a second when it
        is scaled in does not for half a minute when it is scaled out, which it would never try to learn.

        Raises ``ValueError`` when the observation is NaN, infinite or negative.
        """
        if candidate == current:
            return replace(self, failure=self.failure.observed(downtime_s))
        if candidate > current:
            out = self.out.observed(downtime_s)
            return replace(self, out=out, inward=self.inward.following(out.s / self.out.s))
        inward = self.inward.observed(downtime_s)
        return replace(self, inward=inward, out=self.out.following(inward.s / self.inward.s))

    def after_failures(self, mean_s: float, count: int) -> Self:
        """Return downtimes that rest on ``count`` more failures, which stopped the job for ``mean_s`` on average.

        Nothing is left of a downtime that was only assumed.

        Raises ``ValueError`` when the mean is NaN, infinite or negative.
        """
        added = max(float(count), 1.0)
        if self.failure.seen > 0.0:
            return replace(self, failure=self.failure.averaged(mean_s, added))
        return replace(self, failure=Anticipated(_observed(mean_s), min(added, MOST_SEEN)))

    def caught_up(self, current: int, candidate: int, downtime_s: float, recovery_s: float, utilisation: float) -> Self:
        """Return downtimes that have learnt what one recovery lost beyond its downtime.

        A job that caught up ``recovery_s`` after its stop has worked for all that arrived: with ``utilisation`` the
        mean workload since the stop over the capacity, ``recovery - downtime - lost = utilisation * recovery``.
        """
        return self.losing(current, candidate, recovery_s - downtime_s - utilisation * recovery_s)

    def losing(self, current: int, candidate: int, lost_s: float) -> Self:
        """Return downtimes that have learnt that one restart lost this many seconds of full capacity."""
        if candidate == current:
            return replace(self, failure_lost=self.failure_lost.observed(lost_s))
        return replace(self, lost=self.lost.observed(lost_s))

    def to_state(self) -> dict[str, Any]:
        """Return a JSON-serialisable state."""
        kinds = ("out", "inward", "failure", "lost", "failure_lost")
        return {kind: getattr(self, kind).to_state() for kind in kinds}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Rebuild from :meth:`to_state`. Raises ``KeyError``, ``TypeError`` or ``ValueError`` when it is none."""
        out, inward, failure = (Anticipated.from_state(state[kind]) for kind in ("out", "inward", "failure"))
        if "lost" in state:
            return cls(out, inward, failure, Lost.from_state(state["lost"]), Lost.from_state(state["failure_lost"]))
        lost = Lost.from_state((state["lost_s"], state["losses"]))  # as it was kept before the two were distinguished
        return cls(out, inward, failure, lost, lost)


def rescaled(before: int, after: int) -> tuple[int, int]:
    """Return two scale-outs that stand for a rescale, for :class:`Downtimes`.

    Other sizes of as many workers take as long as one worker more: equal numbers would mean a failure.
    """
    return before, after + (before == after)


def _observed(downtime_s: float) -> float:
    if not (math.isfinite(downtime_s) and downtime_s >= 0):
        raise ValueError(f"an observed downtime is finite and not negative, found {downtime_s}")
    return _within_bounds(downtime_s)


def _within_bounds(downtime_s: float) -> float:
    return min(max(downtime_s, FLOOR_S), CEILING_S)

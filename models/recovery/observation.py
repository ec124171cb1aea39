"""How long a recovery really took: anomalies of workload minus throughput, window by window (Daedalus 3.5)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from perdix.models.recovery.normal import Normal
from perdix.models.recovery.stops import Course, Recovered, Stop
from perdix.settings.replacing import replace

TIMEOUT_S = 1800.0
SETTLE_S = 30.0  # calm that must follow before a job counts as caught up


@dataclass(frozen=True)
class TimedOut:
    """No end was seen in time."""

    waited_s: float  # seconds waited since the action
    stopped_s: float | None  # epoch seconds of the first stop; ``None`` when there was none to see


@dataclass(frozen=True)
class RecoveryWatch:
    """Watches one recovery. Immutable; feed it the window of each tick, overlapping or not, and read the outcome.

    The state is the samples since the action: at most a few hundred, so that every look judges the whole course.
    """

    at_s: float  # epoch seconds of the action (or of the failure's detection) that is watched
    # The baseline, as it was then: recoveries are not fed to it. Without one, a difference above 5 % of the workload is
    # an anomaly
    normal: Normal = field(default_factory=Normal)
    timeout_s: float = TIMEOUT_S
    settle_s: float = SETTLE_S
    # What an overloaded job processed before the action, records/s: what it did not take is no stop. Infinite: it was
    # not overloaded, or that is not known
    worked_per_s: float = math.inf
    # Since when the action is over, epoch seconds: a stop that begins later has another cause. Infinite: it is not
    over_s: float = math.inf
    samples: tuple[tuple[float, float, float, float], ...] = ()
    outcome: Recovered | TimedOut | None = field(default=None)

    def observe(
        self,
        times_s: ArrayLike,
        workload_per_s: ArrayLike,
        throughput_per_s: ArrayLike,
        lag_records: ArrayLike | None = None,
    ) -> RecoveryWatch:
        """Return the watch after a window; arrays of shape ``(n,)`` in the order of time.

        A sample describes the step that ends with it: one at the action itself is from before. One whose workload or
        throughput is NaN is missing, which is not an outage: it is left out. Consumer lag is used where it is there:
        the job has caught up only when its backlog is gone, too.
        """
        if self.outcome is not None:
            return self
        times, workload, throughput = (
            np.asarray(values, float) for values in (times_s, workload_per_s, throughput_per_s)
        )
        lag = np.full(times.shape, np.nan) if lag_records is None else np.asarray(lag_records, float)
        newest = self.samples[-1][0] if self.samples else -np.inf
        fresh = (times > max(self.at_s, newest)) & np.isfinite(workload) & np.isfinite(throughput)
        added = np.column_stack([times, workload, throughput, lag])[fresh]
        watch = replace(self, samples=(*self.samples, *(tuple(row) for row in added.tolist())))
        now_s = float(times[-1]) if times.size else self.at_s
        outcome = watch._judged(now_s)
        return watch if outcome is None else replace(watch, outcome=outcome)

    def stopped_s(self) -> float | None:
        """Return when the first stop began that the samples show, epoch seconds; ``None`` where they show none."""
        stop = self._course.stop() if self.samples else None
        return None if stop is None else stop.at_s

    def unseen(self, since_s: float, at_most_s: float) -> Recovered | None:
        """Return the recovery from a stop that no sample shows; ``None`` while the job is not calm again.

        ``since_s``: when the job ran again, epoch seconds.
        ``at_most_s``: for how long it stood still at most.
        """
        stopped_s = max(since_s - at_most_s, self.at_s)
        course = self._course if self.samples else None
        if course is None or not (course.times_s > stopped_s).any():
            return None
        first = int(np.argmax(course.times_s > stopped_s))
        calm = course.caught_up(Stop(first, stopped_s, seen=False), twice=True)
        if calm is None:
            return None
        again = max(-course.excess_records(first, calm), 0.0)
        caught_up_s = since_s if calm == first else max(course.caught_up_s(calm, since=first), since_s)
        return Recovered(at_most_s, caught_up_s - stopped_s, stopped_s, caught_up_s, again_records=again)

    def worked_s(self, until_s: float) -> float:
        """Return for how long the samples up to ``until_s`` show the job at work, seconds."""
        return self._course.worked_s(until_s) if self.samples else 0.0

    def lacked_s(self, until_s: float) -> float:
        """Return how long a stop would leave as much undone as was due up to a time, and the step after it, seconds."""
        return self._course.lacked_s(until_s) if self.samples else 0.0

    def hidden_s(self, until_s: float) -> float:
        """Return the longest stop that the samples up to ``until_s`` can hide, seconds."""
        times_s = [row[0] for row in self.samples if row[0] < until_s]
        return float(np.diff([self.at_s, *times_s, until_s]).max())

    @cached_property
    def _course(self) -> Course:
        """Return what the samples show, of which there is one at least."""
        return Course.of(
            self.samples,
            self.normal,
            at_s=self.at_s,
            settle_s=self.settle_s,
            worked_per_s=self.worked_per_s,
            over_s=self.over_s,
        )

    def _judged(self, now_s: float) -> Recovered | TimedOut | None:
        stopped_s: float | None = None
        if self.samples:
            course, stop = self._course, self._course.stop()
            if stop is not None:
                stopped_s = stop.at_s
                caught_up = course.caught_up(stop)
                if caught_up is not None:
                    return course.recovered(stop, caught_up)
        if now_s - self.at_s >= self.timeout_s:
            return TimedOut(now_s - self.at_s, stopped_s)
        return None

    def to_state(self) -> dict[str, Any]:
        """Return a JSON-serialisable state of a watch that has no outcome yet."""
        rows = [[None if math.isnan(value) else value for value in row] for row in self.samples]  # NaN is not JSON
        return {
            "at_s": self.at_s,
            "normal": self.normal.to_state(),
            "timeout_s": self.timeout_s,
            "settle_s": self.settle_s,
            "worked_per_s": self.worked_per_s if math.isfinite(self.worked_per_s) else None,
            "over_s": self.over_s if math.isfinite(self.over_s) else None,
            "samples": rows,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Rebuild from :meth:`to_state`. Raises ``ValueError`` when a part is missing."""
        try:
            times = [tuple(np.nan if value is None else float(value) for value in row) for row in state["samples"]]
            samples = tuple((row[0], row[1], row[2], row[3]) for row in times)
            normal = Normal.from_state(state["normal"])
            worked_per_s, over_s = (
                math.inf if (value := state.get(name)) is None else float(value) for name in ("worked_per_s", "over_s")
            )
            at_s, timeout_s, settle_s = (float(state[name]) for name in ("at_s", "timeout_s", "settle_s"))
            return cls(at_s, normal, timeout_s, settle_s, worked_per_s, over_s, samples)
        except (KeyError, TypeError, IndexError) as error:
            raise ValueError(f"not the state of a recovery watch: {error!r}") from None

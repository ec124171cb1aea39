"""How long a recovery really took: anomalies of workload minus throughput, window by window (Daedalus 3.5)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perdix.models.recovery.normal import STOPPED, Normal
from perdix.telemetry.window import Values

Mask = NDArray[np.bool_]

TIMEOUT_S = 1800.0
SETTLE_S = 30.0  # calm that must follow before a job counts as caught up
FLOOR = 0.05  # an anomaly is at least this share of the workload, whatever the standard deviation
LAG_FLOOR_S = 2.0  # consumer lag, in seconds of workload, that never counts as a backlog
LEAST_WORKLOAD_PER_S = 1.0  # records/s by which the lag is counted at least: seconds of less hold no record
RESUMED = 0.1  # throughput, as a share of what is due, from which the job processes again
GAP_STEPS = 3.0


@dataclass(frozen=True)
class Recovered:
    """A recovery that was seen to its end."""

    downtime_s: float  # from the first stop until the job processed again
    recovery_s: float  # from the first stop until it had caught up; the downtime is part of it
    # stopped_s, caught_up_s: the two moments in epoch seconds
    stopped_s: float
    caught_up_s: float
    # False where metrics were missing during the stop, so that it was put at the last sample before the gap
    stop_seen: bool = True
    # What was done again, records, where no sample shows the stop: more was processed by so much than arrived
    again_records: float | None = None


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
        return replace(watch, outcome=watch._judged(now_s))

    def stopped_s(self) -> float | None:
        """Return when the first stop began that the samples show, epoch seconds; ``None`` where they show none."""
        stop = _Course.of(self).stop() if self.samples else None
        return None if stop is None else stop.at_s

    def unseen(self, since_s: float, at_most_s: float) -> Recovered | None:
        """Return the recovery from a stop that no sample shows; ``None`` while the job is not calm again.

        ``since_s``: when the job ran again, epoch seconds.
        ``at_most_s``: for how long it stood still at most.
        """
        stopped_s = max(since_s - at_most_s, self.at_s)
        course = _Course.of(self) if self.samples else None
        if course is None or not (course.times_s > stopped_s).any():
            return None
        first = int(np.argmax(course.times_s > stopped_s))
        calm = course.caught_up(_Stop(first, stopped_s, seen=False), twice=True)
        if calm is None:
            return None
        again = max(-course.excess_records(first, calm), 0.0)
        caught_up_s = since_s if calm == first else max(course.caught_up_s(calm, since=first), since_s)
        return Recovered(at_most_s, caught_up_s - stopped_s, stopped_s, caught_up_s, again_records=again)

    def worked_s(self, until_s: float) -> float:
        """Return for how long the samples up to ``until_s`` show the job at work, seconds."""
        return _Course.of(self).worked_s(until_s) if self.samples else 0.0

    def hidden_s(self, until_s: float) -> float:
        """Return the longest stop that the samples up to ``until_s`` can hide, seconds."""
        times_s = [row[0] for row in self.samples if row[0] < until_s]
        return float(np.diff([self.at_s, *times_s, until_s]).max())

    def _judged(self, now_s: float) -> Recovered | TimedOut | None:
        stopped_s: float | None = None
        if self.samples:
            course = _Course.of(self)
            stop = course.stop()
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
            "samples": rows,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Rebuild from :meth:`to_state`. Raises ``ValueError`` when a part is missing."""
        try:
            times = [tuple(np.nan if value is None else float(value) for value in row) for row in state["samples"]]
            samples = tuple((row[0], row[1], row[2], row[3]) for row in times)
            normal = Normal.from_state(state["normal"])
            worked_per_s = state.get("worked_per_s")
            return cls(
                float(state["at_s"]),
                normal,
                float(state["timeout_s"]),
                float(state["settle_s"]),
                math.inf if worked_per_s is None else float(worked_per_s),
                samples,
            )
        except (KeyError, TypeError, IndexError) as error:
            raise ValueError(f"not the state of a recovery watch: {error!r}") from None


@dataclass(frozen=True)
class _Stop:
    index: int  # first sample that belongs to the stop, or that follows an unseen one
    at_s: float
    seen: bool


@dataclass(frozen=True)
class _Course:
    """All samples since the action as arrays of shape ``(n,)``, and what is anomalous among them."""

    times_s: Values
    workload: Values
    throughput: Values
    due: Values  # what the job would process if nothing stopped it: what arrives, or what it took under an overload
    excess: Values  # difference less its normal mean, records/s
    threshold: Values
    behind: Mask  # consumer lag above normal
    at_s: float
    settle_s: float

    @classmethod
    def of(cls, watch: RecoveryWatch) -> _Course:
        times, workload, throughput, lag = np.array(watch.samples).T
        normal = watch.normal
        threshold = np.maximum(normal.difference.sd, FLOOR * workload)
        lag_limit = max(normal.lag_s.mean + normal.lag_s.sd, LAG_FLOOR_S) * np.maximum(workload, LEAST_WORKLOAD_PER_S)
        behind = np.isfinite(lag) & (lag > lag_limit)
        excess = workload - throughput - normal.difference.mean
        due = np.minimum(workload, watch.worked_per_s)
        return cls(times, workload, throughput, due, excess, threshold, behind, watch.at_s, watch.settle_s)

    def excess_records(self, since: int, until: int) -> float:
        """Return how many more records arrived than were processed, in the samples of a slice; gaps are left out."""
        return float(self.excess[since:until] @ self._steps_s[since:until])

    def worked_s(self, until_s: float) -> float:
        """Return for how long the job processed up to a time, seconds; gaps are left out."""
        works = (self.throughput >= RESUMED * self.due) & (self.times_s <= until_s)
        return float(self._steps_s[works].sum())

    @property
    def normal(self) -> Mask:
        """Where as much is processed as arrives."""
        return np.abs(self.excess) <= self.threshold

    @property
    def missing(self) -> Values:
        """How much of what is due was not processed, less what is normal, records/s."""
        return self.excess - (self.workload - self.due)

    def stop(self) -> _Stop | None:
        """Return the first stop: throughput below half of what is due, or a deficit of it for the settling time.

        A job that was overloaded before it was rescaled falls behind first and stops then: the stop is what counts.
        """
        missing = self.missing
        deficit = missing > self.threshold
        halted = (self.excess > self.threshold) & (self.throughput < STOPPED * self.due)
        for index in np.flatnonzero(deficit | halted).tolist():
            window = self._window(index)
            lasting = window is not None and missing[window].mean() > self.threshold[window].mean()
            if not halted[index] and not lasting:
                continue
            within: list[int] = window[halted[window]].tolist() if window is not None else []
            first = within[0] if within else index
            return self._unseen(before=first) or _Stop(first, self._began_s(first), seen=True)
        return self._unseen(before=len(self.times_s))

    def _began_s(self, first: int, *, means: bool = False) -> float:
        """Return when a stop began whose first sample below half of what is due is given.

        A rate that is the mean over its step says for how much of it the job worked: this sample, or the one before. A
        rate of a moment says only that it stopped since the sample before: half a step ago, or with the action, where
        there is none. A gap of the metrics before the sample is the stop's own.
        ``means``: whether the stop's end shows that rates are means; its beginning shows it where it is in a step.
        """
        at_s, step_s = float(self.times_s[first]), self._usual_step_s
        before_s = float(self.times_s[first - 1]) if first else max(self.at_s, at_s - step_s)
        worked = self._worked_until(first)
        if at_s - before_s <= 1.5 * step_s and (means or _within_a_step(worked)):
            return max(self.at_s, at_s - step_s * (len(worked) - float(worked.sum())))
        return min((before_s + at_s) / 2, before_s + step_s) if first else self.at_s

    def _ended_s(self, last: int, *, means: bool) -> float:
        """Return when a stop ended whose last sample below a tenth of what is due is given, as :meth:`_began_s`."""
        silent_s, works_s = self.times_s[last], self.times_s[min(last + 1, len(self.times_s) - 1)]
        worked = self._worked_from(last)
        if means or _within_a_step(worked):
            return float(works_s - self._usual_step_s * worked.sum())
        return float(max((silent_s + works_s) / 2, works_s - self._usual_step_s))

    def _worked_until(self, first: int) -> Values:
        """Return for what share of its step the job worked: of a stop's first sample, and of the one before it.

        The latter is what is usual, or between the sample before that and the stop's.
        """
        before = first - 1 if first and self._rises(first - 1, self._pace_before(first - 1)) else first
        worked = self._pace[[before, first]] / max(self._pace_before(before), 1e-9)
        return worked if before < first else np.array([1.0, worked[1]])

    def _pace_before(self, index: int) -> float:
        """Return what was processed before a sample as a share of what arrived: in the one before, or what is due."""
        return float(self._pace[index - 1] if index else self.due[0] / max(self.workload[0], 1e-9))

    def _worked_from(self, last: int) -> Values:
        """Return for what share of its step the job worked, of the last sample of a stop and the next one.

        All that the workers can process then shows in the next one, or in the one after that, where that is faster.
        """
        after = min(last + 1, len(self.times_s) - 1)
        later = float(self._pace[min(after + 1, len(self.times_s) - 1)])
        full = later if self._rises(after, later) else float(self._pace[after])
        return np.array([self._pace[last], self._pace[after]]) / max(full, 1e-9)

    def _rises(self, index: int, pace: float) -> bool:
        """Whether a pace is above that of a sample by more than the noise of two."""
        return bool((pace - self._pace[index]) * self.workload[index] > 2 * self.threshold[index])

    def _unseen(self, before: int) -> _Stop | None:
        """Return a stop hidden in a gap of the metrics: a surplus follows that only a backlog since then explains."""
        times = np.concatenate([[self.at_s], self.times_s])
        overloaded = bool(self.workload[0] - self.due[0] > self.threshold[0])
        for index in np.flatnonzero(np.diff(times) > max(GAP_STEPS * self._usual_step_s, 10.0)).tolist():
            window = self._window(index)
            if index >= before or window is None:
                break
            waited = self.behind[index - 1] if index else overloaded
            if not waited and -self.excess[window].mean() > self.threshold[window].mean():
                return _Stop(index, float(times[index]), seen=False)
        return None

    def caught_up(self, stop: _Stop, *, twice: bool = False) -> int | None:
        """Return the first sample after the stop from which a settling time of calm is seen.

        Calm means: the mean difference is normal, and so are at least half of the samples (one standard deviation
        leaves a third of them outside even when nothing is wrong), and consumer lag is normal where it is measured.
        Where no sample shows the stop, the next one must be normal ``twice``: one may be the mean of a stop and of
        catching up, and both together may be lost in the mean of the settling time.
        """
        normal = self.normal
        running = (self.throughput >= RESUMED * self.workload) & ~self.behind
        if twice:
            running[:-1] &= normal[1:]
        for index in np.flatnonzero(normal & running).tolist():
            window = self._window(index)
            if index < stop.index or window is None:
                continue
            level = abs(self.excess[window].mean()) <= self.threshold[window].mean()
            if level and normal[window].mean() >= 0.5 and not self.behind[window].any():
                return index
        return None

    def recovered(self, stop: _Stop, caught_up: int) -> Recovered:
        """Return the outcome, the job processing again after a sample below a tenth of what is due."""
        part = slice(stop.index, caught_up + 1)
        silent = self.throughput[part] < RESUMED * self.due[part]
        hidden_s = 0.0 if stop.seen else float(self.times_s[stop.index]) - stop.at_s
        if silent.any() or not stop.seen:
            downtime = hidden_s + self._stood_still_s(part, silent, hidden=not stop.seen)
        else:
            downtime = self._equivalent_downtime(part)
        until = float(max(self.caught_up_s(caught_up, since=stop.index), stop.at_s + downtime))
        return Recovered(float(downtime), until - stop.at_s, stop.at_s, until, stop.seen)

    def _stood_still_s(self, part: slice, silent: Mask, *, hidden: bool) -> float:
        """Return for how long the job did nothing; it may stop twice, and work meanwhile on what it was given first.

        Each stop counts from its first sample below half of what is due to after its last below a tenth of it, and so
        does a gap of the metrics in which it begins or ends: a stop hides them more often than what follows it.
        ``hidden``: whether a gap of the metrics hides what was before, so that the first sample ends no usual step.
        """
        halted = np.concatenate([[False], self.throughput[part] < STOPPED * self.due[part], [False]])
        firsts, lasts = np.flatnonzero(halted[1:] & ~halted[:-1]), np.flatnonzero(halted[:-1] & ~halted[1:])
        total_s = 0.0
        for first, after in zip(firsts.tolist(), lasts.tolist(), strict=True):
            within = np.flatnonzero(silent[first:after])
            if not len(within):
                continue
            begins, last = part.start + first, part.start + first + int(within[-1])
            means = _within_a_step(self._worked_until(begins)) or _within_a_step(self._worked_from(last))
            began_s = float(self.times_s[begins]) if hidden and not first else self._began_s(begins, means=means)
            total_s += self._ended_s(last, means=means) - began_s
        return total_s

    def caught_up_s(self, index: int, since: int) -> float:
        """Return when the job had caught up: as the first calm step began, or within the step before it.

        The calm begins with the sample ``index``, the stop with the sample ``since``. A rate that is the mean over its
        step shows when in it: of the whole surplus that the step before had, it has the share in which the job still
        caught up.
        """
        began_s = self._began_step_s(index)
        if index - 2 < since:
            return began_s
        whole, part = -self.excess[index - 2 : index]
        if not (whole > self.threshold[index - 2] and 0.0 < part < whole):
            return began_s
        part_began_s = self._began_step_s(index - 1)
        return part_began_s + float(part / whole) * (float(self.times_s[index - 1]) - part_began_s)

    def _began_step_s(self, index: int) -> float:
        """Return when the step began that a sample describes."""
        before_s = self.times_s[index - 1] if index else self.at_s
        return float(max(before_s, self.times_s[index] - self._usual_step_s))

    @property
    def _steps_s(self) -> Values:
        """How long the step lasted that each sample describes, seconds; of a gap, a usual one."""
        return np.minimum(np.diff([self.at_s, *self.times_s]), self._usual_step_s)

    @property
    def _usual_step_s(self) -> float:
        return float(np.median(np.diff(self.times_s))) if len(self.times_s) > 2 else self.settle_s

    @property
    def _pace(self) -> Values:
        """How much was processed as a share of what arrived, in each sample."""
        return self.throughput / np.maximum(self.workload, 1e-9)

    def _equivalent_downtime(self, part: slice) -> float:
        """Return the downtime that would have left as much undone: for metrics that average a stop into a dip.

        The dip's last sample and the next one may hold work at the pace of catching up. Where the dip is a single
        sample, how much of that is in it is not known.
        """
        lacks = np.clip(self.missing[part] / np.maximum(self.due[part], 1e-9), 0.0, 1.0)
        caught = np.flatnonzero(self.missing[part] <= self.threshold[part])
        last = int(caught[0]) - 1 if len(caught) else len(lacks) - 1
        idle, rest = 1.0 - self._worked_from(part.start + last)
        if last > 0:
            lacks[last] = idle
        elif not rest:
            lacks[last] = (lacks[last] + idle) / 2
        return float(lacks[: last + 1] @ self._steps_s[part][: last + 1] + self._usual_step_s * rest)

    def _window(self, index: int) -> NDArray[np.int64] | None:
        """Return the indices of the settling time that starts at ``index``; ``None`` before it is over."""
        until = self.times_s[index] + self.settle_s
        if self.times_s[-1] < until:
            return None
        return np.arange(index, int(np.searchsorted(self.times_s, until, side="right")))


def _within_a_step(worked: Values) -> bool:
    """Whether samples at the edge of a stop, as shares of a step, hold both work and standstill."""
    return bool(((worked > FLOOR) & (worked < 1.0)).any())

"""Where a job stopped, and for how long, in the samples of its workload, throughput and consumer lag."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from perdix.models.recovery.normal import STOPPED, Normal
from perdix.telemetry.window import Values

Mask = NDArray[np.bool_]

FLOOR = 0.05  # an anomaly is at least this share of the workload, whatever the standard deviation
LAG_FLOOR_S = 2.0  # consumer lag, in seconds of workload, that never counts as a backlog
LEAST_WORKLOAD_PER_S = 1.0  # records/s by which the lag is counted at least: seconds of less hold no record
RESUMED = 0.1  # throughput, as a share of what is due, from which the job processes again
GAP_STEPS = 3.0
MOST_PACE = 100.0  # of what arrives, at which a job is taken to catch up at most


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
class Stop:
    """When a job stopped."""

    index: int  # first sample that belongs to the stop, or that follows an unseen one
    at_s: float  # epoch seconds
    seen: bool  # whether samples show it, and not only what follows a gap of them


@dataclass(frozen=True)
class Course:
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
    over_s: float  # since when the action is over, epoch seconds: a stop that begins later has another cause

    @classmethod
    def of(
        cls,
        samples: Sequence[Sequence[float]],
        normal: Normal,
        *,
        at_s: float,
        settle_s: float,
        worked_per_s: float,
        over_s: float,
    ) -> Course:
        """Return the course of samples (time, workload, throughput, lag), one at least, a row each."""
        times, workload, throughput, lag = np.array(samples).T
        threshold = np.maximum(normal.difference.sd, FLOOR * workload)
        lag_limit = max(normal.lag_s.mean + normal.lag_s.sd, LAG_FLOOR_S) * np.maximum(workload, LEAST_WORKLOAD_PER_S)
        behind = np.isfinite(lag) & (lag > lag_limit)
        excess = workload - throughput - normal.difference.mean
        due = np.minimum(workload, worked_per_s)
        return cls(times, workload, throughput, due, excess, threshold, behind, at_s, settle_s, over_s)

    def excess_records(self, since: int, until: int) -> float:
        """Return how many more records arrived than were processed, in the samples of a slice; gaps are left out."""
        return float(self.excess[since:until] @ self._steps_s[since:until])

    def worked_s(self, until_s: float) -> float:
        """Return for how long the job processed up to a time, seconds; gaps are left out."""
        works = (self.throughput >= RESUMED * self.due) & (self.times_s <= until_s)
        return float(self._steps_s[works].sum())

    def lacked_s(self, until_s: float) -> float:
        """Return how long a stop would leave as much undone as was due up to a time, and the step after it, seconds."""
        lacks = (self.missing > self.threshold) & (self.times_s <= until_s + self._usual_step_s)
        return float(self._lacks[lacks] @ self._steps_s[lacks])

    @cached_property
    def normal(self) -> Mask:
        """Where as much is processed as arrives."""
        return np.abs(self.excess) <= self.threshold

    @cached_property
    def missing(self) -> Values:
        """How much of what is due was not processed, less what is normal, records/s."""
        return self.excess - (self.workload - self.due)

    def stop(self) -> Stop | None:
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
            return self._unseen(before=first) or Stop(first, self._began_s(first), seen=True)
        return self._unseen(before=len(self.times_s))

    def _began_s(self, first: int, *, means: bool = False) -> float:
        """Return when a stop began whose first sample below half of what is due is given.

        A rate that is the mean over its step says for how much of it the job worked: this sample, or the one before. A
        rate of a moment says only that it stopped since the sample before: half a step ago, or with the action, where
        there is none. A gap of the metrics before the sample is the stop's own.
        ``means``: whether the stop's end shows that rates are means; its beginning shows it where it is in a step.
        """
        at_s, step_s = float(self.times_s[first]), self._usual_step_s
        before_s = float(self.times_s[first - 1]) if first else self.at_s
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
        worked = np.minimum(self._pace[[before, first]] / max(self._pace_before(before), 1e-9), 1.0)
        return worked if before < first else np.array([1.0, worked[1]])

    def _pace_before(self, index: int) -> float:
        """Return what was processed before a sample as a share of what arrived: in the one before, or what is due.

        The former only where the job did not stand still there.
        """
        due = float(self.due[index] / self.workload[index]) if self.workload[index] > 0.0 else 1.0
        before = float(self._pace[index - 1]) if index else due
        return before if before >= STOPPED * due else due

    def _worked_from(self, last: int) -> Values:
        """Return for what share of its step the job worked, of the last sample of a stop and the next one.

        All that the workers can process then shows in the next one, or in the one after that, where that is faster.
        """
        after = min(last + 1, len(self.times_s) - 1)
        later = float(self._pace[min(after + 1, len(self.times_s) - 1)])
        full = later if self._rises(after, later) else float(self._pace[after])
        return np.minimum(self._pace[[last, after]] / max(full, 1e-9), 1.0)

    def _rises(self, index: int, pace: float) -> bool:
        """Whether a pace is above that of a sample by more than the noise of two."""
        return bool((pace - self._pace[index]) * self.workload[index] > 2 * self.threshold[index])

    def _unseen(self, before: int) -> Stop | None:
        """Return a stop hidden in a gap of the metrics: a surplus follows that only a backlog since then explains."""
        times = np.concatenate([[self.at_s], self.times_s])
        overloaded = bool(self.workload[0] - self.due[0] > self.threshold[0])
        for index in np.flatnonzero(np.diff(times) > max(GAP_STEPS * self._usual_step_s, 10.0)).tolist():
            window = self._window(index)
            if index >= before or window is None:
                break
            waited = self.behind[index - 1] if index else overloaded
            if not waited and -self.excess[window].mean() > self.threshold[window].mean():
                return Stop(index, float(times[index]), seen=False)
        return None

    def caught_up(self, stop: Stop, *, twice: bool = False) -> int | None:
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

    def recovered(self, stop: Stop, caught_up: int) -> Recovered:
        """Return the outcome, the job processing again after a sample below a tenth of what is due."""
        over = int(np.searchsorted(self.times_s, self.over_s, side="right"))
        part = slice(stop.index, min(caught_up + 1, max(over, stop.index + 1)))
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
            total_s += max(self._ended_s(last, means=means) - began_s, 0.0)  # samples may come closer than usual
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

    @cached_property
    def _steps_s(self) -> Values:
        """How long the step lasted that each sample describes, seconds; of a gap, a usual one."""
        return np.minimum(np.diff([self.at_s, *self.times_s]), self._usual_step_s)

    @cached_property
    def _usual_step_s(self) -> float:
        return float(np.median(np.diff(self.times_s))) if len(self.times_s) > 2 else self.settle_s

    @cached_property
    def _pace(self) -> Values:
        """How much was processed as a share of what arrived, in each sample; 1 where nothing arrived."""
        processed, arrived = np.minimum(self.throughput, MOST_PACE * self.workload), self.workload
        return np.divide(processed, arrived, out=np.ones_like(arrived), where=arrived > 0.0)

    @cached_property
    def _lacks(self) -> Values:
        """What share of what is due was not processed, in each sample."""
        missing = np.minimum(np.maximum(self.missing, 0.0), self.due)
        return np.divide(missing, self.due, out=np.zeros_like(missing), where=self.due > 0.0)

    def _equivalent_downtime(self, part: slice) -> float:
        """Return the downtime that would have left as much undone: for metrics that average a stop into a dip.

        The dip's last sample and the next one may hold work at the pace of catching up. Where the dip is a single
        sample, how much of that is in it is not known. Metrics that are missing in the dip or at its end count as the
        sample before them: a stop hides them more often than what follows it.
        """
        lacks = self._lacks[part].copy()
        deepest = int(lacks.argmax())  # of samples within noise, one may go before the dip, or lie in it
        level = np.flatnonzero(self.missing[part][deepest:] <= 0.0)
        until = deepest + int(level[0]) if len(level) else len(lacks)
        last = int(np.flatnonzero((self.missing > self.threshold)[part][:until]).max(initial=deepest))
        missing_s = np.diff(self.times_s[part])[: last + 1] - self._steps_s[part][1 : last + 2]
        hidden_s = lacks[: len(missing_s)] @ missing_s
        idle, rest = 1.0 - self._worked_from(part.start + last)
        if last > 0:
            lacks[last] = idle
        elif not rest:
            lacks[last] = (lacks[last] + idle) / 2
        return float(lacks[: last + 1] @ self._steps_s[part][: last + 1] + self._usual_step_s * rest + hidden_s)

    def _window(self, index: int) -> NDArray[np.int64] | None:
        """Return the indices of the settling time that starts at ``index``; ``None`` before it is over."""
        until = self.times_s[index] + self.settle_s
        if self.times_s[-1] < until:
            return None
        return np.arange(index, int(np.searchsorted(self.times_s, until, side="right")))


def _within_a_step(worked: Values) -> bool:
    """Whether samples at the edge of a stop, as shares of a step, hold both work and standstill."""
    return bool(((worked > FLOOR) & (worked < 1.0)).any())

"""Watching: how long a rescale or a failure really stops the job, tick by tick and without ever blocking (D8)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from perdix.control.observe import last_finite, standing_still, total_throughput
from perdix.control.state.ledger import Entry
from perdix.models.recovery.downtime import Downtimes, rescaled
from perdix.models.recovery.normal import STOPPED, Normal
from perdix.models.recovery.observation import TIMEOUT_S, RecoveryWatch, TimedOut
from perdix.models.recovery.stops import RESUMED, Recovered
from perdix.policies.contract import Reason
from perdix.settings.replacing import replace
from perdix.settings.stored import restored
from perdix.telemetry import metrics
from perdix.telemetry.query_text import rate_window_s
from perdix.telemetry.uptime import last_start_s
from perdix.telemetry.window import Values, Window

PATIENCE = 1.5
LEAST_S = 300.0
BEHIND_S = 5.0  # consumer lag, in seconds of workload, above which the job is not in normal operation
# Deficit as a share of the workload, and lag in seconds of it, of a job that falls behind
FALLING, FALLING_S = 0.1, 0.2
SURELY_S = 30.0  # up for so long, and for as long as a rate is taken over: a stop would show
UNSEEN_S = 30.0  # after that: a stop that has not shown by then was shorter than what metrics show
UNCALM_S = 300.0  # likewise: who is not calm by then never may be
BEFORE_A_RESTART_S = 120.0  # where the stop before an unplanned restart is looked for
MISSED_S = 120.0  # without any metric in a recovery, so that nobody saw when it ended
FAR_LONGER = 2.0  # times as long as any before it


@dataclass(frozen=True)
class Over:
    """A rescale that is over, though no metric showed its stop."""

    # seen_s, ran_s: when that was seen, and since when the job had run again, epoch seconds
    seen_s: float
    ran_s: float
    at_most_s: float  # for how many seconds it had stood still at most

    def to_state(self) -> list[float]:
        """Return a JSON-serialisable state."""
        return [self.seen_s, self.ran_s, self.at_most_s]

    @classmethod
    def from_state(cls, state: Any) -> Self:
        """Rebuild from :meth:`to_state`. Raises ``ValueError`` for what it cannot be."""
        seen_s, ran_s, at_most_s = (float(value) for value in state)
        if not all(math.isfinite(value) for value in (seen_s, ran_s, at_most_s)):
            raise ValueError(f"when a rescale was over is finite, found {state}")
        return cls(seen_s, ran_s, at_most_s)


@dataclass(frozen=True)
class Watching:
    """One recovery that is being watched."""

    watch: RecoveryWatch
    from_scale_out: int
    scale_out: int
    decision_id: str | None = None  # the decision that stopped the job; ``None`` where perdix made none
    predicted_s: float | None = None  # the recovery time that was predicted when it was decided
    # Whether it is a decision to run less: fewer workers, or as many smaller ones. Fewer that were taken for their
    # greater capacity, where nothing holds, are not less
    inward: bool = False
    waiting_records: float = 0.0  # consumer lag with which the watch began; 0 where it is not measured
    back: bool = False  # whether it is a decision that took another one back
    over: Over | None = None  # that the rescale is over, though no metric has shown its stop; ``None`` before
    learnt: bool = False  # whether its downtime was learnt from the target's word, when the rescale ended
    read_s: float = 0.0  # until when the metrics since it began were read without a gap, epoch seconds
    # known_s, missed_s: until when any metric was known, epoch seconds, and for how long none was at most before, s
    known_s: float = 0.0
    missed_s: float = 0.0

    @property
    def change(self) -> tuple[int, int]:
        """Two scale-outs that stand for the change: equal ones for a failure."""
        change = self.from_scale_out, self.scale_out
        return change if self.decision_id is None else rescaled(*change)

    @property
    def recovered(self) -> Recovered | None:
        """The recovery that was seen to its end; ``None`` where its stop came after the rescale was over.

        Nor where nobody looked before it had ended, for longer than the metrics are read back, or none was there for a
        while of it: then nobody saw when it ended.
        """
        result = self.watch.outcome
        if not isinstance(result, Recovered) or (self.over is not None and result.stopped_s > self.over.seen_s):
            return None
        return result if result.caught_up_s <= self.read_s and not self.missed else None

    @property
    def missed(self) -> bool:
        """Whether no metric at all was there for a while after a stop that was seen; a restart hides the job's own."""
        result = self.watch.outcome
        return isinstance(result, Recovered) and result.stop_seen and self.missed_s > MISSED_S

    def reading(self, window: Window) -> Self:
        """Return a watch that is read on in a window."""
        goes_on = window.times_s[0] - 2.0 * window.step_s <= max(self.read_s, self.watch.at_s)
        read = replace(self, read_s=float(window.times_s[-1])) if goes_on else self
        known_s = max(self.known_s, self.watch.at_s)
        known = np.isfinite(list(window.job_metrics.values())).any(axis=0) & (window.times_s > known_s)
        if not known.any():
            return read
        times_s = np.array([known_s, *window.times_s[known]])
        missed_s = float(np.diff(times_s).max()) - window.step_s
        return replace(read, known_s=float(times_s[-1]), missed_s=max(self.missed_s, missed_s))

    def to_state(self) -> dict[str, Any]:
        """Return a JSON-serialisable state."""
        over = None if self.over is None else self.over.to_state()
        return {**vars(self), "watch": self.watch.to_state(), "over": over}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Rebuild from :meth:`to_state`. Raises ``ValueError`` or ``KeyError`` when a part is missing."""
        over, watch = state.get("over"), RecoveryWatch.from_state(state["watch"])
        newest_s = watch.samples[-1][0] if watch.samples else watch.at_s
        former = {"inward": state["scale_out"] < state["from_scale_out"], "read_s": newest_s, "known_s": newest_s}
        parts = {"watch": watch, "over": None if over is None else Over.from_state(over)}
        return restored(cls, {**former, **state, **parts})


@dataclass(frozen=True)
class Watched:
    """What a look brought."""

    watching: Watching | None  # what goes on being watched
    normal: Normal
    downtimes: Downtimes
    ended: Watching | None = None  # the watch that has just come to an end
    outcome: Mapping[str, Any] | None = None  # how a decision turned out, for the ledger
    down: bool = False  # whether the job stands still at the end of the watch

    @property
    def failed(self) -> bool:
        """Whether the job stopped for a decision and did not come back; one that takes another back is not judged."""
        if self.ended is None or not isinstance(self.ended.watch.outcome, TimedOut):
            return False
        stalled = self.ended.watch.outcome.stopped_s is not None
        return stalled and self.ended.decision_id is not None and not self.ended.back

    @property
    def failed_scale_in(self) -> bool:
        """Whether the job did not come back from a rescale to less."""
        return self.failed and self.ended is not None and self.ended.inward


def look(
    watching: Watching | None,
    normal: Normal,
    downtimes: Downtimes,
    window: Window,
    *,
    last: Entry | None,
    objective_s: float,
    settled: bool = True,
) -> Watched:
    """Go on watching, or start to.

    ``last``: the decision that was applied last; it is watched from the moment at which it was applied.
    ``objective_s``: the job's recovery time objective: a recovery that takes half as long again has failed.
    ``settled``: false while the target is still at a rescale that perdix waits for.
    """
    lag, timeout_s = window.job_metric(metrics.LAG.name), min(max(PATIENCE * objective_s, LEAST_S), TIMEOUT_S)
    begun = _begun(watching, normal, window, last, timeout_s)
    if begun is not None and begun is not watching:
        begun = replace(begun, waiting_records=last_finite(lag[window.times_s <= begun.watch.at_s]) or 0.0)
    if begun is not None:
        begun = _overloaded(begun, window)
    watching = begun if begun is None or settled else _waiting(begun, float(window.times_s[-1]), timeout_s)
    series = (window.times_s, window.job_metric(metrics.WORKLOAD.name), stopping_throughput(window), lag)
    if watching is None:
        return Watched(None, _fed(normal, *series), downtimes)
    watching = _seen_again(watching, _added(watching.reading(window), window), timeout_s)
    watching = _done(watching, window, series[2]) if settled else watching
    seen = _over(_within_uptime(replace(watching, watch=watching.watch.observe(*series)), window), window)
    result = seen.watch.outcome
    if result is None:
        return _too_short_to_see(seen, normal, downtimes, window) or Watched(seen, normal, downtimes)
    if seen.recovered is not None:
        # A second time would make a change of the job of it.
        if not seen.learnt:
            downtimes = downtimes.observed(*seen.change, seen.recovered.downtime_s)
    elif isinstance(result, Recovered) and seen.over is not None:
        downtimes = _hidden(seen, seen.over, downtimes)
    # What was watched is no normal operation, and a restart in it is not watched a second time.
    until_s = result.caught_up_s if isinstance(result, Recovered) else float(window.times_s[-1])
    normal = replace(normal, newest_s=max(normal.newest_s, until_s))
    down = bool(standing_still(window)[-1])
    return Watched(None, normal, downtimes, seen, _outcome(seen, result), down)


def put_off(watched: Watched, watching: Watching | None, normal: Normal) -> Watched:
    """Return a look after which a decision is watched on that failed, but cannot be taken back now.

    ``watching``, ``normal``: what they were before the look.
    """
    ended, result = watched.ended, None if watched.ended is None else watched.ended.watch.outcome
    if ended is None or not watched.failed or not isinstance(result, TimedOut):
        return watched
    # What a pause of days shows would be too much to keep.
    long = watching is not None and result.waited_s > TIMEOUT_S
    goes_on = watching if long else replace(ended, watch=replace(ended.watch, outcome=None))
    return Watched(goes_on, normal, watched.downtimes)


def _overloaded(seen: Watching, window: Window) -> Watching:
    """Return a watch that knows what a job took that was overloaded until its rescale began, minutes late maybe.

    Until then its uptime goes on from before the request; where that goes on afterwards, too, it tells nothing.
    """
    times_s, uptime_s = window.times_s, window.job_metric(metrics.UPTIME.name)
    arrives, done = window.job_metric(metrics.WORKLOAD.name), stopping_throughput(window)
    with np.errstate(invalid="ignore"):
        restarted = times_s - uptime_s >= seen.watch.at_s
        before = (times_s <= seen.watch.at_s) | (restarted.any() & (times_s - uptime_s < seen.watch.at_s))
    known = before & np.isfinite(arrives - done)
    if seen.decision_id is None or not known.any():
        return seen
    known &= times_s > float(times_s[before][-1]) - LEAST_S
    worked_per_s = float(done[known].max(initial=0.0))
    overloaded = (done < (1.0 - FALLING) * arrives)[known][-1:].any()
    if not overloaded or not worked_per_s > 0.0:
        return seen
    return replace(seen, watch=replace(seen.watch, worked_per_s=worked_per_s))


def _waiting(seen: Watching, now_s: float, timeout_s: float) -> Watching:
    """Return a watch of a job that starts slowly: the target's time does not count, and as much is to be caught up."""
    since_s = min(now_s - seen.watch.at_s, TIMEOUT_S)
    if seen.decision_id is None or since_s <= LEAST_S:
        return seen
    return replace(seen, watch=replace(seen.watch, timeout_s=max(seen.watch.timeout_s, 2.0 * since_s + timeout_s)))


def _seen_again(before: Watching, seen: Watching, timeout_s: float) -> Watching:
    """Return a watch that gives a job as long again of which nothing was seen for a while: it may have caught up.

    That is for a while far longer than any before: workers that crash again and again are away as often.
    """
    if seen.missed_s <= max(MISSED_S, FAR_LONGER * before.missed_s):
        return seen
    until_s = max(seen.watch.timeout_s, seen.known_s - seen.watch.at_s + timeout_s)
    return replace(seen, watch=replace(seen.watch, timeout_s=until_s))


def _within_uptime(seen: Watching, window: Window) -> Watching:
    """Return a watch whose downtime is no longer than from the request until the uptime began anew.

    Between two samples 15 s apart, a stop of two seconds looks like one of seven or more. Where the job did nothing for
    a whole step after that, it was up before its tasks were, as while they restore their state: then samples count.
    """
    result, at_most_s = seen.watch.outcome, _restarted_after_s(seen, window)
    if not isinstance(result, Recovered) or at_most_s is None or result.downtime_s <= at_most_s:
        return seen
    works_s = seen.watch.at_s + at_most_s + window.step_s
    if any(at_s >= works_s and done < RESUMED * arrives for at_s, arrives, done, _ in seen.watch.samples):
        return seen
    return replace(seen, watch=replace(seen.watch, outcome=replace(result, downtime_s=at_most_s)))


def _restarted_after_s(seen: Watching, window: Window) -> float | None:
    """Return how long after the request the job runs, by its uptime; ``None`` where it was not restarted since."""
    restarted_s = last_start_s(window)
    if seen.decision_id is None or restarted_s is None or restarted_s < seen.watch.at_s:
        return None
    return restarted_s - seen.watch.at_s


def _done(seen: Watching, window: Window, throughput: Values) -> Watching:
    """Return a watch that knows when a rescale is over, though it is not caught up with yet.

    By then the job runs again with as many workers as were asked for, and has been at work for long enough that a stop
    would show in rates.
    """
    if seen.decision_id is None or math.isfinite(seen.watch.over_s):
        return seen
    times_s = window.times_s
    with np.errstate(invalid="ignore"):
        works = throughput >= STOPPED * window.job_metric(metrics.WORKLOAD.name)
    idle_s = np.maximum.accumulate(np.where(works, times_s[0] - window.step_s, times_s))
    over = _runs_again(seen, window) & _as_asked(seen, window) & (times_s - idle_s >= _surely_s(window))
    return replace(seen, watch=replace(seen.watch, over_s=float(times_s[over.argmax()]))) if over.any() else seen


def _surely_s(window: Window) -> float:
    """Return for how long a job is up until a stop would show in its rates, seconds."""
    return max(SURELY_S, rate_window_s(window.step_s))


def _runs_again(seen: Watching, window: Window) -> NDArray[np.bool_]:
    """Return where a job surely runs as a rescale wanted it, by its uptime, which began anew since; shape ``(n,)``.

    As many workers run as were asked for. Where the number never fits, as where slots are counted in other units, two
    minutes do.
    """
    uptime_s = window.job_metric(metrics.UPTIME.name)
    with np.errstate(invalid="ignore"):
        runs = (_as_asked(seen, window) & (uptime_s >= _surely_s(window))) | (uptime_s >= BEFORE_A_RESTART_S)
        return np.asarray(runs & (window.times_s - uptime_s >= seen.watch.at_s))


def _as_asked(seen: Watching, window: Window) -> NDArray[np.bool_]:
    """Return where as many workers run as were asked for, so far as is known; shape ``(n,)``."""
    scale_out = window.job_metric(metrics.SCALE_OUT.name)
    return np.asarray(np.isnan(scale_out) | (scale_out == seen.scale_out))


def _over(seen: Watching, window: Window) -> Watching:
    """Return a watch that knows when a rescale is over, though no metric has shown its stop.

    By then it runs again for long enough that a stop would show in rates, and also that of restoring state. A stop that
    comes later has another cause.
    """
    if seen.decision_id is None or seen.over is not None:
        return seen
    running = _runs_again(seen, window)
    stopped_s = seen.watch.stopped_s() if running.any() else None
    if stopped_s is not None:
        running &= window.times_s < stopped_s
    if not running.any():
        return seen
    first = int(np.flatnonzero(running)[0])
    seen_s = float(window.times_s[first])
    ran_s = seen_s - float(window.job_metric(metrics.UPTIME.name)[first])
    return replace(seen, over=Over(seen_s, ran_s, min(seen.watch.hidden_s(seen_s), ran_s - seen.watch.at_s)))


def _too_short_to_see(seen: Watching, normal: Normal, downtimes: Downtimes, window: Window) -> Watched | None:
    """Return the end of a watch of a rescale that has been over for a while without any metric having shown a stop.

    To go on waiting for a stop would teach nothing, and the next rescale would end the watch. What waited before is
    still caught up with, for as long as that may take.
    """
    if seen.over is None or not seen.watch.samples or seen.watch.stopped_s() is not None:
        return None
    since_s = seen.watch.samples[-1][0] - seen.over.seen_s
    recovered = seen.watch.unseen(seen.over.ran_s, seen.over.at_most_s) if since_s >= UNSEEN_S else None
    if recovered is None and since_s < UNCALM_S:
        return None
    normal = replace(normal, newest_s=max(normal.newest_s, float(window.times_s[-1])))
    ended = replace(seen, watch=replace(seen.watch, outcome=recovered))
    outcome = _unseen(ended, seen.over, "no metric showed a stop")
    return Watched(None, normal, _hidden(ended, seen.over, downtimes), ended, outcome)


def _hidden(seen: Watching, over: Over, downtimes: Downtimes) -> Downtimes:
    """Return what a rescale taught whose stop no metric showed: between what was not processed then, and what hid it.

    What is believed stays where it lies between them: it may well have been so.
    """
    believed_s = downtimes.between(*seen.change)
    found_s = min(max(believed_s, seen.watch.lacked_s(over.ran_s)), over.at_most_s)
    return downtimes if found_s == believed_s else downtimes.observed(*seen.change, found_s)


def _unseen(seen: Watching, over: Over, why: str) -> Mapping[str, Any]:
    late = seen.recovered is not None and seen.recovered.recovery_s > over.at_most_s
    return {"recovered": True, "downtime_at_most_s": over.at_most_s, **(_judged(seen) if late else {}), "why": why}


def _judged(seen: Watching) -> Mapping[str, Any]:
    """Return how long the recovery took, and how far off it was predicted, where it was seen."""
    if seen.recovered is None:
        return {}
    found_s, predicted_s = seen.recovered.recovery_s, seen.predicted_s
    if not predicted_s:
        return {"recovery_s": found_s}
    error = predicted_s / found_s - 1.0 if found_s > 0 else None
    return {"recovery_s": found_s, "predicted_s": predicted_s, "prediction_error": error}


def stopping_throughput(window: Window) -> Values:
    """Return records/s over all workers, shape ``(n,)``: 0 where the job is known to stand still, NaN where unknown."""
    return np.where(standing_still(window), 0.0, total_throughput(window))


def _fed(normal: Normal, times_s: Values, workload: Values, throughput: Values, lag: Values) -> Normal:
    """Feed the baseline with what is normal: a job that is behind works at another rate than its workload's.

    One that falls behind does so from its first second on, before its lag is long.
    """
    with np.errstate(invalid="ignore"):
        falling = (workload - throughput > FALLING * workload) & (lag > FALLING_S * workload)
        behind = (lag > BEHIND_S * workload) | falling
    return normal.fed(times_s, workload, np.where(behind, np.nan, throughput), lag)


def _begun(
    watching: Watching | None, normal: Normal, window: Window, last: Entry | None, timeout_s: float
) -> Watching | None:
    if last is not None and last.applied_s is not None and last.outcome is None:
        if watching is not None and watching.decision_id == last.decision_id:
            return watching
        intent = last.intent
        watch = RecoveryWatch(last.applied_s, normal, timeout_s)
        fewer = intent.scale_out < intent.from_scale_out and intent.reason != Reason.SCALE_MAXIMUM
        inward = fewer or intent.reason == Reason.SCALE_IN
        begun = Watching(watch, intent.from_scale_out, intent.scale_out, last.decision_id, intent.predicted_recovery_s)
        back = intent.reason == Reason.ROLLBACK
        return replace(begun, inward=inward and not back, back=back)
    return watching or _failure(normal, window, last)


def _failure(normal: Normal, window: Window, last: Entry | None) -> Watching | None:
    """Return a watch for a stop that no decision explains: nothing runs now, or the uptime began anew in the window.

    Where more workers run than before, others have rescaled: no failure adds any.
    """
    halted = _halted(normal, window, last)
    if halted is not None:
        return halted
    uptime, scale_out = window.job_metric(metrics.UPTIME.name), window.job_metric(metrics.SCALE_OUT.name)
    restarted_s = last_start_s(window)
    if restarted_s is None or not np.isfinite(scale_out).any():
        return None
    ran_before = np.isfinite(uptime) & (window.times_s < restarted_s)
    asked_s = last.applied_s if last is not None and last.applied_s is not None else -np.inf
    explained = asked_s >= restarted_s - BEFORE_A_RESTART_S
    # Above the newest baseline: a restart that was watched to its end is not watched again.
    if not ran_before.any() or explained or restarted_s <= normal.newest_s:
        return None
    began_s = max(restarted_s - BEFORE_A_RESTART_S, float(window.times_s[0]))
    return _unasked(RecoveryWatch(began_s, normal), window, restarted_s)


def _halted(normal: Normal, window: Window, last: Entry | None) -> Watching | None:
    """Return a watch for a job that stands still at the window's end, however long it will."""
    still = standing_still(window)
    scale_out = window.job_metric(metrics.SCALE_OUT.name)
    known = np.isfinite(scale_out)
    if not still[-1] or not known.any():
        return None
    running = np.flatnonzero(~still)
    first = int(running[-1]) + 1 if len(running) else 0
    asked_s = last.applied_s if last is not None and last.applied_s is not None else -np.inf
    seen_s = float(window.times_s[first])
    if first == 0 or asked_s >= seen_s - BEFORE_A_RESTART_S or seen_s <= normal.newest_s:
        return None
    began_s = float(np.mean(window.times_s[first - 1 : first + 1]))
    return _unasked(RecoveryWatch(began_s, normal), window, seen_s)


def _unasked(watch: RecoveryWatch, window: Window, stopped_s: float) -> Watching:
    """Return a watch of a stop that perdix did not ask for: of a failure, unless more workers run than before.

    ``window``: says how many workers ran, in one row at least.
    ``stopped_s``: when the job had stopped, or ran again; epoch seconds.
    """
    uptime, scale_out = window.job_metric(metrics.UPTIME.name), window.job_metric(metrics.SCALE_OUT.name)
    known = np.isfinite(scale_out)
    # What ran first: workers that were added came after it, and a worker may be lost well before its job stops.
    ran = scale_out[known & (uptime != 0.0) & (window.times_s < stopped_s)]
    now = float(scale_out[known][-1])
    first = float(ran[0]) if len(ran) else now
    return Watching(watch, round(first), round(max(first, now)))


def _added(seen: Watching, window: Window) -> Watching:
    """Return a watch that knows of workers that others have added meanwhile."""
    scale_out = window.job_metric(metrics.SCALE_OUT.name)
    known = scale_out[np.isfinite(scale_out)]
    if seen.decision_id is not None or not len(known) or known[-1] <= seen.scale_out:
        return seen
    return replace(seen, scale_out=round(float(known[-1])))


def _outcome(seen: Watching, result: Recovered | TimedOut) -> Mapping[str, Any]:
    if isinstance(result, TimedOut):
        stopped = "the job stopped and did not catch up" if result.stopped_s is not None else "no stop was seen"
        return {"recovered": False, "waited_s": result.waited_s, "why": stopped}
    if seen.read_s < result.caught_up_s:
        return {"recovered": True, "why": "nobody looked until it had caught up"}
    if seen.missed:
        return {"recovered": True, "why": f"metrics were missing for {seen.missed_s:.0f} s of its recovery"}
    if seen.recovered is None and seen.over is not None:
        return _unseen(seen, seen.over, "no metric showed a stop; another one came after it was over")
    return {"recovered": True, "downtime_s": result.downtime_s, "stop_seen": result.stop_seen, **_judged(seen)}

"""One tick of one job: review, observe, learn, plan, record, reconcile.

Belongs here: the order of these steps, and what is stored when. Does not belong here: how any of them is done, several
jobs (:mod:`perdix.control.fleet`), and the clock (``now_s`` is handed in).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from perdix.control.account import account
from perdix.control.believe import coarse, foreseen
from perdix.control.clock import CLOCK_BACK_S
from perdix.control.decide import Verdict
from perdix.control.expect import expected_recovery_s
from perdix.control.followed import Followed
from perdix.control.job_memory import AVOIDED, JobMemory, Recalled, changed
from perdix.control.learn import Lesson, learn
from perdix.control.memories import Memories
from perdix.control.observe import Observation, doubting, observe
from perdix.control.pausing import why_paused
from perdix.control.plan import Ledgered, Plan, Setting, blindness, plan
from perdix.control.reconcile import Event, Progress, Reconciler, close_undone
from perdix.control.rejections import Rejections
from perdix.control.sources import since_s
from perdix.control.state.journal import Status
from perdix.control.state.ledger import Intent, State
from perdix.control.state.schema import from_text, to_text
from perdix.control.state.store import StateStore
from perdix.control.tenure import Tenure
from perdix.control.tick_io import TickIO, TickReport
from perdix.policies.contract import Decision, Reason, Situation
from perdix.settings.durations import DAY_S
from perdix.settings.replacing import replace
from perdix.settings.stream_job import StreamJob
from perdix.targets.advisory import AdvisoryTarget
from perdix.targets.contract import Running, Target
from perdix.telemetry.plausible import plausible_ranges

VALID_S = 900.0  # that a decision is fresh for at least


def tick(job: StreamJob, io: TickIO, now_s: float, tenure: Tenure | None = None) -> TickReport:
    """Let one job's controller look at the world once, and act.

    What is decided is stored before the target is asked, so a crash at any point is healed by the next tick and scales
    nothing twice.

    Raises ``StaleLease`` when another controller took over in the middle; nothing that this one did after that was
    kept.

    ``now_s``: epoch seconds: the tick's one read of the clock.
    ``tenure``: fences every write and the call of the target; ``None`` when nobody else can be at work (replays,
    tests).
    """
    begun = begin(job, io, now_s, tenure)
    return begun.end(begun.carry_out())


def begin(job: StreamJob, io: TickIO, now_s: float, tenure: Tenure | None = None) -> Begun:
    """Make a tick as far as its decision is stored: all of :func:`tick` but asking the target."""
    store = io.store if tenure is None else tenure.fenced
    stages = _Stages()
    with stages("recall"):
        with store.seen() as seen:
            remembered = io.memories.recall(seen, job.name)
            pause = seen.journal.pauses(now_s).get(job.name)
        memory = remembered.memory
        act = job.mode == "act" and job.target.kind != "advisory"
        paused = why_paused(job, pause, now_s)
        setting = Setting(job, now_s, act, paused, io.tick_interval_s, io.policy_of, io.believes, store.lasts)
    with stages("review"):
        target = io.target_of(job)
        memory, progress = _waited(setting, memory, _review(setting, store, target, memory.followed))
    with stages("observe"):
        running = None if progress is None else progress.running
        observation = _observe(setting, io, memory, running)
        progress = _seen_running(setting, store, target, progress, observation)
    with stages("learn"):
        memory = replace(memory, followed=_followed(setting, memory.followed, progress))
        lesson = learn(
            memory,
            observation,
            progress,
            champions=io.champions,
            job=job,
            now_s=now_s,
            believes=io.believes,
            paused=paused is not None,
        )
        observation = doubting(observation, lesson.memory.capacity.doubted)
    with stages("plan"):
        planned = plan(setting, observation, progress, lesson, _ledgered(store, setting, lesson.memory))
    with stages("record"):
        notes = (*remembered.notes, *lesson.notes, *planned.beliefs.notes)
        intent = _intent(setting, observation, progress, planned, notes=notes, rejected=lesson.memory.rejected)
        found = _Found(observation, progress, lesson, planned, intent, notes)
        retrain, remembered = _record(setting, store, found, remembered)
    hands = _Hands(store, target, io.memories, tenure)
    return Begun(setting, hands, replace(found, retrain=retrain), remembered, stages)


@dataclass(frozen=True)
class Begun:
    """A tick whose decision is stored: its target is still to be asked (:meth:`carry_out`), then it ends (:meth:`end`).

    The first may take its time, and may run in another thread meanwhile.
    """

    setting: Setting
    _hands: _Hands
    _found: _Found
    _remembered: Recalled
    _stages: _Stages

    @property
    def asks(self) -> bool:
        """Whether the target may have to be asked for something; also on a blind tick, as perdix saw when it decided.

        Otherwise :meth:`carry_out` waits for nobody.
        """
        progress, intent = self._found.progress, self._found.intent
        if not self.setting.act or self.setting.paused is not None or progress.running is None:
            return False
        decided = intent is not None and intent.first_state is State.INTENT
        return decided or (progress.open is not None and progress.open.state is State.INTENT)

    def carry_out(self) -> Progress:
        """Ask for what is wanted; raises as :func:`tick` does."""
        progress, hands = self._found.progress, self._hands
        with self._stages("reconcile"):
            if not self.asks or progress.running is None:
                return progress
            reconciler = Reconciler(hands.store, hands.target, self.setting.job.name, self.setting.now_s)
            carried = reconciler.carry_out(progress.running, hands.tenure)
            return progress if carried.event is Event.NOTHING else carried

    def end(self, carried: Progress) -> TickReport:
        """Keep what came of it, and report."""
        job, now_s, remembered = self.setting.job.name, self.setting.now_s, self._remembered
        if carried.avoided is not None and carried is not self._found.progress:
            memory = replace(remembered.memory, avoided=(*self._found.lesson.memory.avoided, carried.avoided))
            new = {AVOIDED: {"sizes": [item.to_state() for item in memory.avoided]}}
            self._hands.store.learned.learn(job, now_s, new)
            remembered = remembered.stored(memory, new, now_s)
        self._hands.memories.keep(job, remembered)
        return _report(self.setting, self._found, carried, self._stages.milliseconds)


@dataclass(frozen=True)
class _Hands:
    store: StateStore
    target: Target
    memories: Memories
    tenure: Tenure | None


@dataclass(frozen=True)
class _Found:
    observation: Observation
    progress: Progress
    lesson: Lesson
    planned: Plan
    intent: Intent | None
    notes: tuple[str, ...]
    retrain: str | None = None  # run key of one that was asked for when all of this was recorded


class _Stages:
    def __init__(self) -> None:
        self.milliseconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        began_s = time.perf_counter()
        yield
        self.milliseconds[name] = 1_000.0 * (time.perf_counter() - began_s)


def _observe(setting: Setting, io: TickIO, memory: JobMemory, running: Running | None) -> Observation:
    interval_s, job = setting.tick_interval_s, setting.job
    from_s = since_s(job, setting.now_s, memory.newest_s, interval_s)
    scale_out = None if running is None else running.scale_out
    ranges = plausible_ranges(job.bounds, scale_out, memory.highest_per_s)
    settled = scale_out if running is not None and running.settled else None
    return observe(job, io.source, setting.now_s, from_s, interval_s, ranges=ranges, running=settled)


def _review(setting: Setting, store: StateStore, target: Target, followed: Followed) -> Progress | None:
    """Return what became of what was wanted; ``None`` where only the metrics show what runs."""
    if isinstance(target, AdvisoryTarget):
        return None
    return _reviewed(setting, store, target, followed.scale_out)


def _waited(setting: Setting, memory: JobMemory, progress: Progress | None) -> tuple[JobMemory, Progress | None]:
    """Return a review in which a target that stays short of what it was asked for does not hold the job without end."""
    if progress is None:
        return memory, None
    unsettled = memory.unsettled.seen(progress, setting.now_s, setting.tick_interval_s)
    return replace(memory, unsettled=unsettled), unsettled.taken_for_settled(progress)


def _reviewed(setting: Setting, store: StateStore, target: Target, asked_before: int | None = None) -> Progress:
    reconciler = Reconciler(
        store,
        target,
        setting.job.name,
        setting.now_s,
        asked_before=asked_before,
        interval_s=setting.tick_interval_s,
    )
    return reconciler.review(act=setting.act, paused=setting.paused is not None)


def _seen_running(
    setting: Setting, store: StateStore, target: Target, progress: Progress | None, observation: Observation
) -> Progress:
    """Return the review with what only the metrics could show."""
    if progress is None:
        if isinstance(target, AdvisoryTarget) and (observation.scale_out is not None or not observation.quality.blind):
            target.observe(observation.scale_out or None)
        progress = _reviewed(setting, store, target)
    if progress.running is None and not setting.act and observation.scale_out:
        # Advice needs no target: the metrics show what runs.
        return replace(progress, running=Running(observation.scale_out, None, settled=True))
    return progress


def _followed(setting: Setting, followed: Followed, progress: Progress) -> Followed:
    """Return which rescales others have asked for."""
    running, desired, now_s = progress.running, progress.desired, setting.now_s
    if running is not None and running.requested is not None:  # what runs of it may be less: a pod that is lost
        own = desired is not None and running.is_asked_for(desired.scale_out, desired.mix)
        return followed.seen(running.requested, now_s, own=own or progress.open is not None)
    return followed.seen(None if running is None else running.scale_out, now_s, measured=True)


def _ledgered(store: StateStore, setting: Setting, memory: JobMemory) -> Ledgered:
    """Return when the job was rescaled: by perdix, or by whoever follows its advice."""
    job, day_s = setting.job.name, setting.now_s - DAY_S
    if not setting.act:
        return Ledgered(memory.followed.last_s, memory.followed.within(day_s))
    # What was noted before the clock was set back says nothing: nobody can say how long ago it was.
    last_s, count = store.ledger.rescales(job, day_s, setting.now_s + CLOCK_BACK_S)
    noted = (at_s for at_s in (last_s, memory.followed.last_s) if at_s is not None)
    return Ledgered(max(noted, default=None), count)


def valid_s(interval_s: float) -> float:
    """Return for how long a decision is fresh: until the tick or look after the next, where those are seldom."""
    return max(VALID_S, 2.0 * interval_s)


def _intent(
    setting: Setting,
    observation: Observation,
    progress: Progress,
    planned: Plan,
    *,
    notes: tuple[str, ...],
    rejected: Rejections,
) -> Intent | None:
    if planned.verdict is None or progress.running is None:
        return None
    decision, running = planned.verdict.decision, progress.running
    before, before_mix = running.scale_out, running.mix
    if progress.undone is not None:  # it may never have run, and is asked for all the same
        before, before_mix = progress.undone.intent.scale_out, progress.undone.intent.mix
    return Intent(
        job=setting.job.name,
        window_end_s=setting.now_s if observation.end_s is None else observation.end_s,
        made_s=setting.now_s,
        from_scale_out=before,
        scale_out=decision.scale_out,
        policy=decision.policy,
        reason=decision.reason,
        sentence=decision.sentence,
        valid_until_s=setting.now_s + valid_s(setting.tick_interval_s),
        versions=planned.beliefs.versions,
        explanation=account(observation, planned.situation, planned.verdict, notes, planned.beliefs, rejected=rejected)
        if setting.lasts  # else nobody will ask why
        else {},
        predicted_recovery_s=_expected_s(planned, decision),
        act=setting.act,
        from_mix=before_mix,
        mix=decision.mix,
    )


def _expected_s(planned: Plan, decision: Decision) -> float | None:
    """Return the recovery to expect of a decision that stops the job, else what the policy predicts."""
    situation = planned.situation
    if situation is None or not decision.rescales(situation):
        return decision.recovery_s
    return expected_recovery_s(situation, decision.scale_out, decision.mix, planned=True)


def _record(setting: Setting, store: StateStore, found: _Found, remembered: Recalled) -> tuple[str | None, Recalled]:
    """Store all that was learned and decided, or nothing of it.

    Returns the run key of a new retrain request, and what is remembered from now on.
    """
    lesson, planned, intent = found.lesson, found.planned, found.intent
    job, now_s, memory = setting.job.name, setting.now_s, lesson.memory
    memory = foreseen(memory, planned.beliefs, setting.tick_interval_s)
    if planned.situation is not None and planned.verdict is not None:
        name = setting.job.policy.name
        asked = from_text(to_text(dict(planned.verdict.proposed.memory)))  # as a restart finds it: lists, keys in order
        memory = replace(memory, policy=name, policy_memory=asked)
    with store.together() as once:
        if lesson.adopted:
            _answered(once, job, now_s)
        retrain = None
        if lesson.retrain:
            retrain = once.journal.request_retrain(job, now_s, lesson.retrain, since_s=lesson.drift_since_s)
            memory = memory if retrain else replace(memory, drift=lesson.unasked)  # one is open, or it is too soon
        for forecast, realised in lesson.judgement.settled:
            once.learned.settle(job, forecast.origin_s, now_s, realised.horizon_wape)
        if planned.beliefs.champion is not None:
            made = coarse(planned.beliefs.champion)
            if once.learned.save_forecast(job, made):
                memory = replace(memory, pending=(*memory.pending, made))
        new = changed(job, memory, remembered.documents) if once.lasts else {}
        if new:
            once.learned.learn(job, now_s, new)
        if lesson.outcome is not None:
            once.ledger.set_outcome(*lesson.outcome)
        close_undone(once.ledger, job, now_s, found.progress)
        outdated = _outdated(setting, found.progress, planned)
        if outdated is not None:
            once.ledger.withdraw(job, now_s, outdated)
        if intent is not None and (once.lasts or intent.first_state is not State.HELD):
            once.ledger.record(intent)
    return retrain, remembered.stored(memory, new, now_s)


def _outdated(setting: Setting, progress: Progress, planned: Plan) -> str | None:
    """Return why what still waits to be asked for is wanted no longer, in words; ``None`` where it is, or none waits.

    To take a bad size back stays wanted, also in a pause in which the bounds change: what they allow is asked for as it
    ends. And what the target shows already was asked for.
    """
    waiting, running, verdict = progress.open, progress.running, planned.verdict
    if waiting is None or waiting.state is not State.INTENT or running is None or not setting.act:
        return None
    intent, bounds = waiting.intent, setting.job.bounds
    if running.is_asked_for(intent.scale_out, intent.mix):
        return None
    back = intent.reason == Reason.ROLLBACK
    if bounds.clamp(intent.scale_out) != intent.scale_out and not (back and setting.paused):
        return f"by the job's bounds, which are {bounds.minimum} to {bounds.maximum} now"
    if back or verdict is None or planned.situation is None:
        return None
    return _judged_anew(intent, verdict, planned.situation)


def _judged_anew(intent: Intent, verdict: Verdict, situation: Situation) -> str | None:
    """Return what a newer judgement says against what waits, although a guard keeps its own wish from being asked for.

    More workers than run are wanted in vain as long as more are wanted, fewer only as long as just as few are.
    """
    decision, proposed = verdict.decision, verdict.proposed
    if not proposed.rescales(situation):
        return "by a newer judgement: what runs is right" if proposed.reason.finds_enough else None
    if decision.reason is Reason.HOLD_BLIND or decision.rescales(situation):  # what is recorded anew supersedes it
        return None
    same = intent.scale_out == proposed.scale_out and dict(intent.mix) == dict(proposed.mix)
    more = situation.is_more(intent.scale_out, intent.mix) and proposed.adds(situation)
    if decision.reason is Reason.HOLD_MEMORY or not (same or more):
        return f"by a newer judgement: {decision.sentence}"
    return None


def _answered(store: StateStore, job: str, now_s: float) -> None:
    for request in store.journal.open_retrains():
        if request.job == job:
            store.journal.close_retrain(request.run_key, now_s)


def _failure_s(planned: Plan, running: Running | None) -> float | None:
    """Return the recovery to expect of a failure now; while a rescale is under way nobody can say."""
    if running is None or not running.settled:
        return None
    situation = planned.situation
    return None if situation is None else expected_recovery_s(situation, situation.scale_out, situation.mix)


def _report(setting: Setting, found: _Found, carried: Progress, stages_ms: Mapping[str, float]) -> TickReport:
    verdict, progress = found.planned.verdict, found.progress
    status, sentence = Status.ACTING if setting.act else Status.ADVISE, ""
    if verdict is not None:
        sentence = verdict.decision.sentence
    if setting.act and progress.event is Event.UNREACHABLE:
        status, sentence = Status.UNREACHABLE, f"The target cannot be read: {progress.sentence}."
    elif not found.observation.clear and (
        progress.running is None or progress.running.settled or not (progress.open or setting.paused)
    ):
        back = verdict is not None and verdict.decision.reason is Reason.ROLLBACK
        blind = f"Blind: {blindness(found.observation)}."
        status, sentence = Status.BLIND, f"{blind} {sentence}" if back else blind
    elif progress.running is None:
        status, sentence = Status.BLIND, f"Blind: {progress.sentence}."
    elif setting.paused is not None:
        status = Status.PAUSED
    if carried.sentence and carried.event is not Event.UNREACHABLE:
        sentence = f"{sentence} Target: {carried.sentence}.".strip()
    desired = carried.open
    return TickReport(
        job=setting.job.name,
        status=status,
        sentence=sentence,
        decision=None if verdict is None else verdict.decision,
        decision_id=None if found.intent is None else found.intent.decision_id,
        event=carried.event,
        running=None if progress.running is None else progress.running.scale_out,
        running_mix={} if progress.running is None else progress.running.mix,
        wanted=None if desired is None else desired.intent.scale_out,
        forecast=found.planned.beliefs.forecast if setting.believes else None,
        capacities=found.planned.beliefs.capacities,
        wape=found.lesson.memory.wape,
        horizon_wape=found.lesson.memory.horizon_wape,
        predicted_recovery_s=None if found.intent is None else found.intent.predicted_recovery_s,
        followed=0 if setting.act else found.lesson.memory.followed.within(setting.now_s - DAY_S),
        failure_recovery_s=_failure_s(found.planned, carried.running),
        retrain=found.retrain,
        drifting=found.retrain is not None or found.lesson.unasked.attempt > 0,
        notes=found.notes,
        rejected=found.lesson.memory.rejected.counts,
        stages_ms=stages_ms,
    )

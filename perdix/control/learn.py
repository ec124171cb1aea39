"""Learn: what this tick's observation teaches, before anything is decided. Pure: no store, no target."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from perdix.control.adoption import adopt, is_another
from perdix.control.believe import noticed, update, with_capacity, with_fallback
from perdix.control.champions import ChampionSource
from perdix.control.clock import CLOCK_BACK_S
from perdix.control.decide import Avoided
from perdix.control.expect import expected_capacity_per_s
from perdix.control.job_memory import JobMemory, history_of
from perdix.control.observe import Observation
from perdix.control.reconcile import AVOID_S, SETTLE_S, Progress, still_avoided
from perdix.control.set_back import until
from perdix.control.sizes import learned_mix_share
from perdix.control.watching import BEHIND_S, Watched, look, put_off
from perdix.models.drift import DriftState
from perdix.models.forecasting.contract import Forecast, Workload
from perdix.models.profiling.profile import KEEPS_UP
from perdix.models.realised import FIRST_MINUTE_S, Realised, come_true, truth_of
from perdix.models.recovery.downtime import Downtimes
from perdix.policies.holding import AHEAD_S
from perdix.policies.wording import workers
from perdix.settings.replacing import replace
from perdix.settings.stream_job import StreamJob
from perdix.settings.targets import rescales
from perdix.telemetry.uptime import last_start_s


@dataclass(frozen=True)
class Judgement:
    """What the pending forecasts showed at one tick.

    ``settled``: forecasts whose whole horizon has passed, and how they turned out.
    ``first_minute_wape``: WAPE (1.0 = 100 %) of the newest forecast whose first minute has passed since the last look;
    ``None`` when there is none, or when too little of that minute was measured.
    ``scored_until_s``: origin of the newest forecast whose first minute was looked at: start from here the next time.
    """

    settled: tuple[tuple[Forecast, Realised], ...] = ()
    first_minute_wape: float | None = None
    scored_until_s: float = float("-inf")

    def horizons(self, version: int) -> tuple[Realised, ...]:
        """Return how the settled forecasts of one version turned out over their horizons, oldest first."""
        return tuple(realised for forecast, realised in self.settled if forecast.version == version)


@dataclass(frozen=True)
class Lesson:
    """What was learned in one tick.

    ``outcome``: decision id and how it turned out, when that has just become known; its observed recovery in seconds if
    it was seen to its end.
    ``retrain``, ``drift_since_s``: why the champion should be trained anew (``None`` when it need not), and since when
    its forecasts have been poor (epoch seconds).
    ``unasked``: the state of the drift where that cannot be asked for now: then it is no attempt.
    ``adopted``: whether another champion forecaster was taken in.
    ``roll_back_to``, ``roll_back_mix``: workers to go back to, because the effect of the last rescale was checked and
    failed; and why.
    """

    memory: JobMemory
    judgement: Judgement = field(default_factory=Judgement)
    outcome: tuple[str, Mapping[str, Any], float | None] | None = None
    retrain: str | None = None
    unasked: DriftState = field(default_factory=DriftState)
    drift_since_s: float | None = None
    adopted: bool = False
    roll_back_to: tuple[int, str] | None = None
    notes: tuple[str, ...] = ()
    roll_back_mix: Mapping[str, int] = field(default_factory=dict)


def learn(
    memory: JobMemory,
    observation: Observation,
    progress: Progress,
    *,
    champions: ChampionSource,
    job: StreamJob,
    now_s: float,
    believes: bool = True,
    paused: bool = False,
) -> Lesson:
    """Take in champions, update every model, judge forecasts, and watch recoveries.

    What is blind or contradicts itself teaches nothing; it is read again at the next tick, as far as it then agrees.
    Unless it ``believes``, only the capacity is learned, against which guards hold what is measured. While it is
    ``paused``, no rescale is found to be taken back; nor where nobody knows what runs.
    """
    before = memory.champion
    memory, notes = adopt(memory, champions, job.name)
    adopted, memory = is_another(before, memory.champion), _begun(until(memory, now_s), job)
    if observation.window is not None:
        memory = replace(memory, rejected=memory.rejected.seen(observation.window.rejected))
    if observation.teaches:
        memory = _taught(memory, observation, progress, job=job, believes=believes)
    judgement, retrain, unasked = Judgement(), None, memory.drift
    if believes:
        memory, judgement, retrain, unasked = _judged(memory)
        memory = with_fallback(memory)
    memory, watched = _heard(memory, observation, progress), None
    if observation.teaches or _awaited(memory, observation, progress):
        objective_s = job.objectives.recovery_time_s
        memory, watched = _watched(memory, observation, progress, objective_s, now_s=now_s, paused=paused)
    # What is barred for longer than any size ever is, was barred while a clock was ahead: nobody can say until when.
    # And what was waited for no longer than another rescale has just taken was merely slow: so are all of them.
    avoided = [size for size in still_avoided(memory.avoided, now_s) if not 0.0 < size.waited_s <= progress.took_s]
    back, back_mix = _undone(progress)
    why = None if watched is None else _worse(watched, progress, timely=_timely(observation, job))
    if why is not None and watched is not None and watched.ended is not None:
        last = None if progress.desired is None else progress.desired.decision.intent
        mix, back_mix = ({}, {}) if last is None else (last.mix, last.from_mix)
        inward = watched.failed_scale_in
        avoided.append(Avoided(watched.ended.scale_out, now_s + AVOID_S, why, mix=mix, inward=inward))
        back = (watched.ended.from_scale_out, why)
    if progress.avoided is not None:
        avoided.append(progress.avoided)
    memory = replace(memory, avoided=tuple(avoided))
    return Lesson(
        memory=memory,
        judgement=judgement,
        outcome=_outcome(watched),
        retrain=retrain,
        unasked=unasked,
        drift_since_s=memory.drift.began_s if retrain else None,
        adopted=adopted,
        roll_back_to=back,
        notes=notes,
        roll_back_mix=back_mix,
    )


def _begun(memory: JobMemory, job: StreamJob) -> JobMemory:
    """Return the memory with the downtimes that the job's target stands for, and no doubt of an earlier tick left."""
    in_place, checkpoint = rescales(job.target)
    downtimes = memory.downtimes
    assumed = downtimes.in_place(checkpoint=checkpoint) if in_place else downtimes.restarting()
    capacity = memory.capacity if memory.capacity.doubted is None else replace(memory.capacity, doubted=None)
    return replace(memory, downtimes=assumed, capacity=capacity)


def _taught(
    memory: JobMemory, observation: Observation, progress: Progress, *, job: StreamJob, believes: bool
) -> JobMemory:
    if not believes:
        return with_capacity(noticed(memory, observation), observation, progress.running, job.source_partitions)
    memory = update(memory, observation, progress.running, job.source_partitions)
    return replace(memory, mix_share=learned_mix_share(job, memory, observation, progress.running))


def _judged(memory: JobMemory) -> tuple[JobMemory, Judgement, str | None, DriftState]:
    truth = None if memory.workload is None else history_of(memory.workload)
    version = memory.champion.version if memory.champion else 0
    judgement = judge(memory.pending, truth, version, memory.scored_until_s)
    gone = {forecast.origin_s for forecast, _ in judgement.settled}
    pending = tuple(forecast for forecast in memory.pending if forecast.origin_s not in gone)
    if memory.champion is None:
        return replace(memory, pending=pending), judgement, None, memory.drift
    minute, horizons = judgement.first_minute_wape, judgement.horizons(version)
    wapes = [horizon.horizon_wape for horizon in horizons if horizon.horizon_wape is not None]
    missed = [horizon.missed for horizon in horizons if horizon.missed is not None]
    drift = unasked = memory.drift.observe(minute, missed, origin_s=judgement.scored_until_s)
    if drift.retrain_due:
        unasked = memory.drift.observe(minute, missed, origin_s=judgement.scored_until_s, asking=False)
    memory = replace(
        memory,
        pending=pending,
        drift=drift,
        wape=memory.wape if minute is None else _share(minute),
        horizon_wape=_share(wapes[-1]) if wapes else memory.horizon_wape,
        scored_until_s=judgement.scored_until_s,
    )
    return memory, judgement, drift.sentence if drift.retrain_due else None, unasked


def judge(pending: Sequence[Forecast], truth: Workload | None, version: int, scored_until_s: float) -> Judgement:
    """Score the forecasts that have come true.

    ``pending``: forecasts not settled yet, oldest first.
    ``truth``: the workload that was measured.
    ``version``: the champion in use: only its first minutes say whether it may go on.
    """
    if truth is None:
        return Judgement(scored_until_s=scored_until_s)
    newest_s = truth.end_s + AHEAD_S  # what was foreseen from later on never comes true as it was meant
    over = [
        forecast
        for forecast in pending
        if forecast.origin_s + forecast.horizon_s <= truth.end_s or forecast.origin_s > newest_s
    ]
    ripe = [
        forecast
        for forecast in pending
        if forecast.version == version
        and forecast.origin_s > scored_until_s
        and forecast.origin_s + FIRST_MINUTE_S <= truth.end_s
    ]
    measured = truth_of(truth)
    minute = come_true(ripe[-1], measured).first_minute_wape if ripe else None
    settled = tuple((forecast, come_true(forecast, measured)) for forecast in over)
    return Judgement(settled, minute, ripe[-1].origin_s if ripe else scored_until_s)


def _share(wape: float) -> float | None:
    """Return the WAPE; ``None`` where nothing arrived although a load was forecast: there is no share of nothing."""
    return wape if math.isfinite(wape) else None


def _watched(
    memory: JobMemory, observation: Observation, progress: Progress, objective_s: float, *, now_s: float, paused: bool
) -> tuple[JobMemory, Watched | None]:
    if observation.window is None or not len(observation.window):
        return memory, None
    last, running = None if progress.desired is None else progress.desired.decision, progress.running
    if last is not None and last.applied_s is not None and last.applied_s > now_s + CLOCK_BACK_S:
        last = None  # the clock was set back: nobody can say how long ago it was
    settled = running is None or running.settled
    watched = look(
        memory.watching,
        memory.normal,
        memory.downtimes,
        observation.window,
        last=last,
        objective_s=objective_s,
        settled=settled or progress.open is None,
    )
    # Nor is a scale-out judged while its target is unsettled: it may still come up, as may a pod that restarts.
    if paused or running is None or (watched.down and not settled and not watched.failed_scale_in):
        watched = put_off(watched, memory.watching, memory.normal)
    downtimes = _lost(memory, watched)
    memory = replace(memory, watching=watched.watching, normal=watched.normal, downtimes=downtimes)
    return memory, watched


def _lost(memory: JobMemory, watched: Watched) -> Downtimes:
    """Learn what a recovery that has just been seen to its end cost beyond its downtime."""
    ended = watched.ended
    if ended is None or ended.recovered is None:
        return watched.downtimes
    seen, truth, capacity = ended.recovered, memory.workload, memory.capacity
    if truth is None or not capacity.known or not seen.stop_seen or capacity.scale_out != ended.scale_out:
        return watched.downtimes
    arrived = truth.means(np.array([seen.stopped_s, seen.caught_up_s]))
    # By the capacity with which recoveries are predicted: what it is off, they learn here.
    per_s = expected_capacity_per_s(ended.scale_out, capacity.capacity(ended.scale_out), memory.profiled)
    if per_s is None:
        return watched.downtimes
    waiting_s = ended.waiting_records / per_s  # from before the stop: the restart did not lose it
    if seen.again_records is not None:
        return watched.downtimes.losing(*ended.change, seen.again_records / per_s - waiting_s)
    down_s = seen.downtime_s + waiting_s
    return watched.downtimes.caught_up(*ended.change, down_s, seen.recovery_s, float(arrived[0]) / per_s)


def _heard(memory: JobMemory, observation: Observation, progress: Progress) -> JobMemory:
    """Learn for how long a rescale that has just ended stopped the job, where that is longer than most watches.

    By the target's word, as nobody may see it catch up; by the uptime at most. Time in which the job worked on, until
    there was room for more workers, does not count.
    """
    last, seen = None if progress.desired is None else progress.desired.decision, memory.watching
    if last is None or last.applied_s is None or seen is None or seen.decision_id != last.decision_id:
        return memory
    took_s = progress.took_s
    restarted_s = None if observation.window is None else last_start_s(observation.window)
    if restarted_s is not None:
        took_s = min(took_s, max(restarted_s - last.applied_s, 0.0))
    took_s -= seen.watch.worked_s(last.applied_s + took_s)
    if took_s <= SETTLE_S:
        return memory
    downtimes = memory.downtimes.observed(*seen.change, took_s)
    return replace(memory, downtimes=downtimes, watching=replace(seen, learnt=True))


def _awaited(memory: JobMemory, observation: Observation, progress: Progress) -> bool:
    """Whether the end of a rescale is still to be seen: workers that never come up must not hide that it failed."""
    last = None if progress.desired is None else progress.desired.decision
    rescaled = last is not None and last.applied_s is not None and last.outcome is None
    return observation.contradiction is None and (rescaled or memory.watching is not None)


def _outcome(watched: Watched | None) -> tuple[str, Mapping[str, Any], float | None] | None:
    if watched is None or watched.ended is None or watched.outcome is None or watched.ended.decision_id is None:
        return None
    return watched.ended.decision_id, watched.outcome, watched.outcome.get("recovery_s")


def _timely(observation: Observation, job: StreamJob) -> bool:
    """Whether the job is within its latency objective and does not fall behind; a latency may leave out who waits."""
    latency_ms, lag = observation.latency_p95_ms, observation.lag_records
    arrives_per_s, done_per_s = observation.workload_per_s, observation.throughput_per_s
    if latency_ms is None or lag is None or arrives_per_s is None or done_per_s is None:
        return False
    keeps_up = lag <= BEHIND_S * done_per_s or done_per_s >= KEEPS_UP * arrives_per_s
    return latency_ms <= job.objectives.latency_p95_ms and keeps_up


def _worse(watched: Watched, progress: Progress, *, timely: bool) -> str | None:
    """Return in words what a rescale has made worse, so that it is taken back; ``None`` where it has not.

    Nor is one taken back on which others have decided since: what runs now is no longer of its making.
    A job that is ``timely`` is no worse for a lag or a throughput that does not settle, as where
    offsets are committed now and then, or more is said to arrive than is processed.
    """
    ended, last = watched.ended, None if progress.desired is None else progress.desired.decision
    if ended is None or not watched.failed or last is None or last.decision_id != ended.decision_id:
        return None
    asked = workers(ended.scale_out, last.intent.mix)
    if watched.failed_scale_in and not (timely and not watched.down):
        return f"the job did not recover from scaling in to {asked}"
    return f"the job has stood still since it was rescaled to {asked}" if watched.down else None


def _undone(progress: Progress) -> tuple[tuple[int, str] | None, Mapping[str, int]]:
    if progress.undone is None:
        return None, {}
    intent = progress.undone.intent
    return (intent.from_scale_out, progress.sentence), intent.from_mix

"""Plan: from what was seen and learned to a situation, and from there to a verdict."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from perdix.control.believe import HORIZON_S, Beliefs, as_seen, believe, expecting
from perdix.control.decide import Circumstances, Verdict, decide, grace_of, under_way
from perdix.control.job_memory import history_of
from perdix.control.learn import Lesson
from perdix.control.observe import Observation
from perdix.control.reconcile import Progress
from perdix.control.sizes import sized_workers
from perdix.control.state.ledger import State
from perdix.models.forecasting.foresight import foresight
from perdix.policies.contract import Decision, Policy, Reason, Situation
from perdix.policies.wording import workers
from perdix.settings.stream_job import StreamJob
from perdix.settings.targets import rescales
from perdix.targets.contract import Running

PERDIX = "perdix"  # who decides where no policy does


@dataclass(frozen=True)
class Ledgered:
    """What the ledger says about the past of a job."""

    last_rescale_s: float | None  # when a decision was last applied, epoch seconds; ``None`` if never
    rescales_today: int  # decisions applied within the last 24 hours


@dataclass(frozen=True)
class Plan:
    """What is believed, the situation that follows (``None``: no ground for a decision), and the verdict.

    ``verdict`` is ``None`` when not even what runs is known.
    """

    beliefs: Beliefs
    situation: Situation | None
    verdict: Verdict | None


@dataclass(frozen=True)
class Setting:
    """What does not change during the tick."""

    job: StreamJob
    now_s: float
    act: bool
    paused: str | None
    tick_interval_s: float
    policy_of: Callable[[StreamJob], Policy]
    believes: bool = True
    lasts: bool = True  # whether anybody will read what is stored


def plan(setting: Setting, observation: Observation, progress: Progress, lesson: Lesson, ledgered: Ledgered) -> Plan:
    """Decide, where there is ground for it: missing or stale metrics never lead to a decision of a policy."""
    running, job = progress.running, setting.job
    known = running is not None and running.scale_out >= 1  # none runs where all of them are being replaced
    policy = setting.policy_of(job)
    if setting.believes:
        current = running.scale_out if running and known else job.bounds.minimum
        beliefs = believe(
            lesson.memory,
            job.bounds,
            current,
            partitions=job.source_partitions,
            horizon_s=getattr(policy, "horizon_s", HORIZON_S),
        )
        beliefs = expecting(beliefs, lesson.memory, job.calendar)
    else:
        beliefs = as_seen(observation)
    if running is None:
        return Plan(beliefs, None, None)
    situation = _situation(setting, observation, lesson, running=running, beliefs=beliefs, ledgered=ledgered)
    back = _rolled_back(setting, progress, lesson)
    if back is not None:
        back = replace(back, memory={} if situation is None else situation.memory)
        return Plan(beliefs, situation, Verdict(back, back))
    if situation is None:
        held = _without_ground(running, observation, ours=progress.open is not None)
        return Plan(beliefs, None, Verdict(held, held))
    wanted = None if progress.open is None else progress.open.intent
    circumstances = Circumstances(
        running,
        wanted=None if wanted is None else wanted.scale_out,
        wanted_mix={} if wanted is None else wanted.mix,
        acts=setting.act,
        paused=setting.paused,
        avoided=lesson.memory.avoided,
        grace_s=grace_of(job, lesson.memory.downtimes),
        capacity_per_s=None if setting.believes else lesson.memory.capacity.per_s_if_known,
        contradiction=observation.contradiction,
        memory_ratio=observation.memory_ratio,
        unchecked=observation.unchecked,
    )
    return Plan(beliefs, situation, decide(policy, situation, circumstances))


def _rolled_back(setting: Setting, progress: Progress, lesson: Lesson) -> Decision | None:
    """Return what takes a bad size back, within the job's bounds: those of now, also where that waits already."""
    bounds, waiting = setting.job.bounds, progress.open
    if not setting.act or setting.paused is not None:
        return None
    if lesson.roll_back_to is not None:
        (to, why), mix = lesson.roll_back_to, lesson.roll_back_mix
    elif waiting is not None and waiting.state is State.INTENT and waiting.intent.reason == Reason.ROLLBACK:
        to, why, mix = waiting.intent.scale_out, "the bounds have changed since", waiting.intent.mix
        if bounds.clamp(to) == to:
            return None
    else:
        return None
    scale_out = bounds.clamp(to)
    mix = mix if sum(mix.values()) == scale_out else {}
    sentence = f"Rolled back to {workers(scale_out, mix)}: {why}."
    return Decision(PERDIX, scale_out, Reason.ROLLBACK, sentence, mix=mix)


def _without_ground(running: Running, observation: Observation, *, ours: bool) -> Decision:
    if not running.settled:
        reason, sentence = Reason.HOLD_UNSETTLED, under_way(running, ours=ours)
    else:
        reason, sentence = Reason.HOLD_BLIND, f"Blind: {blindness(observation)}."
    return Decision(PERDIX, running.scale_out, reason, sentence, mix=running.mix)


def blindness(observation: Observation) -> str:
    """Return in words why no decision can be made."""
    return "; ".join(observation.problems) or "there is no workload to forecast from"


def _situation(
    setting: Setting,
    observation: Observation,
    lesson: Lesson,
    *,
    running: Running,
    beliefs: Beliefs,
    ledgered: Ledgered,
) -> Situation | None:
    workload = observation.workload_per_s
    if not observation.quality.ok or beliefs.forecast is None or workload is None or running.scale_out < 1:
        return None
    minutes = np.zeros(0) if lesson.memory.minutes is None else history_of(lesson.memory.minutes).per_s
    memory, job, last_s = lesson.memory, setting.job, ledgered.last_rescale_s
    recent = observation.recent_workload_per_s
    return Situation(
        now_s=setting.now_s,
        scale_out=running.scale_out,
        workload_per_s=workload,
        recent_workload_per_s=workload if recent is None else recent,
        lag_records=observation.lag_records,
        cpu_load=observation.cpu_load,
        forecast=beliefs.forecast,
        capacities=beliefs.capacities,
        downtimes=memory.downtimes,
        bounds=job.bounds,
        objectives=job.objectives,
        since_rescale_s=float("inf") if last_s is None else max(setting.now_s - last_s, 0.0),
        rescales_today=ledgered.rescales_today,
        tick_interval_s=setting.tick_interval_s,
        memory=memory.policy_memory if memory.policy == job.policy.name else {},
        throughput_per_s=observation.throughput_per_s,
        worker_cpu=observation.worker_cpu,
        worker_busy=observation.worker_busy,
        uptime_s=observation.uptime_s,
        latency_p95_ms=observation.latency_p95_ms,
        seen_late=observation.seen_late,
        profiled=memory.profiled,
        sizes=sized_workers(job, memory),
        mix=running.mix,
        minutes=minutes,
        foresight=foresight(minutes),
        further=beliefs.further,
        events=tuple(dict.fromkeys(event.name for event in beliefs.events if event.changes)),
        idle_cpu=memory.capacity.idle_share.least_cpu,
        checkpointed=rescales(job.target).checkpoint,
    )

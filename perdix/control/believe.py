"""Believe: what the models say of the job now, updated with what was seen and never refitted."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from perdix.control.job_memory import STORED_EVERY_S, JobMemory, history_of
from perdix.control.observe import Observation, workload_of
from perdix.control.standing import Standing, standings
from perdix.models.capacity.contract import Estimate
from perdix.models.capacity.scale_outs import ScaleOuts
from perdix.models.forecasting.contract import Forecast, Workload
from perdix.models.forecasting.forecaster import Forecaster, fallback
from perdix.models.forecasting.foresight import KEPT_S
from perdix.models.forecasting.known_events import Expected, KnownEvents
from perdix.models.forecasting.tail import EPSILON_S, Tail
from perdix.models.registry import CAPACITY, FORECAST, LATENCY, PERFORMANCE
from perdix.settings.durations import MINUTE_S
from perdix.settings.known_events import Calendar
from perdix.settings.replacing import replace
from perdix.settings.stream_job import Bounds
from perdix.targets.contract import Running

HORIZON_S = 900.0
FURTHER_STEP_S = 300.0
PROVED = 0.5  # share of the changes foreseen for the hour that must have come for it to be planned with
TRUTH_CELL_S = 10.0
TRUTH_KEPT_S = 2_400.0
FALLBACK_HISTORY_S = 600.0  # what its members look at; it is made anew for each such job after a restart
SETTLED_S = 600.0  # after a start a job catches up: its latency shows that (Phoebe: one evaluation interval)
LEARNS_EVERY_S = 600.0
WARM_S = 120.0  # the whole last minute was worked, and not in a warm-up
BEHIND_S = 5.0  # of throughput in the consumer lag: what is worked off, and no flicker


@dataclass(frozen=True)
class Beliefs:
    """What is believed at one tick."""

    champion: Forecast | None  # the champion's forecast; ``None`` when there is no champion or it could not forecast
    # The forecast that is acted on: the champion's, or the fallback's, as far as such changes came true recently, with
    # the known events that fall into it
    forecast: Forecast | None
    # Scale-out -> estimate within the bounds, the current one among them; empty when nothing is known
    capacities: Mapping[int, Estimate] = field(default_factory=dict)
    versions: Mapping[str, int] = field(default_factory=dict)  # model name -> version; 0 where no champion is in use
    notes: tuple[str, ...] = ()
    members: tuple[Standing, ...] = ()  # how the members of the forecaster that is acted on stand
    horizon_wape: float | None = None  # WAPE (1.0 = 100 %) of its newest forecast whose whole horizon has passed
    foreseen: Forecast | None = None  # that forecast as it was made
    # further, further_foreseen: the champion's forecast of up to an hour: as it is acted on, ``None`` where such
    # changes did not come true on this job; and as it was made, where that has to be judged
    further: Forecast | None = None
    further_foreseen: Forecast | None = None
    events: tuple[Expected, ...] = ()  # those events
    known_events: KnownEvents | None = None  # what is to be remembered of them; ``None`` where the job has none


def update(
    memory: JobMemory, observation: Observation, running: Running | None, partitions: int | None = None
) -> JobMemory:
    """Update every model with what was seen: the truth, the champion, the fallback in use, the capacity."""
    window = observation.window
    if window is None or not len(window):
        return memory
    seen = _unseen(memory, workload_of(window))
    workload = _appended(memory.workload, seen, max(seen.step_s, TRUTH_CELL_S), TRUTH_KEPT_S)
    minutes = memory.minutes
    for part in (seen,) if observation.past is None else (observation.past, seen):
        minutes = _appended(minutes, part, MINUTE_S, KEPT_S)
    champion, fallback = memory.champion, memory.fallback
    if champion is not None:
        champion = replace(champion, forecaster=champion.forecaster.update(seen))
    memory = replace(
        memory,
        newest=tuple(part for part in (*memory.newest, seen) if len(part) and part.end_s > seen.end_s - STORED_EVERY_S),
        workload=workload,
        minutes=minutes,
        trust=memory.trust if minutes is None else memory.trust.settled(minutes),
        further_trust=memory.further_trust if minutes is None else memory.further_trust.settled(minutes),
        known_events=memory.known_events if workload is None else memory.known_events.settled(workload),
        champion=champion,
        fallback=None if fallback is None else fallback.update(seen),
    )
    return with_capacity(memory, observation, running, partitions)


def with_capacity(
    memory: JobMemory, observation: Observation, running: Running | None, partitions: int | None = None
) -> JobMemory:
    """Learn from the running job what it can take, where it is known how many workers it has, all of one size."""
    window = observation.window
    if window is None or not len(window):
        return memory
    scale_out = observation.scale_out if observation.scale_out is not None else (running.scale_out if running else None)
    mixed = running is not None and bool(running.mix)  # a capacity per number of workers says nothing of their sizes
    if scale_out is not None and scale_out >= 1 and not mixed and (running is None or running.settled):
        subtasks = None if running is None else running.subtasks
        capacity = memory.capacity.update(window, scale_out, subtasks, partitions=partitions)
        memory = _with_rates(memory, capacity, observation, scale_out)
    return memory


def noticed(memory: JobMemory, observation: Observation) -> JobMemory:
    """Remember the load, and learn nothing of it: enough for a policy that decides by what is measured."""
    window = observation.window
    if window is None or not len(window):
        return memory
    seen = workload_of(window)
    workload = _appended(memory.workload, seen, max(seen.step_s, TRUTH_CELL_S), TRUTH_KEPT_S)
    return replace(memory, workload=workload)


def as_seen(observation: Observation) -> Beliefs:
    """Return what is believed where nothing is learned: that the load stays, and nothing of any capacity."""
    level, end_s = observation.workload_per_s, observation.end_s
    if level is None or end_s is None:
        return Beliefs(None, None)
    return Beliefs(None, Forecast(end_s, HORIZON_S, np.array([level])))


def _with_rates(memory: JobMemory, capacity: ScaleOuts, observation: Observation, scale_out: int) -> JobMemory:
    """Return the memory with a capacity that, as the latency, learnt from what the job did (Daedalus, Phoebe; 3.1).

    While a backlog is worked off, throughput shows what the job can do and latency nothing; in steady operation it is
    the other way round. A minute in which the backlog only began shows neither: it was idle before. What the capacity
    does not learn from (a slow sink, a lag that follows committed offsets) is no highest rate of the profile either.
    """
    profiled = memory.profiled
    rate_per_s, uptime_s, now_s = observation.throughput_per_s, observation.uptime_s, observation.end_s
    if rate_per_s is None or uptime_s is None or now_s is None:
        return replace(memory, capacity=capacity)
    capacity = capacity.did(scale_out, rate_per_s)
    lag, waited, latency_ms = observation.lag_records, observation.waited_records, observation.latency_p95_ms
    if uptime_s >= WARM_S and lag is not None and lag > BEHIND_S * rate_per_s:
        if waited is None or not waited > BEHIND_S * rate_per_s:
            return replace(memory, capacity=capacity)
        arrives_per_s = math.nan if observation.workload_per_s is None else observation.workload_per_s
        learned = capacity.worked_off(scale_out, rate_per_s, now_s, arrives_per_s=arrives_per_s)
        accepted = learned.behind is not None and learned.behind is not capacity.behind
        if profiled is not None and accepted:
            profiled = profiled.caught_up(scale_out, rate_per_s)
        return replace(memory, capacity=learned, profiled=profiled)
    memory, soon = replace(memory, capacity=capacity), now_s - memory.profile_learned_s < LEARNS_EVERY_S
    if profiled is None or uptime_s < SETTLED_S or latency_ms is None or soon:
        return memory
    return replace(memory, profiled=profiled.settled(scale_out, rate_per_s, latency_ms), profile_learned_s=now_s)


def with_fallback(memory: JobMemory) -> JobMemory:
    """Return the memory with a fallback when one is needed now, and without one when not."""
    if memory.champion is not None and not memory.drift.use_fallback:
        return memory if memory.fallback is None else replace(memory, fallback=None)
    return memory if memory.fallback is not None else replace(memory, fallback=_fallback(memory))


def believe(
    memory: JobMemory, bounds: Bounds, current: int, *, partitions: int | None = None, horizon_s: float = HORIZON_S
) -> Beliefs:
    """Forecast, and estimate the capacity of every scale-out that may be chosen, with ``partitions`` of the source.

    A champion whose recent forecasts were poor still forecasts, to be judged, but is not acted on.

    ``horizon_s``: how far the policy plans: beyond 15 minutes, the champion's further forecasts are judged, too.
    """
    notes: list[str] = []
    champion = None
    if memory.champion is not None:
        made = _forecast(memory.champion.forecaster, notes)
        champion = None if made is None else replace(made, version=memory.champion.version, wape=memory.wape)
    forecast = None if memory.drift.use_fallback else champion
    standing_in = (memory.fallback or _fallback(memory)) if forecast is None else None
    if standing_in is not None:
        forecast = _forecast(standing_in, notes)
        why = _why_fallback(memory, champion)
        notes.append(f"fallback forecast: {why}")
    low, high = min(bounds.minimum, current), max(bounds.maximum, current)
    versions = {FORECAST: forecast.version if forecast is not None else 0, CAPACITY: memory.capacity_from.version}
    if memory.profiled is not None:
        versions[LATENCY] = memory.profile_from.version
    if memory.performance is not None:
        versions[PERFORMANCE] = memory.performance_from.version
    acted_on = _tempered(memory, forecast, notes)
    capacities = memory.capacity.table(high, low, partitions=partitions)
    beliefs = Beliefs(champion, acted_on, capacities, versions, tuple(notes), foreseen=forecast)
    if memory.champion is None or forecast is None or forecast is not champion:
        return beliefs
    if horizon_s > HORIZON_S:
        beliefs = _looking_further(beliefs, memory, memory.champion.forecaster, horizon_s)
    return replace(beliefs, members=standings(memory.champion.forecaster), horizon_wape=memory.horizon_wape)


def expecting(beliefs: Beliefs, memory: JobMemory, calendar: Calendar) -> Beliefs:
    """Return what is believed with the events that the job's calendar knows of."""
    if not calendar.events or beliefs.forecast is None:
        return beliefs
    found, further = memory.known_events.reckoned(beliefs.forecast, calendar), beliefs.further
    if further is not None:
        further = memory.known_events.reckoned(further, calendar).forecast
    return replace(beliefs, forecast=found.forecast, further=further, events=found.expected, known_events=found.known)


def _looking_further(beliefs: Beliefs, memory: JobMemory, forecaster: Forecaster, horizon_s: float) -> Beliefs:
    """Return what is believed with the forecast of more than 15 minutes, where it is judged or acted on."""
    trust, level = memory.further_trust, memory.level_per_s
    proved, notes = trust.share >= PROVED, list(beliefs.notes)
    if level is None or memory.minutes is None or not (proved or trust.due(forecaster.end_s)):
        return beliefs
    made = _forecast(forecaster, notes, horizon_s, FURTHER_STEP_S)
    acted_on = None
    if proved and made is not None:
        acted_on = trust.tempered(made, level, memory.minutes.per_s)
        notes.append(
            f"planned for {horizon_s / 60:.0f} minutes: {trust.share:.0%} of what was foreseen so far ahead came"
        )
    return replace(beliefs, further_foreseen=made, further=acted_on, notes=tuple(notes))


def _tempered(memory: JobMemory, forecast: Forecast | None, notes: list[str]) -> Forecast | None:
    """Return a forecast as far as it may move the job."""
    level = memory.level_per_s
    if forecast is None or level is None or memory.minutes is None:
        return forecast
    share = memory.trust.share
    if share < 1.0:
        notes.append(f"{share:.0%} of a forecast change is acted on: that much of such changes came true recently")
    return memory.trust.tempered(forecast, level, memory.minutes.per_s)


def foreseen(memory: JobMemory, beliefs: Beliefs, tick_interval_s: float) -> JobMemory:
    """Return the memory with what was foreseen, to be held against what comes: of shorter ticks, that of each minute.

    ``tick_interval_s``: seconds between the looks at the job.
    """
    quarter, further = memory.trust.ticking(tick_interval_s), beliefs.further_foreseen
    level, trust = memory.level_per_s, memory.further_trust
    if beliefs.foreseen is not None and level is not None:
        if tick_interval_s >= MINUTE_S or quarter.due(beliefs.foreseen.origin_s):
            quarter = quarter.issued(beliefs.foreseen, level)
        memory = replace(memory, trust=quarter)
    if further is not None and level is not None and trust.due(further.origin_s):
        memory = replace(memory, further_trust=trust.issued(further, level))
    return memory if beliefs.known_events is None else replace(memory, known_events=beliefs.known_events)


def _why_fallback(memory: JobMemory, champion: Forecast | None) -> str:
    if champion is None:
        return "no champion can forecast"
    if memory.wape is None:
        return "no forecast of the champion has come true yet"
    return f"the champion's recent forecasts were poor (WAPE {memory.wape:.0%})"


def coarse(forecast: Forecast, step_s: float = TRUTH_CELL_S) -> Forecast:
    """Return the mean forecast over ``step_s``, in 32-bit numbers: what is kept until its truth is known."""
    mean = replace(forecast, quantiles={}, maxima={}, wape=None).over(step_s)
    return replace(mean, mean=mean.mean.astype(np.float32).astype(np.float64))


def _unseen(memory: JobMemory, seen: Workload) -> Workload:
    """Return what was seen from where some tail ends: what is stored, so that a restart sees the very same again."""
    if memory.workload is None or memory.minutes is None:
        return seen
    tails = [memory.workload, memory.minutes]
    for forecaster in (memory.fallback, None if memory.champion is None else memory.champion.forecaster):
        tails.extend([] if forecaster is None else forecaster.tails.values())
    seen_s = min(tail.measured_end_s for tail in tails)
    first = int(np.floor((seen_s - seen.start_s) / seen.step_s + EPSILON_S))
    return seen.part(min(max(first, 0), len(seen)), len(seen))


def _appended(tail: Tail | None, seen: Workload, cell_s: float, keep_s: float) -> Tail | None:
    if tail is not None:
        return tail.append(seen, keep_s)
    return Tail.cut_up(seen, cell_s, keep_s) if np.isfinite(seen.per_s).any() else None


def _fallback(memory: JobMemory) -> Forecaster | None:
    if memory.workload is None:
        return None
    history = history_of(memory.workload, FALLBACK_HISTORY_S)
    return fallback(history) if np.isfinite(history.per_s).any() else None


def _forecast(
    forecaster: Forecaster, notes: list[str], horizon_s: float = HORIZON_S, step_s: float = 1.0
) -> Forecast | None:
    try:
        made = forecaster.forecast(horizon_s, step_s)
    except ValueError as error:
        notes.append(f"{forecaster.family} could not forecast: {error}")
        return None
    if not np.isfinite(made.mean).all():
        notes.append(f"{forecaster.family} forecast something that is not finite")
        return None
    return made

"""One replay: the real tick on simulated time against a twin.

Belongs here: the loop of time, when workers crash, and what is compared with the twin's truth. Does not belong here:
any rule of its own. What is played is :func:`control.tick.tick` with the real state store (in memory), the real
alignment and the real models.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

import numpy as np

from control.believe import coarse
from control.champions import ChampionSource, GivenChampions
from control.state import DAY_S, Retention, StateStore
from control.tick import tick
from control.tick_io import TickIO, TickReport
from models.forecasting.contract import Forecast, Workload
from models.realised import come_true, truth_of
from replay.case import Case
from replay.outcome import Course, Latency, Outcome, Played, Recovery, Values
from replay.profiled import profiled
from replay.sampled import NEED_SAMPLES, sampled
from replay.training import TrainedOnTheWay
from replay.twin_source import TwinSource
from settings.stream_job import Bounds, PolicySettings, StreamJob, WorkerSize
from settings.targets import TwinSettings
from targets.twin import LocalTwinTarget
from twin.job import JobTwin
from twin.outages import Outage
from twin.workloads import arrivals_from

START_S = 1_760_000_400  # epoch second at which a twin begins when none is given
ALL = 1_000_000
PRUNED_EVERY = 500  # ticks
BRIEFLY = Retention(decisions_s=1e12, quiet_s=DAY_S, journal_s=DAY_S, forecasts_s=DAY_S)  # rescales are read at the end
REMEMBERED_S = 7_200  # of what each worker did: longer than any tick looks back
_FAILURES = 11  # random stream


def play(
    case: Case,
    *,
    twin: JobTwin | None = None,
    champions: ChampionSource | None = None,
    on_tick: Callable[[int], None] | None = None,
) -> Played:
    """Let a policy run a twin for some hours.

    Parameters
    ----------
    twin
        A twin to go on with, in place of a fresh one; it is changed. History that it has already is what the first tick
        can see, and is not part of the outcome.
    champions
        Trained models to begin with; the loop starts without any when left out.
    on_tick
        Called after each tick with its number, for progress.

    Raises
    ------
    ValueError
        When the hours do not cover a tick, or the twin cannot be.
    """
    interval_s = case.contender.tick_interval_s
    ticks = int(3600 * case.hours / interval_s)
    if ticks < 1:
        raise ValueError(f"{case.hours} hours do not cover one tick of {interval_s} s")
    began_wall_s = time.perf_counter()
    job = job_of(case)
    twin = twin or fresh_twin(case, job.bounds)
    began_s = twin.now_s
    crashes = failure_times_s(case, began_s)
    store, target = StateStore.scratch(), LocalTwinTarget(twin)
    source = TwinSource(twin, case.scraping)
    begun = None if champions is not None else profiled(case, twin) or sampled(case)
    given = GivenChampions({} if begun is None else {begun.champions.name: begun.champions})
    trainer = None
    if case.forecaster is not None and champions is None:
        trainer = TrainedOnTheWay(job.name, case.forecaster, case.seed, given=given)
    io = TickIO(source, store, champions or trainer or given, lambda _: target, tick_interval_s=interval_s)
    truth = _Truth()
    reports: list[TickReport] = []
    for number in range(ticks):
        truth.step(twin, interval_s, crashes)
        report = tick(job, io, float(twin.now_s))
        truth.compare(twin, report)
        twin.history.forget_workers_before(twin.now_s - REMEMBERED_S)
        reports.append(report if case.step_s == 1 else _small(report))
        if case.step_s > 1 and number % PRUNED_EVERY == 0:
            store.prune(float(twin.now_s), BRIEFLY)
        if trainer is not None:
            trainer.consider(twin, retrain=report.retrain is not None)
        if on_tick is not None:
            on_tick(number + 1)
    course = _course(twin, began_s, reports)
    left = _left_after_recovery(case, twin, lambda: tick(job, io, float(twin.now_s)))
    recoveries = _recoveries(store, job.name, twin, course, truth)
    store.close()
    wall_s = time.perf_counter() - began_wall_s
    outcome = _outcome(
        case, twin, job, course, left=left, reports=reports, truth=truth, recoveries=recoveries, wall_s=wall_s
    )
    if trainer is not None:
        outcome = replace(outcome, retrains=trainer.trained, notes=tuple(trainer.notes))
    if begun is not None:
        told = (*outcome.notes, *begun.notes)
        outcome = replace(outcome, profiling_worker_s=begun.worker_s, notes=told)
    return Played(outcome, course, tuple(reports), tuple(twin.deployments))


def _small(report: TickReport) -> TickReport:
    """Return the report without what nobody looks at after the tick: in months there are tens of thousands."""
    forecast = report.forecast
    return replace(report, forecast=None if forecast is None else coarse(forecast, 60.0), capacities={})


def job_of(case: Case) -> StreamJob:
    """Return the stream job that the tick serves."""
    sizes = case.parameters.workers.sizes
    return StreamJob(
        name=case.parameters.name,
        bounds=case.bounds or Bounds(minimum=1, maximum=case.parameters.workers.maximum),
        objectives=case.objectives,
        sizes={name: WorkerSize(**size.model_dump(exclude={"per_s"})) for name, size in sizes.items()},
        policy=_policy(case),
        grace_s=case.contender.grace_s,
        target=TwinSettings(url="http://in.process"),
        mode="act",
    )


def _policy(case: Case) -> PolicySettings:
    """Return the contender's policy; an HPA measures against what the twin's workers request, unless it is told."""
    settings = case.contender.settings
    if settings.name != "hpa" or "cpu_request" in settings.options:
        return settings
    return settings.model_copy(update={"options": {**settings.options, "cpu_request": case.parameters.cpu.request}})


def fresh_twin(case: Case, bounds: Bounds) -> JobTwin:
    """Return the twin at the start of the run, with the scale-out that every contender begins with.

    That is the least whose expected capacity is a quarter above the first ten minutes; a static contender begins at its
    own number. For a policy that chooses sizes, all are of the one that the twin's file names first; others get workers
    without a size.
    """
    arrivals = None if case.arrivals is None else arrivals_from(case.arrivals, START_S)
    twin = JobTwin(case.parameters, case.seed, start_s=START_S, arrivals=arrivals, step_s=case.step_s)
    first = case.contender.settings.options.get("scale_out") if case.contender.settings.name == "static" else None
    workers = case.parameters.workers
    usual = next(iter(workers.sizes), None) if case.contender.settings.name in NEED_SAMPLES else None
    worth = 1.0 if usual is None else workers.per_s(usual) / workers.capacity_per_s
    if not isinstance(first, int) or not bounds.minimum <= first <= bounds.maximum:
        first = _least(twin, bounds, 1.25 * float(twin.arrivals(START_S, 600).max()) / worth)
    mix = None if usual is None else {usual: first}
    return JobTwin(
        case.parameters,
        case.seed,
        start_s=START_S,
        scale_out=first,
        arrivals=arrivals,
        mix=mix,
        step_s=case.step_s,
    )


def _least(twin: JobTwin, bounds: Bounds, per_s: float) -> int:
    holding = (n for n in range(bounds.minimum, bounds.maximum + 1) if twin.true_capacity(n) >= per_s)
    return next(holding, bounds.maximum)


def failure_times_s(case: Case, began_s: int) -> tuple[int, ...]:
    """Return when workers crash: one in the middle of each of ``failures`` equal parts of the run, give or take."""
    if case.failures == 0:
        return ()
    part_s = 3600.0 * case.hours / case.failures
    luck = np.random.default_rng([case.seed, _FAILURES]).uniform(0.25, 0.75, case.failures)
    return tuple(began_s + int(part_s * (k + luck[k])) // case.step_s * case.step_s for k in range(case.failures))


@dataclass
class _Truth:
    """What the twin knows and perdix does not: how far the beliefs are off, tick by tick, and what crashes cost."""

    here: list[float] = field(default_factory=list)
    everywhere: list[float] = field(default_factory=list)
    twin_s: float = 0.0
    predicted_s: float | None = None
    predicted_at: dict[int, float | None] = field(default_factory=dict)

    def step(self, twin: JobTwin, seconds: int, crashes: Sequence[int]) -> None:
        """Let time pass, with the crashes that fall into it."""
        began_s = time.perf_counter()
        until_s = twin.now_s + seconds
        for at_s in crashes:
            if twin.now_s <= at_s < until_s:
                twin.step(at_s - twin.now_s)
                self.predicted_at[at_s] = self.predicted_s
                twin.fail(at_s % twin.scale_out)
        twin.step(until_s - twin.now_s)
        self.twin_s += time.perf_counter() - began_s

    def compare(self, twin: JobTwin, report: TickReport) -> None:
        """Compare what was believed; it must be asked while the deployment is there."""
        self.predicted_s = report.failure_recovery_s
        estimate = report.capacities.get(twin.scale_out)
        if estimate is None or not twin.settled:
            return
        true = twin.current_capacity()
        self.here.append(abs(estimate.per_s - true) / true)
        maximum = twin.parameters.workers.maximum
        others = [(one.per_s, twin.true_capacity(n)) for n, one in report.capacities.items() if n <= maximum]
        self.everywhere.append(float(np.mean([abs(believed - true) / true for believed, true in others])))


def _outcome(
    case: Case,
    twin: JobTwin,
    job: StreamJob,
    course: Course,
    *,
    left: float,
    reports: Sequence[TickReport],
    truth: _Truth,
    recoveries: tuple[Recovery, ...],
    wall_s: float,
) -> Outcome:
    forecast_wape, minute_wape = _forecast_errors(reports, twin)
    outages = _outages(twin, course)
    return Outcome(
        policy=case.contender.label,
        trace=case.trace,
        seed=case.seed,
        hours=len(course.times_s) * twin.step_s / 3600.0,
        ticks=len(reports),
        average_workers=float(course.workers.mean()),
        worker_s=float(course.workers.sum()) * twin.step_s,
        sizes_cost=_mean([float(course.price_per_h.sum() / 3600.0) * twin.step_s]),
        rescales=sum(1 for outage in outages if outage.cause != "failure"),
        failures=sum(1 for outage in outages if outage.cause == "failure"),
        latency_ms=_latency(course),
        share_above_objective=_share_above(course, job.objectives.latency_p95_ms),
        lag_maximum_records=float(course.lag_records.max()),
        lag_at_end_records=float(course.lag_records[-1]),
        unprocessed=left,
        recovery_error=_mean([one.error for one in recoveries]),
        forecast_wape=forecast_wape,
        first_minute_wape=minute_wape,
        capacity_error=_mean(truth.here),
        capacity_error_all=_mean(truth.everywhere),
        clairvoyant_worker_s=None,
        clairvoyant_ratio=None,
        wall_s=wall_s,
        twin_s=truth.twin_s,
        recoveries=recoveries,
    )


def _course(twin: JobTwin, began_s: int, reports: Sequence[TickReport]) -> Course:
    column = twin.history.column
    times_s = np.arange(began_s, twin.now_s, twin.step_s, dtype=np.float64)
    return Course(
        times_s=times_s,
        workload_per_s=np.array(column("arrived", began_s)),
        throughput_per_s=np.array(column("processed", began_s)),
        workers=np.array(column("scale_out", began_s)),
        lag_records=np.array(column("lag", began_s)),
        latency_p95_ms=np.array(column("latency_p95_ms", began_s)),
        cpu_load=np.array(column("cpu_load", began_s)),
        capacity_per_s=np.array(column("capacity", began_s)),
        forecast_per_s=_forecast_of_each_second(reports, times_s),
        price_per_h=_price_of_each_second(twin, times_s),
    )


def _price_of_each_second(twin: JobTwin, times_s: Values) -> Values:
    """Return what the workers deployed in each second cost per hour; NaN where the job has no sizes, so no prices.

    Workers without a size are priced as the first one, which is what a job begins with.
    """
    sizes = twin.parameters.workers.sizes
    found = np.full(len(times_s), np.nan)
    for deployed in twin.deployments if sizes else ():
        mix = deployed.mix or {next(iter(sizes)): deployed.scale_out}
        found[times_s >= deployed.since_s] = sum(count * sizes[size].price_per_h for size, count in mix.items())
    return found


def _forecast_of_each_second(reports: Sequence[TickReport], times_s: Values) -> Values:
    found = np.full(len(times_s), np.nan)
    for report in reports:
        forecast = report.forecast
        if forecast is None:
            continue
        first = int(np.searchsorted(times_s, forecast.origin_s))
        until = int(np.searchsorted(times_s, forecast.origin_s + int(forecast.horizon_s)))
        steps = np.minimum(
            ((times_s[first:until] - forecast.origin_s) / forecast.step_s).astype(int), len(forecast.mean) - 1
        )
        found[first:until] = forecast.mean[steps]
    return found


def _latency(course: Course) -> Latency:
    came_out = np.isfinite(course.latency_p95_ms) & (course.throughput_per_s > 0)
    values, weights = course.latency_p95_ms[came_out], course.throughput_per_s[came_out]
    if not len(values):
        return Latency(*[float("nan")] * 4)
    order = np.argsort(values)
    share = np.cumsum(weights[order]) / weights.sum()
    at = np.minimum(np.searchsorted(share, [0.5, 0.95, 0.99]), len(values) - 1)
    return Latency(float(np.average(values, weights=weights)), *(float(value) for value in values[order][at]))


def _share_above(course: Course, objective_ms: float) -> float:
    silent = ~np.isfinite(course.latency_p95_ms)
    above = np.where(silent, course.lag_records > 0, np.nan_to_num(course.latency_p95_ms) > objective_ms)
    return float(above.mean())


def _forecast_errors(reports: Sequence[TickReport], twin: JobTwin) -> tuple[float | None, float | None]:
    made: list[Forecast] = [coarse(report.forecast) for report in reports if report.forecast is not None]
    arrived = Workload(float(twin.history.start_s), float(twin.step_s), twin.history.column("arrived"))
    truth = truth_of(arrived)
    realised = [come_true(forecast, truth) for forecast in made]
    minute = [
        one.first_minute_wape
        for forecast, one in zip(made, realised, strict=True)
        if forecast.origin_s + 60.0 <= arrived.end_s
    ]
    return _mean([one.horizon_wape for one in realised]), _mean(minute)


def _outages(twin: JobTwin, course: Course) -> list[Outage]:
    return [one for one in twin.outages if course.times_s[0] <= one.start_s <= course.times_s[-1]]


def _left_after_recovery(case: Case, twin: JobTwin, look: Callable[[], TickReport]) -> float:
    """Let the loop go on for the recovery time objective at most, and return what had arrived before and still waits.

    A run may end in the middle of a rescale: what the job has not done by then is not lost, only what it does not do.
    """
    interval_s = case.contender.tick_interval_s
    arrived, until_s = twin.totals.arrived, twin.now_s + int(case.objectives.recovery_time_s)
    if case.arrivals is not None:
        until_s = min(until_s, START_S + len(case.arrivals))
    while _waiting(twin, arrived) > 0 and twin.now_s + interval_s <= until_s:
        twin.step(interval_s)
        look()
    return _waiting(twin, arrived)


def _waiting(twin: JobTwin, arrived: float) -> float:
    """Return how many of the first ``arrived`` records are still to be processed, first come first served."""
    totals = twin.totals
    return max(arrived - (totals.arrived - totals.lag), 0.0)


def _recoveries(store: StateStore, job: str, twin: JobTwin, course: Course, truth: _Truth) -> tuple[Recovery, ...]:
    entries = {int(entry.applied_s): entry for entry in store.ledger.decisions(job, limit=ALL) if entry.applied_s}
    outages = [one for one in twin.outages if one.start_s >= course.times_s[0]]
    found = []
    for outage, following in zip_longest(outages, outages[1:]):
        if outage.start_s > course.times_s[-1]:
            break
        entry = entries.get(outage.start_s) if outage.cause != "failure" else None
        predicted_s = truth.predicted_at.get(outage.start_s) if entry is None else entry.intent.predicted_recovery_s
        true_s = twin.recovery_time_s(outage)
        found.append(
            Recovery(
                float(outage.start_s),
                outage.cause,
                outage.from_scale_out,
                outage.to_scale_out,
                predicted_s,
                None if entry is None else entry.observed_recovery_s,
                None if true_s is None else float(true_s),
                _interrupted(outage, true_s, following),
            )
        )
    return tuple(found)


def _interrupted(outage: Outage, true_s: int | None, following: Outage | None) -> bool:
    if following is None:
        return False
    return true_s is None or following.start_s < outage.start_s + true_s


def _mean(values: Sequence[float | None]) -> float | None:
    finite = [value for value in values if value is not None and np.isfinite(value)]
    return float(np.mean(finite)) if finite else None

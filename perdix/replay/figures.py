"""What a twin went through, as the figures of a replay: the one place where a run becomes a course and an outcome.

Belongs here: time that passes with crashes in it, what is compared with the twin's truth, and what is counted. Does not
belong here: who decides (:mod:`perdix.replay.run`), or that nobody does (:mod:`perdix.replay.best_static`).
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from perdix.control.believe import coarse
from perdix.control.state.ledger import Entry
from perdix.control.tick_io import TickReport
from perdix.models.forecasting.contract import Forecast, Workload
from perdix.models.realised import come_true, truth_of
from perdix.replay.case import Case
from perdix.replay.outcome import Course, Latency, Outcome, Played, Recovery
from perdix.settings.stream_job import StreamJob
from perdix.telemetry.window import Values
from perdix.twin.job import JobTwin
from perdix.twin.outages import Outage


@dataclass
class Truth:
    """What the twin knows and perdix does not: how far the beliefs are off, tick by tick, and what crashes cost."""

    began_wall_s: float = field(default_factory=time.perf_counter)
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
        others = [(estimate.per_s, twin.true_capacity(n)) for n, estimate in report.capacities.items() if n <= maximum]
        self.everywhere.append(float(np.mean([abs(believed - true) / true for believed, true in others])))


def figures_of(
    case: Case,
    job: StreamJob,
    twin: JobTwin,
    truth: Truth,
    *,
    began_s: int,
    look: Callable[[], object] = lambda: None,
    reports: Sequence[TickReport] = (),
    rescales: Callable[[], Mapping[int, Entry]] = dict,
) -> Played:
    """Return what the twin went through since ``began_s``.

    The twin then goes on for the recovery time objective at most, so that what is done in the middle of a rescale is
    not lost, only what the job does not do; nothing of that time is part of any other figure.

    ``look``: called at each tick of that time.
    ``reports``: of the ticks of the run; none where nobody decides.
    ``rescales``: epoch second in which each rescale began -> its entry in the ledger, asked for once that time is over.
    """
    course = _course(twin, began_s, reports)
    left = _left_after_recovery(case, twin, look)
    recoveries = _recoveries(rescales(), twin, course, truth)
    outcome = _outcome(case, twin, job, course, left=left, reports=reports, truth=truth, recoveries=recoveries)
    return Played(outcome, course, tuple(reports), tuple(twin.deployments))


def late(latency_p95_ms: Values, lag_records: Values, objective_ms: float) -> NDArray[np.bool_]:
    """Return the seconds above the objective, or in which nothing came out although records waited; ``(seconds,)``."""
    silent = ~np.isfinite(latency_p95_ms)
    return np.where(silent, lag_records > 0, np.nan_to_num(latency_p95_ms) > objective_ms)


def _outcome(
    case: Case,
    twin: JobTwin,
    job: StreamJob,
    course: Course,
    *,
    left: float,
    reports: Sequence[TickReport],
    truth: Truth,
    recoveries: tuple[Recovery, ...],
) -> Outcome:
    forecast_wape, minute_wape = _forecast_errors(reports, twin)
    outages = [outage for outage in twin.outages if course.times_s[0] <= outage.start_s <= course.times_s[-1]]
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
        latency_ms=latency_of(course),
        share_above_objective=float(
            late(course.latency_p95_ms, course.lag_records, job.objectives.latency_p95_ms).mean()
        ),
        error_budget=job.objectives.error_budget,
        lag_maximum_records=float(course.lag_records.max()),
        lag_at_end_records=float(course.lag_records[-1]),
        unprocessed=left,
        recovery_error=_mean([recovery.error for recovery in recoveries]),
        forecast_wape=forecast_wape,
        first_minute_wape=minute_wape,
        capacity_error=_mean(truth.here),
        capacity_error_all=_mean(truth.everywhere),
        wall_s=time.perf_counter() - truth.began_wall_s,
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


def latency_of(course: Course) -> Latency:
    """Return the latency of a run, every record counting once; NaN where none came out."""
    came_out = np.isfinite(course.latency_p95_ms) & (course.throughput_per_s > 0)
    values, weights = course.latency_p95_ms[came_out], course.throughput_per_s[came_out]
    if not len(values):
        return Latency(*[float("nan")] * 4)
    order = np.argsort(values)
    share = np.cumsum(weights[order]) / weights.sum()
    at = np.minimum(np.searchsorted(share, [0.5, 0.95, 0.99]), len(values) - 1)
    return Latency(float(np.average(values, weights=weights)), *(float(value) for value in values[order][at]))


def _forecast_errors(reports: Sequence[TickReport], twin: JobTwin) -> tuple[float | None, float | None]:
    made: list[Forecast] = [coarse(report.forecast) for report in reports if report.forecast is not None]
    arrived = Workload(float(twin.history.start_s), float(twin.step_s), twin.history.column("arrived"))
    truth = truth_of(arrived)
    realised = [come_true(forecast, truth) for forecast in made]
    minute = [
        forecast_realised.first_minute_wape
        for forecast, forecast_realised in zip(made, realised, strict=True)
        if forecast.origin_s + 60.0 <= arrived.end_s
    ]
    return _mean([forecast.horizon_wape for forecast in realised]), _mean(minute)


def _left_after_recovery(case: Case, twin: JobTwin, look: Callable[[], object]) -> float:
    """Return what had arrived by the end and still waits after the recovery time objective; nobody looks within a tick.

    The twin goes as far as whole steps of it allow.
    """
    interval_s = case.contender.tick_interval_s
    arrived, until_s = twin.totals.arrived, min(twin.now_s + int(case.objectives.recovery_time_s), case.last_arrival_s)
    while _waiting(twin, arrived) > 0 and until_s - twin.now_s >= twin.step_s:
        seconds = min(interval_s, (until_s - twin.now_s) // twin.step_s * twin.step_s)
        twin.step(seconds)
        if seconds == interval_s:
            look()
    return _waiting(twin, arrived)


def _waiting(twin: JobTwin, arrived: float) -> float:
    """Return how many of the first ``arrived`` records are still to be processed, first come first served."""
    totals = twin.totals
    return max(arrived - (totals.arrived - totals.lag), 0.0)


def _recoveries(entries: Mapping[int, Entry], twin: JobTwin, course: Course, truth: Truth) -> tuple[Recovery, ...]:
    outages = [outage for outage in twin.outages if outage.start_s >= course.times_s[0]]
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

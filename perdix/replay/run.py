"""One replay: the real tick on simulated time against a twin.

Belongs here: the loop of time, how a twin begins and when workers crash. Does not belong here: any rule of its own.
What is played is :func:`perdix.control.tick.tick` with the real state store (in memory), the real alignment and the
real models. What is counted is in :mod:`perdix.replay.figures`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from perdix.control.believe import coarse
from perdix.control.champions import ChampionSource, GivenChampions
from perdix.control.explain import RESCALES
from perdix.control.sources import Reading, is_first
from perdix.control.state.ledger import Entry
from perdix.control.state.store import Retention, StateStore
from perdix.control.tick import tick
from perdix.control.tick_io import TickIO, TickReport
from perdix.models.forecasting.foresight import KEPT_S
from perdix.replay.case import START_S, Case
from perdix.replay.figures import Truth, figures_of
from perdix.replay.outcome import Played
from perdix.replay.training import NEED_SAMPLES, Begun, TrainedOnTheWay, profiled, sampled
from perdix.settings.durations import DAY_S
from perdix.settings.stream_job import Bounds, PolicySettings, StreamJob, WorkerSize
from perdix.settings.targets import TwinSettings
from perdix.targets.twin import LocalTwinTarget
from perdix.twin.emission import Scraping
from perdix.twin.job import JobTwin
from perdix.twin.scraped import scraped
from perdix.twin.workloads import arrivals_from

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

    The last interval between ticks is shorter where the run does not end with a whole one.

    Raises ``ValueError`` when the hours do not cover a tick, or the twin cannot be.

    ``twin``: a twin to go on with, in place of a fresh one; it is changed. History that it has already is what the
    first tick can see, and is not part of the outcome.
    ``champions``: trained models to begin with; the loop starts without any when left out.
    ``on_tick``: called after each tick with its number, for progress.
    """
    if case.seconds < case.contender.tick_interval_s:
        raise ValueError(f"{case.hours} hours do not cover one tick of {case.contender.tick_interval_s} s")
    run = _Run.of(case, twin, champions)
    for number in range(case.ticks):
        run.tick(number)
        if on_tick is not None:
            on_tick(number + 1)
    return run.ended()


@dataclass(frozen=True)
class _Run:
    """A replay under way."""

    case: Case
    job: StreamJob
    twin: JobTwin
    io: TickIO
    began_s: int
    crashes: Sequence[int]  # epoch seconds at which workers die
    begun: Begun | None  # what was profiled or sampled beforehand, where the policy needs that
    trainer: TrainedOnTheWay | None  # trains on the way; ``None`` where models are given, or none are used
    truth: Truth = field(default_factory=Truth)
    reports: list[TickReport] = field(default_factory=list)

    @classmethod
    def of(cls, case: Case, twin: JobTwin | None, champions: ChampionSource | None) -> _Run:
        job = job_of(case)
        twin = twin or fresh_twin(case, job.bounds)
        began_s, target = twin.now_s, LocalTwinTarget(twin)
        crashes = failure_times_s(case, began_s)
        begun = None if champions is not None else profiled(case, twin) or sampled(case)
        given = GivenChampions({} if begun is None else {begun.champions.name: begun.champions})
        trainer = None
        if case.forecaster is not None and champions is None and case.beliefs:
            trainer = TrainedOnTheWay(job.name, case.forecaster, case.seed, given=given)
        io = TickIO(
            TwinSource(twin, case.scraping),
            StateStore.scratch(),
            champions or trainer or given,
            lambda _: target,
            tick_interval_s=case.contender.tick_interval_s,
            believes=case.beliefs,
        )
        return cls(case, job, twin, io, began_s, crashes, begun, trainer)

    def tick(self, number: int) -> None:
        """Let the twin live for an interval, or what is left of the run, then make the tick that ends it."""
        case, twin = self.case, self.twin
        left_s = self.began_s + case.seconds - twin.now_s
        self.truth.step(twin, min(case.contender.tick_interval_s, left_s), self.crashes)
        report = tick(self.job, self.io, float(twin.now_s))
        self.truth.compare(twin, report)
        twin.history.forget_workers_before(twin.now_s - REMEMBERED_S)
        self.reports.append(report if case.step_s == 1 else _small(report))
        if case.step_s > 1 and number % PRUNED_EVERY == 0:
            self.io.store.prune(float(twin.now_s), BRIEFLY)
        if self.trainer is not None:
            self.trainer.consider(twin, retrain=report.retrain is not None)

    def ended(self) -> Played:
        """Return what it came to; nothing of it is open afterwards."""
        store = self.io.store
        played = figures_of(
            self.case,
            self.job,
            self.twin,
            self.truth,
            began_s=self.began_s,
            look=lambda: tick(self.job, self.io, float(self.twin.now_s)),
            reports=self.reports,
            rescales=lambda: _applied(store, self.job.name),
        )
        store.close()
        outcome = played.outcome
        if self.trainer is not None:
            outcome = replace(outcome, retrains=self.trainer.trained, notes=tuple(self.trainer.notes))
        if self.begun is not None:
            notes = (*outcome.notes, *self.begun.notes)
            outcome = replace(outcome, profiling_worker_s=self.begun.worker_s, notes=notes)
        return replace(played, outcome=outcome)


def _applied(store: StateStore, job: str) -> dict[int, Entry]:
    """Return epoch second -> the decision that was carried out then."""
    made = store.ledger.decisions(job, states=RESCALES, limit=ALL)  # nearly all others change nothing
    return {int(entry.applied_s): entry for entry in made if entry.applied_s}


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
        source_partitions=case.parameters.source.partitions,
        policy=_policy(case),
        grace_s=case.contender.grace_s,
        target=TwinSettings(url="http://in.process", in_place=case.parameters.restart.in_place),
        mode="act",
    )


def _policy(case: Case) -> PolicySettings:
    """Return the contender's policy; an HPA measures against what the twin's workers request, unless one is set."""
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
        case.parameters, case.seed, start_s=START_S, scale_out=first, arrivals=arrivals, mix=mix, step_s=case.step_s
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


@dataclass(frozen=True)
class TwinSource:
    """A :class:`perdix.control.sources.MetricsSource` that reads a twin's scrapes in process."""

    twin: JobTwin
    scraping: Scraping = field(default_factory=lambda: Scraping(interval_s=5.0))

    def read(self, job: StreamJob, now_s: float, since_s: float) -> Reading:
        """Return the window ``(since_s, now_s]``, of a first tick also what the twin did in the hours before."""
        window = scraped(self.twin, self.scraping, job.name, since_s, now_s)
        begins_s = max(float(self.twin.history.start_s), now_s - KEPT_S)
        known = is_first(since_s, now_s, self.scraping.interval_s) and begins_s < since_s
        return Reading(window, past=scraped(self.twin, self.scraping, job.name, begins_s, since_s) if known else None)

"""Replay: the real tick on simulated time against a twin, so that policies are compared over hours in seconds.

Belongs here: the loop of time, and what a whole run says. Does not belong here: any rule of its own. What is replayed
is :func:`control.tick.tick` with the real state store (in memory), the real alignment and the real models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from control.believe import coarse
from control.champions import ChampionSource, GivenChampions
from control.sources import Reading
from control.state import StateStore
from control.tick import tick
from control.tick_io import TickIO, TickReport
from models.drift import come_true
from models.forecasting.contract import Forecast, Values, Workload
from settings.stream_job import Bounds, Objectives, PolicySettings, StreamJob, TargetSettings
from targets.twin import LocalTwinTarget
from telemetry.alignment import align
from twin.emission import Scraping, emit
from twin.job import JobTwin

IN_MEMORY = "sqlite://"
ALL = 1_000_000


@dataclass(frozen=True)
class Recovery:
    """One rescale: predicted, as perdix observed it, and as it truly was (seconds; ``None`` where there is none)."""

    at_s: float
    from_scale_out: int
    scale_out: int
    predicted_s: float | None
    observed_s: float | None
    true_s: float | None


@dataclass(frozen=True)
class ReplayResult:
    """What a run came to.

    Attributes
    ----------
    workers_mean, worker_s
        Workers on average, and their sum over time in worker-seconds.
    latency_mean_ms, latency_p50_ms, latency_p95_ms, latency_p99_ms
        Of the p95 end-to-end latency of each second, every record counting once.
    above_objective
        Share of the records that were processed while the p95 latency was above the job's objective.
    unprocessed_records
        Consumer lag at the end.
    forecast_wape, first_minute_wape
        Means over the forecasts that were acted on and came true (1.0 = 100 %).
    capacity_error
        Mean of ``|estimate - truth| / truth`` over ticks, at the scale-out that ran.
    capacity_error_all
        The same over all scale-outs within the bounds.
    """

    policy: str
    hours: float
    ticks: int
    workers_mean: float
    worker_s: float
    rescales: int
    latency_mean_ms: float
    latency_p50_ms: float
    latency_p95_ms: float
    latency_p99_ms: float
    above_objective: float
    lag_maximum_records: float
    unprocessed_records: float
    forecast_wape: float | None
    first_minute_wape: float | None
    capacity_error: float | None
    capacity_error_all: float | None
    recoveries: tuple[Recovery, ...] = ()
    reports: tuple[TickReport, ...] = field(default=(), repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON-serialisable values, without the tick reports."""
        names = [name for name in self.__dataclass_fields__ if name not in {"reports", "recoveries"}]
        return {name: getattr(self, name) for name in names} | {"recoveries": [asdict(one) for one in self.recoveries]}


@dataclass(frozen=True)
class TwinSource:
    """A twin's scrapes as a :class:`control.sources.MetricsSource`, without a server between."""

    twin: JobTwin
    scraping: Scraping = field(default_factory=lambda: Scraping(interval_s=5.0))

    def read(self, job: StreamJob, now_s: float, since_s: float) -> Reading:
        """Return the window ``(since_s, now_s]``."""
        interval_s = self.scraping.interval_s
        series = emit(self.twin, self.scraping, from_s=since_s - 2.0 * interval_s, to_s=now_s + 1e-3)
        return Reading(align(job.name, series, since_s, now_s, interval_s))


def replay(
    twin: JobTwin,
    policy: PolicySettings,
    hours: float,
    *,
    objectives: Objectives | None = None,
    bounds: Bounds | None = None,
    champions: ChampionSource | None = None,
    scraping: Scraping | None = None,
    tick_interval_s: int = 60,
) -> ReplayResult:
    """Let a policy run a twin for some hours.

    Parameters
    ----------
    twin
        Changed by the replay: use a fresh one of the same seed for each policy. History that it has already is what
        the first tick can see; it is not part of the result.
    champions
        Trained models; the loop starts without any when left out.

    Raises
    ------
    ValueError
        When ``hours`` does not cover a tick.
    """
    ticks = int(3600 * hours / tick_interval_s)
    if ticks < 1:
        raise ValueError(f"{hours} hours do not cover one tick of {tick_interval_s} s")
    job = StreamJob(
        name=twin.parameters.name,
        bounds=bounds or Bounds(minimum=1, maximum=twin.parameters.workers.maximum),
        objectives=objectives or Objectives(),
        policy=policy,
        target=TargetSettings(kind="twin", url="http://in.process"),
        mode="act",
    )
    store, target = StateStore(IN_MEMORY), LocalTwinTarget(twin)
    source = TwinSource(twin, scraping) if scraping is not None else TwinSource(twin)
    io = TickIO(source, store, champions or GivenChampions(), lambda _: target, tick_interval_s=tick_interval_s)
    began_s, truth = twin.now_s, _Truth([], [])
    reports: list[TickReport] = []
    for _ in range(ticks):
        twin.step(tick_interval_s)
        report = tick(job, io, float(twin.now_s))
        truth.compare(twin, report)
        reports.append(report)
    recoveries = _recoveries(store, job.name, twin)
    store.close()
    return _result(job, twin, began_s, reports=reports, truth=truth, recoveries=recoveries)


@dataclass
class _Truth:
    """How far the believed capacities were off, tick by tick; it must be asked while the deployment is there."""

    here: list[float]
    everywhere: list[float]

    def compare(self, twin: JobTwin, report: TickReport) -> None:
        estimate = report.capacities.get(twin.scale_out)
        if estimate is None or not twin.settled:
            return
        true = twin.current_capacity()
        self.here.append(abs(estimate.per_s - true) / true)
        maximum = twin.parameters.workers.maximum
        others = [(one.per_s, twin.true_capacity(n)) for n, one in report.capacities.items() if n <= maximum]
        self.everywhere.append(float(np.mean([abs(believed - true) / true for believed, true in others])))


def _result(
    job: StreamJob,
    twin: JobTwin,
    began_s: int,
    *,
    reports: Sequence[TickReport],
    truth: _Truth,
    recoveries: tuple[Recovery, ...],
) -> ReplayResult:
    history = twin.history
    workers, lag = history.column("scale_out", began_s), history.column("lag", began_s)
    latency, processed = history.column("latency_p95_ms", began_s), history.column("processed", began_s)
    came_out = np.isfinite(latency) & (processed > 0)
    latency, processed = latency[came_out], processed[came_out]
    quantiles = _weighted_quantiles(latency, processed, np.array([0.5, 0.95, 0.99]))
    above = processed[latency > job.objectives.latency_p95_ms].sum()
    forecast_wape, minute_wape = _forecast_errors(reports, twin)
    return ReplayResult(
        policy=job.policy.name,
        hours=len(workers) / 3600.0,
        ticks=len(reports),
        workers_mean=float(workers.mean()),
        worker_s=float(workers.sum()),
        rescales=sum(1 for outage in twin.outages if outage.start_s >= began_s and outage.cause != "failure"),
        latency_mean_ms=float(np.average(latency, weights=processed)) if len(latency) else float("nan"),
        latency_p50_ms=float(quantiles[0]),
        latency_p95_ms=float(quantiles[1]),
        latency_p99_ms=float(quantiles[2]),
        above_objective=float(above / processed.sum()) if len(processed) else 0.0,
        lag_maximum_records=float(lag.max()),
        unprocessed_records=float(lag[-1]),
        forecast_wape=forecast_wape,
        first_minute_wape=minute_wape,
        capacity_error=_mean(truth.here),
        capacity_error_all=_mean(truth.everywhere),
        recoveries=recoveries,
        reports=tuple(reports),
    )


def _weighted_quantiles(values: Values, weights: Values, probabilities: Values) -> Values:
    """Return quantiles where each value counts ``weights`` times; NaN without any value."""
    if not len(values):
        return np.full(len(probabilities), np.nan)
    order = np.argsort(values)
    share = np.cumsum(weights[order]) / weights.sum()
    return np.asarray(values[order][np.minimum(np.searchsorted(share, probabilities), len(values) - 1)])


def _forecast_errors(reports: Sequence[TickReport], twin: JobTwin) -> tuple[float | None, float | None]:
    made: list[Forecast] = [coarse(report.forecast) for report in reports if report.forecast is not None]
    arrived = Workload(float(twin.history.start_s), 1.0, twin.history.column("arrived"))
    realised = [come_true(forecast, arrived) for forecast in made]
    whole = [one.horizon_wape for one in realised if one.horizon_wape is not None]
    minute = [
        one.first_minute_wape
        for forecast, one in zip(made, realised, strict=True)
        if one.first_minute_wape is not None and forecast.origin_s + 60.0 <= arrived.end_s
    ]
    return _mean(whole), _mean(minute)


def _recoveries(store: StateStore, job: str, twin: JobTwin) -> tuple[Recovery, ...]:
    found = []
    for entry in reversed(store.ledger.decisions(job, limit=ALL)):
        if entry.applied_s is None:
            continue
        outage = next((one for one in twin.outages if one.start_s == int(entry.applied_s)), None)
        true_s = None if outage is None else twin.recovery_time_s(outage)
        intent = entry.intent
        found.append(
            Recovery(
                entry.applied_s,
                intent.from_scale_out,
                intent.scale_out,
                intent.predicted_recovery_s,
                entry.observed_recovery_s,
                None if true_s is None else float(true_s),
            )
        )
    return tuple(found)


def _mean(values: Sequence[float]) -> float | None:
    finite = [value for value in values if np.isfinite(value)]
    return float(np.mean(finite)) if finite else None

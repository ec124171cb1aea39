"""What the loop knows as metrics for Prometheus: desired scale-outs, why they are wanted, and how fresh that is.

The state store is the one source, so that the controller and a process beside Dagster's sensor publish the same.
Belongs here: what is published, and until when. Does not belong here: reading the store
(:mod:`perdix.control.publish.standing`), the names (:mod:`perdix.control.publish.names`).
"""

from __future__ import annotations

import logging
import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite
from typing import Any

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from perdix.control.clock import Clock
from perdix.control.fleet_report import LoopFault
from perdix.control.freshness import Freshness
from perdix.control.job_files import FollowedFiles, JobFiles
from perdix.control.operators.naming import job_of
from perdix.control.publish import names
from perdix.control.publish.names import METRICS, Kind, Metric
from perdix.control.publish.standing import Cause, Published, PublishedState, Snapshot, UnreadableError, Wanted
from perdix.control.reconcile import Event
from perdix.control.state.journal import Status, Tick
from perdix.control.state.schema import SCHEMA
from perdix.control.state.store import PRUNE_EVERY_S, Retention
from perdix.models.registry.provenance import installed
from perdix.policies.contract import Reason
from perdix.settings.stream_job import StreamJob
from perdix.telemetry.metrics import CANONICAL

SILENT = "silent"  # in place of the status that the last tick gave
OTHER = "other"  # a value that this perdix does not know: label values stay bounded
BUCKETS_S = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 60.0)
TICKS_OVERLAP_S = 300.0  # clocks of several controllers differ, and long ticks are journalled late
OUTCOMES = ("complete", "late", "broken", "observing", "empty")
STATUSES = frozenset(Status)
REASONS = frozenset(Reason)
EVENTS = tuple(event for event in Event if event is not Event.NOTHING)
_log = logging.getLogger(__name__)


class PublishedCollector(Collector):
    """Answers each scrape from the state store; reads only, and answers too when the store does not.

    Without the store it goes on to publish what it read last, with its times, and ``perdix_up`` 0: a series that
    vanished would look like a wish for no workers to some of those who scale by it.

    ``state``: the store to read.
    ``files``: folders of job files; without any, jobs are published that the store knows.
    ``clock``: read once per scrape.
    ``holder``: name of the controller in this process, whose leases are counted; ``None`` where there is none.
    """

    def __init__(
        self,
        state: PublishedState,
        files: FollowedFiles,
        clock: Clock,
        *,
        freshness: Freshness | None = None,
        holder: str | None = None,
    ) -> None:
        self._state, self._files, self._clock = state, files, clock
        self._freshness = freshness or Freshness()
        self._holder = holder
        self._lock = threading.Lock()
        self._last: Snapshot | None = None
        self._errors: Counter[Cause] = Counter()
        self._faults: Counter[LoopFault] = Counter()
        self._ticks = TickCounts(since_s=clock.now_s())
        self._said = ""
        files.look(float("inf"))

    def note(self, faults: Iterable[LoopFault]) -> None:
        """Count what a tick of the controller in this process lacked, as far as the journal does not hold it."""
        lacked = set(faults)
        with self._lock:
            self._faults.update(lacked if LoopFault.JOURNAL in lacked else lacked & {LoopFault.HEARTBEAT})

    @property
    def problem(self) -> str:
        """Why the last scrape could not read the store; empty when it could."""
        return self._said

    def describe(self) -> Iterable[Family]:
        """Return the families without samples: the registry needs their names, and the store need not answer yet."""
        return _Families().all()

    def collect(self) -> Iterable[Family]:
        """Return everything that is published now."""
        with self._lock:
            return list(self._collected())

    def _collected(self) -> Iterator[Family]:
        began_s, now_s = time.perf_counter(), self._clock.now_s()
        files = self._files.look()
        up = self._read(now_s)
        families = _Families()
        snapshot = self._last
        if snapshot is not None:
            families.add(names.READ_AT, snapshot.read_s)
            for job in sorted(snapshot.jobs.values(), key=lambda job: job.name):
                if files.names is None or job_of(job.name) in files.names:
                    self._add_job(families, job, files.jobs.get(job.name), now_s)
        for job_name, settings in sorted(files.jobs.items()):
            _add_settings(families, job_name, settings)
        self._add_process(families, files, up=up)
        families.add(names.SCRAPE, time.perf_counter() - began_s)
        yield from families.all()

    def _add_job(self, families: _Families, job: Published, settings: StreamJob | None, now_s: float) -> None:
        """Add one job; a row that makes no sense must not take the other jobs with it."""
        try:
            _JobFamilies(families, self._freshness, now_s).add(job, settings)
        except (ValueError, TypeError, AttributeError):
            self._errors[Cause.OTHER] += 1
            _log.exception("metrics: what is stored of job '%s' cannot be published", job.name)

    def _read(self, now_s: float) -> bool:
        try:
            self._last = self._state.read(now_s, self._ticks.since_s)
        except UnreadableError as error:
            self._errors[error.cause] += 1
            if str(error) != self._said:  # once, not with every scrape
                _log.error("metrics: %s", error)
            self._said = str(error)
            return False
        self._said = ""
        self._ticks.take(self._last.ticks, now_s)
        return True

    def _add_process(self, families: _Families, files: JobFiles, *, up: bool) -> None:
        families.add(names.UP, float(up))
        for cause in Cause:
            families.add(names.ERRORS, self._errors[cause], cause.value)
        for fault in LoopFault:
            families.add(names.FAULTS, self._faults[fault] + self._ticks.faults[fault.value], fault.value)
        families.add(names.UNREADABLE, len(files.faults))
        families.add(names.INTERVAL, self._freshness.tick_interval_s)
        for outcome in OUTCOMES:
            families.add(names.TICKS, self._ticks.outcomes[outcome], outcome)
        for event in EVENTS:
            families.add(names.EVENTS, self._ticks.events[event.value], event.value)
        families.add_histogram(names.DURATION, self._ticks.buckets(), self._ticks.seconds)
        held = 0
        if self._holder is not None and self._last is not None:
            held = sum(job.holder == self._holder for job in self._last.jobs.values())
        families.add(names.LEASES, held)
        families.add(names.BUILD, 1.0, installed("perdix"), str(SCHEMA))


class TickCounts:
    """Ticks since this process began, counted from the journal: of whichever controller, each once.

    ``since_s``: epoch seconds; earlier ticks are not counted.
    """

    def __init__(self, since_s: float) -> None:
        self._begun_s = since_s
        self._newest_s = since_s
        self._counted: dict[tuple[float, str], float] = {}
        self._counts = [0] * (len(BUCKETS_S) + 1)
        self.outcomes: Counter[str] = Counter()
        self.events: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.seconds = 0.0

    @property
    def since_s(self) -> float:
        """Ticks that began later may not be counted yet."""
        return max(self._begun_s, self._newest_s - TICKS_OVERLAP_S)

    def take(self, rows: Iterable[Tick], now_s: float) -> None:
        """Count ticks, those that were counted before left out; also after a clock that was ahead is set back."""
        self._begun_s, self._newest_s = min(self._begun_s, now_s), min(self._newest_s, now_s)
        for row in rows:
            key = (row.started_s, row.holder)
            if key in self._counted:
                continue
            self._counted[key] = row.started_s
            self._newest_s = min(max(self._newest_s, row.started_s), now_s)
            took_s = max(row.finished_s - row.started_s, 0.0)
            self._counts[bisect_left(BUCKETS_S, took_s)] += 1
            self.seconds += took_s
            self.outcomes[_outcome(row.summary)] += 1
            self.events.update(row.summary.get("events") or {})
            self.faults.update(row.summary.get("faults") or ())
        # As long as the journal keeps them: a clock that is set back has them read again.
        oldest_s = self._newest_s - Retention().ticks_s - PRUNE_EVERY_S
        self._counted = {key: at_s for key, at_s in self._counted.items() if at_s > oldest_s}

    def buckets(self) -> list[tuple[str, float]]:
        """Return the histogram's buckets, cumulative."""
        total, buckets = 0, []
        for limit, count in zip((*BUCKETS_S, float("inf")), self._counts, strict=True):
            total += count
            buckets.append((str(limit) if isfinite(limit) else "+Inf", float(total)))
        return buckets


def _outcome(summary: Mapping[str, Any]) -> str:
    found = summary.get("statuses") or {}
    if not found:
        return "empty"
    for status in (Status.BROKEN, Status.LATE):
        if found.get(status.value):
            return status.value
    return "observing" if set(found) == {Status.OBSERVING.value} else "complete"


class _Families:
    """The metric families of one scrape, filled as values are found; a value that is not known is left out."""

    def __init__(self) -> None:
        self._families: dict[str, Family] = {metric.name: _family(metric) for metric in METRICS}

    def add(self, metric: Metric, value: float | None, *labels: str) -> None:
        if value is None or not isfinite(value):
            return
        # Straight into the samples: there are tens of thousands of them for a fleet of a thousand jobs.
        named = dict(zip(metric.labels, labels, strict=True))
        self._families[metric.name].samples.append(Sample(metric.name, named, float(value)))

    def add_histogram(self, metric: Metric, buckets: list[tuple[str, float]], seconds: float) -> None:
        family = self._families[metric.name]
        assert isinstance(family, HistogramMetricFamily)
        family.add_metric([], buckets, seconds)

    def all(self) -> list[Family]:
        return list(self._families.values())


def _family(metric: Metric) -> Family:
    match metric.kind:
        case Kind.COUNTER:
            return CounterMetricFamily(metric.name.removesuffix("_total"), metric.help)
        case Kind.HISTOGRAM:
            return HistogramMetricFamily(metric.name, metric.help)
        case Kind.INFO:
            return InfoMetricFamily(metric.name.removesuffix("_info"), metric.help)
    return GaugeMetricFamily(metric.name, metric.help)


@dataclass(frozen=True)
class _JobFamilies:
    families: _Families
    freshness: Freshness
    now_s: float

    def add(self, job: Published, settings: StreamJob | None) -> None:
        """Add all that is published of one job.

        Who sizes operators looks as seldom as it was asked to, and holds its lease all the while, until it ends.
        """
        held, operators = job.lease_expires_s > self.now_s, job_of(job.name) != job.name
        fresh = self.freshness.is_fresh(job.updated_s, self.now_s) or (operators and held)
        sizes = set() if settings is None else set(settings.sizes)
        self._wanted(job, sizes)
        status = job.status if job.status in STATUSES else OTHER
        self.families.add(names.STATUS, 1.0, job.name, status if fresh else SILENT)
        self.families.add(names.STATUS_SINCE, job.since_s if fresh else job.updated_s, job.name)
        self.families.add(names.LAST_TICK, job.updated_s, job.name)
        for metric, count in (job.details.get("rejected") or {}).items():
            self.families.add(names.REJECTED, count, job.name, metric if metric in CANONICAL else OTHER)
        followed = job.details.get("followed", 0) if fresh else 0
        self.families.add(names.RESCALES, max(job.rescales, followed), job.name)
        self.families.add(names.RETRAINS, job.retrains, job.name)
        self.families.add(names.RETRAIN_AT, job.oldest_retrain_s, job.name)
        self.families.add(names.FAILURES, job.failures, job.name)
        if job.holder is not None if operators else fresh:
            self.families.add(names.LEASE, float(held), job.name)
        if fresh and job.status != Status.BROKEN:  # else nothing was found of it since
            self._current(job, settings, sizes)
            self._seen(job)
            self._believed(job)

    def _wanted(self, job: Published, sizes: set[str]) -> None:
        wanted = job.wanted
        if wanted is None:
            return
        scale_out, mix = _still_wanted(wanted, job)
        self.families.add(names.DESIRED, scale_out, job.name)
        if not wanted.unjudged:
            self.families.add(names.DESIRED_AT, wanted.made_s, job.name)
            self.families.add(names.DESIRED_UNTIL, wanted.valid_until_s, job.name)
        self._mix(names.DESIRED_WORKERS, job.name, mix, sizes)

    def _mix(self, metric: Metric, job: str, mix: Mapping[str, int], sizes: set[str]) -> None:
        """Publish a size that is not wanted as 0: a series that vanished would leave its workers running."""
        for size in sorted(sizes | set(mix)) if mix else ():
            self.families.add(metric, mix.get(size, 0), job, size)

    def _current(self, job: Published, settings: StreamJob | None, sizes: set[str]) -> None:
        blind = job.status == Status.BLIND and job.seen.get("scale_out") is None and job_of(job.name) == job.name
        if blind and (settings is None or settings.target.kind == "advisory"):
            return  # only the metrics could show what runs
        self.families.add(names.CURRENT, job.details.get("scale_out"), job.name)
        self._mix(names.CURRENT_WORKERS, job.name, job.details.get("mix") or {}, sizes)
        capacity = job.details.get("capacity") or {}
        self.families.add(names.CAPACITY, capacity.get("per_s"), job.name)
        self.families.add(names.CAPACITY_LOW, capacity.get("low_per_s"), job.name)
        self.families.add(names.CAPACITY_HIGH, capacity.get("high_per_s"), job.name)

    def _seen(self, job: Published) -> None:
        seen = job.seen
        self.families.add(names.WORKLOAD, seen.get("workload_per_s"), job.name)
        self.families.add(names.THROUGHPUT, seen.get("throughput_per_s"), job.name)
        self.families.add(names.LAG, seen.get("consumer_lag_records"), job.name)
        latency_ms = seen.get("latency_p95_ms")
        self.families.add(names.LATENCY, None if latency_ms is None else latency_ms / 1_000.0, job.name)
        self.families.add(names.CPU, seen.get("cpu_load"), job.name)

    def _believed(self, job: Published) -> None:
        details = job.details
        reason = details.get("reason")
        if reason is not None:
            self.families.add(names.DECISION, 1.0, job.name, reason if reason in REASONS else OTHER)
        self.families.add(names.WAPE, details.get("wape"), job.name)
        self.families.add(names.HORIZON_WAPE, details.get("horizon_wape"), job.name)
        self.families.add(names.PREDICTED, details.get("predicted_recovery_s"), job.name)
        self.families.add(names.FAILURE, details.get("failure_recovery_s"), job.name)
        self.families.add(names.BUDGET_LEFT, details.get("error_budget_left"), job.name)
        outlook = details.get("forecast") or {}
        origin_s = outlook.get("origin_s")
        if origin_s is None or not self.freshness.is_fresh(origin_s, self.now_s):
            return
        self.families.add(names.FORECAST_AT, origin_s, job.name)
        for metric, key in ((names.FORECAST, "mean_per_s"), (names.FORECAST_UPPER, "upper_per_s")):
            for horizon_s, per_s in (outlook.get(key) or {}).items():
                self.families.add(metric, per_s, job.name, f"{horizon_s}s")


def _still_wanted(wanted: Wanted, job: Published) -> tuple[int, Mapping[str, int]]:
    """Return what is wanted now; of a decision that was given up, what runs instead.

    A decision for operators names those that change: the others stay as they run.
    """
    running, runs = job.details.get("scale_out"), job.details.get("mix") or {}
    if wanted.void:
        return wanted.from_scale_out if running is None else running, runs
    if job_of(job.name) == job.name:
        return wanted.scale_out, wanted.mix
    mix = {**runs, **wanted.mix}
    return max(mix.values()), mix


def _add_settings(families: _Families, name: str, job: StreamJob) -> None:
    labels = (job.engine, job.mode, job.policy.name, job.target.kind)
    families.add(names.JOB_INFO, 1.0, name, *labels)
    families.add(names.MINIMUM, job.bounds.minimum, name)
    families.add(names.MAXIMUM, job.bounds.maximum, name)
    families.add(names.LATENCY_OBJECTIVE, job.objectives.latency_p95_ms / 1_000.0, name)
    families.add(names.RECOVERY_OBJECTIVE, job.objectives.recovery_time_s, name)
    families.add(names.ERROR_BUDGET, job.objectives.error_budget, name)
    families.add(names.BUDGET, job.objectives.rescales_per_day, name)


def registry_of(collector: PublishedCollector) -> CollectorRegistry:
    """Return a registry with nothing but this collector in it."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return registry


@contextmanager
def serving(collector: PublishedCollector, address: str, port: int) -> Iterator[int]:
    """Serve ``/metrics`` in threads of their own until the block ends; yields the port.

    Raises ``OSError`` when the address cannot be listened at.
    """
    server, thread = start_http_server(port, address, registry_of(collector))
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=5.0)

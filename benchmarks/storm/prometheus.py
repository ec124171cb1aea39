"""A Prometheus of the storm: what jobs' exporters show, through what is wrong with them, over its HTTP API.

A job has a server of its own, or both share one: what would be wrong with a shared server is then wrong with the
questions about one job only, so that the other's must be answered.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
import orjson

from benchmarks.storm.answers import GARBAGE
from benchmarks.storm.climate import SHARED
from benchmarks.storm.deployment import Deployment
from benchmarks.storm.faults import KINDS, REPLICA, UNREACHABLE, Fault
from benchmarks.storm.network import HEADERS, RefusedError, Request, Response, SilenceError
from benchmarks.storm.scrapes import SCRAPING, Scrapes, through
from perdix.control.sources import LiveSource, Reading, SourceError, connected
from perdix.settings.stream_job import PrometheusSource, StreamJob
from perdix.telemetry import metrics
from perdix.telemetry.http_client import MIB
from perdix.telemetry.prometheus import Prometheus
from perdix.telemetry.series import Series
from perdix.twin.emission import emit
from perdix.twin.living import LivingTwin, SimulatedClock
from perdix.twin.prometheus_api import query_range
from perdix.twin.promql import NAME, Matcher, meant

LARGEST_BYTES = 2 * MIB  # that a client takes here
RAW = {
    metrics.WORKLOAD.name: "kafka_server_brokertopicmetrics_messagesin_total",
    metrics.THROUGHPUT.name: "flink_taskmanager_job_task_operator_numRecordsIn",
    metrics.CPU.name: "flink_taskmanager_Status_JVM_CPU_Load",
    metrics.BUSY.name: "flink_taskmanager_job_task_busyTimeMsPerSecond",
    metrics.LAG.name: "flink_taskmanager_job_task_operator_pendingRecords",
    metrics.LATENCY.name: "flink_taskmanager_job_task_operator_eventTimeLag",
    metrics.UPTIME.name: "flink_jobmanager_job_uptime",
}
Faults = Callable[[str], Sequence[tuple[Fault, float]]]


@dataclass
class Scraped(LivingTwin):
    """The series of some jobs, read once for all questions of the same second."""

    deployments: Mapping[str, Deployment]
    faults: Faults
    true_s: Callable[[], float]
    behind_s: float = 0.0  # how long ago the newest of its scrapes may be
    _read: dict[str, tuple[tuple[Any, ...], float, Mapping[str, Sequence[Series]]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__({}, SimulatedClock(0.0))

    def series(self, matchers: tuple[Matcher, ...], from_s: float, to_s: float) -> list[Series]:
        """Return the series that all ``matchers`` mean, with samples up to ``to_s``."""
        metric = next((matcher.value for matcher in matchers if (matcher.label, matcher.op) == (NAME, "=")), None)
        found = []
        for name in self.deployments:
            every = self._of(name, from_s)
            asked = chain.from_iterable(every.values()) if metric is None else every.get(metric, ())
            found += [series for series in asked if meant(matchers, series.metric, series.labels)]
        until_s = min(to_s, self.true_s() - self.behind_s) if self.behind_s else to_s
        return [kept for series in found for kept in _until(series, until_s)]

    def _of(self, name: str, from_s: float) -> Mapping[str, Sequence[Series]]:
        """Return the series of one job by metric."""
        true_s, given = self.true_s(), self.faults(name)
        key = (true_s, tuple(given))
        read = self._read.get(name)
        if read is None or read[0] != key or read[1] > from_s:
            deployment = self.deployments[name]
            deployment.catch_up(true_s)
            early_s = from_s - 8.0 * SCRAPING.interval_s
            series = emit(deployment.twin, SCRAPING, names="flink", from_s=early_s, to_s=true_s + 1e-3)
            for fault, began_s in given:
                series = through(replace(fault, what=RAW.get(fault.what, fault.what)), began_s, true_s, series)
            by_metric: dict[str, list[Series]] = {}
            for each in series:
                by_metric.setdefault(each.metric, []).append(each)
            read = self._read[name] = key, early_s, by_metric
        return read[2]


def _until(series: Series, to_s: float) -> list[Series]:
    end = int((series.times_ms <= 1_000.0 * to_s).sum())
    if 0 < end < len(series.times_ms):
        return [replace(series, times_ms=series.times_ms[:end], values=series.values[:end])]
    return [series] if end else []


@dataclass(frozen=True)
class PrometheusServer:
    """Answers a request as a Prometheus that has the faults of the jobs it is asked for.

    ``passes`` lets time pass.
    """

    scraped: Scraped
    passes: Callable[[float], None]

    def answer(self, request: Request) -> Response:
        """Return the answer to ``query_range``; raises what a client meets that gets none."""
        asked = dict(parse_qsl(request.query))
        jobs = [name for name in self.scraped.deployments if name in asked.get("query", "")]
        shared = request.host == SHARED
        faults = [fault for name in jobs for fault, _ in self.scraped.faults(name)]
        either = any(fault.what == REPLICA for fault in faults)
        other = either and zlib.crc32(request.query.encode()) % 2 == 1
        scraped = replace(self.scraped, behind_s=SCRAPING.interval_s) if other else self.scraped
        with np.errstate(invalid="ignore", over="ignore"):
            status, document = query_range(scraped, asked)
        right = Response(status, orjson.dumps(document), dict(HEADERS))
        for fault in sorted(
            faults, key=lambda fault: KINDS[fault.kind].harmless
        ):  # odd words come after all that is worse
            found = self._through(fault, request, right, asked["query"])
            if found is not None:
                return refused() if shared and (found.status >= 300 or fault.what == "gzip") else found
        return right

    def _through(self, fault: Fault, request: Request, right: Response, query: str) -> Response | None:
        match fault.kind:
            case "no metrics" if fault.what == UNREACHABLE:
                if request.host == SHARED:
                    return refused()
                raise RefusedError
            case "slow metrics":
                self.passes(min(fault.amount, request.timeout_s))
                if fault.amount > request.timeout_s:
                    raise SilenceError
            case "prometheus status":
                return Response.of(int(fault.amount), {"status": "error", "errorType": "storm", "error": "refused"})
            case "query refused" if _asks_for(RAW[fault.what], query):
                return refused()
            case "prometheus garbage" | "prometheus oddity":
                return odd(fault.what, right)
        return None


def _asks_for(metric: str, query: str) -> bool:
    """Whether a query asks for a raw metric, by its name or by an expression for several names."""
    return metric in query or any(re.fullmatch(names, metric) for names in re.findall(r'__name__=~"([^"]*)"', query))


def refused() -> Response:
    """Return what a server answers to a question that costs it too much."""
    said = "query processing would load too many samples into memory in query execution"
    return Response.of(422, {"status": "error", "errorType": "execution", "error": said})


def odd(what: str, right: Response) -> Response:
    """Return an answer that no Prometheus should give, or none that its client should mind."""
    if what in GARBAGE:
        return GARBAGE[what]
    if what == "huge":
        packed = gzip.compress(b'{"status":"success","data":{"result":"' + b" " * LARGEST_BYTES)
        return Response(200, packed, {**HEADERS, "Content-Encoding": "gzip"})
    if what == "page of JSON":
        return replace(right, headers={"Content-Type": "text/html"})
    document = json.loads(right.body)
    if what == "warned":
        return Response.of(200, document | {"warnings": ["\x00", 7, None], "infos": [{}]})
    if what == "vector":
        document["data"]["resultType"] = "vector"
    if what == "nothing":
        document["data"]["result"] = None
    result = document["data"]["result"] or []
    if what == "twice":
        document["data"]["result"] = [*result, *result]
    if what == "other order":
        document["data"]["result"] = result[::-1]
    if what in _ODD_ROWS:
        for row in result:
            row.update(_ODD_ROWS[what](row["values"]))
    return Response.of(200, document)


_ODD_ROWS: Mapping[str, Callable[[list[Any]], dict[str, Any]]] = {
    "no labels": lambda _: {"metric": None},
    "no value": lambda points: {"values": [point[:1] for point in points]},
    "words": lambda points: {"values": [[at, "many"] for at, _ in points]},
    "late": lambda points: {"values": [[1e300, value] for _, value in points]},
    "never": lambda points: {"values": [["NaN", value] for _, value in points]},
}


@dataclass(frozen=True)
class Sources:
    """Metrics of jobs that have a Prometheus, over HTTP; of others, their scrapes."""

    scrapes: Scrapes
    live: LiveSource

    def read(self, job: StreamJob, now_s: float, since_s: float) -> Reading:
        """Return the window ``(since_s, now_s]`` of the reader's time."""
        return (self.scrapes if job.prometheus is None else self.live).read(job, now_s, since_s)

    def read_jobs(self, jobs: Iterable[tuple[StreamJob, float]], now_s: float) -> Mapping[str, Reading | SourceError]:
        """Return each job's window from its second on, or why there is none."""
        asked = list(jobs)
        over_http = [each for each in asked if each[0].prometheus is not None]
        others = [each for each in asked if each[0].prometheus is None]
        return {**self.live.read_jobs(over_http, now_s), **self.scrapes.read_jobs(others, now_s)}


def connected_in(passes: Callable[[float], None]) -> Callable[[PrometheusSource], Prometheus]:
    """Return what makes a client as a controller does, whose pauses are of simulated time."""
    return lambda source: connected(source, largest_bytes=LARGEST_BYTES, sleep=passes)

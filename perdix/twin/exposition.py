"""What a twin's exporters expose: one entry per series, under canonical names or under Flink's own."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from perdix.models.capacity.key_groups import GROUPS, Subtasks
from perdix.telemetry import metrics
from perdix.telemetry.series import Kind
from perdix.telemetry.window import Values
from perdix.twin.history import History
from perdix.twin.job import JobTwin
from perdix.twin.parameters import Heap

Rows = NDArray[np.int64]
Read = Callable[[History, Rows], Values]
Names = Literal["canonical", "flink"]

SOURCE = "Source: events"
JOB_MANAGER, BROKER = "jobmanager", "broker"
HEAP_BYTES = float(1 << 30)
BUSY_OVER_S = 5  # how often Flink renews the gauge
_EXPOSED: WeakKeyDictionary[JobTwin, dict[tuple[Names, float], list[Exposed]]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Exposed:
    """One series that can be scraped."""

    metric: str
    endpoint: str  # the exporter that serves it: all series of an endpoint are scraped, and lost, together
    # ``(history, rows) -> values``, shape of ``rows``; NaN where the exporter does not show the series. Where it is an
    # :class:`OfWorker`, all workers can be read at once
    read: Read
    worker: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    kind: Kind = "gauge"


@dataclass(frozen=True, eq=False)
class OfWorker:
    """Reads one worker's column of a table of all of them."""

    worker: int
    # ``(history, rows) -> values`` of shape ``(n, workers)``. Rows of shape ``(n, k)`` are those of each of the first
    # ``k`` workers, and so are the values
    table: Read

    def __call__(self, history: History, rows: Rows) -> Values:
        """Return the worker's values, shape of ``rows``."""
        return history.once(rows, self.table, lambda: self.table(history, rows))[:, self.worker]


def worker_name(job: str, worker: int) -> str:
    """Return the name of the worker's pod."""
    return f"{job}-taskmanager-{worker:02d}"


def subtasks_of(twin: JobTwin) -> Subtasks:
    """Return which worker has which subtask: a slot each, in the order of their names."""
    names = tuple(worker_name(twin.parameters.name, worker) for worker in range(twin.scale_out))
    return Subtasks(names, twin.parameters.keys.dealt_groups or GROUPS)


def expose(twin: JobTwin, names: Names = "canonical", interval_s: float = 15.0) -> list[Exposed]:
    """Return every series of the twin's exporters.

    ``names``: ``canonical``: perdix' own names, rates and one-minute CPU means. ``flink``: raw names as Flink's
    Prometheus reporter and a Kafka broker show them, counters among them.
    ``interval_s``: the canonical rates are means over this many seconds: those since the last scrape.
    """
    known = _EXPOSED.setdefault(twin, {})
    if (names, interval_s) not in known:
        known[names, interval_s] = _canonical(twin, max(1, round(interval_s))) if names == "canonical" else _flink(twin)
    return known[names, interval_s]


def _canonical(twin: JobTwin, interval_s: int) -> list[Exposed]:
    job = twin.parameters.name
    labels = {"job": job}
    of_job: dict[str, Read] = {
        metrics.WORKLOAD.name: _mean("arrived", interval_s),
        metrics.LAG.name: _value("lag"),
        metrics.LATENCY.name: _value("latency_p95_ms"),
        metrics.SCALE_OUT.name: _value("scale_out"),
        metrics.UPTIME.name: _value("uptime_s"),
    }
    if twin.parameters.heap is not None:
        of_job[metrics.MEMORY.name] = _while_running(_heap(twin.parameters.heap))
    exposed = [Exposed(name, JOB_MANAGER, read, labels=labels) for name, read in of_job.items()]
    of_workers: dict[str, Read] = {
        metrics.THROUGHPUT.name: _while_running(_mean("worker_processed", interval_s)),
        metrics.CPU.name: _mean("worker_cpu", twin.parameters.cpu.averaged_over_s),
        metrics.BUSY.name: _while_running(_busy(twin, interval_s)),
    }
    for worker in range(twin.parameters.workers.maximum):
        pod = worker_name(job, worker)
        place = {**labels, "worker": pod}
        exposed += [Exposed(name, pod, OfWorker(worker, read), pod, place) for name, read in of_workers.items()]
    return exposed


def _flink(twin: JobTwin) -> list[Exposed]:
    job = twin.parameters.name
    place = {"namespace": job}
    of_job = {**place, "job_name": job, "job_id": hashlib.sha256(job.encode()).hexdigest()[:32]}
    uptime_ms = _value("uptime_s", scale=1_000.0, absent=0.0)  # Flink shows 0 while a job is not yet running again
    exposed = [
        Exposed("flink_jobmanager_numRegisteredTaskManagers", JOB_MANAGER, _value("scale_out"), labels=place),
        Exposed("flink_jobmanager_job_uptime", JOB_MANAGER, uptime_ms, labels=of_job),
        Exposed("flink_jobmanager_job_numRestarts", JOB_MANAGER, _value("deployment"), labels=of_job),
        Exposed(
            "kafka_server_brokertopicmetrics_messagesin_total",
            BROKER,
            _value("arrived_total"),
            labels={"namespace": "kafka", "topic": job},
            kind="counter",
        ),
    ]
    if (partitions := twin.parameters.source.partitions) is not None:
        of_topic = {"namespace": "kafka", "topic": job}
        exposed.append(Exposed("kafka_topic_partitions", BROKER, _constant(partitions), labels=of_topic))
    counted = _whole(_value("worker_counter"))
    of_workers: dict[str, Read] = {
        "cpu": _value("worker_cpu"),
        "busy": _whole(_while_running(_busy(twin, BUSY_OVER_S, scale=1_000.0))),
        "records": _while_running(counted),
        "pending": _while_running(_only_where(counted, _pending(twin))),
        "latency": _while_running(_only_where(counted, _value("latency_p95_ms"))),
    }
    for worker in range(twin.parameters.workers.maximum):
        reads = {name: OfWorker(worker, read) for name, read in of_workers.items()}
        exposed += _task_manager(twin, worker, place, of_job, reads)
    return exposed


def _task_manager(
    twin: JobTwin, worker: int, place: Mapping[str, str], of_job: Mapping[str, str], reads: Mapping[str, Read]
) -> list[Exposed]:
    pod = worker_name(twin.parameters.name, worker)
    here = {"pod": pod, "tm_id": pod}
    of_task = {**of_job, **here, "task_name": SOURCE, "subtask_index": str(worker)}
    task = {**of_task, "operator_name": SOURCE}
    prefix = "flink_taskmanager_job_task"
    heap = twin.parameters.heap
    return [
        *([] if heap is None else _heaps(heap, worker, pod, {**place, **here})),
        Exposed("flink_taskmanager_Status_JVM_CPU_Load", pod, reads["cpu"], pod, {**place, **here}),
        Exposed(f"{prefix}_busyTimeMsPerSecond", pod, reads["busy"], pod, of_task),
        Exposed(f"{prefix}_operator_numRecordsIn", pod, reads["records"], pod, task, "counter"),
        Exposed(f"{prefix}_operator_pendingRecords", pod, reads["pending"], pod, task),
        Exposed(f"{prefix}_operator_eventTimeLag", pod, reads["latency"], pod, {**task, "quantile": "0.95"}),
    ]


# ---- how a value is read off the history ------------------------------------------------------------------------


def _value(name: str, worker: int | None = None, scale: float = 1.0, absent: float | None = None) -> Read:
    def read(history: History, rows: Rows) -> Values:
        values = scale * history.some(name, rows, worker)
        return values if absent is None else np.where(np.isnan(values), absent, values)

    return read


def _constant(value: float) -> Read:
    return lambda _, rows: np.full(len(rows), value)


def _whole(read: Read) -> Read:
    """Read whole numbers: a counter counts records, a gauge whole milliseconds."""
    return lambda history, rows: np.floor(read(history, rows))


def _mean(name: str, seconds: int) -> Read:
    """Read the mean of the last ``seconds`` seconds in which there was a value; NaN where there is none now.

    Of a column of workers it is one per worker, shape ``(rows, workers)``; see :class:`OfWorker`.
    """

    def read(history: History, rows: Rows) -> Values:
        width = max(1, round(seconds / history.step_s))
        if not rows.size:
            alone = (0, *history.rows(name, len(history), len(history)).shape[1:])
            return np.zeros(rows.shape if rows.ndim > 1 else alone)
        first = np.maximum(rows.min(axis=0) - width + 1, 0)  # of each worker, where each has its own rows
        low = int(first.min())
        values = history.rows(name, low, int(rows.max()) + 1)
        if rows.ndim > 1:
            values = values[:, : rows.shape[1]]
        present = ~np.isnan(values)
        counted = present if rows.ndim == 1 else present & (np.arange(low, low + len(values))[:, None] >= first)
        last = rows - low + 1
        begin = np.maximum(last - width, first - low)
        sums = _sums(np.where(counted, values, 0.0))
        if present.all():  # nobody came or went
            steps = last - begin
            each = steps[:, None] if values.ndim > steps.ndim else steps
            return np.asarray((_at(sums, last) - _at(sums, begin)) / each)
        counts = _sums(counted)
        count = _at(counts, last) - _at(counts, begin)
        mean = (_at(sums, last) - _at(sums, begin)) / np.maximum(count, 1)
        return np.where(_at(present, last - 1), mean, np.nan)

    return read


def _sums(values: NDArray[np.float64] | NDArray[np.bool_]) -> Values:
    """Return the sums of the first 0, 1, ... values along the first axis."""
    sums = np.zeros((len(values) + 1, *values.shape[1:]))
    values.cumsum(axis=0, out=sums[1:])
    return sums


def _at(values: NDArray[Any], rows: Rows) -> NDArray[Any]:
    """Return the values in some rows; of each column in rows of its own where there are as many dimensions."""
    return values[rows] if rows.ndim == 1 else values[rows, np.arange(rows.shape[1])]


def _busy(twin: JobTwin, seconds: int, scale: float = 1.0) -> Read:
    """Read the share of time each worker's tasks worked: its CPU without what an idle worker uses too.

    CPU is linear in what a worker processes, so this is records over what it could have processed.
    """
    idle, cpu = twin.parameters.cpu.idle, _mean("worker_cpu", seconds)

    def read(history: History, rows: Rows) -> Values:
        worked = (cpu(history, rows) - idle) / max(1.0 - idle, 1e-9)
        return scale * np.clip(worked, 0.0, 1.0)

    return read


def _heap(heap: Heap, most: float = 1.0) -> Read:
    """Read what a worker's heap of ``most`` holds."""
    workers = _value("scale_out")
    return lambda history, rows: most * np.minimum(heap.own + heap.state / workers(history, rows), 1.0)


def _heaps(heap: Heap, worker: int, pod: str, labels: Mapping[str, str]) -> list[Exposed]:
    """Return what Flink reports of a worker's heap, bytes."""
    prefix, deployed = "flink_taskmanager_Status_JVM_Memory_Heap", _value("worker_cpu", worker)
    reads: dict[str, Read] = {"Used": _heap(heap, HEAP_BYTES), "Max": lambda _, rows: np.full(rows.shape, HEAP_BYTES)}
    return [Exposed(f"{prefix}_{name}", pod, _only_where(deployed, read), pod, labels) for name, read in reads.items()]


def _while_running(read: Read) -> Read:
    """Show the series only while the job runs: its tasks are gone while it stands still."""
    return _only_where(_value("uptime_s"), read)


def _only_where(condition: Read, read: Read) -> Read:
    """Show values where there is a ``condition``; either may be of the job where the other is of each worker."""

    def read_shown(history: History, rows: Rows) -> Values:
        values, absent = read(history, rows), np.isnan(condition(history, rows))
        if values.ndim < absent.ndim:
            values = values[:, None]
        return np.where(absent if values.ndim == absent.ndim else absent[:, None], np.nan, values)

    return read_shown


def _pending(twin: JobTwin) -> Read:
    """Read each subtask's part of the consumer lag: that of the partitions that it reads; an equal part of all else."""
    partitions, workers = twin.parameters.source.partitions, twin.parameters.workers.maximum

    def read(history: History, rows: Rows) -> Values:
        lag, deployed = _value("lag")(history, rows), _value("scale_out")(history, rows)
        if partitions is None:
            return np.asarray(lag / deployed)
        if rows.ndim == 1:
            lag, deployed = lag[:, None], deployed[:, None]
        each, more = np.divmod(partitions, deployed)
        worker = np.arange(rows.shape[1] if rows.ndim > 1 else workers)
        return np.asarray(lag * (each + (worker < more)) / partitions)

    return read

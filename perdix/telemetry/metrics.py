"""The canonical metrics: the only names that the floors above know.

An engine's own names (Flink, Kafka Streams, Spark) are mapped onto these by ``conf/queries/<engine>.yaml``.
"""

from dataclasses import dataclass
from enum import StrEnum

from perdix.settings.stream_job import MOST_WORKERS

CENTURY_S = 100 * 365.25 * 86_400.0  # event times may be history, processes are not
MOST_PER_S = 1e12  # records/s: no job has as many
MOST_WAITING = 1e18  # records: what such a job leaves in eleven days; a sentinel such as 2**63 - 1 lies above


class Scope(StrEnum):
    """Whether a metric has one series per job or one per worker."""

    JOB = "job"
    WORKER = "worker"


@dataclass(frozen=True)
class Metric:
    """A canonical metric: its name carries the unit; ``low``/``high`` bound what is physically possible."""

    name: str
    scope: Scope
    unit: str
    meaning: str
    high: float
    low: float = 0.0


WORKLOAD = Metric("workload_per_s", Scope.JOB, "records/s", "records arriving at the job's sources", high=MOST_PER_S)
THROUGHPUT = Metric(
    "throughput_per_s", Scope.WORKER, "records/s", "records that a worker's sources consumed", high=MOST_PER_S
)
CPU = Metric("cpu_load", Scope.WORKER, "ratio", "share of the worker's CPU in use, mean of the last minute", high=1.5)
# Optional: only Flink measures it. Nothing may be refused for want of it.
BUSY = Metric("busy_ratio", Scope.WORKER, "ratio", "share of time in which the worker's busiest task worked", high=1.5)
LAG = Metric("consumer_lag_records", Scope.JOB, "records", "records available and not yet consumed", high=MOST_WAITING)
LATENCY = Metric("latency_p95_ms", Scope.JOB, "ms", "95th percentile of end-to-end latency", high=1_000 * CENTURY_S)
SCALE_OUT = Metric("scale_out", Scope.JOB, "workers", "workers that are registered", high=MOST_WORKERS)
# Optional: a scale-in is held against it where it is measured. Of the fullest worker: no series of each is needed.
MEMORY = Metric("memory_ratio", Scope.JOB, "ratio", "share of its heap that the fullest worker uses", high=1.5)
UPTIME = Metric("uptime_s", Scope.JOB, "s", "time since the job last (re)started", high=CENTURY_S)

CANONICAL: dict[str, Metric] = {
    metric.name: metric for metric in (WORKLOAD, THROUGHPUT, CPU, BUSY, LAG, LATENCY, SCALE_OUT, MEMORY, UPTIME)
}

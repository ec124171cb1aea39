"""The tables of the lake: columns, types and partition keys. The only place that knows them."""

from dataclasses import dataclass

import pyarrow as pa

TIMESTAMP = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class Table:
    """One table: ``partition`` keys name folders (outermost first) and are not stored inside the files."""

    name: str
    columns: pa.Schema
    partition: tuple[str, ...]

    @property
    def schema(self) -> pa.Schema:
        """Columns followed by the partition keys (as strings): what a reader gets."""
        keys = [pa.field(key, pa.string()) for key in self.partition]
        return pa.schema([*self.columns, *keys])


def _table(table: str, partition: tuple[str, ...], /, **columns: pa.DataType) -> Table:
    return Table(table, pa.schema(list(columns.items())), partition)


_TEXT, _WHOLE, _REAL = pa.string(), pa.int64(), pa.float64()

SAMPLES = _table(
    "samples",
    ("job", "day", "source"),
    series_id=_WHOLE,
    metric=_TEXT,  # canonical, or the exporter's own name when it is not mapped
    worker=_TEXT,
    ts=TIMESTAMP,
    value=_REAL,  # null exactly where mask is set
    mask=_TEXT,  # 'nan', 'inf', 'stale'
)
SERIES = _table(
    "series",
    ("job", "source"),
    series_id=_WHOLE,
    metric=_TEXT,
    worker=_TEXT,
    name=_TEXT,  # the exporter's own name; empty where the format has none
    labels=_TEXT,  # JSON object, keys sorted, without __name__
    kind=_TEXT,  # 'gauge' | 'counter'
    mapped=pa.bool_(),
)
QUARANTINE = _table(
    "quarantine",
    ("job", "source"),
    file=_TEXT,
    line=_WHOLE,
    byte_offset=_WHOLE,  # in the decompressed content
    reason=_TEXT,
    excerpt=_TEXT,
    samples=_WHOLE,  # how many samples the row stands for: sums to the file's quarantined count
)
SOURCES = _table(
    "sources",
    ("job", "source"),
    file=_TEXT,
    format=_TEXT,
    digest=_TEXT,
    bytes=_WHOLE,
    read=_WHOLE,
    kept=_WHOLE,
    masked=_WHOLE,
    quarantined=_WHOLE,
    unmapped=_WHOLE,
    first_ts=TIMESTAMP,
    last_ts=TIMESTAMP,
    remarks=_TEXT,  # one per line
)
JOB_OBSERVATIONS = _table(
    "job_observations",
    ("job", "day"),
    ts=TIMESTAMP,
    workload_per_s=_REAL,
    throughput_per_s=_REAL,
    consumer_lag_records=_REAL,
    latency_p95_ms=_REAL,
    scale_out=_REAL,
    uptime_s=_REAL,
    cpu_load_mean=_REAL,
    cpu_load_max=_REAL,
    workers_reporting=_WHOLE,
)
WORKER_OBSERVATIONS = _table(
    "worker_observations", ("job", "day"), ts=TIMESTAMP, worker=_TEXT, throughput_per_s=_REAL, cpu_load=_REAL
)
WORKLOAD_FEATURES = _table("workload_features", ("job", "day"), ts=TIMESTAMP, workload_per_s=_REAL)
CAPACITY_FEATURES = _table(
    "capacity_features",
    ("job", "day"),
    ts=TIMESTAMP,
    worker=_TEXT,
    scale_out=_REAL,
    cpu_load=_REAL,
    throughput_per_s=_REAL,
    cpu_share=_REAL,
    throughput_share=_REAL,
)

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        SAMPLES, SERIES, QUARANTINE, SOURCES, JOB_OBSERVATIONS, WORKER_OBSERVATIONS, WORKLOAD_FEATURES,
        CAPACITY_FEATURES,
    )
}  # fmt: skip

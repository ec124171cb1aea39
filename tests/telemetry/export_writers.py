"""Exports written for tests, one function per format; each returns the file's bytes."""

from __future__ import annotations

import gzip
import io
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq


@dataclass(frozen=True)
class Written:
    """A series to write; times in milliseconds."""

    name: str
    labels: dict[str, str] = field(default_factory=dict)
    samples: tuple[tuple[int, float], ...] = ()


def as_prometheus(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)


def as_seconds(time_ms: int) -> str:
    return str(time_ms // 1000) if time_ms % 1000 == 0 else f"{time_ms / 1000:.3f}"


def query_range(series: Sequence[Written], *, indent: int | None = None, sort_keys: bool = False) -> bytes:
    result = [
        {
            "metric": {"__name__": stream.name, **stream.labels} if stream.name else stream.labels,
            "values": [[json.loads(as_seconds(at)), as_prometheus(value)] for at, value in stream.samples],
        }
        for stream in series
    ]
    document = {"status": "success", "data": {"resultType": "matrix", "result": result}}
    separators = None if indent else (",", ":")
    return json.dumps(document, separators=separators, indent=indent, sort_keys=sort_keys).encode()


def victoriametrics(series: Sequence[Written]) -> bytes:
    lines = []
    for stream in series:
        values = []
        for _, value in stream.samples:
            if math.isnan(value):
                values.append(None)
            elif math.isinf(value):
                values.append("Infinity" if value > 0 else "-Infinity")
            else:
                values.append(value)
        times = [at for at, _ in stream.samples]
        line = {"metric": {"__name__": stream.name, **stream.labels}, "values": values, "timestamps": times}
        lines.append(json.dumps(line, separators=(",", ":")))
    return ("\n".join(lines) + "\n").encode()


def _label_text(labels: dict[str, str]) -> str:
    escaped = {
        name: value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") for name, value in labels.items()
    }
    return ",".join(f'{name}="{value}"' for name, value in escaped.items())


def openmetrics(series: Sequence[Written]) -> bytes:
    lines = []
    for stream in series:
        head = f"{stream.name}{{{_label_text(stream.labels)}}}" if stream.labels else stream.name
        lines += [f"{head} {as_prometheus(value)} {as_seconds(at)}" for at, value in stream.samples]
    return ("\n".join([*lines, "# EOF"]) + "\n").encode()


def tsdb_dump(series: Sequence[Written]) -> bytes:
    lines = []
    for stream in series:
        head = "{" + _label_text({"__name__": stream.name, **stream.labels}) + "}"
        lines += [f"{head} {as_prometheus(value)} {at}" for at, value in stream.samples]
    return ("\n".join(lines) + "\n").encode()


def grafana_csv(series: Sequence[Written]) -> bytes:
    """A column per series, titled by its legend; rows are the union of all times."""
    titles = [stream.labels.get("column") or f"{stream.name}{{{_label_text(stream.labels)}}}" for stream in series]
    cells: dict[int, dict[int, float]] = {}
    for column, stream in enumerate(series):
        for at, value in stream.samples:
            cells.setdefault(at, {})[column] = value
    quoted = [title.replace('"', '""') for title in titles]
    lines = ["Time," + ",".join(f'"{title}"' for title in quoted)]
    for at, found in cells.items():
        row = [as_prometheus(found[column]) if column in found else "" for column in range(len(series))]
        moment = datetime.fromtimestamp(at / 1000, UTC)
        lines.append(f"{moment:%Y-%m-%d %H:%M:%S}.{at % 1000:03d}," + ",".join(row))
    return b"\xef\xbb\xbf" + ("\n".join(lines) + "\n").encode()


def parquet(series: Sequence[Written]) -> bytes:
    rows = [
        {"ts": at, "metric": stream.name, "value": value, "labels": json.dumps(stream.labels)}
        for stream in series
        for at, value in stream.samples
    ]
    schema = pa.schema(
        [("ts", pa.timestamp("ms", "UTC")), ("metric", pa.string()), ("value", pa.float64()), ("labels", pa.string())]
    )
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), sink)
    return sink.getvalue()


WRITERS: dict[str, Callable[[Sequence[Written]], bytes]] = {
    "query_range": query_range,
    "victoriametrics": victoriametrics,
    "openmetrics": openmetrics,
    "tsdb_dump": tsdb_dump,
    "csv": grafana_csv,
    "parquet": parquet,
}
FORMATS = {name: "openmetrics" if name == "tsdb_dump" else name for name in WRITERS}


def gzipped(content: bytes) -> bytes:
    return gzip.compress(content, compresslevel=1, mtime=0)

"""Writing series the way that real tools export them: five formats, plain or gzip."""

import gzip
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from perdix.telemetry.exports.victoriametrics import victoriametrics_line
from perdix.telemetry.query_text import escaped
from perdix.telemetry.series import Series

Write = Callable[[Sequence[Series], Path], None]


def _query_range(series: Iterable[Series]) -> Iterator[str]:
    """Yield what ``GET /api/v1/query_range`` answers: a matrix, seconds and values as text."""
    result = [
        {
            "metric": _labels(entry),
            "values": [[time_ms / 1000.0, prometheus_text(value)] for time_ms, value in _samples(entry)],
        }
        for entry in series
    ]
    answer = {"status": "success", "data": {"resultType": "matrix", "result": result}}
    yield json.dumps(answer, separators=(",", ":"))


def _victoria_metrics(series: Iterable[Series]) -> Iterator[str]:
    """Yield what VictoriaMetrics' ``/api/v1/export`` answers: a JSON object per series and line; NaN is ``null``."""
    return map(victoriametrics_line, series)


def _openmetrics(series: Iterable[Series]) -> Iterator[str]:
    """Yield what ``promtool tsdb dump-openmetrics`` prints: ``name{labels} value seconds``, then ``# EOF``."""
    for entry in series:
        name = f"{entry.metric}{{{','.join(_pairs(entry.labels.items()))}}}" if entry.labels else entry.metric
        for time_ms, value in _samples(entry):
            yield f"{name} {prometheus_text(value)} {time_ms / 1000.0:.3f}\n"
    yield "# EOF\n"


def _tsdb_dump(series: Iterable[Series]) -> Iterator[str]:
    """Yield what ``promtool tsdb dump`` prints: ``{__name__="name", labels} value milliseconds``."""
    for entry in series:
        labels = ", ".join(_pairs(sorted(_labels(entry).items())))
        for time_ms, value in _samples(entry):
            yield f"{{{labels}}} {prometheus_text(value)} {time_ms}\n"


def write_grafana_csv(series: Sequence[Series], path: Path) -> None:
    """Write what Grafana's panel inspector saves: a ``Time`` column (UTC, whole seconds) and a column per series.

    A column is headed by the series as Prometheus writes it, which is Grafana's legend unless someone changed it.

    Raises ``ValueError`` when the series are not all of one metric: a panel shows one.
    """
    names = {entry.metric for entry in series}
    if len(names) > 1:
        raise ValueError(f"a Grafana panel shows one metric, these are {len(names)}: {', '.join(sorted(names))}")
    rows: dict[tuple[int, int], list[str]] = {}
    for column, entry in enumerate(series):
        for place, value in _by_second(entry):
            rows.setdefault(place, [""] * len(series))[column] = prometheus_text(value)
    header = ",".join(_quoted(cell) for cell in ("Time", *(_legend(entry) for entry in series)))
    times = {second: datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%d %H:%M:%S") for second, _ in rows}
    lines = (",".join((times[place[0]], *rows[place])) for place in sorted(rows))
    _write(path, [f"\ufeff{header}\n", *(f"{line}\n" for line in lines)])


def write_parquet(series: Sequence[Series], path: Path) -> None:
    """Write the canonical form: columns ``metric, worker, labels, ts, value``; a value may be NaN.

    ``gzip`` is Parquet's own codec, chosen by the ending ``.gz`` as for the other formats.
    """
    table = pa.concat_tables([_arrow(entry) for entry in series]) if series else _ARROW_SCHEMA.empty_table()
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, compression="gzip" if path.suffix == ".gz" else "zstd")


WRITERS: Final[dict[str, tuple[str, Write]]] = {
    "query-range": (".json", lambda series, path: _write(path, _query_range(series))),
    "victoria-metrics": (".jsonl", lambda series, path: _write(path, _victoria_metrics(series))),
    "openmetrics": (".om", lambda series, path: _write(path, _openmetrics(series))),
    "tsdb-dump": (".dump", lambda series, path: _write(path, _tsdb_dump(series))),
    "grafana-csv": (".csv", write_grafana_csv),
    "parquet": (".parquet", write_parquet),
}


def write_exports(series: Sequence[Series], folder: Path, form: str, stem: str, *, gzipped: bool = False) -> list[Path]:
    """Write all series in one form under ``folder``; return the files, one per metric for ``grafana-csv``.

    Raises ``ValueError`` when the form is not known.
    """
    if form not in WRITERS:
        raise ValueError(f"unknown export form {form!r}; known: {', '.join(WRITERS)}")
    ending, write = WRITERS[form]
    ending += ".gz" if gzipped and form != "parquet" else ""
    if form != "grafana-csv":
        path = folder / f"{stem}{ending}"
        write(series, path)
        return [path]
    written = []
    for metric in sorted({entry.metric for entry in series}):
        path = folder / f"{stem}-{metric}{ending}"
        write([entry for entry in series if entry.metric == metric], path)
        written.append(path)
    return written


def prometheus_text(value: float) -> str:
    """Return a value as Prometheus writes it: shortest exact digits, ``NaN``, ``+Inf``, ``-Inf``."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


_ARROW_SCHEMA = pa.schema(
    [
        ("metric", pa.string()),
        ("worker", pa.string()),
        ("labels", pa.string()),
        ("ts", pa.timestamp("us", tz="UTC")),
        ("value", pa.float64()),
    ]
)


def _arrow(entry: Series) -> pa.Table:
    count = len(entry)
    columns = [
        pa.array([entry.metric] * count, pa.string()),
        pa.array([entry.worker] * count, pa.string()),
        pa.array([json.dumps(dict(sorted(entry.labels.items())))] * count, pa.string()),
        pa.array(entry.times_ms * 1000, pa.timestamp("us", tz="UTC")),
        pa.array(entry.values, pa.float64()),
    ]
    return pa.table(columns, schema=_ARROW_SCHEMA)


def _samples(entry: Series) -> Iterator[tuple[int, float]]:
    return zip(entry.times_ms.tolist(), entry.values.tolist(), strict=True)


def _labels(entry: Series) -> dict[str, str]:
    return {"__name__": entry.metric, **entry.labels}


def _pairs(labels: Iterable[tuple[str, str]]) -> list[str]:
    return [f'{label}="{escaped(value)}"' for label, value in labels]


def _legend(entry: Series) -> str:
    return f"{entry.metric}{{{', '.join(_pairs(entry.labels.items()))}}}"


def _by_second(entry: Series) -> Iterator[tuple[tuple[int, int], float]]:
    """Give each sample its second, and which one within that second it is, so that none overwrites another."""
    before, count = -1, 0
    for time_ms, value in _samples(entry):
        second = time_ms // 1000
        before, count = second, count + 1 if second == before else 0
        yield (second, count), value


def _quoted(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"'


def _write(path: Path, lines: Iterable[str]) -> None:
    """Write UTF-8 text, gzipped where the name ends with ``.gz`` (without a date, so that bytes repeat)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        if path.suffix != ".gz":
            file.writelines(line.encode() for line in lines)
            return
        with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
            packed.writelines(line.encode() for line in lines)

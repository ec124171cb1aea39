"""Forms of exports beside those that a demo writes, for benchmarks and tests: plain files, and three more formats."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from perdix.telemetry.series import Series
from perdix.twin.exports import FORMS, Lines, labels_of, pairs_of, prometheus_text, samples_of, write_packed


def _tsdb_dump(series: Iterable[Series]) -> Iterator[str]:
    """Yield what ``promtool tsdb dump`` prints: ``{__name__="name", labels} value milliseconds``."""
    for entry in series:
        labels = ", ".join(pairs_of(dict(sorted(labels_of(entry).items()))))
        for time_ms, value in samples_of(entry):
            yield f"{{{labels}}} {prometheus_text(value)} {time_ms}\n"


def grafana_csv(series: Iterable[Series]) -> Iterator[str]:
    """Yield what Grafana's panel inspector saves: a ``Time`` column (UTC, whole seconds) and a column per series.

    A column is headed by the series as Prometheus writes it, which is Grafana's legend unless someone changed it.
    """
    series = list(series)
    rows: dict[tuple[int, int], list[str]] = {}
    for column, entry in enumerate(series):
        for place, value in _by_second(entry):
            rows.setdefault(place, [""] * len(series))[column] = prometheus_text(value)
    yield "\ufeff" + ",".join(_quoted(cell) for cell in ("Time", *map(_legend, series))) + "\n"
    for place in sorted(rows):
        time = datetime.fromtimestamp(place[0], UTC).strftime("%Y-%m-%d %H:%M:%S")
        yield ",".join((time, *rows[place])) + "\n"


WRITERS: Final[Mapping[str, tuple[str, Lines]]] = {
    **FORMS,
    "tsdb-dump": (".dump", _tsdb_dump),
    "grafana-csv": (".csv", grafana_csv),
}
PARQUET: Final = "parquet"
ALL_FORMS: Final = (*WRITERS, PARQUET)


def write_exports(series: Sequence[Series], folder: Path, form: str, stem: str, *, gzipped: bool = False) -> list[Path]:
    """Write all series in one of :data:`ALL_FORMS` under ``folder``; return the files.

    Those are one per metric for ``grafana-csv``, whose panels show one.
    """
    if form == PARQUET:
        return [_write_parquet(series, folder / f"{stem}.parquet")]
    ending, lines = WRITERS[form]
    metrics = sorted({entry.metric for entry in series})
    parts = {f"{stem}-{name}": [entry for entry in series if entry.metric == name] for name in metrics}
    written = []
    for name, some in parts.items() if form == "grafana-csv" else [(stem, series)]:
        path = folder / f"{name}{ending}{'.gz' if gzipped else ''}"
        if gzipped:
            write_packed(path, lines(some))
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(lines(some)), encoding="utf-8", newline="")
        written.append(path)
    return written


_ARROW_SCHEMA = pa.schema(
    [
        ("metric", pa.string()),
        ("worker", pa.string()),
        ("labels", pa.string()),
        ("ts", pa.timestamp("us", tz="UTC")),
        ("value", pa.float64()),
    ]
)


def _write_parquet(series: Sequence[Series], path: Path) -> Path:
    """Write the canonical form: columns ``metric, worker, labels, ts, value``; a value may be NaN."""
    table = pa.concat_tables([_arrow(entry) for entry in series]) if series else _ARROW_SCHEMA.empty_table()
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, compression="zstd")
    return path


def _arrow(entry: Series) -> pa.Table:
    count = len(entry)
    columns = {
        "metric": [entry.metric] * count,
        "worker": [entry.worker] * count,
        "labels": [json.dumps(dict(sorted(entry.labels.items())))] * count,
        "ts": entry.times_ms * 1000,
        "value": entry.values,
    }
    return pa.table(columns, schema=_ARROW_SCHEMA)


def _legend(entry: Series) -> str:
    return f"{entry.metric}{{{', '.join(pairs_of(entry.labels))}}}"


def _by_second(entry: Series) -> Iterator[tuple[tuple[int, int], float]]:
    """Give each sample its second, and which one within that second it is, so that none overwrites another."""
    before, count = -1, 0
    for time_ms, value in samples_of(entry):
        second = time_ms // 1000
        before, count = second, count + 1 if second == before else 0
        yield (second, count), value


def _quoted(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"'

"""Writing series the way that real tools export them: three formats, gzipped."""

import gzip
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from perdix.telemetry.exports.victoriametrics import victoriametrics_line
from perdix.telemetry.query_text import escaped
from perdix.telemetry.series import Series

Lines = Callable[[Iterable[Series]], Iterator[str]]


def _query_range(series: Iterable[Series]) -> Iterator[str]:
    """Yield what ``GET /api/v1/query_range`` answers: a matrix, seconds and values as text."""
    result = [
        {
            "metric": labels_of(entry),
            "values": [[time_ms / 1000.0, prometheus_text(value)] for time_ms, value in samples_of(entry)],
        }
        for entry in series
    ]
    answer = {"status": "success", "data": {"resultType": "matrix", "result": result}}
    yield json.dumps(answer, separators=(",", ":"))


def _openmetrics(series: Iterable[Series]) -> Iterator[str]:
    """Yield what ``promtool tsdb dump-openmetrics`` prints: ``name{labels} value seconds``, then ``# EOF``."""
    for entry in series:
        name = f"{entry.metric}{{{','.join(pairs_of(entry.labels))}}}" if entry.labels else entry.metric
        for time_ms, value in samples_of(entry):
            yield f"{name} {prometheus_text(value)} {time_ms / 1000.0:.3f}\n"
    yield "# EOF\n"


FORMS: Final[Mapping[str, tuple[str, Lines]]] = {  # name -> how files end, and their lines
    "query-range": (".json", _query_range),
    "victoria-metrics": (".jsonl", lambda series: map(victoriametrics_line, series)),
    "openmetrics": (".om", _openmetrics),
}


def write_export(series: Iterable[Series], folder: Path, form: str, stem: str) -> Path:
    """Write all series in one of :data:`FORMS` under ``folder``, gzipped, and return the file."""
    ending, lines = FORMS[form]
    path = folder / f"{stem}{ending}.gz"
    write_packed(path, lines(series))
    return path


def write_packed(path: Path, lines: Iterable[str]) -> None:
    """Write UTF-8 text, gzipped without a date, so that bytes repeat."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file, gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
        packed.writelines(line.encode() for line in lines)


def prometheus_text(value: float) -> str:
    """Return a value as Prometheus writes it: shortest exact digits, ``NaN``, ``+Inf``, ``-Inf``."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def labels_of(entry: Series) -> dict[str, str]:
    """Return a series' labels, its name among them."""
    return {"__name__": entry.metric, **entry.labels}


def samples_of(entry: Series) -> Iterator[tuple[int, float]]:
    """Yield epoch milliseconds and values."""
    return zip(entry.times_ms.tolist(), entry.values.tolist(), strict=True)


def pairs_of(labels: Mapping[str, str]) -> list[str]:
    """Return labels as Prometheus writes them: ``name="value"``."""
    return [f'{label}="{escaped(value)}"' for label, value in labels.items()]

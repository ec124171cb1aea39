"""Read one export (or a slice of it) and stage it as Parquet: what one Spark task does, with no Spark in it."""

from __future__ import annotations

import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from perdix.settings.stored import restored
from perdix.telemetry.exports.csv_table import COLUMN
from perdix.telemetry.exports.naming import Hint, Naming
from perdix.telemetry.exports.reading import ExportReading, file_stem
from perdix.telemetry.exports.records import Limits, NamedSeries
from perdix.telemetry.mixed_jobs import JobSpan, Stretch, joined, stretches
from perdix.telemetry.queries import SeriesMap
from perdix.telemetry.tables import QUARANTINE, SERIES, TIMESTAMP

_EPOCH = date(1970, 1, 1)
_HELD_ROWS = 1 << 20
_MOST_DAYS = 3_660
_MOST_STRETCHES = 1_000  # of a series, until they are joined


@dataclass(frozen=True)
class ExportPart:
    """A file, or the slice of it from byte ``start`` to ``end``."""

    path: str
    file: str  # its name for people
    source: str  # its partition in the lake
    start: int = 0
    end: int | None = None


@dataclass(frozen=True)
class Receipt:
    """What became of one part; the staged files are Parquet in the columns of the lake's tables."""

    source: str
    file: str
    start: int
    format: str
    digest: str
    bytes: int
    kept: int
    masked: int
    quarantined: int
    first_ms: int | None
    last_ms: int | None
    seconds: float
    remarks: list[str]
    samples: dict[str, list[str]]  # day -> staged files
    series: str
    quarantine: str
    job_spans: list[JobSpan]

    def to_json(self) -> str:
        """Return the receipt as it travels through Spark."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Receipt:
        """Return the receipt that :meth:`to_json` wrote."""
        return restored(cls, json.loads(text))


def stage_part(part: ExportPart, staging: Path, series_map: SeriesMap, hint: Hint, limits: Limits) -> Receipt:
    """Read ``part`` and write its samples, series and quarantined rows under ``staging``.

    The folder is new for each call, so that a task which Spark repeats never meets its own leftovers; only what a
    receipt names is ever used. What cannot be read is in the receipt, not raised.
    """
    began = time.perf_counter()
    folder = Path(tempfile.mkdtemp(dir=staging))
    reading = ExportReading(
        Path(part.path), Naming(series_map, hint, file_stem(part.file)), limits, part.file, part.start, part.end
    )
    staged = _Staged(folder, series_map)
    for named in reading.series():
        refused = staged.add(named)
        if refused:
            reading.refuse(refused, f"samples on more than {_MOST_DAYS} days; their times cannot be right")
    staged.flush(0)
    series, quarantine = folder / "series.parquet", folder / "quarantine.parquet"
    pq.write_table(_series_table(staged.series), series)
    pq.write_table(pa.Table.from_pylist(list(map(asdict, reading.quarantined)), schema=QUARANTINE.columns), quarantine)
    return Receipt(
        source=part.source,
        file=reading.file,
        start=part.start,
        format=reading.format,
        digest=reading.digest,
        bytes=_size(part),
        kept=reading.tally.kept,
        masked=reading.tally.masked,
        quarantined=reading.tally.quarantined,
        first_ms=staged.first_ms,
        last_ms=staged.last_ms,
        seconds=round(time.perf_counter() - began, 4),
        remarks=reading.remarks,
        samples={
            (_EPOCH + timedelta(days=day)).isoformat(): [str(path) for path in paths]
            for day, paths in staged.files.items()
        },
        series=str(series),
        quarantine=str(quarantine),
        job_spans=staged.job_spans(),
    )


@dataclass
class _Staged:
    """Samples on their way into one file or more per day; holds about a million rows at most."""

    folder: Path
    series_map: SeriesMap
    files: dict[int, list[Path]] = field(default_factory=lambda: defaultdict(list))
    series: dict[int, NamedSeries] = field(default_factory=dict)
    first_ms: int | None = None
    last_ms: int | None = None
    _held: dict[int, list[NamedSeries]] = field(default_factory=dict)
    _rows: dict[int, int] = field(default_factory=dict)  # held rows of each day that was ever met
    _total: int = 0
    _stretches: dict[int, list[Stretch]] = field(default_factory=lambda: defaultdict(list))  # of each mapped series

    def job_spans(self) -> list[JobSpan]:
        """Return when each metric had which value of the labels that tell jobs apart, and series of which titles."""
        found: defaultdict[tuple[str, str, str, str], list[Stretch]] = defaultdict(list)
        for identity, own in self._stretches.items():
            named = self.series[identity]
            for label, value in self.series_map.job_labels(named.name, named.series.labels).items():
                found[named.series.metric, named.name, label, value] += joined(own)
            if (title := named.series.labels.get(COLUMN)) is not None:
                found[named.series.metric, named.series.worker or "", COLUMN, title] += joined(own)
        return [JobSpan(*key, stretch) for key, some in found.items() for stretch in joined(some)]

    def add(self, named: NamedSeries) -> list[NamedSeries]:
        """Take a run of samples; return the part of it that is on one day too many."""
        refused = []
        for day, part in split_by_day(named):
            if day not in self._rows and len(self._rows) >= _MOST_DAYS:
                refused.append(part)
                continue
            self._held.setdefault(day, []).append(part)
            self._rows[day] = self._rows.get(day, 0) + len(part.series)
            self._total += len(part.series)
            self._note(part)
        if self._total > _HELD_ROWS:
            self.flush(_HELD_ROWS // 2)
        return refused

    def flush(self, keep_rows: int) -> None:
        """Write the fullest days until at most ``keep_rows`` rows are held."""
        for day in sorted(self._rows, key=lambda day: -self._rows[day]):
            if self._total <= keep_rows:
                break
            path = self.folder / f"{day}-{len(self.files[day])}.parquet"
            pq.write_table(sample_rows(self._held.pop(day)), path, **PARQUET)
            self.files[day].append(path)
            self._total -= self._rows[day]
            self._rows[day] = 0

    def _note(self, part: NamedSeries) -> None:
        known = self.series.setdefault(part.series_id, part)
        if part.series.kind != known.series.kind:  # a counter that was announced only after its first samples
            self.series[part.series_id] = part
        if part.mapped:
            own = self._stretches[part.series_id]
            own += stretches(part.series.times_ms)
            if len(own) > _MOST_STRETCHES:
                own[:] = joined(own)
        first, last = int(part.series.times_ms.min()), int(part.series.times_ms.max())
        self.first_ms = first if self.first_ms is None else min(first, self.first_ms)
        self.last_ms = last if self.last_ms is None else max(last, self.last_ms)


def _size(part: ExportPart) -> int:
    try:
        size = Path(part.path).stat().st_size
    except OSError:
        return 0
    return (size if part.end is None else min(part.end, size)) - part.start


def _series_table(series: dict[int, NamedSeries]) -> pa.Table:
    rows: list[dict[str, Any]] = [
        {
            "series_id": identity,
            "metric": named.series.metric,
            "worker": named.series.worker,
            "name": named.name,
            "labels": json.dumps(dict(sorted(named.series.labels.items())), ensure_ascii=False),
            "kind": named.series.kind,
            "mapped": named.mapped,
        }
        for identity, named in series.items()
    ]
    return pa.Table.from_pylist(rows, schema=SERIES.columns)


DAY_MS = 86_400_000
STALE_NAN = 0x7FF0000000000002  # the NaN by which Prometheus ends a series
_MASKS = pa.array(["nan", "inf", "stale"])
_NAN, _INF, _STALE = 0, 1, 2

# Dictionaries where values repeat; deltas for time, which only grows: two thirds of the size, and faster.
PARQUET = {
    "compression": "zstd",
    "use_dictionary": ["series_id", "metric", "worker", "mask"],
    "column_encoding": {"ts": "DELTA_BINARY_PACKED"},
    "store_schema": False,
}


def sample_rows(runs: Sequence[NamedSeries]) -> pa.Table:
    """Return the rows of ``runs`` in their order; repeated texts are dictionary-encoded.

    A value that is no finite number is null, and ``mask`` says why: ``nan``, ``inf`` or ``stale``.
    """
    lengths = [len(run.series) for run in runs]
    values = np.concatenate([run.series.values for run in runs])
    times_us = np.concatenate([run.series.times_ms for run in runs]) * 1000
    unusable = ~np.isfinite(values)
    return pa.table(
        {
            "series_id": np.repeat(np.array([run.series_id for run in runs], dtype=np.int64), lengths),
            "metric": _repeated([run.series.metric for run in runs], lengths),
            "worker": _repeated([run.series.worker for run in runs], lengths),
            "ts": pa.array(times_us).cast(TIMESTAMP),
            "value": pa.array(values, mask=unusable),
            "mask": pa.DictionaryArray.from_arrays(pa.array(_mask_codes(values), mask=~unusable), _MASKS),
        }
    )


def split_by_day(named: NamedSeries) -> list[tuple[int, NamedSeries]]:
    """Return the run cut at UTC midnights: day since 1970 and the samples of that day, in their order."""
    days = named.series.times_ms // DAY_MS
    first = int(days[0])
    if int(days[-1]) == first and bool(np.all(days == first)):
        return [(first, named)]
    return [(int(day), _part(named, days == day)) for day in np.unique(days)]


def _part(named: NamedSeries, chosen: NDArray[np.bool_]) -> NamedSeries:
    series = named.series
    part = type(series)(
        series.metric, series.worker, series.times_ms[chosen], series.values[chosen], series.labels, series.kind
    )
    return NamedSeries(part, named.name, named.series_id, named.mapped)


def _repeated(texts: Sequence[str | None], lengths: Sequence[int]) -> pa.DictionaryArray:
    encoded = pa.array(texts, pa.string()).dictionary_encode()
    return encoded.take(pa.array(np.repeat(np.arange(len(texts)), lengths)))


def _mask_codes(values: NDArray[np.float64]) -> NDArray[np.int32]:
    codes = np.where(np.isinf(values), _INF, _NAN)
    codes[values.view(np.uint64) == STALE_NAN] = _STALE
    return codes.astype(np.int32)

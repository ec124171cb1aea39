"""Read one export, or a slice of it: choose the format, name the series, count every sample."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np

from perdix.settings.moments import moment
from perdix.settings.outside_text import printable
from perdix.telemetry.exports.content import Content
from perdix.telemetry.exports.csv_table import CsvReader
from perdix.telemetry.exports.detect import SNIFF_BYTES, Format, detect
from perdix.telemetry.exports.exposition import ExpositionReader
from perdix.telemetry.exports.matrix import MatrixReader
from perdix.telemetry.exports.naming import Naming
from perdix.telemetry.exports.parquet_table import read_parquet
from perdix.telemetry.exports.records import (
    Limits,
    NamedSeries,
    Quarantined,
    QuarantineLog,
    RawSeries,
    Remark,
    Tally,
    excerpt,
)
from perdix.telemetry.exports.victoriametrics import read_victoriametrics

_FUTURE: Final = (
    "samples lie more than five minutes in the future; correct the clock that wrote them, or this machine's,"
    " or name the zone of their times (--timezone), and ingest again"
)
Found = Iterator[RawSeries | Quarantined | Remark]


@dataclass
class ExportReading:
    """One pass over one file (or slice of it): iterate :meth:`series` once, then look at the rest."""

    path: Path
    naming: Naming
    limits: Limits = field(default_factory=Limits)
    file: str = ""
    start: int = 0
    end: int | None = None
    format: str = "unknown"  # what the file was read as; ``unknown`` where none fits
    digest: str = ""  # SHA-256 of the stored bytes, after the pass
    tally: Tally = field(default_factory=Tally)  # counts so far; ``read == kept + masked + quarantined``
    remarks: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.file = printable(self.file or self.path.name)
        self._log = QuarantineLog(self.file, self.limits.quarantine_rows)

    @property
    def quarantined(self) -> list[Quarantined]:
        """What could not be read; per reason at most ``limits.quarantine_rows``, then one row for the rest."""
        return list(self._log.closed())

    def series(self) -> Iterator[NamedSeries]:
        """Yield runs of series; whatever goes wrong is counted and logged, never raised."""
        try:
            with Content(self.path, self.start, self.end) as content:
                yield from self._read(content)
                self.digest = content.digest()
        except OSError as error:
            self._quarantine(Quarantined(f"cannot be opened: '{error.strerror or error}'"))

    def refuse(self, runs: Sequence[NamedSeries], reason: str) -> None:
        """Count samples that were yielded and could not be stored as quarantined instead."""
        samples, finite = sum(len(run.series) for run in runs), sum(_finite(run) for run in runs)
        self.tally.kept -= finite
        self.tally.masked -= samples - finite
        self._quarantine(Quarantined(reason, samples=samples))

    def _read(self, content: Content) -> Iterator[NamedSeries]:
        try:
            for found in self._found(content):
                if isinstance(found, RawSeries):
                    past = self._past(found)
                    if past is not None:
                        yield self._count(self.naming.name(past))
                elif isinstance(found, Quarantined):
                    self._quarantine(found)
                else:
                    self.remarks.append(found.text)
        except OSError as error:
            self._quarantine(Quarantined(f"cannot be read to its end: '{error.strerror or error}'"))
        except Exception as error:  # a defect of a reader must not cost the other files
            self._quarantine(
                Quarantined(f"the reader failed on it: '{type(error).__name__}: {error}'; please report it")
            )

    def _past(self, raw: RawSeries) -> RawSeries | None:
        """Return the run without its samples from the future, which are quarantined; ``None`` where none is left."""
        latest_ms, times_ms = self.limits.latest_ms, raw.times_ms
        if latest_ms is None or not len(times_ms) or times_ms.max() <= latest_ms:
            return raw
        ahead = times_ms > latest_ms
        first, last = (moment(int(at_ms) / 1000) for at_ms in (times_ms[ahead].min(), times_ms[ahead].max()))
        what = printable(f"{raw.name or 'unnamed'}, {first} to {last}")
        self._quarantine(Quarantined(_FUTURE, excerpt=what, samples=int(ahead.sum())))
        return None if ahead.all() else replace(raw, times_ms=times_ms[~ahead], values=raw.values[~ahead])

    def _found(self, content: Content) -> Found:
        head = content.peek(SNIFF_BYTES)
        chosen = detect(head) if self.start == 0 else self._format_of_file()
        if not isinstance(chosen, Format):
            reason = content.damage.reason if content.damage and not head else chosen
            return iter([Quarantined(reason, 1, 0, excerpt(head))])
        self.format = chosen.value
        return self._reader(chosen, content)

    def _format_of_file(self) -> Format | str:
        with Content(self.path) as content:
            return detect(content.peek(SNIFF_BYTES))

    def _reader(self, chosen: Format, content: Content) -> Found:
        if chosen is Format.QUERY_RANGE:
            return MatrixReader(content, self.limits).read()
        if chosen is Format.VICTORIAMETRICS:
            return read_victoriametrics(content, self.limits)
        if chosen is Format.OPENMETRICS:
            return ExpositionReader(content, self.limits).read()
        if chosen is Format.CSV:
            return CsvReader(content, self.limits, self.naming.hint.timezone).read()
        return read_parquet(content, self.limits, self.naming.hint.timezone)

    def _count(self, named: NamedSeries) -> NamedSeries:
        finite = _finite(named)
        self.tally.kept += finite
        self.tally.masked += len(named.series) - finite
        if named.remark and named.remark not in self.remarks:
            self.remarks.append(named.remark)
        return named

    def _quarantine(self, row: Quarantined) -> None:
        self.tally.quarantined += row.samples
        self._log.add(row)


def _finite(named: NamedSeries) -> int:
    return int(np.count_nonzero(np.isfinite(named.series.values)))


def file_stem(name: str) -> str:
    """Return a file's name without its endings: ``cpu_1`` of ``cpu_1.csv.gz``."""
    stem = Path(name).name
    for _ in range(2):
        base, dot, ending = stem.rpartition(".")
        if dot and base and len(ending) <= 8:
            stem = base
    return stem

"""What a reader yields: series, remarks, and what had to be put into quarantine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from perdix.settings.outside_text import printable
from perdix.telemetry.series import Kind, Series

EXCERPT_BYTES = 120
MOST_AHEAD_S = 300.0


@dataclass(frozen=True)
class Limits:
    """Bounds that keep one bad file from taking the machine's memory.

    ``line_bytes``: longest line (of a line-based format) or series (of a JSON document) that is held in memory.
    ``document_bytes``: largest document, decompressed, that can only be read whole (unusual JSON, gzipped Parquet).
    ``quarantine_rows``: rows kept per file and reason; the rest is counted in one closing row, so that the counts still
    add up.
    ``latest_ms``: samples later than this lie in the future: a day of them would hide the history of its job. ``None``:
    no bound.
    """

    line_bytes: int = 64 << 20
    document_bytes: int = 1 << 30
    quarantine_rows: int = 200
    latest_ms: int | None = None

    @classmethod
    def until(cls, now_s: float) -> Limits:
        """Return the usual bounds at a moment (epoch seconds): clocks may differ by five minutes."""
        return cls(latest_ms=round(1000 * (now_s + MOST_AHEAD_S)))


@dataclass(frozen=True)
class RawSeries:
    """A run of samples of one series under the exporter's names; a series may come in many runs.

    ``name`` is empty where the export has none (a CSV column, the result of an expression).
    ``beside``: titles of the table whose column it is.
    """

    name: str
    labels: Mapping[str, str]
    times_ms: NDArray[np.int64]
    values: NDArray[np.float64]
    kind: Kind = "gauge"
    beside: tuple[str, ...] = ()


@dataclass(frozen=True)
class NamedSeries:
    """A run of samples under canonical names."""

    series: Series
    name: str
    series_id: int  # digest of metric, name and labels: the same in every file and slice
    mapped: bool  # false where no canonical metric was found, and ``series.metric`` is the exporter's own name
    remark: str = ""  # what was assumed of it; empty where nothing was


@dataclass(frozen=True)
class Quarantined:
    """Something that could not be read, and where."""

    reason: str  # one plain sentence with the fix where there is one
    # Counted from 1; ``None`` where the format has no lines or the reader began in the middle of the file
    line: int | None = None
    byte_offset: int | None = None  # counted from 0 in the decompressed content
    excerpt: str = ""
    samples: int = 1  # how many samples this stands for: those that could be counted, else 1
    file: str = ""


@dataclass(frozen=True)
class Remark:
    """Something that the user should know of the whole file: an assumption that was made, or that it is empty."""

    text: str


@dataclass
class Tally:
    """Where the samples of one file went; ``read == kept + masked + quarantined``."""

    kept: int = 0
    masked: int = 0
    quarantined: int = 0

    @property
    def read(self) -> int:
        """Samples seen, readable or not."""
        return self.kept + self.masked + self.quarantined


@dataclass
class QuarantineLog:
    """Collects quarantine rows of one file, at most ``limit`` per reason, and counts the rest."""

    file: str
    limit: int
    rows: list[Quarantined] = field(default_factory=list)
    _seen: dict[str, int] = field(default_factory=dict)
    _more: dict[str, int] = field(default_factory=dict)

    def add(self, row: Quarantined) -> None:
        """Keep ``row``, or count its samples when there were many of its reason."""
        reason = printable(row.reason)  # it quotes what the file holds
        kind = reason.partition("'")[0]  # what stands in quotes differs from row to row
        self._seen[kind] = self._seen.get(kind, 0) + 1
        if self._seen[kind] <= self.limit:
            self.rows.append(Quarantined(reason, row.line, row.byte_offset, row.excerpt, row.samples, self.file))
        else:
            self._more[kind] = self._more.get(kind, 0) + row.samples

    def closed(self) -> Iterator[Quarantined]:
        """Yield the rows, then one per reason for those that were only counted."""
        yield from self.rows
        for kind, samples in self._more.items():
            first = next((row.reason for row in self.rows if row.reason.partition("'")[0] == kind), kind.strip())
            yield Quarantined(f"{samples} more like: {first}", samples=samples, file=self.file)


def excerpt(content: bytes) -> str:
    """Return the beginning of ``content`` as visible text on one line."""
    text = content[:EXCERPT_BYTES].decode("utf-8", "backslashreplace")
    shown = "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)
    return shown + ("…" if len(content) > EXCERPT_BYTES else "")

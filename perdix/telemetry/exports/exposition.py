"""Exposition text with timestamps: a sample per line, ``name{labels} value time``.

Read are OpenMetrics (``promtool tsdb dump-openmetrics``, seconds), Prometheus' own text format (milliseconds) and
``promtool tsdb dump`` (``{labels} value milliseconds``). They differ in the unit of time only, which its size tells
(1e11 s is the year 5138, 1e11 ms is 1973). Exemplars are passed over: they are not samples.
"""

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from perdix.telemetry.exports.content import Content
from perdix.telemetry.exports.label_text import parse_series
from perdix.telemetry.exports.lines import Lines, line_blocks
from perdix.telemetry.exports.numbers import FIRST_MS, LAST_MS, SECONDS_BELOW, number, pairs, time_ms
from perdix.telemetry.exports.records import Limits, Quarantined, RawSeries, Remark, excerpt
from perdix.telemetry.series import Kind

_KNOWN_SERIES = 200_000
_COUNTERS = {"counter"}

Times: TypeAlias = NDArray[np.int64]
Values: TypeAlias = NDArray[np.float64]
Owners: TypeAlias = NDArray[np.int64]


class ExpositionReader:
    """Reads one file or slice; iterate once."""

    def __init__(self, content: Content, limits: Limits) -> None:
        self.content = content
        self.limits = limits
        self._names: dict[bytes, tuple[str, dict[str, str]]] = {}
        self._counters: set[str] = set()
        self._repaired = 0

    def read(self) -> Iterator[RawSeries | Quarantined | Remark]:
        """Yield the series, one run per block of the file."""
        for block in line_blocks(self.content, self.limits):
            if isinstance(block, Lines):
                yield from self._block(block)
            else:
                yield block
        if self._repaired:
            yield Remark(f"{self._repaired} series have labels that are not UTF-8; their bytes are shown as \\xNN")

    def _block(self, block: Lines) -> Iterator[RawSeries | Quarantined]:
        lines = block.split()
        codes: dict[bytes, int] = {}  # series as written -> its number within the block
        rows: list[bytes] = []  # b"value,time" of each sample
        owners: list[int] = []  # the series of each sample
        odd: list[int] = []
        where: list[int] = []
        for index, line in enumerate(lines):
            if line.startswith(b"#"):
                self._comment(line)
                continue
            parts = line.rsplit(b" ", 2)
            if len(parts) == 3 and (parts[0] in codes or self._named(parts[0])):
                owners.append(codes.setdefault(parts[0], len(codes)))
                rows.append(parts[1] + b"," + parts[2])
                where.append(index)
            elif line:
                odd.append(index)
        times_ms, values = parse_pairs(b"\n".join(rows), len(rows)) or (None, None)
        if times_ms is None or values is None:
            odd = sorted(odd + where)
        else:
            yield from self._runs(list(codes), np.array(owners, dtype=np.int64), times_ms, values)
        yield from self._one_by_one(block, lines, odd)

    def _runs(self, heads: list[bytes], owners: Owners, times_ms: Times, values: Values) -> Iterator[RawSeries]:
        order = np.argsort(owners, kind="stable")
        bounds = np.searchsorted(owners[order], np.arange(len(heads) + 1))
        for code, head in enumerate(heads):
            mine = order[bounds[code] : bounds[code + 1]]
            named = self._named(head)
            assert named is not None
            yield RawSeries(*named, times_ms[mine], values[mine], self._kind(named[0]))

    def _one_by_one(self, block: Lines, lines: list[bytes], odd: list[int]) -> Iterator[RawSeries | Quarantined]:
        """Read lines that are not written in the usual way: exemplars, tabs, and what is no sample."""
        for index in odd:
            line = lines[index]
            if not line.isspace():
                found = self._sample(line)
                yield found if isinstance(found, RawSeries) else Quarantined(found, *block.place(index), excerpt(line))

    def _sample(self, line: bytes) -> RawSeries | str:
        """Read one line with care; text says what is wrong with it."""
        split = _split(line)
        if isinstance(split, str):
            return split
        head, value_text, time_text = split
        named = self._named(head)
        value, at = number(value_text), _epoch_ms(time_text)
        if named is None:
            return "labels that cannot be read"
        if value is None:
            return f"value '{value_text[:40]}' is not a number"
        if at is None:
            return f"time '{time_text[:40]}' is no epoch time in the years 1 to 9999"
        return RawSeries(*named, np.array([at], dtype=np.int64), np.array([value]), self._kind(named[0]))

    def _kind(self, name: str) -> Kind:
        return "counter" if name in self._counters else "gauge"

    def _named(self, head: bytes) -> tuple[str, dict[str, str]] | None:
        known = self._names.get(head)
        if known is None:
            text = head.decode("utf-8", "backslashreplace")
            parsed = parse_series(text)
            if parsed is None or text[parsed[2] :].strip():
                return None
            if len(self._names) >= _KNOWN_SERIES:
                self._names.clear()
            try:
                head.decode("utf-8")
            except UnicodeDecodeError:
                self._repaired += 1
            known = self._names[head] = parsed[:2]
        return known

    def _comment(self, line: bytes) -> None:
        words = line.decode("utf-8", "backslashreplace").split()
        if len(words) == 4 and words[1] == "TYPE" and words[3] in _COUNTERS:
            self._counters |= {words[2], words[2] + "_total"}


def _split(line: bytes) -> tuple[bytes, str, str] | str:
    """Split a line whose white space or tail is unusual; text says what is wrong."""
    text = line.decode("utf-8", "surrogateescape")
    parsed = parse_series(text)
    if parsed is None:
        return "not a sample: expected name{labels} value time"
    fields = text[parsed[2] :].partition(" # ")[0].split()
    if len(fields) == 1:
        return "a sample without its time; export with 'promtool tsdb dump-openmetrics' or query_range"
    if len(fields) != 2:
        return "not a sample: expected name{labels} value time"
    return text[: parsed[2]].encode("utf-8", "surrogateescape"), fields[0], fields[1]


def parse_pairs(table: bytes, count: int) -> tuple[Times, Values] | None:
    """Parse lines of ``value,time``; ``None`` unless each is a number and an epoch time."""
    columns = pairs(table.replace(b"+Inf,", b"Inf,"), "value", "time", count) if count else None
    if columns is None:
        return None
    times = columns["time"]
    if not np.isfinite(times).all():
        return None
    times_ms = np.rint(times * np.where(np.abs(times) < SECONDS_BELOW, 1000.0, 1.0))
    if not bool(np.all((times_ms >= FIRST_MS) & (times_ms <= LAST_MS))):
        return None
    return times_ms.astype(np.int64), columns["value"]


def _epoch_ms(text: str) -> int | None:
    plain = number(text)
    return None if plain is None else time_ms(plain, 1000.0 if abs(plain) < SECONDS_BELOW else 1.0)

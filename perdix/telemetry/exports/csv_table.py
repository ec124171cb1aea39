"""CSV: Grafana's (``Time`` and a column per series), and long tables (``ts,metric,value``, ``Series;Time;Value``).

An empty cell is no sample: Grafana joins series of different times into one table. A long table may carry a worker
and labels as further columns. A day and its clock (``date,hour``) may stand in columns of their own; row numbers, and
the same time once more, are no series; what only accompanies the values of a long table is no label.
"""

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import starmap

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from perdix.telemetry.exports.content import Content
from perdix.telemetry.exports.label_text import LABELS, label_map, parse_series
from perdix.telemetry.exports.lines import Lines, line_blocks
from perdix.telemetry.exports.long_table import left_out, no_labels
from perdix.telemetry.exports.numbers import ABSENT, number
from perdix.telemetry.exports.records import Limits, Quarantined, RawSeries, Remark, excerpt
from perdix.telemetry.exports.time_text import (
    CLOCK_NAMES,
    TIME_NAMES,
    Times,
    dated_column,
    day_and_clock,
    no_zone,
    parse_times,
    places,
    time_column,
)
from perdix.telemetry.metrics import CANONICAL

COLUMN = "column"  # the label that keeps a plain column header
NAME_NAMES = ("metric", "__name__", "metric_name", "variable", "name", "series")  # the first of them that is there
VALUE_NAME = "value"
WORKER = "worker"
ROW_NUMBERS = frozenset({"", "unnamed: 0", "unnamed: 0.1"})  # as pandas titles its index
_SAME_TIME_MS = 86_400_000  # two columns of times may be in different zones, or one of days alone
ALWAYS_LABELS = frozenset(  # also where their cells are numbers
    {"partition", WORKER, "subtask", "subtask_index", "tm_id", "pod", "host", "instance", "quantile"}
)
COUNTED = re.compile(r".*(?:_total|_current_offset|numRecords(?:In|Out))")  # whatever type an export gives, if any
GROWING, SELDOM = 100, 0.01  # rows, and the share of steps that fall: a counter begins anew now and then
SEVERAL = 1.5  # rows of a time: more are of several series
_LABEL = "a label needs a table of ts, metric, value and labels"
_DELIMITERS = (",", ";", "\t", "|")


@dataclass(frozen=True)
class Header:
    """The first line: its columns, and where time, value and name stand.

    A wide table has no ``value``; a long one may lack the ``name``, where all of it is one metric.
    """

    columns: tuple[str, ...]
    delimiter: str
    time: int
    value: int | None = None
    name: int | None = None


def parse_header(line: bytes, row: bytes = b"") -> Header | None:
    """Return the header when ``line`` is one: a column of times, by its name or its cell of the next row, and another.

    ``row``: the next line.
    """
    text, below = (some.rstrip(b"\r").decode("utf-8", "backslashreplace") for some in (line, row))
    for delimiter in _DELIMITERS:
        columns, cells = (tuple(map(str.strip, _cells([some], delimiter)[0])) for some in (text, below))
        value, name = (next(iter(places(columns, *some)), None) for some in ((VALUE_NAME,), NAME_NAMES))
        time = time_column(columns)
        if time is None:
            time = dated_column(columns, ["" if at in (value, name) else cell for at, cell in enumerate(cells)])
        if len(columns) < 2 or time is None:
            continue
        others = (both for at, both in enumerate(zip(columns, cells, strict=False)) if at not in (time, value))
        wide = name is None and not CANONICAL.keys().isdisjoint(columns)
        long = value is not None and not wide and (name is not None or any(starmap(_names_series, others)))
        return Header(columns, delimiter, time, *((value, name) if long else ()))
    return None


def _names_series(title: str, cell: str) -> bool:
    """Return whether a cell says which series its row is of: text, and no number that is written in some other way."""
    named = cell.lower() not in ABSENT and number(cell) is None and not _begins_with_a_digit(cell)
    return title.lower() in ALWAYS_LABELS or named


def _begins_with_a_digit(cell: str) -> bool:
    return cell.lstrip("+-. ")[:1].isdigit()


class CsvReader:
    """Reads one file; iterate once."""

    def __init__(self, content: Content, limits: Limits, timezone: str) -> None:
        self.content = content
        self.limits = limits
        self.timezone = timezone
        self._header: Header | None = None
        self._local = self._relative = False
        self._moments: dict[str, NDArray[np.int64]] = {}  # of the first samples of each column of a wide table
        self._at_moments: Counter[str] = Counter()  # samples of each column at one of them
        self._counters: set[str] = set()  # columns of a wide table
        self._label: str | None = None  # a column of a wide table that distinguishes rows of one time
        self._out: set[int] = set()  # columns that distinguish rows, and no series
        self._unjudged: set[int] | None = None  # columns of a long table that may be such, and have not changed yet

    def read(self) -> Iterator[RawSeries | Quarantined | Remark]:
        """Yield the columns (or the series of a long table), one run per block of the file."""
        for block in line_blocks(self.content, self.limits):
            if isinstance(block, Lines):
                yield from self._block(block)
            else:
                yield block
        if self._local:
            yield no_zone(self.timezone)
        if self._relative:
            yield Remark("times count from an event, not from 1970; they are kept as if they began there")
        if any(self._at_moments[title] > SEVERAL * len(moments) for title, moments in self._moments.items()):
            yield Remark(f"most times stand in several rows, of which the last counts; {_LABEL}")

    def _block(self, block: Lines) -> Iterator[RawSeries | Quarantined | Remark]:
        lines = block.split()
        begin = 0
        while self._header is None and begin < len(lines):
            self._header = parse_header(lines[begin], next(filter(bytes.strip, lines[begin + 1 :]), b""))
            if self._header is None and lines[begin].strip() and not lines[begin].startswith(b"sep="):
                yield Quarantined(
                    "not the header of a table with a time column", *block.place(begin), excerpt(lines[begin])
                )
            begin += 1
        header = self._header
        if header is None:
            return
        kept: list[int] = []
        rows: list[list[str]] = []
        for index, cells in self._rows(lines, begin, header):
            if len(cells) == len(header.columns):
                kept.append(index)
                rows.append(cells)
            else:
                reason = f"a row of '{len(cells)}' cells where the header has {len(header.columns)}"
                yield Quarantined(reason, *block.place(index), excerpt(lines[index]))
        if rows:
            texts, made_of = day_and_clock(header.columns, header.time, rows)
            times = parse_times(texts, self.timezone)
            self._local |= times.local
            self._relative |= times.relative
            table = _Table(header, rows, times, texts, kept, block, lines)
            further = self._judged(header, rows, times)
            self._out |= further
            titles = {header.columns[at] for at in further if any(cells[at].strip() for cells in rows)}
            yield from map(left_out, sorted(titles))
            out = {*made_of, *self._out}
            if header.value is not None:
                yield from table.long(out)
            elif label := self._label or table.label(out):
                self._label = label
                yield table.refused(label, out)
            else:
                yield from map(self._counted, table.wide(out, self.timezone))

    def _counted(self, found: RawSeries | Quarantined) -> RawSeries | Quarantined:
        if isinstance(found, RawSeries):
            title = found.labels.get(COLUMN, f"{found.name}{found.labels}")
            if title not in self._moments:
                self._moments[title] = np.unique(found.times_ms)
                if COUNTED.fullmatch(title) and hardly_falls(found.values):
                    self._counters.add(title)
            moments = self._moments[title]
            if found.times_ms.min() <= moments[-1] and found.times_ms.max() >= moments[0]:
                self._at_moments[title] += int(np.isin(found.times_ms, moments).sum())
            return replace(found, kind="counter") if title in self._counters else found
        return found

    def _judged(self, header: Header, rows: Sequence[Sequence[str]], times: Times) -> set[int]:
        """Return further columns that are no series: those that pandas numbers rows by, and those that are no labels.

        A column of a long table is judged by the first rows in which it changes.
        """
        every = set(range(len(header.columns))) - {header.time}
        index = {at for at in every if header.columns[at].lower() in ROW_NUMBERS and (header.columns[at] or at == 0)}
        found = index - self._out
        if header.value is None:
            return found
        own = {header.name, header.value, *places(header.columns, *TIME_NAMES, *CLOCK_NAMES)}
        labels = {at for at in every - index if at not in own}
        if self._unjudged is None:
            self._unjudged = labels - {*places(header.columns, *ALWAYS_LABELS)}
        columns = {at: [cells[at] for cells in rows] for at in sorted(self._unjudged)}
        columns = {at: cells for at, cells in columns.items() if len(set(cells)) > 1}
        if not columns:
            return found
        self._unjudged -= columns.keys()
        rest = [[cells[at] for cells in rows] for at in sorted(labels - self._out - columns.keys())]
        numbers = {at for at, cells in columns.items() if header.name is None or _may_measure(cells)}
        names = [""] * len(rows) if header.name is None else [cells[header.name] for cells in rows]
        return found | no_labels(columns, names, times.times_ms, rest, numbers)

    @staticmethod
    def _rows(lines: list[bytes], begin: int, header: Header) -> Iterator[tuple[int, list[str]]]:
        """Yield number and cells of each line that is not blank; no cells where they cannot be distinguished."""
        quoted = any(b'"' in line for line in lines[begin:])
        for index in range(begin, len(lines)):
            text = lines[index].decode("utf-8", "backslashreplace")
            if text and not text.isspace():
                yield index, _cells([text], header.delimiter)[0] if quoted else text.split(header.delimiter)


@dataclass(frozen=True)
class _Table:
    """The whole rows of one block."""

    header: Header
    rows: list[list[str]]
    times: Times
    time_texts: list[str]
    kept: list[int]  # line of each row within the block
    block: Lines
    lines: list[bytes]

    def wide(self, out: set[int], timezone: str) -> Iterator[RawSeries | Quarantined]:
        """Yield a series per column but those left ``out``, and the times once more, in ``timezone``."""
        columns = list(zip(*self.rows, strict=True))
        named_times = (at for at, title in enumerate(self.header.columns) if title.lower() in TIME_NAMES)
        out = out | {at for at in named_times if at not in out and self._are_the_times(columns[at], timezone)}
        for at, title in enumerate(self.header.columns):
            if at in out:
                continue
            name, labels = series_of(title)
            present, values, bad = _values(columns[at])
            use = present & ~bad & self.times.good
            if use.any():
                yield RawSeries(name, labels, self.times.times_ms[use], values[use], beside=self.header.columns)
            yield from self._bad_cells(np.flatnonzero(bad & self.times.good), columns[at], title)
        yield from self._bad_times([self._cells_in(row, out) for row in self.rows])

    def long(self, out: set[int]) -> Iterator[RawSeries | Quarantined]:
        """Yield a series per name and labels; a column left ``out``, or one of times, is no label."""
        header = self.header
        assert header.value is not None
        column = [row[header.value] for row in self.rows]
        present, values, bad = _values(column)
        use = present & ~bad & self.times.good
        groups: dict[tuple[str, ...], list[int]] = {}
        out = {*out, header.value, *places(header.columns, *TIME_NAMES, *CLOCK_NAMES)}
        rest = [at for at in range(len(header.columns)) if at not in out]
        for index in np.flatnonzero(use):
            groups.setdefault(tuple(self.rows[index][at] for at in rest), []).append(int(index))
        for key, indices in groups.items():
            cells = dict(zip(rest, key, strict=True))
            name, labels = ("", {}) if header.name is None else series_of(cells.pop(header.name), plain_is_name=True)
            for at, text in cells.items():
                if text:
                    labels |= label_map(text) if header.columns[at].lower() == LABELS else {header.columns[at]: text}
            yield RawSeries(name, labels, self.times.times_ms[indices], values[indices])
        yield from self._bad_cells(np.flatnonzero(bad & self.times.good), column, header.columns[header.value])
        yield from self._bad_times([1] * len(self.rows))

    def label(self, out: set[int]) -> str | None:
        """Return the first column of names, or their numbers, in which rows of one time differ, as of several series.

        Those of most times do: one that accompanies the rows may change where a few of them come twice.
        """
        times = self.times.times_ms[self.times.good]
        most = SEVERAL * len(np.unique(times))
        for at, title in enumerate(self.header.columns) if len(times) > most else ():
            column = [row[at] for row in self.rows]
            present, _, bad = _values(column)
            names = title.lower() in ALWAYS_LABELS or (bad.any() and (bad == present).all())
            if names and at not in out and title.lower() not in TIME_NAMES:
                pairs = set(zip(times.tolist(), np.array(column, dtype=object)[self.times.good], strict=True))
                if len(pairs) > most:
                    return title
        return None

    def refused(self, label: str, out: set[int]) -> Quarantined:
        """Return all rows as one that is not read, as a column distinguishes those of one time."""
        samples = sum(max(1, self._cells_in(row, out)) for row in self.rows)
        reason = f"rows of one time differ in the column '{label[:60]}'; {_LABEL}"
        return Quarantined(reason, *self.block.place(self.kept[0]), excerpt(self.lines[self.kept[0]]), samples)

    def _are_the_times(self, column: Sequence[str], timezone: str) -> bool:
        other = parse_times(column, timezone)
        both = other.good & self.times.good
        apart_ms = np.abs(other.times_ms - self.times.times_ms)[both]
        return bool(both.any() and not self.times.relative and (apart_ms <= _SAME_TIME_MS).all())

    @staticmethod
    def _cells_in(row: list[str], out: set[int]) -> int:
        return sum(at not in out and cell.strip().lower() not in ABSENT for at, cell in enumerate(row))

    def _bad_cells(self, indices: NDArray[np.int64], column: Sequence[str], title: str) -> Iterator[Quarantined]:
        for index in indices:
            label = self.header.value is None and not _begins_with_a_digit(column[index])
            fix = _LABEL if label else "export without formatting"
            reason = f"value '{column[index][:40]}' of column '{title[:60]}' is not a number; {fix}"
            line = self.kept[index]
            yield Quarantined(reason, *self.block.place(line), excerpt(self.lines[line]))

    def _bad_times(self, samples: list[int]) -> Iterator[Quarantined]:
        for index in np.flatnonzero(~self.times.good):
            line = self.kept[index]
            text = self.time_texts[index][:40]
            reason = f"time '{text}' is not an ISO date-time or an epoch number; export without 'localized' times"
            yield Quarantined(reason, *self.block.place(line), excerpt(self.lines[line]), max(1, samples[index]))


def hardly_falls(values: NDArray[np.float64]) -> bool:
    """Return whether values, in the order of time, grow as those of a counter do; few may be anything."""
    steps = np.diff(values[np.isfinite(values)])
    return len(values) >= GROWING and bool((steps < 0).sum() < SELDOM * (steps > 0).sum())


def series_of(title: str, *, plain_is_name: bool = False) -> tuple[str, dict[str, str]]:
    """Return name and labels of a column title or legend: ``{job="x"}``, ``name{job="x"}``, or plain text."""
    if "{" in title:
        parsed = parse_series(title)
        if parsed and not title[parsed[2] :].strip():
            return parsed[0], parsed[1]
    return (title, {}) if plain_is_name else ("", {COLUMN: title})


def _may_measure(column: Sequence[str]) -> bool:
    """Return whether cells may be counts, or further values: whole numbers, or numbers that are others in most rows."""
    cells = {cell.strip() for cell in column if cell.strip().lower() not in ABSENT}
    values = [number(cell) for cell in cells]
    whole = all(value is not None and value % 1 == 0 for value in values)
    return whole or (None not in values and 2 * len(cells) > len(column))


def _values(column: Sequence[str]) -> tuple[NDArray[np.bool_], NDArray[np.float64], NDArray[np.bool_]]:
    """Return which cells hold a sample, the values, and which of those cells are no numbers."""
    texts = pa.array(column, pa.string())
    try:
        values = pc.cast(texts, pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        pass
    else:
        return np.ones(len(values), dtype=np.bool_), values, np.zeros(len(values), dtype=np.bool_)
    stripped = [text.strip() for text in column]
    present = np.array([text.lower() not in ABSENT for text in stripped], dtype=np.bool_)
    parsed = [number(text) for text in stripped]
    bad = np.array([value is None for value in parsed], dtype=np.bool_) & present
    return present, np.array([np.nan if value is None else value for value in parsed], dtype=np.float64), bad


def _cells(lines: list[str], delimiter: str) -> list[list[str]]:
    try:
        return list(csv.reader(lines, delimiter=delimiter)) or [[]]
    except csv.Error:  # a NUL or a cell over csv's own bound
        return [[]]

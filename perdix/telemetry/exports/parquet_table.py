"""Parquet of the canonical form: ``ts, metric, value`` and, where there are some, ``worker`` and labels.

``labels`` may be a map, a struct or JSON text; any further text column is a label, but for times and what differs from
row to row, and so is a quantile, and a column of whole numbers, of whatever type, without which rows would be alike. A
worker may be a number. Times may be timestamps, epoch numbers or text as in CSV, or a day and its clock.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from perdix.telemetry.exports.content import Content
from perdix.telemetry.exports.csv_table import ALWAYS_LABELS, NAME_NAMES, ROW_NUMBERS, VALUE_NAME, WORKER
from perdix.telemetry.exports.label_text import LABELS, label_map
from perdix.telemetry.exports.long_table import left_out, no_labels
from perdix.telemetry.exports.numbers import LAST_MS, unit_ms_of
from perdix.telemetry.exports.records import Limits, Quarantined, RawSeries, Remark
from perdix.telemetry.exports.time_text import (
    CLOCK_NAMES,
    TIME_NAMES,
    Times,
    are_dates,
    checked,
    day_and_clock,
    in_zone,
    no_zone,
    parse_times,
    time_column,
)

MAGIC = b"PAR1"
_BATCH_ROWS = 1 << 18
_EXPORT = "export ts (timestamps or epoch numbers), metric and value (numbers), or a column per series as CSV"
_CLOCK = ("date", *CLOCK_NAMES)
_INDEX = "__index_level_"  # of pandas


@dataclass(frozen=True)
class _Columns:
    time: str
    value: str
    name: str | None  # ``None``: all is one metric
    labels: tuple[str, ...]
    clock: tuple[str, ...]  # where the time may be but a part: the day and its clock


def read_parquet(content: Content, limits: Limits, timezone: str) -> Iterator[RawSeries | Quarantined | Remark]:
    """Yield the series of the file, one run per batch of rows; times without a zone are read in ``timezone``."""
    local, out = False, set[str]()
    try:
        opened = _open(content, limits)
        if isinstance(opened, str):
            yield Quarantined(opened, byte_offset=0)
            return
        columns = _columns(opened.schema_arrow)
        if isinstance(columns, str):
            yield Quarantined(columns, samples=max(1, opened.metadata.num_rows))
            return
        unjudged = {label for label in columns.labels if label.lower() not in {*ALWAYS_LABELS, LABELS}}
        named = [] if columns.name is None else [columns.name]
        wanted = [columns.time, columns.value, *named, *columns.labels, *columns.clock]
        for batch in opened.iter_batches(_BATCH_ROWS, columns=list(dict.fromkeys(wanted))):
            times = _of_two_columns(batch, columns, timezone) or _times(batch[columns.time], timezone)
            local |= times.local
            out |= {label for label in unjudged if _has_fractions(batch[label])}
            unjudged -= out
            columns = replace(columns, labels=tuple(label for label in columns.labels if label not in out))
            whole = batch.num_rows == opened.metadata.num_rows
            judged = {label for label in unjudged if whole or len(_as_text(batch[label]).unique().drop_null()) > 1}
            unjudged -= judged
            out |= _no_labels(batch, columns, times, judged) if judged else set()
            columns = replace(columns, labels=tuple(label for label in columns.labels if label not in out))
            yield from _batch(batch, columns, times)
    except (pa.ArrowException, OSError, ValueError, OverflowError, KeyError) as error:
        yield Quarantined(f"Parquet that cannot be read: '{str(error)[:200]}'; {_EXPORT}", byte_offset=0)
    if local:
        yield no_zone(timezone)
    yield from map(left_out, sorted(out))


def _open(content: Content, limits: Limits) -> pq.ParquetFile | str:
    if not content.compressed:
        return pq.ParquetFile(content.path)
    whole = content.read_whole(limits.document_bytes)
    if content.damage:
        return content.damage.reason
    if whole is None:
        return f"gzipped Parquet of more than {limits.document_bytes} bytes; store it without gzip"
    return pq.ParquetFile(pa.BufferReader(whole))


def _columns(schema: pa.Schema) -> _Columns | str:
    lower = {name.lower(): name for name in reversed(schema.names)}
    name = next((lower[known] for known in NAME_NAMES if known in lower), None)
    value = lower.get(VALUE_NAME)
    time = time_column(schema.names)
    if time is None:
        dated = (at for at, field in enumerate(schema) if pa.types.is_timestamp(field.type))
        time = next((at for at in dated if schema.names[at] not in (name, value)), None)
    out = {*TIME_NAMES, *CLOCK_NAMES}
    own = {None if time is None else schema.names[time], name, value}
    rest = [column for column in schema.names if column not in own and column.lower() not in out]
    labels = tuple(column for column in rest if _is_label(column, schema.field(column).type))
    named = any(label.lower() in ALWAYS_LABELS or _is_text(schema.field(label).type) for label in labels)
    if time is None or value is None or not (name or named):
        return f"Parquet without the columns ts, metric and value; it has '{', '.join(schema.names)[:200]}'; {_EXPORT}"
    clock = tuple(lower[part] for part in _CLOCK if part in lower) if schema.names[time].lower() in _CLOCK else ()
    return _Columns(schema.names[time], value, name, labels, clock)


def _is_label(column: str, kind: pa.DataType) -> bool:
    kinds = pa.types
    if column == WORKER:
        return _is_text(kind) or not (kinds.is_nested(kind) or isinstance(kind, pa.BaseExtensionType))
    if kinds.is_integer(kind) or kinds.is_floating(kind):
        return column.lower() not in ROW_NUMBERS and not column.startswith(_INDEX)
    labels = column.lower() == LABELS and (kinds.is_map(kind) or kinds.is_struct(kind))
    return bool(_is_text(kind) or labels or kinds.is_dictionary(kind))


def _has_fractions(column: pa.Array) -> bool:
    if not pa.types.is_floating(column.type):
        return False
    numbers = pc.cast(column, pa.float64()).drop_null().to_numpy(zero_copy_only=False)
    return bool((numbers[np.isfinite(numbers)] % 1 != 0).any())


def _no_labels(batch: pa.RecordBatch, columns: _Columns, times: Times, judged: set[str]) -> set[str]:
    names = _names(batch, columns).to_pylist()
    cells = {label: _as_text(batch[label]).to_pylist() for label in columns.labels}
    kinds = pa.types
    numbers = {
        label
        for label in judged
        if not columns.name or kinds.is_integer(batch[label].type) or kinds.is_floating(batch[label].type)
    }
    rest = [cells.pop(label) for label in columns.labels if label not in judged]
    return no_labels(cells, names, times.times_ms, rest, numbers)


def _names(batch: pa.RecordBatch, columns: _Columns) -> pa.Array:
    return _as_text(batch[columns.name]) if columns.name else pa.repeat("", batch.num_rows)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _batch(batch: pa.RecordBatch, columns: _Columns, times: Times) -> Iterator[RawSeries | Quarantined]:
    times_ms, timed = times.times_ms, times.good
    values = pc.cast(batch[columns.value], pa.float64(), safe=False).fill_null(np.nan).to_numpy(zero_copy_only=False)
    of_labels = [batch[label] if label.lower() == LABELS else _as_text(batch[label]) for label in columns.labels]
    keys = [_names(batch, columns), *of_labels]
    codes, firsts = _groups([_as_text(key) for key in keys])
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(len(firsts) + 1))
    untimed = int(np.count_nonzero(~timed))
    for group, first in enumerate(firsts):
        rows = order[bounds[group] : bounds[group + 1]]
        rows = rows[timed[rows]]
        name, *cells = [key[int(first)].as_py() for key in keys]
        if len(rows):
            labels = _labels_of(columns.labels, cells)
            yield RawSeries("" if name is None else str(name), labels, times_ms[rows], values[rows])
    if untimed:
        yield Quarantined("rows without a time in the years 1 to 9999", samples=untimed)


def _of_two_columns(batch: pa.RecordBatch, columns: _Columns, timezone: str) -> Times | None:
    """Return the times of a day and its clock; ``None`` where one column has both."""
    titles = list(dict.fromkeys((columns.time, *columns.clock)))
    if len(titles) == 1:
        return None
    cells = [_as_text(batch[title]).fill_null("").to_pylist() for title in titles]
    texts, made_of = day_and_clock(titles, 0, list(zip(*cells, strict=True)))
    return parse_times(texts, timezone) if len(made_of) > 1 else None


def _times(column: pa.Array, timezone: str) -> Times:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if _is_text(column.type):
        return parse_times(pc.cast(column, pa.string()).fill_null("").to_pylist(), timezone)
    if pa.types.is_timestamp(column.type):
        raw = pc.cast(column, pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64())
        times = checked(raw.fill_null(LAST_MS + 1).to_numpy(zero_copy_only=False), local=column.type.tz is None)
        if times.local:
            naive = pa.array(times.times_ms, pa.timestamp("ms"))
            times = replace(times, times_ms=in_zone(naive, timezone))
        return times
    plain = pc.cast(column, pa.float64(), safe=False).fill_null(np.nan).to_numpy(zero_copy_only=False)
    if are_dates(plain):
        return parse_times([str(number) for number in plain.tolist()], timezone)
    finite = np.isfinite(plain)
    largest = float(np.abs(plain[finite]).max()) if finite.any() else 0.0
    return checked(np.rint(plain * unit_ms_of(largest)), local=False)


def _as_text(column: pa.Array) -> pa.Array:
    """Return cells as text, whole numbers without a point; null where there is nothing, or no number."""
    if pa.types.is_map(column.type) or pa.types.is_struct(column.type):
        cells = column.to_pylist()
        return pa.array([None if cell is None else json.dumps(cell, default=str) for cell in cells], pa.string())
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_floating(column.type):  # as pandas writes whole numbers where some rows have none
        column = pc.if_else(pc.is_nan(column), None, column)
    return pc.cast(column, pa.string())


def _groups(keys: list[pa.Array]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the group of each row and the first row of each group."""
    codes = np.zeros(len(keys[0]), dtype=np.int64)
    for key in keys:
        encoded = key.dictionary_encode()
        part = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy(zero_copy_only=False).astype(np.int64)
        _, codes = np.unique(codes * (len(encoded.dictionary) + 1) + part, return_inverse=True)
    _, firsts, codes = np.unique(codes, return_index=True, return_inverse=True)
    return codes.astype(np.int64), firsts.astype(np.int64)


def _labels_of(columns: tuple[str, ...], cells: list[Any]) -> dict[str, str]:
    labels: dict[str, str] = {}
    for column, cell in zip(columns, cells, strict=True):
        if cell is None:
            continue
        if column.lower() == LABELS:
            labels |= label_map(cell)
        else:
            labels[column] = str(cell)
    return labels

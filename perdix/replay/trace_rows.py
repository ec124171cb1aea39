"""Rows of a recorded workload, as a file has them: CSV with whatever separator, or Parquet; plain or gzip.

What a row number means in seconds is never guessed: it is asked for.
"""

import csv
import gzip
import io
import math
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from perdix.settings.counting import counted
from perdix.settings.yaml_files import SettingsError
from perdix.telemetry.exports.detect import foreign
from perdix.telemetry.exports.numbers import ABSENT, FIRST_MS, LAST_MS, unit_ms_of
from perdix.telemetry.exports.parquet_table import MAGIC
from perdix.telemetry.exports.time_text import TIME_NAMES, as_iso, day_and_clock, places, time_column
from perdix.telemetry.window import Values

SEPARATORS = ",;|\t"
ABOVE = re.compile(r"\s*(?:(?:sep=|#(?:group|datatype|default),).*\n)+")  # titles: of Grafana for Excel, and InfluxDB
EXPOSED = re.compile(r"\s*(?:# (?:HELP|TYPE|UNIT) |[\w:]*\{[^}\n]*\}[ \t]+[-+.\dNI])")
RATES = ("tuples_per_second", "records_per_second", "per_s", "rate")
NUMBERS = ("", "step", "steps", "index", "idx", "i", "n", "row", "unnamed: 0", "__index_level_0__")  # of rows
COUNTS = ("n", "step", "steps")  # those of them that may as well be the number of something else
DATED_S = 1e8  # as seconds, that is 1973: a number below it counts from the trace's own beginning
TICKS_S = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
TICK = re.compile(
    r"(?:\b|_)(?:(?P<d>d|days?)|(?P<h>h|hours?)|(?P<m>min|minutes?)|(?P<s>s|sec|seconds?)|(?P<ms>ms|milli(?:second)?s)"
    r"|(?P<us>[uµμ]s|micro(?:second)?s)|(?P<ns>ns|nano(?:second)?s))\W*$"
)  # how the name of a time column says its unit
PER_TIME = re.compile(r"(?:/|per[ _]?)[^\W_]+\W*$")  # how a name says that it counts something per unit of time
LOCAL_DATE = re.compile(  # as 31.1.2026, 1/31/26 or 2026/01/31
    r"\d{4}[./]\d\d?[./]\d|\d\d?([./-])\d\d?\1\d{4}(?!\d)|\d\d?/\d\d?/\d\d(?!\d)"
)
GAP_S = 60.0  # a hole up to so long is closed by a line
ONE_MISSING = 2.25  # and up to this many usual steps: one row is missing, and times are not exact
SHOWN = 5
FIX = (
    "the file must begin with its titles and have a time column (seconds or ISO times) and a column of rates (plain "
    "numbers: a point is the decimal sign, no unit)"
)
Row = tuple[int, Sequence[Any]]  # line or row number, cells


@dataclass(frozen=True)
class Rows:
    """Times in seconds and rates, both of shape ``(n,)``, and the line (Parquet: row) that each comes from."""

    times_s: Values
    rates: Values
    places: NDArray[np.int64]
    column: str  # name of the rates' column; empty when the file has no header
    empty: int  # rows whose rate is an empty cell: nothing was measured there
    unit: str = "line"
    dated: bool = False  # whether the times are moments in UTC, not seconds since the trace began
    unread: tuple[str, ...] = ()  # names of the other columns of numbers
    remarks: tuple[str, ...] = ()  # what an export's server warned of, in words


def read_rows(path: Path, step_s: float | None = None) -> Rows:
    """Read a file's rows, in their order.

    Raises ``SettingsError``, naming file, line and fix: a file that cannot be read, a column that is missing, cells
    that are no numbers, negative or infinite rates.

    ``step_s``: seconds from row to row of a file without times; a column that numbers the rows is not read.
    """
    try:
        content = path.read_bytes()
        if content[:2] == b"\x1f\x8b":
            content = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise SettingsError(f"{path}: cannot be read ({error}); give a CSV or Parquet file") from None
    if not content.strip():
        raise SettingsError(f"{path}: the file is empty; {FIX}")
    if content[:4] == MAGIC:
        header, rows, unit = *_parquet(path, content), "row"
    else:
        if problem := foreign(content):
            raise SettingsError(f"{path}: {problem}")
        header, rows, unit = *_csv(path, content), "line"
    if not rows:
        raise SettingsError(f"{path}: no rows below the header; {FIX}")
    place, first = rows[0]
    titles, width = len(header), max(len(header), len(first))
    rows[0] = place, [*first, *[""] * (width - len(first))]
    header += [""] * (width - len(header)) if header else []
    as_read = rows
    header, rows = _with_whole_times(header, rows)
    names = [name.strip().lower() for name in header]
    if step_s is not None:
        rate_at = _rate_without_times(path, names, rows)
        _refuse_spilled(path, as_read, titles or width, unit)
        return _numbered(path, rows, rate_at, step_s, column=header[rate_at] if header else "", unit=unit)
    time_at, rate_at = _columns(path, names, rows)
    last = time_at + 1 if len(header) == width else 0  # which may lack its title
    _refuse_spilled(path, as_read, max(titles or width, last), unit)
    name = names[time_at] if names else None
    tick_s = _tick_s(name, rows[0][1][time_at])
    found = _numbers(path, rows, time_at, rate_at, column=header[rate_at] if header else "", unit=unit, tick_s=tick_s)
    if tick_s is None:
        _refuse_row_numbers(path, name, found)
        _refuse_parts_of_seconds(path, name, found)
    named = not names or names[rate_at] in RATES
    passed = {time_at, rate_at, *_row_numbers(names, rows)}
    others = [k for k in _numeric(rows[0][1]) if k not in passed]
    if not names and (filled := [k for k in others if any(_holds_number(cells, k) for _, cells in rows)]):
        unread = ", ".join(str(k + 1) for k in filled)
        return replace(found, remarks=(f"read from column {rate_at + 1} of a table without titles, not {unread}",))
    return replace(found, unread=() if named else tuple(header[k] for k in others))


def _refuse_spilled(path: Path, rows: Sequence[Row], titles: int, unit: str) -> None:
    """Complain of numbers beyond the titles: of ``1,5`` or ``1,234`` the rate would be 1."""
    wrong = [
        f"{unit} {place}: more than the {counted(titles, 'cell')} of the first line in {_shown(cells)}"
        for place, cells in rows
        if any(_number(cell) is not None for cell in cells[titles:])
    ]
    if wrong:
        raise SettingsError(
            f"{path}: {complaint(wrong)}; a point is the decimal sign, a number has no commas, and a column has a title"
        )


def _with_whole_times(header: list[str], rows: list[Row]) -> tuple[list[str], list[Row]]:
    """Return a table in which a day and its clock are one column, in the place of the one that is titled a time."""
    titles = [title.strip() for title in header]
    time_at = time_column(titles)
    if time_at is None or not places(titles, "date"):
        return header, rows
    padded = [[*cells, *[""] * (len(header) - len(cells))] for _, cells in rows]
    texts, made_of = day_and_clock(titles, time_at, [list(map(str, cells)) for cells in padded])
    if len(made_of) == 1:
        return header, rows
    kept = [at for at in range(len(header)) if at == time_at or at not in made_of]
    for text, cells in zip(texts, padded, strict=True):
        cells[time_at] = text
    found: list[Row] = [(place, [cells[at] for at in kept]) for (place, _), cells in zip(rows, padded, strict=True)]
    return [header[at] for at in kept], found


def _tick_s(name: str | None, first: Any) -> float | None:
    """Return the seconds of 1 in a column of times that counts from the trace's beginning, where its name says it."""
    number, found = _number(first), TICK.search(name or "")
    tick_s = TICKS_S[str(found.lastgroup)] if found else None
    return tick_s if tick_s and number is not None and abs(number) * min(tick_s, 1.0) < DATED_S else None


def _refuse_row_numbers(path: Path, name: str | None, rows: Rows) -> None:
    """Complain of a column that is no time: it falls, or numbers the rows (as seconds, months would be an hour)."""
    steps = np.diff(rows.times_s)
    if (name in TIME_NAMES and name != "epoch") or rows.dated or not len(rows.times_s):  # of a training, perhaps
        return
    what = f"the column '{name}'" if name else "the first column" if name is None else "the column without a name"
    fix = "give the time from row to row with --step, for example --step 30m"
    if (steps < 0).any():
        place = rows.places[int(np.argmax(steps < 0)) + 1]
        raise SettingsError(
            f"{path}: {rows.unit} {place}: {what} falls; sort the rows by it if it is a time, else {fix}"
        )
    by_one = bool((steps == 1.0).all() or (steps == np.diff(rows.places)).all())  # with rows that lack a rate
    if (by_one or name in NUMBERS) and (rows.times_s == np.round(rows.times_s)).all():
        raise SettingsError(
            f"{path}: {rows.unit} {rows.places[0]}: {what} numbers the rows ({rows.times_s[0]:.0f}, "
            f"{rows.times_s[min(1, len(rows.times_s) - 1)]:.0f}, ...) and is no time; {fix} "
            "(--step 1 if these are seconds)"
        )


def _refuse_parts_of_seconds(path: Path, name: str | None, rows: Rows) -> None:
    """Complain of times that are fractions of something longer than a second: days as in a spreadsheet, or hours."""
    step_s = float(np.median(np.diff(rows.times_s))) if len(rows.times_s) > 1 else 1.0
    if rows.dated or not 0.0 < step_s < 1.0:
        return
    what = f"the column '{name}'" if name else "the first column"
    raise SettingsError(
        f"{path}: by {what} rows are {step_s:.3g} s apart; name the column with its unit, such as t_days, t_hours or "
        "t_minutes (t_s if these are seconds)"
    )


def _csv(path: Path, content: bytes) -> tuple[list[str], list[Row]]:
    try:
        text = content.decode("utf-8-sig")
        text = text if "\n" in text else text.replace("\r", "\n")  # as Excel for Mac ends lines
        if EXPOSED.match(text):
            raise SettingsError(
                f"{path}: OpenMetrics text is no trace; perdix ingest --job NAME reads it, and job:NAME replays its "
                "workload"
            )
        if above := ABOVE.match(text):
            text = "\n" * above[0].count("\n") + text[above.end() :]
        first = text.lstrip().split("\n", 1)[0]
        separator = max(SEPARATORS, key=first.count)
        reader = csv.reader(io.StringIO(text), delimiter=separator, strict=True)
        rows: list[Row] = [
            (reader.line_num, [cell.strip() for cell in row]) for row in reader if any(map(str.strip, row))
        ]
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: cannot be read as UTF-8 (byte {error.start}); save it as UTF-8") from None
    except csv.Error as error:
        raise SettingsError(f"{path}: cannot be read as CSV: {error}; {FIX}") from None
    titled = bool(rows) and not any(_time_s(cell) is not None for cell in rows[0][1])
    return (list(map(str, rows[0][1])), rows[1:]) if titled else ([], rows)


def _parquet(path: Path, content: bytes) -> tuple[list[str], list[Row]]:
    try:
        table = pq.ParquetFile(io.BytesIO(content)).read()  # also where two columns have one name
        columns = [column.to_pylist() for column in table.columns]
    except (pa.ArrowException, OSError, OverflowError) as error:  # the last: of dates beyond the year 9999
        raise SettingsError(f"{path}: cannot be read as Parquet: {error}; {FIX}") from None
    return list(table.column_names), list(enumerate(zip(*columns, strict=True), start=1))


def _columns(path: Path, names: Sequence[str], rows: Sequence[Row]) -> tuple[int, int]:
    """Return where times and rates are: by name, else the first that looks like times and the first number after.

    Where times are last, but for what numbers the rows, as the index of a pandas table in Parquet, it is the first
    number before. A date looks more like a time than a number does, which may number the rows; so does one right behind
    that, which names its unit.
    """
    place, cells = rows[0]
    by_name = time_column(names)
    named = next((names.index(name) for name in RATES if name in names), None)
    looks = [k for k, cell in enumerate(cells) if k != named and _time_s(cell) is not None]
    dates = [k for k in looks if _number(cells[k]) is None]
    local = next((cell for cell in cells if isinstance(cell, str) and LOCAL_DATE.match(cell)), None)
    clock = _clock(names, rows, looks)
    if local is not None and not dates and by_name not in looks and clock is None:
        raise SettingsError(f"{path}:{place}: '{local}' may be a date; write it as ISO, such as 2026-01-31T03:12:00Z")
    found = [*dates, *([] if clock is None else [clock]), *looks]
    time_at = next(iter(found), None) if by_name is None else by_name
    if by_name is None and len(cells) == 1 and _number(cells[0]) is not None:
        raise SettingsError(
            f"{path}:{place}: one column of rates and no times; give the time from row to row with --step, for example "
            "--step 30m"
        )
    if time_at is None:
        raise SettingsError(f"{path}:{place}: no time in {_shown(cells)}; {FIX}")
    number_rows = _row_numbers(names, rows)
    last = bool(names) and number_rows.issuperset(range(time_at + 1, len(cells)))
    numbers = (k for k in _numeric(cells) if k > time_at or (last and k < time_at and k not in number_rows))
    first = min(numbers, key=number_rows.__contains__, default=None)
    rate_at = first if named is None else named
    if rate_at is None:
        raise SettingsError(f"{path}:{place}: no rate beside the time in {_shown(cells)}; {FIX}")
    return time_at, rate_at


def _rate_without_times(path: Path, names: Sequence[str], rows: Sequence[Row]) -> int:
    """Return where the rates are: by name, else the first column of numbers that does not number the rows."""
    place, cells = rows[0]
    numbers, named = _numeric(cells), next((names.index(name) for name in RATES if name in names), None)
    large = [k for k in numbers if len(numbers) > 1 and k != named and (_number(cells[k]) or 0.0) >= DATED_S]
    epochs = [k for k in large if _rises(rows, k) or _rises(rows[::-1], k)]
    dates = (k for k in range(len(cells)) if k not in numbers or k in epochs)
    dated = next((k for k in dates if _time_s(cells[k]) is not None), None)
    clock = _clock(names, rows, numbers) if dated is None else dated
    timed = clock if (by_name := time_column(names)) is None else by_name
    if timed is not None:
        what = f"in its column '{names[timed]}'" if names else f"such as {cells[timed]}"
        raise SettingsError(f"{path}:{place}: the file has times, {what}; leave --step out")
    if named is not None:
        return named
    number_rows = _row_numbers(names, rows)
    rates = [k for k in numbers if k not in number_rows]
    if len(rates) > 1 and _counts_up(rows, rates[0]):
        rates = rates[1:]
    if not rates:
        raise SettingsError(f"{path}:{place}: no rate in {_shown(cells)}; the file must have a column of rates")
    return rates[0]


def _clock(names: Sequence[str], rows: Sequence[Row], numbers: Sequence[int]) -> int | None:
    """Return the first column of numbers, or the next where that numbers the rows, if it is one of times.

    That is where its name says a unit of time, and its numbers rise.
    """
    some = numbers[: 2 if numbers and _counts_up(rows, numbers[0]) else 1] if names else ()
    for at in some:
        if _rises(rows, at) and TICK.search(names[at]) and not PER_TIME.search(names[at]):
            return at
    return None


def _row_numbers(names: Sequence[str], rows: Sequence[Row]) -> set[int]:
    """Return the columns that number the rows, by their names; of what may be a count only what rises."""
    return {k for k, name in enumerate(names) if name in NUMBERS and (name not in COUNTS or _rises(rows, k))}


def _rises(rows: Sequence[Row], at: int) -> bool:
    """Return whether the numbers of a column rise, and fall nowhere."""
    values = [_number(cells[at]) if at < len(cells) else None for _, cells in rows]
    rises = all(a is not None and b is not None and a <= b for a, b in pairwise(values))
    return rises and values[0] != values[-1]


def _counts_up(rows: Sequence[Row], at: int) -> bool:
    """Return whether a column numbers the rows: whole numbers, each one more than the last."""
    found = [_number(cells[at]) if at < len(cells) else None for _, cells in rows]
    first = found[0]
    return first is not None and found == [first + k for k in range(len(found))]


def _numbered(path: Path, rows: Sequence[Row], rate_at: int, step_s: float, *, column: str, unit: str) -> Rows:
    """Return rows that are ``step_s`` apart; a rate that is missing leaves a gap."""
    timed = [
        (place, [k * step_s, cells[rate_at] if rate_at < len(cells) else None]) for k, (place, cells) in enumerate(rows)
    ]
    return _numbers(path, timed, 0, 1, column=column, unit=unit)


def _numbers(
    path: Path, rows: Sequence[Row], time_at: int, rate_at: int, *, column: str, unit: str, tick_s: float | None = None
) -> Rows:
    times_s, rates, places, wrong, empty = [], [], [], [], 0
    for place, cells in rows:
        time_s = _time_s(cells[time_at], tick_s) if time_at < len(cells) else None
        cell = cells[rate_at] if rate_at < len(cells) else None
        rate = _number(cell)
        if time_s is None:
            wrong.append(f"{unit} {place}: {_shown(cells)} has no time (seconds, or ISO such as 2026-01-31T03:12:00Z)")
        elif _empty(cell):
            empty += 1
        elif rate is None:
            wrong.append(f"{unit} {place}: {cell!r} is not a number (a point is the decimal sign)")
        elif not math.isfinite(rate) or rate < 0:
            wrong.append(f"{unit} {place}: {cell} records/s; a rate is finite and not negative")
        else:
            times_s.append(time_s)
            rates.append(rate)
            places.append(place)
    if wrong:
        raise SettingsError(f"{path}: {complaint(wrong)}; fix these rows or take them out")
    first = rows[0][1][time_at]
    dated = bool(times_s) and (_number(first) is None or abs(times_s[0]) >= DATED_S)
    return Rows(np.array(times_s), np.array(rates), np.array(places, dtype=np.int64), column, empty, unit, dated)


def closable_s(usual_s: float) -> float:
    """Return how far apart two rows may be for a line between them, where ``usual_s`` is usual."""
    return max(GAP_S, ONE_MISSING * usual_s) * (1 + 1e-9)


def complaint(wrong: Sequence[str]) -> str:
    """Return the first of many complaints, and how many there are beyond."""
    more = f"; and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
    return "; ".join(wrong[:SHOWN]) + more


def _time_s(cell: Any, tick_s: float | None = None) -> float | None:
    """Return the seconds of a date or of a number; ``None`` for no time.

    ``tick_s``: seconds of a number's 1; left out where its size says its unit: s, ms, µs or ns.
    """
    if isinstance(cell, datetime):
        return (cell if cell.tzinfo else cell.replace(tzinfo=UTC)).timestamp()
    text = as_iso(str(cell)) if tick_s is None else str(cell)
    number = _number(text)
    if number is not None:
        if not math.isfinite(number):
            return None
        time_s = number / (1_000.0 / unit_ms_of(number)) if tick_s is None else number * tick_s
        return time_s if FIRST_MS <= 1_000.0 * time_s <= LAST_MS else None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _number(cell: Any) -> float | None:
    if cell is None or isinstance(cell, bool | datetime):
        return None
    try:
        return float(cell)
    except (TypeError, ValueError):
        return None


def _numeric(cells: Sequence[Any]) -> list[int]:
    """Return where numbers are, or may be: cells that are empty too."""
    return [k for k, cell in enumerate(cells) if _empty(cell) or _number(cell) is not None]


def _holds_number(cells: Sequence[Any], at: int) -> bool:
    return at < len(cells) and _number(cells[at]) is not None


def _empty(cell: Any) -> bool:
    return cell is None or (isinstance(cell, str) and cell.lower() in ABSENT)


def _shown(cells: Sequence[Any]) -> str:
    return repr(",".join(str(cell) for cell in cells)[:80])

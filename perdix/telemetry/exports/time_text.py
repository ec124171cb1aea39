"""Time columns of tables: epoch numbers of any usual unit, ISO date-times with and without a zone, also in digits.

A day and its clock (``date,hour``) may stand in columns of their own.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from perdix.telemetry.exports.numbers import FIRST_MS, LAST_MS, number, unit_ms_of
from perdix.telemetry.exports.records import Remark

# 20260131031200: as milliseconds it would lie in the year 2612 (and an hour as seconds in 2034); pandas writes
# 20260131031200.0 where one is missing
_COMPACT = re.compile(r"(20\d{6})(\d\d|\d{4}|\d{6})(?:\.0*)?")
TIME_NAMES = frozenset(
    {"time", "_time", "ts", "timestamp", "date", "datetime", "epoch", "second", "seconds", "time_s", "time_ms"}
)
CLOCK_NAMES = ("time", "hour", "minute", "second")
_DAY = "date"
_ZONE = r"(Z|[+-]\d\d:?\d\d)?"
_ONLY_DAY = re.compile(rf"\d{{4}}-\d\d-\d\d{_ZONE}")
_DAY_ANYHOW = re.compile(rf"([12]\d{{3}})(-?)(\d\d)\2(\d\d)(?:[ T]00:00:00(?:\.0+)?{_ZONE})?")
_DAY_AND_CLOCK = re.compile(rf"\d{{4}}-\d\d-\d\dT[0-2]\d(:\d\d){{1,2}}(\.\d+)?{_ZONE}")
RELATIVE_BELOW_DAYS = 365 * 3  # from the epoch: what tells a time before 1973 is a stop watch, not a clock


@dataclass(frozen=True)
class Times:
    """A parsed column."""

    times_ms: NDArray[np.int64]  # epoch milliseconds, shape ``(n,)``; meaningless where not ``good``
    good: NDArray[np.bool_]  # shape ``(n,)``
    local: bool  # whether there were date-times without a zone

    @property
    def relative(self) -> bool:
        """Whether the times count from an event and not from 1970."""
        times = self.times_ms[self.good]
        return bool(len(times)) and bool(np.abs(times).max() < RELATIVE_BELOW_DAYS * 86_400_000)


def time_column(titles: Sequence[str]) -> int | None:
    """Return which column holds the times: the first that is titled so, a date or seconds where no other is."""
    times = [at for at, title in enumerate(titles) if title.lower() in TIME_NAMES]
    return min(times, key=lambda at: titles[at].lower() in {_DAY, "second", "seconds"}, default=None)


def dated_column(titles: Sequence[str], cells: Sequence[str]) -> int | None:
    """Return which column holds the times, by one row, where none is titled so: the first of dates or epoch numbers.

    The latter only without a title, as pandas writes its index, or with one that says that it is a time.
    """
    for at, (title, cell) in enumerate(zip(titles, cells, strict=False)):
        plain = number(cell)
        if plain is None:
            if _one(cell, "UTC", 0) and not _one(title, "UTC", 0):
                return at
        elif re.search("^$|time|epoch", title.lower()) and 1e12 < plain * unit_ms_of(plain) < 4e12:  # 2001 to 2096
            return at
    return None


def places(titles: Sequence[str], *names: str) -> tuple[int, ...]:
    """Return where columns of these names stand, in the order of the names."""
    lower = [title.lower() for title in titles]
    return tuple(lower.index(name) for name in names if name in lower)


def day_and_clock(titles: Sequence[str], time: int, rows: Sequence[Sequence[str]]) -> tuple[list[str], tuple[int, ...]]:
    """Return the time of each row, a day and its clock as one where no column has both, and the columns with it.

    ``time``: the column of times, by its title.
    """
    plain = [cells[time] for cells in rows]
    clock = places(titles, *CLOCK_NAMES)
    for day in places(titles, _DAY) if places(titles, "time", "hour") else ():
        days = [cells[day].strip() for cells in rows]
        if all(map(_DAY_ANYHOW.fullmatch, days)):
            days = [_DAY_ANYHOW.sub(r"\1-\3-\4\5", text) for text in days]
        clocks = [":".join(cells[at].strip().zfill(2) for at in clock) for cells in rows]
        clocks = [text.zfill(len(text) + (text[1:2] == ":")) for text in clocks]
        whole = [
            f"{text[:10]}T{at if ':' in at else at + ':00'}{text[10:]}" if _ONLY_DAY.fullmatch(text) else text
            for text, at in zip(days, clocks, strict=True)
        ]
        fits = [*map(_ONLY_DAY.fullmatch, days)] if day == time else [*map(_DAY_AND_CLOCK.fullmatch, whole)]
        if fits.count(None) < len(fits) / 2:  # else the clock counts from an event, and few of its numbers are hours
            return whole if time in (day, *clock) else plain, (time, day, *clock)
    return plain, (time,)


def parse_times(texts: Sequence[str], timezone: str) -> Times:
    """Parse a column of times; date-times without a zone are read in ``timezone``."""
    column = pa.array(texts, pa.string())
    return _epochs(column) or _zoned(column) or _local(column, timezone) or _one_by_one(texts, timezone)


def _epochs(column: pa.Array) -> Times | None:
    try:
        filled = pc.if_else(pc.equal(pc.utf8_trim_whitespace(column), ""), "NaN", column)
        numbers = pc.cast(filled, pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        return None
    finite = numbers[np.isfinite(numbers)]
    if not len(finite) or are_dates(finite):
        return None
    times_ms = np.rint(numbers * unit_ms_of(float(np.abs(finite).max())))
    return checked(times_ms, local=False)


def are_dates(numbers: NDArray[np.float64]) -> bool:
    """Return whether numbers are dates in digits alone, as in ``_COMPACT``; NaN is none of the numbers.

    A stop watch passes such digits, too, but few of its numbers make a date: at least half of them have to.
    """
    numbers = numbers[np.isfinite(numbers)]
    starts = [numbers // 10.0**place == 20 for place in (8, 10, 12)]
    digits = numbers[np.any(starts, axis=0) & (numbers % 1 == 0)]
    digits = np.where(digits < 1e10, digits * 100, digits)
    digits = np.where(digits < 1e12, digits * 100, digits).astype(np.int64)
    month, day, hour, minute, second = (digits // 100**place % 100 for place in (4, 3, 2, 1, 0))
    dates = (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31) & (hour < 24) & (minute < 60) & (second < 60)
    return bool(0 < len(numbers) <= 2 * np.count_nonzero(dates))


def _zoned(column: pa.Array) -> Times | None:
    try:
        times = pc.cast(column, pa.timestamp("ms", "UTC"))
    except pa.ArrowInvalid:
        return None
    return checked(times.cast(pa.int64()).to_numpy(zero_copy_only=False), local=False)


def _local(column: pa.Array, timezone: str) -> Times | None:
    try:
        times_ms = in_zone(pc.cast(column, pa.timestamp("ms")), timezone)
    except pa.ArrowInvalid:
        return None
    return checked(times_ms, local=True)


def in_zone(naive: pa.Array, timezone: str) -> NDArray[np.int64]:
    """Return epoch milliseconds of timestamps of a time zone; raises ``ArrowInvalid`` where it has none of them."""
    first = pc.assume_timezone(naive, timezone, ambiguous="earliest", nonexistent="latest")
    second = pc.assume_timezone(naive, timezone, ambiguous="latest", nonexistent="latest")
    return _unfolded(*(times.cast(pa.int64()).to_numpy(zero_copy_only=False) for times in (first, second)))


def _unfolded(first_ms: NDArray[np.int64], second_ms: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return times of which some are in the hour that a change of the clock repeats, as their order tells.

    Such a time is the first of the two, but after rows whose clock was set back until it leaves that hour, or goes back
    once more: to the next of series below each other.
    """
    folded = first_ms != second_ms
    if not folded.any():
        return first_ms
    times_ms = first_ms.copy()
    step = -1 if np.sign(np.diff(first_ms)).sum() < 0 else 1  # the newest rows may come first
    again = np.append(False, np.diff(first_ms) == 0)
    if _come_in_pairs(folded, again):
        later = again if step == 1 else np.append(again[1:], False)
        return np.where(later, second_ms, first_ms)
    for at in np.flatnonzero(folded)[::step]:
        if 0 <= at - step < len(first_ms):
            fold_ms, back_ms = second_ms[at] - first_ms[at], first_ms[at - step] - first_ms[at]
            is_second = folded[at - step] and times_ms[at - step] == second_ms[at - step]
            if back_ms < fold_ms / 2 if is_second else fold_ms / 2 <= back_ms <= fold_ms:
                times_ms[at] = second_ms[at]
    return times_ms


def _come_in_pairs(folded: NDArray[np.bool_], again: NDArray[np.bool_]) -> bool:
    """Return whether each time of the hour that comes twice stands twice, next to itself, and no other time does.

    As in a table with a row each hour, or one that is sorted by its local times.

    ``again``: whether a time is that of the row before.
    """
    alone = not again[~folded].any() and int((~folded).sum()) > 1
    return alone and int(folded.sum()) == 2 * int(again.sum()) and not (again[1:] & again[:-1]).any()


def no_zone(timezone: str) -> Remark:
    """Return that date-times without a zone were read in one."""
    return Remark(f"date-times carry no zone; they were read as {timezone}")


def checked(times_ms: NDArray[np.int64] | NDArray[np.float64], *, local: bool) -> Times:
    """Return epoch milliseconds with those that lie in the years 1 to 9999 as good; NaN does not."""
    good = (times_ms >= FIRST_MS) & (times_ms <= LAST_MS)
    return Times(np.where(good, times_ms, 0).astype(np.int64), good, local)


def _one_by_one(texts: Sequence[str], timezone: str) -> Times:
    first = [_one(text.strip(), timezone, 0) for text in texts]
    local = any(at[1] for at in first if at)
    second = [_one(text.strip(), timezone, 1) for text in texts] if local else first
    times_ms = _unfolded(*(np.array([at[0] if at else 0 for at in found], dtype=np.int64) for found in (first, second)))
    return Times(times_ms, np.array([at is not None for at in first], dtype=np.bool_), local)


def as_iso(text: str) -> str:
    """Return a date in digits alone, or with its zone spelled out, as ISO has it; any other text as it is."""
    digits = _COMPACT.fullmatch(text)
    offset = re.sub(r" ([+-]\d{4}) [A-Z]{3,5}$", r"\1", text)  # as Go prints it: +0100 CET
    return f"{digits[1]}T{digits[2]}" if digits else re.sub(r" (?:UTC|GMT)$", "Z", offset)


def _one(text: str, timezone: str, fold: int) -> tuple[int, bool] | None:
    """Return epoch milliseconds, and whether it was a time without a zone; of one that comes twice, the ``fold``."""
    text = as_iso(text)
    plain = number(text)
    if plain is not None:
        milliseconds = plain * unit_ms_of(plain) if math.isfinite(plain) else math.inf
        return (round(milliseconds), False) if FIRST_MS <= milliseconds <= LAST_MS else None
    try:
        moment = datetime.fromisoformat(text)
        local = moment.tzinfo is None
        if local:
            moment = moment.replace(tzinfo=ZoneInfo(timezone), fold=fold)
        return round(moment.timestamp() * 1000), local
    except (ValueError, OverflowError):
        return None

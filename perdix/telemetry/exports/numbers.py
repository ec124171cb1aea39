"""Text and JSON values into sample arrays, strictly: what is not a number is named, never guessed."""

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

FIRST_MS = -62_135_596_800_000  # 0001-01-01, the oldest day that a Parquet reader can name
LAST_MS = 253_402_300_799_999  # 9999-12-31
_NUMBER = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[iI]nf(?:inity)?|INF|[nN]a[nN]|NAN)")
ABSENT = frozenset({"", "null", "none", "na", "n/a", "undefined", "-"})  # cells of tables, for what was not measured
SECONDS_BELOW, MS_BELOW, US_BELOW = 1e11, 1e14, 1e17  # 1e11 s is the year 5138; 1e11 ms is 1973


def pairs(table: bytes, first: str, second: str, count: int) -> dict[str, NDArray[np.float64]] | None:
    """Parse ``count`` lines of two numbers as columns of these names; ``None`` unless each line is such a pair."""
    read = pa.csv.ReadOptions(column_names=[first, second], use_threads=False, block_size=1 << 30)
    parse = pa.csv.ParseOptions(quote_char=False, escape_char=False, ignore_empty_lines=False)
    types = {first: pa.float64(), second: pa.float64()}
    convert = pa.csv.ConvertOptions(column_types=types, null_values=[], strings_can_be_null=False)
    try:
        columns = pa.csv.read_csv(pa.BufferReader(table), read, parse, convert)
    except pa.ArrowInvalid:
        return None
    return {name: columns[name].to_numpy() for name in types} if columns.num_rows == count else None


def number(value: Any) -> float | None:
    """Return a sample's value: a JSON number, or text as Prometheus writes it; ``None`` for anything else."""
    if isinstance(value, str):
        return float(value) if _NUMBER.fullmatch(value) else None
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            return None
    return None


def time_ms(value: Any, unit_ms: float) -> int | None:
    """Return epoch milliseconds of a number in units of ``unit_ms``; ``None`` where it is no time at all."""
    plain = number(value)
    if plain is None or not math.isfinite(plain):
        return None
    milliseconds = plain * unit_ms
    return round(milliseconds) if FIRST_MS <= milliseconds <= LAST_MS else None


def seconds_to_ms(times_s: NDArray[np.float64]) -> NDArray[np.int64] | None:
    """Return epoch milliseconds, or ``None`` when any time is not finite or outside the years 1 to 9999."""
    milliseconds = np.rint(times_s * 1000.0)
    if not bool(np.all((milliseconds >= FIRST_MS) & (milliseconds <= LAST_MS))):
        return None
    return milliseconds.astype(np.int64)


def unit_ms_of(value: float) -> float:
    """Return the unit, in milliseconds, that an epoch number of this size is in: s, ms, µs or ns."""
    size = abs(value)
    if size < SECONDS_BELOW:
        return 1000.0
    if size < MS_BELOW:
        return 1.0
    return 1e-3 if size < US_BELOW else 1e-6


def samples(
    times: Sequence[Any], values: Sequence[Any], unit_ms: float
) -> tuple[NDArray[np.int64], NDArray[np.float64], list[tuple[int, str]]]:
    """Convert sample by sample.

    Returns ``times_ms``, ``values``, ``bad``: the good samples, shape ``(n,)``, and for each bad one its index and what
    is wrong with it.
    """
    whole = _at_once(times, values, unit_ms)
    if whole is not None:
        return *whole, []
    good_times: list[int] = []
    good_values: list[float] = []
    bad: list[tuple[int, str]] = []
    for index, (raw_time, raw_value) in enumerate(zip(times, values, strict=True)):
        at, value = time_ms(raw_time, unit_ms), number(raw_value)
        if at is None:
            bad.append((index, f"time '{_short(raw_time)}' is no epoch time in the years 1 to 9999"))
        elif value is None:
            bad.append((index, f"value '{_short(raw_value)}' is not a number"))
        else:
            good_times.append(at)
            good_values.append(value)
    return np.array(good_times, dtype=np.int64), np.array(good_values, dtype=np.float64), bad


def _at_once(
    times: Sequence[Any], values: Sequence[Any], unit_ms: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]] | None:
    """Convert numbers and text as arrays; ``None`` unless every sample is plainly good."""
    if not set(map(type, times)) <= {int, float} or not set(map(type, values)) <= {str}:
        return None
    try:
        numbers = pa.array(values, pa.string()).cast(pa.float64()).to_numpy(zero_copy_only=False)
        times_ms = np.rint(np.array(times, dtype=np.float64) * unit_ms)
    except (pa.ArrowInvalid, OverflowError):
        return None
    if not bool(np.all((times_ms >= FIRST_MS) & (times_ms <= LAST_MS))):
        return None
    return times_ms.astype(np.int64), numbers


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 40 else text[:40] + "…"

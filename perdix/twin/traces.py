"""Recorded workloads: CSV files with the columns ``second,tuples_per_second``."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from perdix.settings.yaml_files import SettingsError

COLUMNS = ("second", "tuples_per_second")


def read_trace(path: Path) -> NDArray[np.float64]:
    """Return records/s for every second from the file's first to its last; seconds left out are interpolated.

    Raises ``SettingsError``, naming file, line and fix, when the file is not such a trace.
    """
    try:
        changed_ns = path.stat().st_mtime_ns
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read ({error.strerror}); give a CSV file") from None
    return _read(path, changed_ns)


@lru_cache(maxsize=16)
def _read(path: Path, _changed_ns: int) -> NDArray[np.float64]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            seconds, rates = _columns(path, csv.reader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise SettingsError(f"{path}: cannot be read as CSV: {error}") from None
    trace = np.interp(np.arange(seconds[0], seconds[-1] + 1), seconds, rates)
    trace.flags.writeable = False
    return trace


def _columns(path: Path, rows: Iterator[list[str]]) -> tuple[list[int], list[float]]:
    header = tuple(next(rows, []))
    if header[:2] != COLUMNS:
        raise SettingsError(
            f"{path}:1: expected the columns {','.join(COLUMNS)}, found {','.join(header) or 'nothing'}"
        )
    seconds: list[int] = []
    rates: list[float] = []
    for line, row in enumerate(rows, start=2):
        if not row:
            continue
        try:
            second, rate = int(row[0]), float(row[1])
        except (ValueError, IndexError):
            raise SettingsError(f"{path}:{line}: expected a second and a rate, found {','.join(row)!r}") from None
        if not np.isfinite(rate) or rate < 0:
            raise SettingsError(f"{path}:{line}: the rate must be finite and not negative, found {row[1]}")
        if seconds and second <= seconds[-1]:
            raise SettingsError(f"{path}:{line}: second {second} does not come after {seconds[-1]}; sort the file")
        seconds.append(second)
        rates.append(rate)
    if not seconds:
        raise SettingsError(f"{path}: no rows below the header")
    return seconds, rates

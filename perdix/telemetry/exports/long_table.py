"""Which columns of a long table are labels, and which only accompany a value: a key of the row, a count, a maximum."""

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from perdix.telemetry.exports.numbers import number
from perdix.telemetry.exports.records import Remark

LEAST_ROWS: Final = 20  # to recognize a key by
DISTINGUISHED: Final = 0.9  # of the rows: some are in a table twice

Name = TypeVar("Name", bound=Hashable)
Codes = NDArray[np.int64]  # of each row, the number of what it holds: shape ``(n,)``


def no_labels(
    columns: Mapping[Name, Sequence[Hashable]],
    names: Sequence[Hashable],
    times_ms: NDArray[np.int64],
    labels: Iterable[Sequence[Hashable]] = (),
    numbers: Collection[Name] = (),
) -> set[Name]:
    """Return the columns without which time, name and the other labels still distinguish the rows of each metric.

    Of them only keys, of which most rows have one of their own, and numbers that accompany the values: they change
    while the time of a series goes on, as no label does but one that numbers series which are measured in turn.

    ``columns``: possible labels; ``names``: of the metrics; ``labels``: columns that are labels.
    ``numbers``: columns that may as well be counts, or texts that only say how it went, such as ``ok``; of the latter
    none without which any two rows are the same.
    """
    cells = {column: _codes(some) for column, some in columns.items()}
    values = {column: some.max() + 1 for column, some in cells.items()}
    of_metric, certain = _codes(names), [_codes(some) for some in labels]
    _, at = np.unique(times_ms, return_inverse=True)
    found: set[Name] = set()
    for column in sorted(columns, key=lambda column: -values[column]):
        key = 2 * values[column] > len(names) >= LEAST_ROWS
        others = [some for other, some in cells.items() if other not in {column, *found}]
        texts = [some for other, some in cells.items() if other not in {*numbers, *found}]
        series = _joined(of_metric, *certain, *texts)
        if not key and not (column in numbers and _accompanies(columns[column], cells[column], series, times_ms)):
            continue
        without = _joined(of_metric, at, *certain, *others)
        with_it = _joined(without, cells[column])
        text = not key and all(number(cell) is None for cell in set(columns[column]))
        enough = (1.0 if text else DISTINGUISHED) * _distinct(with_it, of_metric)
        if (_distinct(without, of_metric) >= enough).all():
            found.add(column)
    return found


def left_out(column: str) -> Remark:
    """Return that a column was taken for no label."""
    return Remark(f"column '{column}' is left out: it does not distinguish series")


def _accompanies(numbers: Sequence[Hashable], cells: Codes, series: Codes, times_ms: NDArray[np.int64]) -> bool:
    """Return whether numbers change from row to row of a series while its time goes on, and not in turn."""
    newest_first = np.sign(np.diff(times_ms)).sum() < 0
    order = np.argsort(series, kind="stable")
    same = np.diff(series[order]) == 0
    passed_ms = np.diff(times_ms[order])
    goes_on = passed_ms < 0 if newest_first else passed_ms > 0
    changes = bool((same & goes_on & (np.diff(cells[order]) != 0)).any())
    return changes and not (_are_places(numbers) and _come_in_turn(cells, series, times_ms))


def _are_places(numbers: Sequence[Hashable]) -> bool:
    """Return whether numbers count something through, from 0 or 1: two counts that alternate do not."""
    found = {number(cell) for cell in set(numbers)} - {None}
    return any(found == set(range(first, first + len(found))) for first in (0, 1))


def _come_in_turn(cells: Codes, series: Codes, times_ms: NDArray[np.int64]) -> bool:
    """Return whether, in some series that has one row a time, most cells are followed by what followed them before."""
    order = np.lexsort((times_ms, series))
    cells, series, times_ms = cells[order], series[order], times_ms[order]
    count = series.max() + 1
    same = np.diff(series) == 0
    at_once = np.bincount(series[1:][same & (np.diff(times_ms) == 0)], minlength=count)
    series, cell, then = series[1:][same], cells[:-1][same], cells[1:][same]
    order = np.lexsort((cell, series))
    series, cell, then = series[order], cell[order], then[order]
    met = (np.diff(series, prepend=-1) == 0) & (np.diff(cell, prepend=-1) == 0)
    again = met & (cell != then) & (np.diff(then, prepend=-1) == 0)
    pairs, kinds = np.bincount(series, minlength=count), np.bincount(series[~met], minlength=count)
    in_turn = 2 * np.bincount(series[again], minlength=count) > np.maximum(kinds, pairs + 1 - kinds)
    return bool((in_turn & (at_once < (1.0 - DISTINGUISHED) * (pairs + 1))).any())


def _codes(cells: Iterable[Any]) -> Codes:
    known: dict[Any, int] = {}
    return np.array([known.setdefault(cell, len(known)) for cell in cells], dtype=np.int64)


def _joined(first: Codes, *further: Codes) -> Codes:
    """Return the number of each distinct row of some columns."""
    for codes in further:
        _, first = np.unique(first * (codes.max() + 1) + codes, return_inverse=True)
    return first


def _distinct(rows: Codes, of_metric: Codes) -> NDArray[np.int64]:
    """Return how many distinct rows each metric has."""
    _, firsts = np.unique(rows, return_index=True)
    return np.bincount(of_metric[firsts])

"""Which columns of a long table are labels, and which only accompany a value: a key of the row, a count, a maximum."""

from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Any, Final, TypeVar

from perdix.telemetry.exports.records import Remark

LEAST_ROWS: Final = 20  # to judge texts by
DISTINGUISHED: Final = 0.9  # of the rows: some are in a table twice

Name = TypeVar("Name", bound=Hashable)


def no_labels(
    columns: Mapping[Name, Sequence[Hashable]],
    names: Sequence[Hashable],
    rest: Sequence[Sequence[Any]],
    numbers: Collection[Name] = (),
) -> set[Name]:
    """Return the columns without which time, name and the other labels still distinguish the rows.

    Of those with few values, as a label has, only ``numbers``, and those only where that holds for each name and they
    change while the time of a series goes on: in a table in the order of its series, a label does not, and where each
    series has times of its own, its values come in turn.

    ``columns``: possible labels; ``names``: of the metrics; ``rest``: times, and certain labels.
    ``numbers``: columns that may as well be counts; in few rows only these may be no labels.
    """
    rows = len(names)
    values = {name: len(set(cells)) for name, cells in columns.items()}

    def distinguished(without: set[Name]) -> Counter[Hashable]:
        kept = (cells for name, cells in columns.items() if name not in without)
        return Counter(row[0] for row in set(zip(names, *rest, *kept, strict=True)))

    def accompanies(cells: Sequence[Hashable]) -> bool:
        latest: dict[Hashable, tuple[Any, Hashable]] = {}
        texts = (some for name, some in columns.items() if name not in numbers and name not in found)
        samples = list(zip(zip(names, *rest[1:], *texts, strict=True), rest[0], cells, strict=True))
        if sum((time > last) - (time < last) for last, time in pairwise(rest[0])) < 0:  # the newest come first
            samples.reverse()
        for series, time, cell in samples:
            last, before = latest.get(series, (time, cell))
            if before != cell and last < time:
                return not in_turn(cells)
            latest[series] = time, cell
        return False

    def in_turn(cells: Sequence[Hashable]) -> bool:
        of_each: dict[Hashable, list[tuple[Any, Hashable]]] = {}
        for name, time, cell in zip(names, rest[0], cells, strict=True):
            of_each.setdefault(name, []).append((time, cell))
        for some in of_each.values():
            turn = [cell for _, cell in sorted(some, key=itemgetter(0))]
            after: dict[Hashable, Hashable] = {}
            again = 0
            for cell, then in pairwise(turn):
                again += cell != then and after.get(cell) == then
                after[cell] = then
            own_times = len({time for time, _ in some}) > DISTINGUISHED * len(some)
            if own_times and 2 * again > max(len(after), len(turn) - len(after)):
                return True
        return False

    keys = {name for name, count in values.items() if 2 * count > rows and (rows >= LEAST_ROWS or name in numbers)}
    found = keys if keys and distinguished(keys).total() > DISTINGUISHED * rows else set()
    with_all = distinguished(found)
    for name in sorted((name for name in columns if name in numbers), key=lambda name: -values[name]):
        left = distinguished(found | {name})
        may_be = values[name] == 1 or accompanies(columns[name])
        if may_be and all(left[metric] > DISTINGUISHED * count for metric, count in with_all.items()):
            found = found | {name}
    return found


def left_out(column: str) -> Remark:
    """Return that a column was taken for no label."""
    return Remark(f"column '{column}' is left out: it does not distinguish series")

"""Which columns of a long table are labels, and which only accompany a value: a key of the row, a count, a maximum."""

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Final, TypeVar

from perdix.telemetry.exports.records import Remark

LEAST_ROWS: Final = 20  # to judge by
DISTINGUISHED: Final = 0.9  # of the rows: some are in a table twice

Name = TypeVar("Name", bound=Hashable)


def no_labels(
    columns: Mapping[Name, Sequence[Hashable]],
    rest: Sequence[Sequence[Hashable]],
    numbers: Collection[Name] = (),
) -> set[Name]:
    """Return the columns without which time, name and the other labels still distinguish the rows.

    Of those with few values, as a label has, only ``numbers``.

    ``columns``: possible labels; ``rest``: times and names.
    ``numbers``: columns that may as well be counts; none is a label where there are too few rows to see.
    """
    rows = len(rest[0])
    values = {name: len(set(cells)) for name, cells in columns.items()}

    def distinguished(without: set[Name]) -> bool:
        left = (cells for name, cells in columns.items() if name not in without)
        return len(set(zip(*rest, *left, strict=True))) > DISTINGUISHED * rows

    keys = {name for name, count in values.items() if 2 * count > rows}
    if rows < LEAST_ROWS:
        return set(numbers)
    found = keys if keys and distinguished(keys) else set()
    for name in columns:
        if name in numbers and distinguished(found | {name}):
            found = found | {name}
    return found


def left_out(column: str) -> Remark:
    """Return that a column was taken for no label."""
    return Remark(f"column '{column}' is left out: it does not distinguish series")

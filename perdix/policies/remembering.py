"""Reading back what a policy asked to remember: what cannot be read is left out, never an error."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

DIGITS = 6
Part = TypeVar("Part")


def part_of(value: Any, read: Callable[[Any], Part]) -> Part | None:
    """Return what ``read`` makes of a value; ``None`` where it is absent or cannot be read."""
    if value is None:
        return None
    try:
        return read(value)
    except (TypeError, ValueError, IndexError, KeyError, AttributeError, OverflowError):
        return None


def parts_of(values: Any, read: Callable[[Any], Part]) -> list[Part]:
    """Return what ``read`` makes of each value of a list, without those that cannot be read."""
    if not isinstance(values, Sequence) or isinstance(values, str):
        return []
    return [part for part in (part_of(value, read) for value in values) if part is not None]


def parts_by_name(values: Any, read: Callable[[Any], Part]) -> dict[str, Part]:
    """Return name -> what ``read`` makes of each value of a mapping, without those that cannot be read."""
    if not isinstance(values, Mapping):
        return {}
    found = {str(name): part_of(value, read) for name, value in values.items()}
    return {name: part for name, part in found.items() if part is not None}


def number(value: Any) -> float:
    """Return a finite number. Raises ``ValueError`` or ``TypeError`` for anything else."""
    if not math.isfinite(value):
        raise ValueError(f"{value} is not a number")
    return float(value)


def count(value: Any) -> int:
    """Return a number of instances, at least 1. Raises ``ValueError`` or ``TypeError`` for anything else."""
    if int(value) < 1:
        raise ValueError(f"{value} instances cannot run")
    return int(value)


def counts(values: Any) -> dict[str, int]:
    """Return operator -> instances. Raises as :func:`count`, and ``TypeError`` for what is no mapping."""
    if not isinstance(values, Mapping):
        raise TypeError("not operators and their instances")
    return {str(name): count(value) for name, value in values.items()}


def finite_or_null(values: Sequence[float]) -> list[float | None]:
    """Return rounded numbers; what is not finite becomes null."""
    return [round(value, DIGITS) if math.isfinite(value) else None for value in values]


def null_as_nan(value: Any) -> float:
    """Return a number, NaN for null."""
    return math.nan if value is None else float(value)

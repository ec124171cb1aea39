"""Numbers in words: how many of something there are, and amounts in few digits."""

from collections.abc import Sequence

MOST_NAMED = 3


def counted(number: int, what: str) -> str:
    """Return ``1 run``, ``6 runs``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def in_few_digits(value: float, digits: int = 3) -> str:
    """Return a finite number to this many digits, its whole part never cut: ``0.0392``, ``12.3``, ``1,234``."""
    return f"{value:,.0f}" if abs(value) >= 10.0**digits - 0.5 else f"{value:,.{digits}g}"


def named(names: Sequence[str], most: int = MOST_NAMED) -> str:
    """Return the first of some names, and how many more there are: ``ads, orders, traffic and 6 more``."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"

"""Moments as people read them, also those that no calendar has."""

from datetime import UTC, datetime

LAST_YEAR = 9_000  # that a file may name: in each time zone, there are still calendars then


def in_utc(at_s: float, form: str = "%Y-%m-%d %H:%M:%S UTC") -> str:
    """Return epoch seconds in UTC, for example ``2026-01-31 03:12:00 UTC``."""
    try:
        return datetime.fromtimestamp(at_s, UTC).strftime(form)
    except (ValueError, OverflowError, OSError):
        return "after the year 9999" if at_s > 0 else "before the year 1"


def moment(at_s: float) -> str:
    """Return epoch seconds as UTC, for example ``2026-01-31 03:12Z``."""
    return in_utc(at_s, "%Y-%m-%d %H:%MZ")

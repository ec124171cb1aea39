"""How a moment is written for people."""

from __future__ import annotations

from datetime import UTC, datetime


def moment(at_s: float) -> str:
    """Return epoch seconds as UTC, for example ``2026-01-31 03:12Z``."""
    return datetime.fromtimestamp(at_s, tz=UTC).strftime("%Y-%m-%d %H:%MZ")

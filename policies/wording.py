"""Numbers with their units, as the sentences of a decision say them."""

from __future__ import annotations

import math


def per_s(rate: float) -> str:
    """Return a rate in records per second."""
    return f"{_number(rate)}/s"


def records(count: float) -> str:
    """Return a number of records."""
    return f"{_number(count)} records"


def seconds(duration_s: float) -> str:
    """Return a duration, in the largest unit that keeps it readable."""
    if not math.isfinite(duration_s):
        return "for ever"
    return f"{duration_s:,.0f} s" if duration_s >= 10 else f"{duration_s:.2g} s"


def workers(scale_out: int) -> str:
    """Return a number of workers."""
    return "1 worker" if scale_out == 1 else f"{scale_out:,} workers"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"

"""Numbers with their units, as the sentences of a decision say them."""

import math
from collections.abc import Mapping

from perdix.settings.counting import counted


def per_s(rate: float) -> str:
    """Return a rate in records per second."""
    return f"{_number(rate)}/s"


def records(count: float) -> str:
    """Return a number of records."""
    return f"{_number(count)} records"


LITTLE_S = 0.1  # whose digits say nothing


def seconds(duration_s: float) -> str:
    """Return a duration, in the largest unit that keeps it readable."""
    if not math.isfinite(duration_s):
        return "unlimited time"
    if 0.0 < duration_s < LITTLE_S:
        return f"under {LITTLE_S:g} s"
    return f"{duration_s:,.0f} s" if duration_s >= 10 else f"{duration_s:.2g} s"


def recovery(recovery_s: float) -> str:
    """Return in words how long a recovery would take."""
    return f"would take {seconds(recovery_s)}" if math.isfinite(recovery_s) else "would never catch up"


def workers(scale_out: int, mix: Mapping[str, int] | None = None) -> str:
    """Return a number of workers, with their sizes where they differ: ``3 workers (1 large, 2 small)``."""
    number = counted(scale_out, "worker")
    sizes = ", ".join(f"{count:,} {size}" for size, count in sorted((mix or {}).items()) if count)
    return f"{number} ({sizes})" if sizes else number


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"

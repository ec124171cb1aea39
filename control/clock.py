"""The one source of wall time below the Dagster floor; everything else is handed ``now``."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Anything that tells epoch seconds."""

    def now_s(self) -> float:
        """Return epoch seconds (UTC)."""
        ...


class WallClock:
    """The machine's clock."""

    def now_s(self) -> float:
        """Return epoch seconds (UTC)."""
        return time.time()

"""The clocks of the machine, for everything below the Dagster floor; everything else is handed ``now``.

Wall time shows people when something was, and may step: by NTP, by hand, by a virtual machine that is restored. How
long something has lasted is measured by a clock that never steps.
"""

import time
import uuid
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Protocol

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
TIME_NAMESPACE = Path("/proc/self/ns/time")
CLOCK_BACK_S = 900.0  # by which wall time may go back until earlier times mean nothing


class Clock(Protocol):
    """Anything that returns epoch seconds."""

    def now_s(self) -> float:
        """Return epoch seconds (UTC)."""


class HostClock(Clock, Protocol):
    """A clock that also measures how long things last."""

    @property
    def boot(self) -> str:
        """What :meth:`elapsed_s` counts from; only times of the same boot can be compared."""

    def elapsed_s(self) -> float:
        """Return seconds that only ever grow, also while the machine sleeps."""


@dataclass(frozen=True)
class Moment:
    """One read of every clock."""

    wall_s: float  # epoch seconds: for people
    # elapsed_s, boot: seconds since ``boot`` began: for whatever must not be early or late because a clock was set
    elapsed_s: float
    boot: str


def moment(clock: HostClock) -> Moment:
    """Read every clock at once."""
    return Moment(clock.now_s(), clock.elapsed_s(), clock.boot)


class WallClock:
    """The machine's clocks."""

    def now_s(self) -> float:
        """Return epoch seconds (UTC)."""
        return time.time()

    @property
    def boot(self) -> str:
        """The kernel's name for its present boot; where it has none, a name of this process alone."""
        return _boot()

    def elapsed_s(self) -> float:
        """Return seconds since the machine was booted."""
        return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


PROCESS = "process:"  # of boots that no other process knows of


@lru_cache(maxsize=1)
def _boot() -> str:
    try:
        boot = f"kernel:{BOOT_ID.read_text().strip()}"
    except OSError:
        return f"{PROCESS}{uuid.uuid4()}"
    # Containers share the kernel's clocks, except in a time namespace of their own.
    return f"{boot}:{TIME_NAMESPACE.readlink()}" if TIME_NAMESPACE.is_symlink() else boot

"""The controller without Dagster: a tick of the fleet once, or one every interval until it is stopped."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from perdix.control.clock import HostClock
from perdix.control.fleet import SOFT_DEADLINE_S, tick_fleet
from perdix.control.fleet_report import FleetReport
from perdix.control.job_files import JobFiles
from perdix.control.tick_io import TickIO


def run(
    jobs: Callable[[], JobFiles],
    io: TickIO,
    clock: HostClock,
    *,
    holder: str,
    stop: threading.Event | None = None,
    ticks: int | None = None,
    soft_deadline_s: float = SOFT_DEADLINE_S,
    heartbeat: Path | None = None,
) -> Iterator[FleetReport]:
    """Tick the fleet every ``io.tick_interval_s`` seconds, yielding each report.

    Ticks start at fixed times: one that takes long does not push the following ones back, and those that it swallows
    are left out.

    ``jobs``: asked anew before each tick, so that job files may change while it runs.
    ``stop``: ends the loop between two ticks; a single tick needs none.
    ``ticks``: end after this many; never when left out.
    """
    stop = stop or threading.Event()
    started_s, done = clock.elapsed_s(), 0
    while True:
        files = jobs()
        yield tick_fleet(
            files.jobs.values(),
            io,
            clock,
            holder=holder,
            soft_deadline_s=soft_deadline_s,
            heartbeat=heartbeat,
            keep_lease=ticks != 1,
            files=files,
        )
        done += 1
        if ticks is not None and done >= ticks:
            return
        elapsed_s = clock.elapsed_s() - started_s
        next_s = (elapsed_s // io.tick_interval_s + 1) * io.tick_interval_s
        if stop.wait(next_s - elapsed_s):
            return

"""What processes of a crew do in its tests, apart from these: each process imports this, and needs no pytest for it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from perdix.settings.stream_job import StreamJob
from perdix.settings.targets import TwinSettings

if TYPE_CHECKING:
    from perdix.control.tick_io import TickIO

JOBS = [StreamJob(name=f"job-{number}", target=TwinSettings(url="http://in.process")) for number in range(12)]
SLOW = FIRST, SECOND = "first", "second"


@contextmanager
def nothing() -> Iterator[TickIO]:
    yield None


def obey(jobs: Sequence[StreamJob], _io: TickIO, turn: str) -> tuple[int | str, set[str]]:
    """Serve, take a moment over it, or do what a process does when things go wrong, if it has the first job."""
    if turn in SLOW:
        time.sleep(0.3)
        return turn, {job.name for job in jobs}
    if turn != "serve" and JOBS[0] in jobs:
        if turn == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if turn == "hang":
            time.sleep(60.0)
        raise RecursionError("deep")
    return os.getpid(), {job.name for job in jobs}

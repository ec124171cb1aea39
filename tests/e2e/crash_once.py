"""A controller that dies at a chosen moment of its tick: run as a program, ends by SIGKILL.

``before``: what was decided is stored, the target was not yet asked. ``after``: Flink has accepted it, and perdix has
not yet noted so.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from perdix.control.clock import WallClock
from perdix.control.controller import run
from perdix.control.job_files import stream_jobs
from perdix.control.live import live_io
from perdix.settings.home import Home
from perdix.settings.product import ControlSettings
from perdix.settings.stream_job import StreamJob
from perdix.targets.contract import Guard, Running, Target, unguarded

TICKS = 75  # of two seconds: a scale-in waits until what is measured since the last restart can be true


class Dying:
    """A target that takes its process with it when it is asked to scale."""

    def __init__(self, inner: Target, moment: str) -> None:
        self._inner, self._moment = inner, moment

    def read(self) -> Running:
        return self._inner.read()

    def scale(
        self,
        scale_out: int,
        idempotency_key: str,
        mix: Mapping[str, int] | None = None,
        guard: Guard = unguarded,
    ) -> Running:
        if self._moment == "after":
            self._inner.scale(scale_out, idempotency_key, mix, guard)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("still alive")

    def close(self) -> None:
        self._inner.close()


def main(root: str, moment: str) -> None:
    home = Home(Path(root))
    with live_io(home, ControlSettings()) as io:

        def dying(job: StreamJob) -> Target:
            return Dying(io.target_of(job), moment)

        paced = replace(io, target_of=dying, tick_interval_s=2.0)
        for _ in run(
            lambda: stream_jobs(home), paced, WallClock(), holder=f"dying:{os.getpid()}:{time.time()}", ticks=TICKS
        ):
            pass


if __name__ == "__main__":
    main(*sys.argv[1:])

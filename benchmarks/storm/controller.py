"""A controller of an episode: where its process runs, is ended and is started again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.storm.faults import Fault
from benchmarks.storm.process import Loop, Process
from perdix.settings.stream_job import StreamJob


@dataclass
class Controller:
    """A place where a process runs, is ended and is started again."""

    name: str
    next_s: float
    process: Process | Loop | None = None
    busy: bool = False
    boundaries: int = 0
    counted_min: int = -1
    jobs: Sequence[StreamJob] = ()  # as its present tick was given them
    starts: int = 0  # of its process
    doomed: bool = False  # its machine was booted while its process slept
    late_s: float = 0.0  # by which its present request left late
    version: int = 0  # of the target when it was to leave
    job: str = ""  # whose target it asks
    operates: bool = False  # it is a loop that sizes operators
    done: set[Fault] = field(default_factory=set)
    awake_until_s: dict[str, float] = field(default_factory=dict)  # by job

    def end(self) -> None:
        process, self.process = self.process, None
        if process is not None:
            process.end()

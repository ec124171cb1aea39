"""One controller: a process with its own clock, connections and memory, which may die at any boundary."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from benchmarks.storm.disk import Disk
from perdix.control.calls import Call, Calls
from perdix.control.champions import ChampionRegistry, Champions
from perdix.control.fleet import tick_fleet
from perdix.control.fleet_report import FleetReport
from perdix.control.live import Targets
from perdix.control.read_ahead import Hanging, JobsSource, ReadAhead
from perdix.control.state.store import StateStore
from perdix.control.tick_io import TickIO
from perdix.settings.stream_job import StreamJob
from perdix.targets.build import build_target
from perdix.targets.contract import Target
from perdix.targets.flink.target import Pace

Result = TypeVar("Result")
INTERVAL_S = 60.0
SOFT_DEADLINE_S = 25.0
CHAMPIONS = "champions"  # the folder in which it keeps what it read of MLflow


class Killed(BaseException):
    """The process has died, as by SIGKILL: not an ``Exception``, so that nothing catches it."""


class InTurn(Calls):
    """Calls one after the other in this thread, so that they are made in the same order each time."""

    def run(self, calls: Iterable[Call[Result]]) -> Iterator[Result]:
        """Yield results as they come."""
        for call in calls:
            yield from self._made(call)

    def _made(self, call: Call[Result]) -> Iterator[Result]:
        for found in call.then(call.ask()):
            if isinstance(found, Call):
                yield from self._made(found)
            else:
                yield found


@dataclass(frozen=True)
class Machine:
    """What a process runs on, from one boot to the next."""

    boot: str
    booted_s: float  # epoch seconds of the world


def _pace(elapsed_s: Callable[[], float], waits: Callable[[float], bool]) -> Pace:
    """Return a pace at which a target waits beside the loop, as in a thread of its own: no other job's time passes.

    Unless the world says that it ``waits``, too.
    """
    waited = [0.0]

    def pause(seconds: float) -> None:
        if not waits(seconds):
            waited[0] += seconds

    return Pace(lambda: elapsed_s() + waited[0], pause)


class Process:
    """A controller from its start to its end.

    ``true_s``: the world's epoch seconds, of which its own ``clock`` may know nothing.
    ``statement``: asked before each act on its store.
    ``waits``: lets time pass while a target waits for so many seconds; False where only that target's time is to pass.
    """

    def __init__(
        self,
        name: str,
        url: str,
        folder: Path,
        clock: Callable[[], float],
        *,
        machine: Machine,
        true_s: Callable[[], float],
        waits: Callable[[float], bool],
        source: JobsSource,
        statement: Callable[[str], str | None],
        registry: ChampionRegistry,
        wrapped: Callable[[Target], Target],
    ) -> None:
        self.name = name
        self._clock, self._true_s, self._machine = clock, true_s, machine
        self._folder = folder
        self.targets = Targets(partial(build_target, pace=_pace(self.elapsed_s, waits)))
        self.disk = Disk(statement)
        self.store: StateStore | None = None
        try:
            self.store = self.disk.open(url)
        except BaseException:
            self.end()
            raise
        champions = Champions(folder / CHAMPIONS, registry)

        def target_of(job: StreamJob) -> Target:
            return wrapped(self.targets(job))

        ahead = ReadAhead(source, Hanging(), InTurn())
        self.io = TickIO(source, self.store, champions, target_of, tick_interval_s=INTERVAL_S, ahead=ahead)

    def now_s(self) -> float:
        """Return what its clock says: epoch seconds."""
        return self._clock()

    @property
    def boot(self) -> str:
        """Return the boot of its machine."""
        return self._machine.boot

    def elapsed_s(self) -> float:
        """Return seconds since the machine was booted, which no step of the clock changes."""
        return self._true_s() - self._machine.booted_s

    def tick(self, jobs: Sequence[StreamJob], heartbeat: Path) -> FleetReport:
        """Make one tick of the fleet."""
        return tick_fleet(jobs, self.io, self, holder=self.name, soft_deadline_s=SOFT_DEADLINE_S, heartbeat=heartbeat)

    def end(self) -> None:
        """Close what the process had open, as its end does."""
        self.disk.pull_the_plug()
        if self.store is not None:
            self.store.close()
        self.targets.close()

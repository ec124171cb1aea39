"""One controller: a process with its own clock, connections and memory, which may die at any boundary."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from benchmarks.storm.disk import Disk
from benchmarks.storm.drowsy import Drowsy, Sleepy
from perdix.control.calls import Call, Calls
from perdix.control.champions import ChampionRegistry, Champions
from perdix.control.fleet import tick_fleet
from perdix.control.fleet_report import FleetReport
from perdix.control.live import Targets
from perdix.control.operators.executor import Executor
from perdix.control.operators.look import Look
from perdix.control.operators.loop import looks
from perdix.control.operators.memory import recall, remember
from perdix.control.read_ahead import Hanging, JobsSource, ReadAhead
from perdix.control.state.store import StateStore
from perdix.control.tick_io import TickIO
from perdix.policies.dataflow.build import build_dataflow_policy
from perdix.settings.stream_job import StreamJob
from perdix.settings.targets import FlinkSettings
from perdix.targets.build import build_target
from perdix.targets.contract import Target
from perdix.targets.flink.target import FlinkTarget, Pace

Result = TypeVar("Result")
INTERVAL_S = 60.0
SOFT_DEADLINE_S = 25.0
LOOK_S = 40.0  # between two looks of a loop that sizes operators: one is asleep for longer than its lease lasts
OPERATORS = "ds2"  # the policy that sizes operators
CHAMPIONS = "champions"  # the folder in which it keeps what it read of MLflow


class Killed(BaseException):
    """The process has died, as by SIGKILL: not an ``Exception``, so that nothing catches it."""


class InTurn(Calls):
    """Calls one after the other in this thread, so that they are made in the same order each time."""

    def run(self, calls: Iterable[Call[Result]]) -> Iterator[Result]:
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


@dataclass(frozen=True)
class Surroundings:
    """What a process meets, whichever it is.

    ``url``: of the store.
    ``clock``: what its clock says, epoch seconds; ``true_s``: the world's, of which it may know nothing.
    ``statement``: asked before each act on its store.
    ``waits``: lets time pass while a target waits for this many seconds; False where only that target's time passes.
    """

    url: str
    clock: Callable[[], float]
    true_s: Callable[[], float]
    machine: Machine
    statement: Callable[[str], str | None]
    waits: Callable[[float], bool]


def _disk_of(url: str) -> type[Disk]:
    if url.startswith("sqlite"):
        return Disk
    from benchmarks.storm.postgresql import Server  # noqa: PLC0415 - needs a driver that few have

    return Server


class Running:
    """A process with its clock and its store; a clock of its host for what runs in it."""

    def __init__(self, name: str, around: Surroundings) -> None:
        self.name, self._around = name, around
        self.pace = _pace(self.elapsed_s, around.waits)
        self.disk = _disk_of(around.url)(around.statement)
        self._opened: StateStore | None = None
        try:
            self._opened = self.disk.open(around.url)
        except BaseException:
            Running.end(self)  # nothing else is open yet
            raise
        self.store = self._opened

    def now_s(self) -> float:
        """Return what its clock says: epoch seconds."""
        return self._around.clock()

    @property
    def boot(self) -> str:
        return self._around.machine.boot

    def elapsed_s(self) -> float:
        """Return seconds since the machine was booted, which no step of the clock changes."""
        return self._around.true_s() - self._around.machine.booted_s

    def end(self) -> None:
        """Close what the process had open, as its end does."""
        self.disk.pull_the_plug()
        if self._opened is not None:
            self._opened.close()


class Process(Running):
    """A controller from its start to its end."""

    def __init__(
        self,
        name: str,
        folder: Path,
        around: Surroundings,
        *,
        source: JobsSource,
        registry: ChampionRegistry,
        drowsy: Callable[[], object],
    ) -> None:
        super().__init__(name, around)
        self.targets = Targets(partial(build_target, pace=self.pace))
        champions = Champions(folder / CHAMPIONS, registry)

        def target_of(job: StreamJob) -> Target:
            return Drowsy(self.targets(job), drowsy)

        ahead = ReadAhead(source, Hanging(), InTurn())
        self.io = TickIO(source, self.store, champions, target_of, tick_interval_s=INTERVAL_S, ahead=ahead)

    def tick(self, jobs: Sequence[StreamJob], heartbeat: Path) -> FleetReport:
        return tick_fleet(jobs, self.io, self, holder=self.name, soft_deadline_s=SOFT_DEADLINE_S, heartbeat=heartbeat)

    def end(self) -> None:
        super().end()
        self.targets.close()


class Loop(Running):
    """``perdix operators --apply`` for one job, from its start to its end.

    ``job``: as its file is now.
    """

    def __init__(
        self, name: str, around: Surroundings, job: Callable[[], StreamJob], drowsy: Callable[[], object]
    ) -> None:
        super().__init__(name, around)
        self._job = job
        target = job().target
        assert isinstance(target, FlinkSettings)
        self._flink = Sleepy(FlinkTarget(target, job().name, pace=self.pace), drowsy)
        self._looks: Iterator[Look] | None = None

    @property
    def begun(self) -> bool:
        """Whether it looks already; before, what it cannot read ends it."""
        return self._looks is not None

    def look(self) -> Look | None:
        """Look once more; the first time, only at where the counters stand: ``None``."""
        if self._looks is not None:
            return next(self._looks)
        self._flink.first = self._flink.read_dataflow()
        job = self._job().name
        executor = Executor(self._flink, self._job(), self.store, self, self.name, LOOK_S)

        def carried_out(look: Look) -> Look:
            executor.job = self._job()
            return executor.carry_out(look)

        self._looks = looks(
            self._flink,
            build_dataflow_policy(OPERATORS),
            lambda: self._job().bounds,
            interval_s=LOOK_S,
            carry_out=carried_out,
            memory=recall(self.store, job, OPERATORS, self.now_s()),
            remember=lambda now_s, memory: remember(self.store, job, OPERATORS, now_s, memory),
            sleep=lambda _: None,
        )
        return None

    def end(self) -> None:
        super().end()
        self._flink.close()

"""Tasks in several processes: progress while they run, a reason where one fails, and nothing that outlives Ctrl-C."""

import gc
import logging
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import connection, get_context, parent_process
from typing import Any, Generic, Protocol, TypeVar, cast

from threadpoolctl import threadpool_limits

Tell = Callable[[float], None]  # how far a task has come; 0 at its start
OnProgress = Callable[[float, int], None]  # sum of how far all have come, tasks that ended

POLL_S = 0.2


@dataclass(frozen=True)
class Task:
    """A function of a module, so that another process finds it, and its argument."""

    function: Callable[[Any, Tell], object]
    argument: Any


@dataclass(frozen=True)
class Raised:
    """A task that did not come to its end, and why."""

    reason: str


def side_by_side(
    tasks: Sequence[Task], *, processes: int | None = None, on_progress: OnProgress | None = None
) -> list[object]:
    """Carry out tasks and return their results in the same order; the failure of one does not touch the others.

    A process that dies (killed, out of memory) takes down those beside it; what was under way is tried again one by
    one, so that only the culprit is lost. On Ctrl-C every process ends before ``KeyboardInterrupt`` goes on.

    ``processes``: how many at a time; by default as many as there are cores. 1: all in this process.
    Returns what each function returned, or :class:`Raised`.
    """
    count = min(processes or os.cpu_count() or 1, len(tasks))
    if count <= 1:
        return _one_after_another(tasks, on_progress)
    crew = _Crew(tasks, on_progress)
    left = list(range(len(tasks)))
    while left:
        crew.work(left, min(count, len(left)))
        suspects = [k for k in left if k not in crew.results and crew.begun[k]]
        for k in suspects:
            crew.work([k], 1)
            crew.results.setdefault(k, Raised("its process ended before it did: killed, or out of memory"))
        unfinished = [k for k in left if k not in crew.results]
        if len(unfinished) == len(left):
            raise RuntimeError("processes end before they begin to work")
        left = unfinished
    return [crew.results[k] for k in range(len(tasks))]


class Seeded(Protocol):
    """What a replay is played with: which luck."""

    @property
    def seed(self) -> int:
        """Of everything random in it."""


@dataclass(frozen=True)
class Failed:
    """A replay that did not come to its end, and why."""

    policy: str
    seed: int
    reason: str


Case = TypeVar("Case", bound=Seeded)
SetupOf = TypeVar("SetupOf", bound="HasCases")
PlayedOf = TypeVar("PlayedOf")


class HasCases(Protocol):
    """What is to be replayed."""

    def cases(self) -> tuple[Any, ...]:
        """Return every replay of it, each :class:`Seeded`."""


@dataclass(frozen=True)
class Ended(Generic[SetupOf, PlayedOf]):
    """What came of a setup, in the order of its cases; ``failed`` are the replays that raised."""

    setup: SetupOf
    played: tuple[PlayedOf, ...]
    failed: tuple[Failed, ...] = ()
    wall_s: float = 0.0


def play_all(
    setup: SetupOf,
    play: Callable[[Case, Tell], PlayedOf],
    name_of: Callable[[Case], str],
    *,
    processes: int | None = None,
    on_progress: OnProgress | None = None,
) -> Ended[SetupOf, PlayedOf]:
    """Play every case of a setup.

    A replay that raises is recorded with its reason, and the others go on. The results depend on the setup only, not on
    how many processes there are.

    ``play``: plays one case, and reports how many seconds of it have passed.
    ``name_of``: what a case's policy is called in tables.
    ``processes``: as of :func:`side_by_side`.
    """
    began_s, cases = time.perf_counter(), setup.cases()
    found = side_by_side([Task(play, case) for case in cases], processes=processes, on_progress=on_progress)
    failed = tuple(
        Failed(name_of(case), case.seed, outcome.reason)
        for case, outcome in zip(cases, found, strict=True)
        if isinstance(outcome, Raised)
    )
    played = tuple(cast("PlayedOf", outcome) for outcome in found if not isinstance(outcome, Raised))
    return Ended(setup, played, failed, time.perf_counter() - began_s)


def _one_after_another(tasks: Sequence[Task], on_progress: OnProgress | None) -> list[object]:
    results: list[object] = []
    before = so_far = 0.0

    def tell(value: float) -> None:
        nonlocal so_far
        so_far = value
        if on_progress is not None:
            on_progress(before + value, len(results))

    for task in tasks:
        so_far = 0.0
        results.append(_attempt(task, tell))
        before += so_far
    if on_progress is not None:
        on_progress(before, len(results))
    return results


class _Crew:
    """Processes that work on tasks. What they share is written by one each and never locked: they may die any time."""

    def __init__(self, tasks: Sequence[Task], on_progress: OnProgress | None) -> None:
        self.tasks = tasks
        self.results: dict[int, object] = {}
        self.context = get_context("spawn")  # a fork would copy threads of libraries in the middle of their work
        self.progress = self.context.Array("d", len(tasks), lock=False)
        self.begun = self.context.Array("b", len(tasks), lock=False)
        self.stop = self.context.Value("b", 0, lock=False)
        self.on_progress = on_progress

    def work(self, numbers: Sequence[int], processes: int) -> None:
        """Carry out the tasks of these numbers; those whose process dies get no result."""
        for k in numbers:
            self.progress[k] = self.begun[k] = 0
        shared = (self.progress, self.begun, self.stop)
        with ProcessPoolExecutor(processes, self.context, initializer=_begin, initargs=shared) as pool:
            try:
                futures = {pool.submit(_carry_out, k, self.tasks[k]): k for k in numbers}
                self._collect(futures)
            except BrokenProcessPool:
                pass  # it broke while tasks were handed in
            except BaseException:
                self.stop.value = 1
                pool.shutdown(wait=True, cancel_futures=True)
                raise

    def _collect(self, futures: dict[Future[object], int]) -> None:
        pending = set(futures)
        while pending:
            done, pending = wait(pending, POLL_S, FIRST_COMPLETED)
            for future in done:
                if not isinstance(future.exception(), BrokenProcessPool):
                    self.results[futures[future]] = future.result()
            if self.on_progress is not None:
                self.on_progress(sum(self.progress), len(self.results))


_shared: Any = None  # of this process: (progress, begun, stop)


def _begin(*shared: Any) -> None:
    global _shared  # noqa: PLW0603 - shared memory reaches a process at its start only
    _shared = shared
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C at a terminal reaches every process: no trace from each
    warnings.simplefilter("ignore")
    logging.getLogger().setLevel(logging.ERROR)
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel, shared[-1]), daemon=True).start()


def _end_with(sentinel: int, stop: Any) -> None:
    """End this process when it is asked to, or when its parent is gone, however that came about."""
    while not stop.value and not connection.wait([sentinel], POLL_S):
        pass
    os._exit(1)


def _carry_out(k: int, task: Task) -> object:
    progress, begun, _ = _shared
    begun[k] = 1

    def tell(value: float) -> None:
        progress[k] = value

    return _attempt(task, tell)


def _attempt(task: Task, tell: Tell) -> object:
    gc.freeze()  # what is there by now stays: to search it for garbage again and again is a tenth of a replay
    try:
        with threadpool_limits(1):  # as many threads as processes; and sums that do not depend on how many there are
            return task.function(task.argument, tell)
    except Exception as error:
        return Raised(f"{type(error).__name__}: {error}")
    finally:
        gc.unfreeze()

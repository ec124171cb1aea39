"""Processes that serve a large fleet side by side: each always the same jobs, so that it remembers its own.

Belongs here: the processes, who serves which job, and what becomes of the jobs of one that ends. Does not belong here:
how jobs are served (:mod:`perdix.control.fleet`).
"""

from __future__ import annotations

import hashlib
import logging
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from multiprocessing import connection, get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from joblib import cpu_count

if TYPE_CHECKING:
    from perdix.control.tick_io import TickIO
    from perdix.settings.stream_job import StreamJob

JOBS_EACH = 250  # a tick of this many takes a process some four seconds
LONGEST_S = 240.0  # of one turn: a process that takes longer is hung, and ended
CLOSES_S = 5.0  # a process may take until it is ended
_HUNG = f"its process did not answer within {LONGEST_S:.0f} s"
_log = logging.getLogger(__name__)
Turn = TypeVar("Turn")
Outcome = TypeVar("Outcome")
Opening = Callable[[], "AbstractContextManager[TickIO]"]
Serve = Callable[[Sequence["StreamJob"], "TickIO", Turn], Outcome]


@dataclass(frozen=True)
class Lost:
    """Jobs whose process did not come to the end of its turn, and why."""

    jobs: tuple[StreamJob, ...]
    why: str


def processes_for(jobs: int, at_most: int | None = None) -> int:
    """Return how many processes serve this many jobs: as many as they need, within the cores that this one may use."""
    needed = max(-(-jobs // JOBS_EACH), 1)
    if needed == 1:
        return 1
    return min(needed, at_most or int(cpu_count()))  # of a container: its limit


class Crew(Generic[Turn, Outcome]):
    """Processes, started when they are first needed; they end with this one, however it ends.

    ``opening``: opens what a tick touches; called in each process. Can be pickled.
    ``serve``: what each process does with its jobs; a function of a module, whose outcome can be pickled.
    ``at_most``: processes; as many as there are cores when left out.
    """

    def __init__(self, opening: Opening, serve: Serve[Turn, Outcome], at_most: int | None = None) -> None:
        self._opening, self._serve, self._at_most = opening, serve, at_most
        self._members: list[_Member] = []
        self._turns = threading.Lock()  # ticks of a sensor that times out overlap

    def wanted_for(self, jobs: int) -> bool:
        """Whether this many jobs need more than one process; once they did, they keep them."""
        return len(self._members) > 1 or processes_for(jobs, self._at_most) > 1

    def turn(self, jobs: Sequence[StreamJob], turn: Turn) -> Generator[Outcome | Lost, None, None]:
        """Let every process serve its jobs, and yield what came of it in whatever order they end.

        A turn that begins before another has ended waits for it. Whoever does not wait for all of it closes it: what
        is still under way is ended, so that its answer is not taken for one of the next turn.
        """
        with self._turns:
            self._man(max(len(self._members), processes_for(len(jobs), self._at_most)))
            busy = {member.to_it: (member, part) for member, part in zip(self._members, self._parts(jobs), strict=True)}
            try:
                for member, part in list(busy.values()):
                    try:
                        member.to_it.send((part, turn))
                    except OSError:
                        del busy[member.to_it]
                        yield self._lost(member, part, "its process has ended")
                while busy:
                    ready = connection.wait(list(busy), LONGEST_S)
                    for worker in [worker for worker in busy if not ready or worker in ready]:
                        member, part = busy.pop(worker)
                        yield self._ended(member, part) if ready else self._lost(member, part, _HUNG)
            finally:
                for member, part in busy.values():
                    self._lost(member, part, "nobody waited for it")

    def _parts(self, jobs: Sequence[StreamJob]) -> list[list[StreamJob]]:
        parts: list[list[StreamJob]] = [[] for _ in self._members]
        for job in jobs:
            number = int.from_bytes(hashlib.blake2b(job.name.encode(), digest_size=8).digest(), "big")
            parts[number % len(parts)].append(job)
        return parts

    def close(self) -> None:
        """End every process, and wait for it."""
        for member in self._members:
            member.to_it.close()
        for member in self._members:
            member.process.join(CLOSES_S)
            if member.process.is_alive():
                member.process.kill()
        self._members.clear()

    def _ended(self, member: _Member, part: Sequence[StreamJob]) -> Outcome | Lost:
        try:
            found: Outcome | _Failed = member.to_it.recv()
        except (EOFError, OSError):
            return self._lost(member, part, "its process ended before it did: killed, or out of memory")
        return Lost(tuple(part), found.why) if isinstance(found, _Failed) else found

    def _man(self, count: int) -> None:
        while len(self._members) < count:
            self._members.append(self._started())

    def _started(self) -> _Member:
        context = get_context("spawn")  # a fork would copy threads of libraries in the middle of their work
        # Of glibc: a heap for each thread that reads answers would keep twice the memory. A process takes it at start.
        os.environ.setdefault("MALLOC_ARENA_MAX", "2")
        here, there = context.Pipe()
        process = context.Process(target=_work, args=(there, self._opening, self._serve), daemon=True)
        process.start()
        there.close()
        return _Member(process, here)

    def _lost(self, member: _Member, jobs: Sequence[StreamJob], why: str) -> Lost:
        """Put another process in the place of one that is of no use any more."""
        _log.error("%d jobs were not served: %s", len(jobs), why)
        member.process.kill()
        member.to_it.close()
        self._members[self._members.index(member)] = self._started()
        return Lost(tuple(jobs), why)


@dataclass(frozen=True)
class _Member:
    process: BaseProcess
    to_it: Connection


@dataclass(frozen=True)
class _Failed:
    """A turn that raised, in words."""

    why: str


def _work(turns: Connection, opening: Opening, serve: Serve[Turn, Outcome]) -> None:
    """Serve jobs turn by turn, until the other end is closed: by :meth:`Crew.close`, or because its process is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process; the first one ends the others
    with ExitStack() as stack:
        io: TickIO | None = None
        for jobs, turn in _received(turns):
            outcome: Outcome | _Failed
            try:
                io = io or stack.enter_context(opening())
                outcome = serve(jobs, io, turn)
            except Exception as error:  # a store that cannot be opened, for example: the next turn tries anew
                outcome = _Failed(f"{type(error).__name__}: {error}")
            with suppress(OSError):
                turns.send(outcome)


def _received(turns: Connection) -> Iterator[Any]:
    with suppress(EOFError, OSError):
        while True:
            yield turns.recv()

"""What a tick asks servers, asked for many jobs at once before anything of them is decided.

Belongs here: who is asked together, and a job's tick with the answers in hand. Does not belong here: how many calls
there may be at once (:mod:`perdix.control.calls`), and what a tick does.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol

from perdix.control.calls import Call, Calls, Result
from perdix.control.clock import HostClock, moment
from perdix.control.sources import MetricsSource, Reading, SourceError, since_s
from perdix.control.tick_io import Ready, TickIO
from perdix.settings.stream_job import StreamJob
from perdix.targets.contract import Running, Target, TargetError

JOBS_AT_ONCE = 64
HANGING_S = 2.0  # a request that took as long and failed: its server is not asked again for a while
REST_S = 30.0
_log = logging.getLogger(__name__)


class JobsSource(MetricsSource, Protocol):
    """A source that reads several jobs with the same queries. Thread-safe."""

    def read_jobs(self, jobs: Iterable[tuple[StreamJob, float]], now_s: float) -> Mapping[str, Reading | SourceError]:
        """Return each job's window from its second on, or why there is none."""


@dataclass(frozen=True)
class ReadAhead:
    """Reads metrics and targets of many jobs at once."""

    source: JobsSource
    hanging: Hanging
    calls: Calls = field(default_factory=Calls)

    def served(
        self,
        batches: Iterable[Sequence[StreamJob]],
        io: TickIO,
        clock: HostClock,
        serve: Callable[[Ready], Iterable[Result | Call[Result]]],
    ) -> Iterator[Result]:
        """Serve the jobs as soon as they are ready, and yield what that gives; those of a server that hangs come last.

        ``batches``: jobs of one server each (:func:`batches`), read one batch at a time and only when there is room for
        it.
        ``serve``: gives results, and calls that take their time: others are served meanwhile.
        """
        asked = _Asked(self.source, self.hanging, io, clock, serve)
        return self.calls.run(asked.metrics(jobs) for jobs in batches if jobs)


@dataclass(frozen=True)
class _Asked(Generic[Result]):
    source: JobsSource
    hanging: Hanging
    io: TickIO
    clock: HostClock
    serve: Callable[[Ready], Iterable[Result | Call[Result]]]

    def metrics(self, jobs: Sequence[StreamJob]) -> Call[Result]:
        at = moment(self.clock)
        asked = {job.name: (job, since) for job in jobs if (since := _since_s(job, self.io, at.wall_s)) is not None}

        def ask() -> Mapping[str, Reading | SourceError]:
            try:
                return self.source.read_jobs(asked.values(), at.wall_s)
            except Exception:  # whichever job it is of: its own tick meets it again, and says so
                _log.exception("%d jobs could not be read together", len(asked))
                return {}

        def then(found: Mapping[str, Reading | SourceError]) -> Iterator[Result | Call[Result]]:
            for job in jobs:
                read = self.io
                if job.name in found:
                    window = at.wall_s, asked[job.name][1]
                    read = replace(read, source=_Read(self.source, job.name, window, found[job.name]))
                yield from self._target(Ready(job, read, at))

        return Call(f"metrics {_server(jobs[0])}", ask, then)

    def _target(self, ready: Ready) -> Iterator[Result | Call[Result]]:
        job, io = ready.job, ready.io
        if job.target.kind == "advisory":
            yield from self.serve(ready)
            return
        try:
            target = Watched(io.target_of(job), target_server(job), self.hanging, self.clock)
        except Exception:  # its own tick meets it again, and says so
            yield from self.serve(ready)
            return

        def ask() -> Running | Exception:
            try:
                return target.read()
            except Exception as error:
                return error

        def then(found: Running | Exception) -> Iterator[Result | Call[Result]]:
            seen = _Seen(target, found)
            yield from self.serve(replace(ready, io=replace(io, target_of=lambda _: seen)))

        yield Call(target_call(job), ask, then)


def batches(jobs: Iterable[StreamJob]) -> Iterator[list[StreamJob]]:
    """Return jobs of one Prometheus together, at most :data:`JOBS_AT_ONCE`, servers by turns, else in their order."""
    of_server: dict[str, list[StreamJob]] = {}
    for job in jobs:
        of_server.setdefault(_server(job), []).append(job)
    first = 0
    while any(len(members) > first for members in of_server.values()):
        for members in of_server.values():
            if members[first:]:
                yield members[first : first + JOBS_AT_ONCE]
        first += JOBS_AT_ONCE


def target_server(job: StreamJob) -> str:
    """Return what distinguishes the server of a job's target from others."""
    shared = {"job_name", "checkpoint", "name", "namespace", "resource", "api_version", "ready"}
    return job.target.model_dump_json(exclude=shared)


def target_call(job: StreamJob) -> str:
    """Return the server of calls of a job's target, among all servers."""
    return f"target {target_server(job)}"


class Hanging:
    """Servers that lately let somebody wait in vain. Thread-safe."""

    def __init__(self) -> None:
        self._since_s: dict[str, float] = {}
        self._lock = threading.Lock()

    def note(self, server: str, now_s: float) -> None:
        """Keep that a server did not answer (elapsed seconds)."""
        with self._lock:
            self._since_s[server] = now_s

    def rests_s(self, server: str, now_s: float) -> float:
        """Return for how many seconds it is not asked again; 0 when it may be."""
        with self._lock:
            return max(self._since_s.get(server, -REST_S) + REST_S - now_s, 0.0)


class Watched:
    """A target whose server is left alone for a while after it hung, so that its jobs do not all wait for it."""

    def __init__(self, target: Target, server: str, hanging: Hanging, clock: HostClock) -> None:
        self._target, self._server, self._hanging, self._clock = target, server, hanging, clock

    def read(self) -> Running:
        """Return what really runs."""
        return self._asked("read")

    def scale(self, *asked: Any, **more: Any) -> Running:
        """Ask the target for what it is asked for."""
        return self._asked("scale", *asked, **more)

    def close(self) -> None:
        """Close the connections."""
        self._target.close()

    def _asked(self, call: str, *asked: Any, **more: Any) -> Running:
        began_s = self._clock.elapsed_s()
        if rests_s := self._hanging.rests_s(self._server, began_s):
            raise TargetError(f"its server did not answer another job; it is asked again in {rests_s:.0f} s")
        try:
            found: Running = getattr(self._target, call)(*asked, **more)
        except TargetError:
            now_s = self._clock.elapsed_s()
            if now_s - began_s > HANGING_S:
                self._hanging.note(self._server, now_s)
            raise
        return found


class _Seen:
    """A target that was read just now: the first reading is that one."""

    def __init__(self, target: Watched, found: Running | Exception) -> None:
        self._target, self._found = target, [found]

    def read(self) -> Running:
        if not self._found:
            return self._target.read()
        found = self._found.pop()
        if isinstance(found, Exception):
            raise found
        return found

    def scale(self, *asked: Any, **more: Any) -> Running:
        return self._target.scale(*asked, **more)

    def close(self) -> None:
        self._target.close()


@dataclass(frozen=True)
class _Read:
    """A source that has been read for one job; whatever else is asked of it is read now."""

    source: MetricsSource
    job: str
    window: tuple[float, float]
    found: Reading | SourceError

    def read(self, job: StreamJob, now_s: float, since_s: float) -> Reading:
        if (job.name, (now_s, since_s)) != (self.job, self.window):
            return self.source.read(job, now_s, since_s)
        if isinstance(self.found, SourceError):
            raise self.found
        return self.found


def _since_s(job: StreamJob, io: TickIO, now_s: float) -> float | None:
    """Return from when on a job is read; ``None`` where its memory cannot be read, which its own tick will report."""
    try:
        newest_s = io.memories.newest_s(io.store, job.name)
    except Exception:
        return None
    return since_s(job, now_s, newest_s, io.tick_interval_s)


def _server(job: StreamJob) -> str:
    return "" if job.prometheus is None else job.prometheus.asked_as

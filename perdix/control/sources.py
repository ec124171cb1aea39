"""Where a tick reads a job's metrics from."""

import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from perdix.control.job_files import Stamp, stamp_of
from perdix.models.forecasting.foresight import KEPT_S
from perdix.policies.holding import AHEAD_S
from perdix.settings.durations import MINUTE_S
from perdix.settings.plain_error import PlainError
from perdix.settings.stream_job import PrometheusSource, StreamJob
from perdix.settings.yaml_files import SettingsError, UnreadableError
from perdix.telemetry.alignment import align
from perdix.telemetry.http_client import MIB
from perdix.telemetry.metrics import WORKLOAD
from perdix.telemetry.prometheus import Asked, Prometheus, Pulled
from perdix.telemetry.prometheus_answers import PrometheusError
from perdix.telemetry.quality import NEEDED
from perdix.telemetry.queries import EngineQueries, load_queries, queries_file
from perdix.telemetry.query_text import rate_window_s
from perdix.telemetry.window import Window

LONGEST_READ_S = 3_600.0
PAST_KEPT_S = 600.0
NEEDED_TO_DECIDE: Mapping[str, float] = {**NEEDED, WORKLOAD.name: 0.5}  # metric -> least coverage
DOWN_S = 30.0
LARGEST_ANSWER_BYTES = 64 * MIB
WHOLE_STEPS = 2.0  # that a tick reads at least, however far apart scrapes are: of fewer it may see none
BESIDE_THE_TICK_S = 120.0  # one-minute means reach a minute back, and the newest steps may still be owed


class SourceError(PlainError):
    """The metrics of a job could not be read now. The message says where and why."""


@dataclass(frozen=True)
class Reading:
    """A window, and what the source warned of, in words: a query that was refused, a label that the selector lacks."""

    window: Window
    warnings: tuple[str, ...] = ()
    # Of a reading as long as a first tick's: the workload of the hours before it, by minutes; ``None``: not known
    past: Window | None = None


class _Past(NamedTuple):
    """Whose hours before were read."""

    server: str
    job: str
    labels: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, server: str, job: str, selector: Mapping[str, str]) -> "_Past":
        return cls(server, job, frozenset(selector.items()))


class MetricsSource(Protocol):
    """Raises nothing but :class:`SourceError`."""

    def read(self, job: StreamJob, now_s: float, since_s: float) -> Reading:
        """Return the window ``(since_s, now_s]`` up to its newest complete step; the step is the scrape interval."""


def since_s(job: StreamJob, now_s: float, newest_s: float | None, tick_interval_s: float) -> float:
    """Return from when a tick must read: what is new, and what its means and the capacity model need before that.

    ``newest_s``: end of what earlier ticks have seen (epoch seconds); ``None`` on a first tick, which reads an hour, so
    that the loop starts with a forecast and a capacity instead of learning them in front of the user; so does one after
    a clock that was ahead is set back.
    """
    steps_s = 0.0 if job.prometheus is None else WHOLE_STEPS * job.prometheus.scrape_interval_s
    usual_s = now_s - tick_interval_s - max(BESIDE_THE_TICK_S, job.objectives.checkpoint_interval_s, steps_s)
    earliest_s = now_s - LONGEST_READ_S
    return earliest_s if newest_s is None or newest_s > now_s + AHEAD_S else max(min(usual_s, newest_s), earliest_s)


def is_first(since_s: float, now_s: float, step_s: float) -> bool:
    """Whether a reading is as long as a first tick's, to a step: then the hours before it are read, too."""
    return LONGEST_READ_S <= now_s - since_s < LONGEST_READ_S + step_s


def connected(
    source: PrometheusSource, *, largest_bytes: int = LARGEST_ANSWER_BYTES, sleep: Callable[[float], None] = time.sleep
) -> Prometheus:
    """Return a client with time-outs that fit a tick: a server that does not answer costs seconds, not the minute."""
    return Prometheus(source, timeout_s=3.0, deadline_s=8.0, attempts=2, largest_bytes=largest_bytes, sleep=sleep)


class LiveSource:
    """Prometheus, read with the PromQL of each job's engine; one client per server. Thread-safe.

    ``connect``: makes a client from a job's settings; tests hand in one with another transport.
    ``queries_of``: PromQL of an engine.
    """

    def __init__(
        self,
        connect: Callable[[PrometheusSource], Prometheus] = connected,
        queries_of: Callable[[str], EngineQueries] = load_queries,
    ) -> None:
        self._connect = connect
        self._queries_of = queries_of
        self._clients: dict[str, Prometheus] = {}
        self._down: dict[str, tuple[float, str]] = {}
        self._no_past: dict[str, float] = {}  # epoch seconds when the hours before could not be read, by server
        self._pasts: dict[_Past, tuple[float, Window | None]] = {}  # when they were read, and what they are
        self._queries: dict[str, tuple[Stamp | None, EngineQueries | str]] = {}  # or why they cannot be used
        self._making = threading.Lock()

    def read(self, job: StreamJob, now_s: float, since_s: float) -> Reading:
        """Return the window ``(since_s, now_s]``; raises :class:`SourceError` naming the server and the fix."""
        found = self.read_jobs([(job, since_s)], now_s)[job.name]
        if isinstance(found, SourceError):
            raise found
        return found

    def read_jobs(self, jobs: Iterable[tuple[StreamJob, float]], now_s: float) -> dict[str, Reading | SourceError]:
        """Read several jobs, those of one server with the same queries; what fails for one is returned, not raised.

        ``jobs``: each with the epoch second from which on it is read.
        """
        found: dict[str, Reading | SourceError] = {}
        alike: dict[tuple[str, str, float, float], list[tuple[StreamJob, PrometheusSource, float]]] = {}
        for job, since_s in jobs:
            source = job.prometheus
            if source is None:
                found[job.name] = SourceError(
                    f"job '{job.name}' has no 'prometheus' in its file; add its url and selector"
                )
                continue
            step_s = source.scrape_interval_s
            start_s = math.floor(since_s / step_s) * step_s
            alike.setdefault((source.asked_as, job.engine, step_s, start_s), []).append((job, source, since_s))
        for (_, engine, _, start_s), members in alike.items():
            found |= self._read_alike(engine, start_s, now_s, members)
        return found

    def _read_alike(
        self, engine: str, start_s: float, now_s: float, members: Sequence[tuple[StreamJob, PrometheusSource, float]]
    ) -> dict[str, Reading | SourceError]:
        """Read jobs of one server and engine from the same second on."""
        source = members[0][1]
        step_s = source.scrape_interval_s
        try:
            self._refuse_if_down(source, now_s)
            queries = self._queries_for(engine)
            asked = Asked(
                {job.name: self._wanted(queries, of) for job, of, _ in members},
                {job.name: of.selector for job, of, _ in members},
                start_s,
                math.floor(now_s / step_s) * step_s,
                step_s,
                step_s,
            )
            pulled = self._client(source).pull_jobs(queries, asked)
            first = is_first(start_s, now_s, step_s)
            past = self._past(queries, asked, now_s, source) if first else {}
            if self._pasts and not first:
                for job, of, _ in members:
                    self._pasts.pop(_Past.of(of.asked_as, job.name, of.selector), None)
        except (SourceError, PrometheusError, SettingsError, ValueError) as error:
            if isinstance(error, PrometheusError) and error.kind in {"unreachable", "timeout", "overloaded"}:
                self._down[source.asked_as] = (now_s, str(error))
            return {job.name: SourceError(str(error)) for job, _, _ in members}
        read = {job.name: _reading(job, pulled[job.name], since_s, now_s, step_s) for job, _, since_s in members}
        return {
            name: replace(found, past=past.get(name)) if isinstance(found, Reading) else found
            for name, found in read.items()
        }

    def _past(self, queries: EngineQueries, asked: Asked, now_s: float, source: PrometheusSource) -> dict[str, Window]:
        """Return the workload by minutes of the hours before what is asked for, of the jobs of which it can be read.

        Nothing is decided on it alone: a server that it is too much for is not asked again for an hour. Each reading of
        a job that teaches nothing is a first one: its hours before are kept for some minutes.
        """
        keys = {job: _Past.of(source.asked_as, job, asked.selectors[job]) for job in asked.wanted}
        read = {job: self._pasts[key] for job, key in keys.items() if key in self._pasts}
        kept = {job: past for job, (read_s, past) in read.items() if 0.0 <= now_s - read_s < PAST_KEPT_S}
        others = asked.wanted.keys() - kept.keys()
        if others and not 0.0 <= now_s - self._no_past.get(source.asked_as, -math.inf) < LONGEST_READ_S:
            before = _before(asked, others, now_s)
            try:
                for job, found in self._client(source).pull_jobs(queries, before).items():
                    if isinstance(found, Pulled):
                        begins_s = before.start_s - before.step_s
                        kept[job] = align(job, found.series, begins_s, before.end_s, before.step_s)
            except (PrometheusError, ValueError):
                self._no_past[source.asked_as] = now_s
            self._pasts |= {keys[job]: (now_s, kept.get(job)) for job in others}
        return {job: past for job, past in kept.items() if past is not None}

    def close(self) -> None:
        """Close every connection."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    def _refuse_if_down(self, source: PrometheusSource, now_s: float) -> None:
        """Do not let every job of a fleet wait for the same dead server."""
        failed_s, why = self._down.get(source.asked_as, (-math.inf, ""))
        if 0.0 <= now_s - failed_s < DOWN_S:
            raise SourceError(f"{why} (asked {now_s - failed_s:.0f} s ago; not asked again for {DOWN_S:.0f} s)")

    def _client(self, source: PrometheusSource) -> Prometheus:
        key = source.asked_as
        with self._making:
            if key not in self._clients:
                self._clients[key] = self._connect(source)
            return self._clients[key]

    def _wanted(self, queries: EngineQueries, source: PrometheusSource) -> tuple[str, ...]:
        """Return what can be asked for, and what must be: so that a label that is missing for it is reported."""
        return tuple(dict.fromkeys((*queries.metrics(source.selector), *NEEDED_TO_DECIDE)))

    def _queries_for(self, engine: str) -> EngineQueries:
        """Return the queries of an engine; their file is read again when it has changed, or could not be read."""
        stamp, kept = stamp_of(queries_file(engine)), self._queries.get(engine)  # the canonical ones have no file
        if kept is None or kept[0] != stamp:
            try:
                kept = stamp, self._queries_of(engine)
            except UnreadableError:
                raise
            except SettingsError as error:
                kept = stamp, str(error)
            self._queries[engine] = kept
        if isinstance(kept[1], str):
            raise SourceError(kept[1])
        return kept[1]


def _before(asked: Asked, jobs: Iterable[str], now_s: float) -> Asked:
    """Return what asks for the workload of some of the jobs in the hours before, by minutes."""
    step_s = max(asked.scrape_interval_s, MINUTE_S)
    begins_s = math.floor((now_s - KEPT_S) / step_s) * step_s
    ends_s = math.ceil((asked.start_s + asked.step_s) / step_s) * step_s  # what is asked for begins a step later
    rated_s = max(asked.scrape_interval_s, MINUTE_S / rate_window_s(1.0))  # so that a rate is of the whole minute
    wanted = dict.fromkeys(jobs, (WORKLOAD.name,))
    return Asked(wanted, asked.selectors, begins_s + step_s, ends_s, step_s, rated_s)


def _reading(
    job: StreamJob, pulled: Pulled | PrometheusError, since_s: float, now_s: float, step_s: float
) -> Reading | SourceError:
    if isinstance(pulled, PrometheusError):
        return SourceError(str(pulled))
    try:
        return Reading(align(job.name, pulled.series, since_s, now_s, step_s), pulled.warnings)
    except ValueError as error:
        return SourceError(str(error))

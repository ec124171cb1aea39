"""A live job's own Prometheus range as landing files, which the ingest of exports reads like any other.

Belongs here: what could not be pulled, and the files, one per UTC day. Does not belong here: what is to be pulled
(:mod:`perdix.telemetry.lacking`), the conversation (:mod:`perdix.telemetry.prometheus`), and reading the files
(:mod:`perdix.telemetry.ingest`).
"""

import gzip
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np

from perdix.settings.counting import counted
from perdix.settings.durations import DAY_S
from perdix.settings.home import Home
from perdix.settings.moments import moment
from perdix.settings.stream_job import PrometheusSource, StreamJob
from perdix.settings.yaml_files import SettingsError
from perdix.telemetry.exports.content import Content
from perdix.telemetry.exports.records import Limits, RawSeries
from perdix.telemetry.exports.victoriametrics import read_victoriametrics, victoriametrics_line
from perdix.telemetry.lacking import Range, lacking, left_to_exports, remember_asked
from perdix.telemetry.lake import Lake, LakeError
from perdix.telemetry.landing import pulled_name
from perdix.telemetry.metrics import CPU, MEMORY, THROUGHPUT, WORKLOAD
from perdix.telemetry.partitions import safe_key
from perdix.telemetry.prometheus import Prometheus
from perdix.telemetry.prometheus_answers import PrometheusError
from perdix.telemetry.queries import EngineQueries, UnanswerableError, load_queries
from perdix.telemetry.series import Series

NEEDED_TO_TRAIN: Final = (WORKLOAD.name, THROUGHPUT.name, CPU.name)  # asked for, so that a missing label is reported
NOT_LEARNED_FROM: Final = MEMORY.name
LATE_S: Final = 3_600.0  # for so long what is not there may still come, as by a remote write that is late

Connect = Callable[[PrometheusSource], Prometheus]
Identity = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class PulledRange:
    """What was pulled of a job."""

    job: str
    # from_s, until_s: the range that was asked for, epoch seconds
    from_s: float
    until_s: float
    days: tuple[str, ...] = ()  # days (ISO, UTC) whose landing file was written
    samples: int = 0  # how many samples came
    problems: tuple[str, ...] = ()  # what could not be pulled, in words; empty when everything was
    server_failed: bool = False  # whether the server, and not the job, was the reason

    def sentence(self) -> str:
        """Return how much was pulled, of how many days, and what was asked for; without the problems."""
        of_days = f"{counted(self.samples, 'sample')} of {counted(len(self.days), 'day')}"
        return f"{of_days} pulled, asked for {moment(self.from_s)} to {moment(self.until_s)}"


def pull_missing(
    jobs: Iterable[StreamJob], home: Home, lake: Lake, now_s: float, *, history_days: int, again: bool = False
) -> Iterator[PulledRange]:
    """Pull what the lake lacks of each job that has a Prometheus, one after the other.

    What cannot be pulled is in :attr:`PulledRange.problems`, as is what is broken in the lake. A server that does not
    answer is asked once, not once per job.

    ``now_s``: epoch seconds until which is pulled.
    ``history_days``: how far back it goes at most: so far where the lake holds nothing of a job.
    ``again``: pull what was pulled before once more, too, for gaps in it; never what exports that were ingested by hand
    hold.
    """
    down: dict[str, str] = {}
    for job in jobs:
        if job.prometheus is None:
            continue
        server = job.prometheus.asked_as
        try:
            ranges = lacking(home, lake, job, now_s, history_days, again=again)
            left = left_to_exports(lake, job.name, now_s - history_days * DAY_S, now_s, NEEDED_TO_TRAIN)
        except LakeError as error:
            yield PulledRange(job.name, now_s - history_days * DAY_S, now_s, problems=(str(error),))
            continue
        if server in down:
            from_s, until_s = _whole(ranges, now_s)
            yield PulledRange(job.name, from_s, until_s, problems=(down[server],), server_failed=True)
            continue
        pulled = pull_ranges(home, job, ranges, now_s)
        if pulled.server_failed:
            down[server] = pulled.problems[-1]
        yield replace(pulled, problems=(*pulled.problems, *left))


def pull_ranges(
    home: Home, job: StreamJob, ranges: Sequence[Range], now_s: float, *, connect: Connect = Prometheus
) -> PulledRange:
    """Pull what Prometheus holds of a job in some ranges, ascending, into its landing folder.

    One file per day, oldest first. A day that was pulled before is completed and keeps what Prometheus has forgotten
    since; so pulling twice gives the same files. What was pulled before something failed stays.

    Raises ``ValueError`` when the job has no Prometheus.
    """
    from_s, until_s = _whole(ranges, now_s)
    source = job.prometheus
    if source is None:
        raise ValueError(f"job '{job.name}' has no 'prometheus' in its file; add its url and selector")
    try:
        queries = load_queries(job.engine)
        with connect(source) as client:
            return _Pull(home, job, client, queries, source).run(ranges, now_s)
    except (SettingsError, PrometheusError) as error:  # before anything was asked
        failed = isinstance(error, PrometheusError)
        return PulledRange(job.name, from_s, until_s, problems=(str(error),), server_failed=failed)


def _whole(ranges: Sequence[Range], now_s: float) -> Range:
    """Return from when until when ranges reach; ``now_s`` where there are none."""
    return (ranges[0][0], ranges[-1][1]) if ranges else (now_s, now_s)


@dataclass(frozen=True)
class _Pull:
    """One job's pull from an open client."""

    home: Home
    job: StreamJob
    client: Prometheus
    queries: EngineQueries
    source: PrometheusSource

    def run(self, ranges: Sequence[Range], now_s: float) -> PulledRange:
        from_s, until_s = _whole(ranges, now_s)
        possible = [name for name in self.queries.metrics(self.source.selector) if name != NOT_LEARNED_FROM]
        days: list[str] = []
        found: set[str] = set()
        samples, server_failed, written, heard = 0, False, True, False
        step_s = self.source.scrape_interval_s
        asked_for = [day for each in ranges for day in _days(*each, step_s)]
        problems = self._unanswerable() if asked_for else []
        answered: list[Range] = []
        partial: list[Range] = []
        for day, first_s, last_s in asked_for:
            try:
                series = self._series(possible, first_s, last_s)
            except PrometheusError as error:
                problems.append(str(error))
                server_failed = error.of_the_server
                if server_failed:
                    break
                continue  # one day may be refused (by a server that looks back so far only), and the next answered
            finally:
                problems += (warnings := self.client.drain_warnings())
            heard = True
            if series:
                path = landing_file(self.home, self.job.name, day)
                try:
                    _complete(path, series)
                except OSError as error:
                    fix = "remove what is in its way, or make room, and pull again"
                    problems.append(f"{path} cannot be written: {error.strerror or error}; {fix}")
                    written = False
                    break
                days.append(day)
                samples += sum(len(stream) for stream in series)
                found |= {stream.metric for stream in series}
            all_there_s = _all_there_s(series, found.union(NEEDED_TO_TRAIN).intersection(possible))
            there_s = first_s if warnings else min(last_s, max(all_there_s, now_s - LATE_S))
            if there_s > first_s:
                answered.append((first_s, there_s))
            if there_s < last_s:
                partial.append((max(first_s, there_s), last_s))
        if heard and written and not server_failed:
            wanted = dict.fromkeys((*possible, *NEEDED_TO_TRAIN))
            problems += _missing(self.client.name, wanted, found, from_s, until_s)
        if samples:  # else the selector may be wrong, and is asked with again once it is right
            remember_asked(self.home, self.job, answered, partial)
        of_days, why = tuple(dict.fromkeys(days)), tuple(dict.fromkeys(problems))
        return PulledRange(self.job.name, from_s, until_s, of_days, samples, why, server_failed)

    def _unanswerable(self) -> list[str]:
        """Return in words what of the metrics that training needs cannot be asked for."""
        why: list[str] = []
        for name in NEEDED_TO_TRAIN:
            try:
                self.queries.text(name, self.source.selector)
            except UnanswerableError as error:
                why.append(str(error))
        return why

    def _series(self, wanted: Sequence[str], first_s: float, last_s: float) -> list[Series]:
        step_s, selector = self.source.scrape_interval_s, self.source.selector
        series = self.client.pull(
            self.queries, selector, first_s, last_s, step_s, metrics=wanted, scrape_interval_s=step_s
        )
        return [stream for stream in series if len(stream)]


def _all_there_s(series: Iterable[Series], metrics: Iterable[str]) -> float:
    """Return until when there is something of each metric, epoch seconds; 0 where there is nothing of one."""
    newest_ms = dict.fromkeys(metrics, 0)
    for stream in series:
        newest_ms[stream.metric] = max(newest_ms[stream.metric], int(stream.times_ms[-1]))
    return min(newest_ms.values(), default=0) / 1000


def landing_file(home: Home, job: str, day: str) -> Path:
    """Return where a pulled day of a job lies."""
    return home.landing / safe_key("job", job) / pulled_name(day)


def _days(from_s: float, until_s: float, step_s: float) -> Iterator[tuple[str, float, float]]:
    """Cut a range into days: each day's name, and its first and last step (multiples of the scrape interval)."""
    step_ms, day_ms = round(1000 * step_s), round(1000 * DAY_S)
    first_ms = math.ceil(round(1000 * from_s) / step_ms) * step_ms
    until_ms = round(1000 * until_s)
    while first_ms <= until_ms:
        next_ms = (first_ms // day_ms + 1) * day_ms
        last_ms = min(until_ms, next_ms - 1) // step_ms * step_ms
        if last_ms >= first_ms:
            yield datetime.fromtimestamp(first_ms / 1000, UTC).date().isoformat(), first_ms / 1000, last_ms / 1000
        first_ms = -(-next_ms // step_ms) * step_ms


def _missing(server: str, wanted: Iterable[str], found: set[str], from_s: float, until_s: float) -> list[str]:
    """Return in words what the server does not have of the job."""
    lacking = [name for name in wanted if name not in found]
    if not lacking:
        return []
    what = ", ".join(lacking) if found else "anything of this job (is the selector right?)"
    return [f"{server} does not hold {what}, {moment(from_s)} to {moment(until_s)}"]


def _complete(path: Path, series: Sequence[Series]) -> None:
    """Write series beside what the file holds already, in one step; of two samples at a time the new one stays."""
    merged = _kept(path)
    for stream in series:
        identity = _identity(stream.metric, stream.labels)
        merged[identity] = _joined(merged.get(identity), stream)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with part.open("wb") as file, gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
            for identity in sorted(merged):
                packed.write(victoriametrics_line(merged[identity]).encode())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _kept(path: Path) -> dict[Identity, Series]:
    """Return what a file of an earlier pull holds, without what is damaged in it."""
    if not path.exists():
        return {}
    held: dict[Identity, Series] = {}
    with Content(path) as content:
        for run in read_victoriametrics(content, Limits()):
            if isinstance(run, RawSeries):
                one = Series(run.name, None, run.times_ms, run.values, run.labels)
                identity = _identity(run.name, run.labels)
                held[identity] = _joined(held.get(identity), one)
    return held


def _identity(metric: str, labels: Mapping[str, str]) -> Identity:
    return (("__name__", metric), *sorted(labels.items()))


def _joined(held: Series | None, newer: Series) -> Series:
    if held is None:
        return newer
    times_ms, at = np.unique(np.concatenate([newer.times_ms, held.times_ms]), return_index=True)
    values = np.concatenate([newer.values, held.values])[at]  # of two samples at a time the first, which is the new one
    return Series(newer.metric, newer.worker, times_ms, values, newer.labels)

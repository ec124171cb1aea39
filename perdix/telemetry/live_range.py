"""A live job's own Prometheus range as landing files, which the ingest of exports reads like any other.

Belongs here: from when until when is pulled, what could not be, and the files, one per UTC day. Does not belong here:
the conversation (:mod:`perdix.telemetry.prometheus`), and reading the files (:mod:`perdix.telemetry.ingest`).
"""

from __future__ import annotations

import gzip
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np

from perdix.settings.home import Home
from perdix.settings.stream_job import PrometheusSource, StreamJob
from perdix.settings.yaml_files import SettingsError
from perdix.telemetry.exports.content import Content
from perdix.telemetry.exports.records import Limits, RawSeries
from perdix.telemetry.exports.victoriametrics import read_victoriametrics, victoriametrics_line
from perdix.telemetry.lake import Lake, LakeError
from perdix.telemetry.landing import pulled_name, was_pulled
from perdix.telemetry.metrics import CPU, MEMORY, THROUGHPUT, WORKLOAD
from perdix.telemetry.moments import moment
from perdix.telemetry.partitions import safe_key
from perdix.telemetry.prometheus import Prometheus
from perdix.telemetry.prometheus_answers import PrometheusError
from perdix.telemetry.queries import EngineQueries, load_queries
from perdix.telemetry.series import Series

DAY_S: Final = 86_400
NEEDED_TO_TRAIN: Final = (WORKLOAD.name, THROUGHPUT.name, CPU.name)  # asked for, so that a missing label is reported
NOT_LEARNED_FROM: Final = MEMORY.name
PASSED_MS: Final = 1  # what is pulled begins this long after the newest sample, and ends so long before others begin
# Between two exports by hand: a shorter gap is not filled, for there what is pulled would be added to what they hold
GAP_S: Final = 300.0

Connect = Callable[[PrometheusSource], Prometheus]
Identity = tuple[tuple[str, str], ...]
Range = tuple[float, float]  # from when until when, epoch seconds


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
        """Return what was pulled in one sentence, without the problems."""
        return f"{self.samples:,} samples pulled, {moment(self.from_s)} to {moment(self.until_s)}"


def pull_missing(
    jobs: Iterable[StreamJob],
    home: Home,
    lake: Lake,
    now_s: float,
    *,
    history_days: int,
    again: bool = False,
    connect: Connect = Prometheus,
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
            from_s, until_s = missing_range(lake, job.name, now_s, history_days, again=again)
            by_hand = held_by_hand(lake, job.name, now_s)
        except LakeError as error:
            yield PulledRange(job.name, now_s - history_days * DAY_S, now_s, problems=(str(error),))
            continue
        if server in down:
            yield PulledRange(job.name, from_s, until_s, problems=(down[server],), server_failed=True)
            continue
        pulled = pull_range(home, job, from_s, until_s, without=by_hand, connect=connect)
        if pulled.server_failed:
            down[server] = pulled.problems[-1]
        yield pulled


def missing_range(lake: Lake, job: str, now_s: float, history_days: int, *, again: bool = False) -> Range:
    """Return from when until when a job is to be pulled: after what was pulled, at most ``history_days`` back.

    A sample from the future, of a clock that ran ahead, does not count; nor, ``again``, what was pulled.
    """
    pulled = [] if again else [last_s for source, (_, last_s) in _held(lake, job).items() if was_pulled(source)]
    known = [last_s + PASSED_MS / 1000 for last_s in pulled if last_s <= now_s]
    return max([now_s - history_days * DAY_S, *known]), now_s


def day_range(day: str) -> Range:
    """Return a day (``YYYY-MM-DD``, UTC)."""
    start_s = datetime.strptime(day, "%Y-%m-%d").replace(tzinfo=UTC).timestamp()
    return start_s, start_s + DAY_S - PASSED_MS / 1000


def held_by_hand(lake: Lake, job: str, now_s: float) -> tuple[Range, ...]:
    """Return what exports that were ingested by hand hold of a job, ascending; none of it is pulled.

    The same samples under other labels would be other series, and rates of several series are summed. An export that
    reaches into the future, as of a clock that ran ahead, does not count.
    """
    joined: list[Range] = []
    by_hand = sorted(held for source, held in _held(lake, job).items() if not was_pulled(source))
    for first_s, last_s in (held for held in by_hand if held[1] <= now_s):
        if joined and first_s <= joined[-1][1] + GAP_S:
            joined[-1] = joined[-1][0], max(joined[-1][1], last_s)
        else:
            joined.append((first_s, last_s))
    return tuple(joined)


def pull_range(
    home: Home,
    job: StreamJob,
    from_s: float,
    until_s: float,
    *,
    without: Sequence[Range] = (),
    connect: Connect = Prometheus,
) -> PulledRange:
    """Pull what Prometheus holds of a job from ``from_s`` to ``until_s`` (epoch seconds) into its landing folder.

    One file per day, oldest first. A day that was pulled before is completed and keeps what Prometheus has forgotten
    since; so pulling twice gives the same files. What was pulled before something failed stays.

    ``without``: what is not pulled, ascending.

    Raises ``ValueError`` when the job has no Prometheus.
    """
    source = job.prometheus
    if source is None:
        raise ValueError(f"job '{job.name}' has no 'prometheus' in its file; add its url and selector")
    try:
        queries = load_queries(job.engine)
        with connect(source) as client:
            return _Pull(home, job.name, client, queries, source).run(from_s, until_s, without)
    except (SettingsError, PrometheusError) as error:  # before anything was asked
        failed = isinstance(error, PrometheusError)
        return PulledRange(job.name, from_s, until_s, problems=(str(error),), server_failed=failed)


@dataclass(frozen=True)
class _Pull:
    """One job's pull from an open client."""

    home: Home
    job: str
    client: Prometheus
    queries: EngineQueries
    source: PrometheusSource

    def run(self, from_s: float, until_s: float, without: Sequence[Range]) -> PulledRange:
        asked = (*self.queries.metrics(self.source.selector), *NEEDED_TO_TRAIN)
        wanted = tuple(name for name in dict.fromkeys(asked) if name != NOT_LEARNED_FROM)
        days: list[str] = []
        problems: list[str] = []
        found: set[str] = set()
        samples, server_failed, written = 0, False, True
        step_s = self.source.scrape_interval_s
        asked_for = [one for lacking in _outside(from_s, until_s, without) for one in _days(*lacking, step_s)]
        for day, first_s, last_s in asked_for:
            try:
                series = self._series(wanted, first_s, last_s)
            except PrometheusError as error:
                problems.append(str(error))
                server_failed = error.of_the_server
                if server_failed:
                    break
                continue  # one day may be refused (by a server that looks back so far only), and the next answered
            finally:
                problems += self.client.drain_warnings()
            if series:
                path = landing_file(self.home, self.job, day)
                try:
                    _complete(path, series)
                except OSError as error:
                    fix = "remove what is in its way, or make room, and pull again"
                    problems.append(f"{path} cannot be written: {error.strerror or error}; {fix}")
                    written = False
                    break
                days.append(day)
                samples += sum(len(one) for one in series)
                found |= {one.metric for one in series}
        if asked_for and written and not server_failed:
            problems += _missing(self.client.name, wanted, found, from_s, until_s)
        of_days, why = tuple(dict.fromkeys(days)), tuple(dict.fromkeys(problems))
        return PulledRange(self.job, from_s, until_s, of_days, samples, why, server_failed)

    def _series(self, wanted: Sequence[str], first_s: float, last_s: float) -> list[Series]:
        step_s, selector = self.source.scrape_interval_s, self.source.selector
        series = self.client.pull(
            self.queries, selector, first_s, last_s, step_s, metrics=wanted, scrape_interval_s=step_s
        )
        return [one for one in series if len(one)]


def landing_file(home: Home, job: str, day: str) -> Path:
    """Return where a pulled day of a job lies."""
    return home.landing / safe_key("job", job) / pulled_name(day)


def _held(lake: Lake, job: str) -> dict[str, Range]:
    """Return the times of each source's oldest and newest sample."""
    rows = lake.read("sources", job, columns=["source", "first_ts", "last_ts"]).to_pylist()
    known = (row for row in rows if row["first_ts"] is not None and row["last_ts"] is not None)
    return {row["source"]: (row["first_ts"].timestamp(), row["last_ts"].timestamp()) for row in known}


def _outside(from_s: float, until_s: float, without: Sequence[Range]) -> Iterator[Range]:
    """Cut out of a range what is not to be pulled; yields what is left, ascending."""
    for first_s, last_s in without:
        before_s = min(first_s - PASSED_MS / 1000, until_s)
        if from_s <= before_s:
            yield from_s, before_s
        from_s = max(from_s, last_s + PASSED_MS / 1000)
    if from_s <= until_s:
        yield from_s, until_s


def _days(from_s: float, until_s: float, step_s: float) -> Iterator[tuple[str, float, float]]:
    """Cut a range into days: each day's name, and its first and last step (multiples of the scrape interval)."""
    step_ms, day_ms = round(1000 * step_s), 1000 * DAY_S
    first_ms = math.ceil(round(1000 * from_s) / step_ms) * step_ms
    until_ms = round(1000 * until_s)
    while first_ms <= until_ms:
        next_ms = (first_ms // day_ms + 1) * day_ms
        last_ms = min(until_ms, next_ms - 1) // step_ms * step_ms
        if last_ms >= first_ms:
            yield datetime.fromtimestamp(first_ms / 1000, UTC).date().isoformat(), first_ms / 1000, last_ms / 1000
        first_ms = -(-next_ms // step_ms) * step_ms


def _missing(server: str, wanted: Sequence[str], found: set[str], from_s: float, until_s: float) -> list[str]:
    """Return in words what the server does not have of the job."""
    lacking = [name for name in wanted if name not in found]
    if not lacking:
        return []
    what = ", ".join(lacking) if found else "anything of this job (is the selector right?)"
    return [f"{server} does not hold {what}, {moment(from_s)} to {moment(until_s)}"]


def _complete(path: Path, series: Sequence[Series]) -> None:
    """Write series beside what the file holds already, in one step; of two samples at a time the new one stays."""
    merged = _kept(path)
    for one in series:
        identity = _identity(one.metric, one.labels)
        merged[identity] = _joined(merged.get(identity), one)
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
    before = held.times_ms[~np.isin(held.times_ms, newer.times_ms)]
    values = held.values[~np.isin(held.times_ms, newer.times_ms)]
    times_ms = np.concatenate([before, newer.times_ms])
    order = np.argsort(times_ms, kind="stable")
    joined = np.concatenate([values, newer.values])[order]
    return Series(newer.metric, newer.worker, times_ms[order], joined, newer.labels)

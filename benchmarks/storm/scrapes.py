"""The simulated metrics: a twin's scrapes, through whatever is wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.storm.deployment import Deployment
from benchmarks.storm.faults import UNREACHABLE, Fault
from perdix.control.sources import Reading, SourceError
from perdix.settings.stream_job import StreamJob
from perdix.telemetry.alignment import align
from perdix.telemetry.series import Series
from perdix.twin.emission import Scraping, emit

SCRAPING = Scraping(interval_s=15.0)


@dataclass(frozen=True)
class Scrapes:
    """A :class:`perdix.control.sources.MetricsSource` over all deployments.

    ``faults`` returns those of a job that go on now, with the second in which each began; ``true_s`` is the world's
    time, which a reader whose clock is wrong does not know. ``asked`` is called with the job that is about to be read:
    time may pass there, and the reader may die.
    """

    deployments: dict[str, Deployment]
    faults: Callable[[str], Sequence[tuple[Fault, float]]]
    true_s: Callable[[], float]
    asked: Callable[[str], None]

    def read(self, job: StreamJob, now_s: float, since_s: float) -> Reading:
        """Return the window ``(since_s, now_s]`` of the reader's time."""
        deployment = self.deployments[job.name]
        self.asked(job.name)
        true_s = self.true_s()
        deployment.catch_up(true_s)
        step_s = SCRAPING.interval_s
        series = emit(deployment.twin, SCRAPING, from_s=since_s - 2.0 * step_s, to_s=min(now_s, true_s) + 1e-3)
        for fault, began_s in self.faults(job.name):
            if fault.what == UNREACHABLE:
                raise SourceError("prometheus.storm cannot be reached")
            series = through(fault, began_s, true_s, series)
        return Reading(align(job.name, series, since_s, now_s, step_s))

    def read_jobs(self, jobs: Iterable[tuple[StreamJob, float]], now_s: float) -> Mapping[str, Reading | SourceError]:
        """Return each job's window from its second on, or why there is none."""
        found: dict[str, Reading | SourceError] = {}
        for job, since_s in jobs:
            try:
                found[job.name] = self.read(job, now_s, since_s)
            except SourceError as error:
                found[job.name] = error
        return found


def through(fault: Fault, began_s: float, true_s: float, series: list[Series]) -> list[Series]:
    """Return what is known of some series through a fault; a server that cannot be reached changes none of them."""
    match fault.kind:
        case "no metrics" if fault.what != UNREACHABLE:
            return []
        case "stale metrics":
            return _until(series, began_s)
        case "late metrics":
            return _until(series, true_s - fault.amount)
        case "metrics ahead":
            return [replace(stream, times_ms=stream.times_ms + int(1_000 * fault.amount)) for stream in series]
        case "partial metrics":
            rng = np.random.default_rng([fault.from_min, int(true_s)])
            return _kept(series, lambda stream: rng.random(len(stream)) >= fault.amount)
        case "workers missing":
            workers = sorted({stream.worker for stream in series if stream.worker is not None})
            gone = set(workers[: round(fault.amount * len(workers))])
            return [stream for stream in series if stream.worker not in gone]
        case "duplicated metrics":
            again = [
                replace(stream, labels={**stream.labels, "twice": "yes"})
                for stream in series
                if stream.metric == fault.what
            ]
            return [*series, *again]
        case "repeated metrics":
            again = [replace(stream, times_ms=stream.times_ms[::-1], values=stream.values[::-1]) for stream in series]
            return [*again, *series]
        case "absurd metric":
            return _changed(series, fault.what, began_s, lambda values: np.full_like(values, fault.amount))
        case "false metric":
            return _changed(series, fault.what, began_s, lambda values: values * fault.amount)
    return series


def _kept(series: list[Series], known_of: Callable[[Series], np.ndarray]) -> list[Series]:
    """Return the samples that are known; series without any are left out."""
    kept = []
    for stream in series:
        known = known_of(stream)
        if known.any():
            kept.append(replace(stream, times_ms=stream.times_ms[known], values=stream.values[known]))
    return kept


def _until(series: list[Series], until_s: float) -> list[Series]:
    return _kept(series, lambda stream: stream.times_ms <= 1_000 * until_s)


def _changed(
    series: list[Series], metric: str, began_s: float, change: Callable[[np.ndarray], np.ndarray]
) -> list[Series]:
    """Change a metric from ``began_s`` on; of a counter, what it grows by is what counts."""
    found = []
    for stream in series:
        since = stream.times_ms >= 1_000 * began_s
        if stream.metric != metric or not since.any():
            found.append(stream)
            continue
        values = stream.values.copy()
        if stream.kind == "counter":
            steps = np.diff(values, prepend=values[0])
            per_step = np.full_like(steps, SCRAPING.interval_s)
            steps[since] = change(steps[since] / per_step[since]) * per_step[since]
            values = values[0] + np.cumsum(steps)
        else:
            values[since] = change(values[since])
        found.append(replace(stream, values=values))
    return found

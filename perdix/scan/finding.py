"""Which jobs of which engines a Prometheus knows, by the engines' own metrics.

Belongs here: what is asked to find them, and what each is called. Does not belong here: what is read of a job
(:mod:`perdix.scan.reading`).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, get_args

import numpy as np

from perdix.settings.durations import DAY_S, HOUR_S
from perdix.settings.stream_job import Engine
from perdix.telemetry.prometheus import Prometheus
from perdix.telemetry.prometheus_answers import PrometheusError
from perdix.telemetry.queries import EngineQueries, JobNaming
from perdix.telemetry.series import Series

ENGINES: Final[tuple[str, ...]] = get_args(Engine)
COUNTED_S: Final = 600.0  # over which samples are counted, to know how often a job is scraped
USUAL_SCRAPE_S: Final = 15.0
SCRAPES_S: Final = (1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 60.0, 120.0, 300.0)
_UNNAMEABLE: Final = re.compile(r"[^A-Za-z0-9._-]+")


Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class FoundJob:
    """A job that has metrics."""

    name: str  # as a job file may be called; unique among those that were found
    engine: str
    selector: Mapping[str, str]  # label -> value, which tell it from others of its engine
    # first_s, newest_s: epoch seconds between which it was seen, by the hour
    first_s: float
    newest_s: float
    scrape_interval_s: float = USUAL_SCRAPE_S  # how often it is scraped, seconds
    topic: str | None = None  # Kafka topic that it reads, where its rate shows which; else ``None``
    partitions: int | None = None  # partitions of its source; ``None`` where no metric reports them

    @property
    def labels(self) -> dict[str, str]:
        """The selector of a job file: with the topic where that is known."""
        return dict(sorted({**self.selector, **({} if self.topic is None else {"topic": self.topic})}.items()))


@dataclass(frozen=True)
class Found:
    """What a search came to: the jobs by engine and name, and in words what could not be asked."""

    jobs: tuple[FoundJob, ...]
    notes: tuple[str, ...]


def find_jobs(client: Prometheus, engines: Mapping[str, EngineQueries], now_s: float, days: float) -> Found:
    """Return the jobs that had metrics within the last ``days``.

    A query that the server refuses for one engine is a note; the other engines are asked all the same.

    Raises ``PrometheusError`` when the server cannot be reached, lets nobody in, or refuses what is asked for every
    engine.
    """
    end_s = np.floor(now_s / HOUR_S) * HOUR_S
    start_s = end_s - days * DAY_S
    jobs: list[FoundJob] = []
    notes: list[str] = []
    refused: list[PrometheusError] = []
    for engine, queries in engines.items():
        if queries.jobs is None:
            notes.append(f"{engine}: conf/queries/{engine}.yaml does not say how its jobs are found (key 'jobs')")
            continue
        try:
            jobs += _of_engine(client, engine, queries.jobs, (start_s, end_s, now_s))
            notes += _of_one_name(client, engine, queries.jobs, now_s)
        except PrometheusError as error:
            if error.of_the_server:
                raise
            refused.append(error)
            notes.append(f"{engine}: its jobs cannot be looked for: {error}")
    if refused and len(refused) == len(engines):
        raise refused[0]  # this is no Prometheus, rather than one that refuses a query
    return Found(named_apart(jobs), tuple(notes))


def _of_engine(client: Prometheus, engine: str, naming: JobNaming, span: tuple[float, float, float]) -> list[FoundJob]:
    start_s, end_s, now_s = span
    seen: dict[Labels, tuple[float, float]] = {}
    asked = [client.query_range(naming.running(), start_s, end_s, HOUR_S)]
    asked.append(client.query_range(naming.running(), now_s, now_s, HOUR_S))  # since the hour began
    for series in (row for answer in asked for row in answer if len(row)):
        key = labels_of(series)
        first_s, last_s = float(series.times_ms[0]) / 1000.0, float(series.times_ms[-1]) / 1000.0
        before = seen.get(key, (first_s, last_s))
        seen[key] = min(before[0], first_s), max(before[1], last_s)
    seen.pop((), None)  # series without any of the labels: nobody could ask for them alone
    if not seen:
        return []
    scraped = _scrape_intervals(client, naming, start_s, now_s)
    return [
        FoundJob(nameable(_name(naming, dict(key))), engine, dict(key), *when, scraped.get(key, USUAL_SCRAPE_S))
        for key, when in sorted(seen.items())
    ]


def _of_one_name(client: Prometheus, engine: str, naming: JobNaming, now_s: float) -> list[str]:
    """Return in words which names several jobs have that run at once: nothing tells their metrics apart."""
    promql = naming.at_once()
    found = [] if promql is None else client.query_range(promql, now_s, now_s, HOUR_S)
    return [
        f"{engine}: {series.values[-1]:.0f} jobs named {_name(naming, series.labels)} run at once and are judged as "
        "one; give each a name of its own"
        for series in found
        if len(series) and series.values[-1] > 1 and labels_of(series)
    ]


def _scrape_intervals(client: Prometheus, naming: JobNaming, start_s: float, now_s: float) -> dict[Labels, float]:
    """Return how often each job is scraped: by the most samples in ten minutes, at some moments of the time."""
    duration = f"{COUNTED_S:.0f}s"
    found = client.query_range(naming.scraped(duration), start_s, now_s, max((now_s - start_s) / 6.0, 1.0))
    return {
        labels_of(series): scrape_interval_s(float(np.nanmax(series.values)))
        for series in found
        if len(series) and np.isfinite(series.values).any()
    }


def labels_of(series: Series, *without: str) -> Labels:
    """Return the labels of a series that have a value, sorted by name."""
    return tuple(sorted((name, value) for name, value in series.labels.items() if value and name not in without))


def scrape_interval_s(samples: float) -> float:
    """Return the usual scrape interval nearest to this many samples in ten minutes, seconds."""
    seconds = COUNTED_S / max(samples, 1.0)
    return min(SCRAPES_S, key=lambda usual_s: abs(np.log(usual_s / seconds)))


def _name(naming: JobNaming, labels: Mapping[str, str]) -> str:
    return next((labels[label] for label in naming.names if label in labels), next(iter(labels.values())))


def nameable(name: str) -> str:
    """Return a name that a job file may have: letters, digits, '.', '_' and '-', at most 63 of them."""
    found = _UNNAMEABLE.sub("-", name).strip("-._")[:63].rstrip("-._")
    return found or "job"


def named_apart(jobs: Iterable[FoundJob]) -> tuple[FoundJob, ...]:
    """Return the jobs with names that differ: a further one of a name gets its namespace, then a number."""
    taken: set[str] = set()
    found: list[FoundJob] = []
    ordered: Sequence[FoundJob] = sorted(jobs, key=lambda job: (job.name, job.engine, sorted(job.selector.items())))
    for job in ordered:
        name = job.name
        if name.lower() in taken:
            namespace = job.selector.get("namespace") or job.engine
            name = nameable(f"{namespace}-{job.name}")
        number = 2
        while name.lower() in taken:
            name = f"{job.name[:58]}-{number}"
            number += 1
        taken.add(name.lower())
        found.append(replace(job, name=name))
    return tuple(found)

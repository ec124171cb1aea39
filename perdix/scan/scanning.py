"""A whole scan: from a Prometheus to what is advised for each of its jobs."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from perdix.scan.document import Scan
from perdix.scan.finding import ENGINES, Found, FoundJob, Labels, find_jobs, labels_of, named_apart
from perdix.scan.judging import Wanted, connected, judge_jobs
from perdix.scan.saving import WorkerPrice
from perdix.scan.topics import TOPIC, with_topics
from perdix.scan.with_perdix import looks_every_s
from perdix.settings.durations import HOUR_S
from perdix.settings.home import SHIPPED
from perdix.settings.stream_job import MOST_WORKERS
from perdix.telemetry.prometheus import Prometheus
from perdix.telemetry.prometheus_answers import PrometheusError
from perdix.telemetry.queries import EngineQueries, JobNaming, load_queries, queries_file
from perdix.telemetry.series import Series

PriceOf = Callable[[int], WorkerPrice | None]
NOTHING: Final = (
    "no job of Flink, Kafka Streams or Spark Structured Streaming has metrics in this Prometheus; conf/queries says "
    "what is looked for (the key 'jobs' of each engine)"
)


def found_in(wanted: Wanted, only: Collection[str] = ()) -> Found:
    """Return the jobs that the server knows, with topics and partitions, and in words what could not be asked.

    Raises ``PrometheusError`` when the server cannot be reached, or lets nobody in; ``SettingsError`` for a file of
    ``conf/queries`` that cannot be used.

    ``only``: names of jobs; empty: all.
    """
    engines = {engine: load_queries(engine) for engine in ENGINES}
    jobs: list[FoundJob] = []
    with connected(wanted.access) as client:
        found = find_jobs(client, engines, wanted.now_s, wanted.days)
        notes = [*_own_queries(), *found.notes]
        for engine, queries in engines.items():
            mine = [job for job in found.jobs if job.engine == engine and (not only or job.name in only)]
            named, said = with_topics(client, queries, mine, wanted.now_s, wanted.days)
            read, more = with_partitions(client, queries, named, wanted.now_s)
            jobs += read
            notes += [f"{engine}: {note}" for note in (*said, *more)]
    return Found(named_apart(jobs), tuple(notes))


def _own_queries() -> list[str]:
    files = {engine: queries_file(engine) for engine in ENGINES}
    return [
        f"{engine}: asked by your own queries, {file}, not by those that come with perdix"
        for engine, file in files.items()
        if not file.resolve().is_relative_to(SHIPPED)
    ]


def scan(
    wanted: Wanted,
    found: Found,
    *,
    thorough: bool = False,
    price_of: PriceOf = lambda _: None,
    stopwatch_s: Callable[[], float],
    began_s: float,
    processes: int | None = None,
    on_progress: Callable[[float, int], None] | None = None,
) -> Scan:
    """Judge the jobs that were found.

    ``thorough``: play the shipped policy every minute of all of the time: minutes per job.
    ``price_of``: price of a worker where this many run.
    ``stopwatch_s``, ``began_s``: seconds of any clock, and when the scan began by it.
    """
    wanted = replace(wanted, looks_s=None if thorough else looks_every_s(len(found.jobs)))
    jobs = judge_jobs(wanted, found.jobs, processes=processes, on_progress=on_progress)
    running = sum(judged.advice.average_workers_now for judged in jobs if judged.advice is not None)
    return Scan(wanted, tuple(jobs), price_of(round(running)), found.notes, stopwatch_s() - began_s)


MOST: Final = 100 * MOST_WORKERS  # more partitions are a fault of the metrics, rather


def with_partitions(
    client: Prometheus, queries: EngineQueries, jobs: Sequence[FoundJob], now_s: float
) -> tuple[tuple[FoundJob, ...], tuple[str, ...]]:
    """Return the jobs of one engine with the partitions of their sources, and in words what could not be asked.

    What a job's own consumers report counts; where they report nothing, what the brokers say of its topic. Of a job
    that reads several topics nobody can tell whether one source reads them all: nothing is said.
    """
    naming = queries.jobs
    if naming is None or not jobs:
        return tuple(jobs), ()
    consumed = naming.consumed_partitions()
    try:
        of_jobs = [] if consumed is None else client.query_range(consumed, now_s, now_s, HOUR_S)
        of_topics = _of_topics(client, naming, jobs, now_s)
    except PrometheusError as error:
        return tuple(jobs), (f"how many partitions sources have is unknown: {error}",)
    by_job: dict[Labels, list[int | None]] = {}
    for series in of_jobs:
        by_job.setdefault(labels_of(series, TOPIC), []).append(_count(series))
    found = []
    for job in jobs:
        counts = by_job.get(tuple(sorted(job.selector.items())), [])
        brokers = of_topics.get(job.topic) if job.topic is not None and not counts else None
        found.append(replace(job, partitions=counts[0] if len(counts) == 1 else brokers))
    return tuple(found), ()


def _of_topics(client: Prometheus, naming: JobNaming, jobs: Sequence[FoundJob], now_s: float) -> dict[str, int | None]:
    if not any(job.topic for job in jobs):
        return {}
    answer = client.query_range(naming.partitions_of_topics, now_s, now_s, HOUR_S)
    return {series.labels.get(TOPIC, ""): _count(series) for series in answer}


def _count(series: Series) -> int | None:
    newest = series.values[-1] if len(series) else np.nan
    return int(newest) if 1 <= newest <= MOST else None

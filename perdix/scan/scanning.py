"""A whole scan: from a Prometheus to what is advised for each of its jobs."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Final

from perdix.scan.document import Scan
from perdix.scan.finding import ENGINES, Found, FoundJob, find_jobs, named_apart
from perdix.scan.judging import Wanted, connected, judge_jobs
from perdix.scan.partitions import with_partitions
from perdix.scan.saving import WorkerPrice
from perdix.scan.topics import with_topics
from perdix.scan.with_perdix import looks_every_s
from perdix.telemetry.queries import load_queries

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
        notes = list(found.notes)
        for engine, queries in engines.items():
            mine = [job for job in found.jobs if job.engine == engine and (not only or job.name in only)]
            named, said = with_topics(client, queries, mine, wanted.now_s, wanted.days)
            read, more = with_partitions(client, queries, named, wanted.now_s)
            jobs += read
            notes += [f"{engine}: {note}" for note in (*said, *more)]
    return Found(named_apart(jobs), tuple(notes))


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
    ``price_of``: price of a worker where so many run.
    ``stopwatch_s``, ``began_s``: seconds of any clock, and when the scan began by it.
    """
    wanted = replace(wanted, looks_s=None if thorough else looks_every_s(len(found.jobs)))
    jobs = judge_jobs(wanted, found.jobs, processes=processes, on_progress=on_progress)
    running = sum(judged.advice.average_workers_now for judged in jobs if judged.advice is not None)
    return Scan(wanted, tuple(jobs), price_of(round(running)), found.notes, stopwatch_s() - began_s)

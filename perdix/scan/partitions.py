"""How many partitions a job's source has: no more workers than that can read, and each reads whole ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from perdix.scan.finding import HOUR_S, Asks, FoundJob, Labels, labels_of
from perdix.scan.topics import TOPIC
from perdix.settings.stream_job import MOST_WORKERS
from perdix.telemetry.prometheus_answers import PrometheusError
from perdix.telemetry.queries import EngineQueries, JobNaming
from perdix.telemetry.series import Series

MOST: Final = 100 * MOST_WORKERS  # more partitions are a fault of the metrics, rather


def with_partitions(
    client: Asks, queries: EngineQueries, jobs: Sequence[FoundJob], now_s: float
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


def _of_topics(client: Asks, naming: JobNaming, jobs: Sequence[FoundJob], now_s: float) -> dict[str, int | None]:
    if not any(job.topic for job in jobs):
        return {}
    answer = client.query_range(naming.partitions_of_topics, now_s, now_s, HOUR_S)
    return {series.labels.get(TOPIC, ""): _count(series) for series in answer}


def _count(series: Series) -> int | None:
    newest = series.values[-1] if len(series) else np.nan
    return int(newest) if 1 <= newest <= MOST else None

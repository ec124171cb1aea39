"""Which Kafka topic a job reads, where its rate shows it: engines do not name it, and a job file needs it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from perdix.scan.finding import FoundJob
from perdix.settings.durations import DAY_S, HOUR_S
from perdix.telemetry.metrics import THROUGHPUT, WORKLOAD
from perdix.telemetry.prometheus import Asked, Prometheus, Pulled
from perdix.telemetry.prometheus_answers import PrometheusError
from perdix.telemetry.queries import EngineQueries
from perdix.telemetry.query_text import rate_window_s
from perdix.telemetry.window import Values

TOPIC: Final = "topic"
APART: Final = 0.05  # relative difference of hourly rates, median, up to which a job reads just that topic
CLEARLY: Final = 3.0  # times nearer than any other topic
LEAST_HOURS: Final = 6
INTERNAL: Final = ("-changelog", "-repartition", "__")  # topics of Kafka Streams and of Kafka itself


def with_topics(
    client: Prometheus, queries: EngineQueries, jobs: Sequence[FoundJob], now_s: float, days: float
) -> tuple[tuple[FoundJob, ...], tuple[str, ...]]:
    """Return the jobs of one engine with the topics whose rates are theirs, and in words what could not be asked."""
    end_s = np.floor(now_s / HOUR_S) * HOUR_S
    start_s = end_s - np.floor(days * DAY_S / HOUR_S) * HOUR_S
    promql = queries.for_each(TOPIC, WORKLOAD.name, HOUR_S)
    if promql is None or not jobs:
        return tuple(jobs), ()
    hours = round((end_s - start_s) / HOUR_S) + 1
    try:
        rates = {
            topic: _by_hour(series.times_ms / 1000.0, series.values, start_s, hours)
            for series in client.query_range(promql, start_s, end_s, HOUR_S)
            if (topic := series.labels.get(TOPIC))
            and not (topic.startswith(INTERNAL[2]) or topic.endswith(INTERNAL[:2]))
        }
        asked = Asked(
            {job.name: (THROUGHPUT.name,) for job in jobs},
            {job.name: job.selector for job in jobs},
            start_s,
            end_s,
            HOUR_S,
            HOUR_S / rate_window_s(1.0),
        )
        consumed = client.pull_jobs(queries, asked) if rates else {}
    except PrometheusError as error:
        return tuple(jobs), (f"topics cannot be found by their rates: {error}",)
    found = []
    for job in jobs:
        pulled = consumed.get(job.name)
        if not isinstance(pulled, Pulled) or not pulled.series:
            found.append(job)
            continue
        parts = [_by_hour(series.times_ms / 1000.0, series.values, start_s, hours) for series in pulled.series]
        whole = np.where(np.isnan(parts).all(axis=0), np.nan, np.nansum(parts, axis=0))
        found.append(replace(job, topic=matching_topic(whole, rates)))
    return tuple(found), ()


def matching_topic(consumed: Values, topics: Mapping[str, Values]) -> str | None:
    """Return the topic whose hourly rate a job consumed; ``None`` where none fits, or two fit as well.

    ``consumed``: records/s of each hour, shape ``(hours,)``, NaN where unknown.
    ``topics``: topic -> records/s of each hour, of the same shape.
    """
    apart = sorted((_difference(consumed, rates), topic) for topic, rates in topics.items())
    if not apart or not apart[0][0] <= APART:
        return None
    clear = len(apart) == 1 or apart[1][0] > max(CLEARLY * apart[0][0], APART)
    return apart[0][1] if clear else None


def _difference(consumed: Values, rates: Values) -> float:
    """Return the median relative difference of two courses; infinite where too few hours are known of both."""
    larger = np.maximum(consumed, rates)
    known = np.isfinite(larger) & (larger > 0)
    if known.sum() < LEAST_HOURS:
        return float("inf")
    return float(np.median(np.abs(consumed[known] - rates[known]) / larger[known]))


def _by_hour(times_s: Values, values: Values, start_s: float, hours: int) -> Values:
    found = np.full(hours, np.nan)
    places = np.round((times_s - start_s) / HOUR_S).astype(np.int64)
    inside = (places >= 0) & (places < hours)
    found[places[inside]] = values[inside]
    return found

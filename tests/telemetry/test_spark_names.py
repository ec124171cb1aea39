"""Spark's metrics, by each of the names that the JMX exporter gives them; over real HTTP, as a job is read live."""

from __future__ import annotations

import numpy as np
import pytest

from perdix.settings.access import HttpAccess
from perdix.telemetry.prometheus import Prometheus
from perdix.telemetry.queries import load_queries, load_series_map
from tests.scan.raw_prometheus import SCRAPED_S, RawPrometheus

NOW_S = 1_790_000_000.0
JOB = {"app": "clicks"}
RATE = "spark_structured_streaming_driver_inputrate"
# Of the Kubernetes operator's rules, for Spark 2 and 3. The JMX exporter 1.x cuts `_total` from a gauge,
# and gives it to a counter.
NAMES = [
    (f"{RATE}_total", "spark_executor_{}_count"),
    (f"{RATE}_total_type_gauges", "spark_executor_{}_type_counters_count"),
    (RATE, "spark_executor_{}_count_total"),
    (f"{RATE}_total_type_gauges", "spark_executor_{}_type_counters_count_total"),
]


def counted(per_s):
    return np.cumsum(np.full(20, SCRAPED_S * per_s))


@pytest.mark.parametrize(("rate", "counter"), NAMES)
def test_a_job_is_found_and_read_by_the_names_of_either_jmx_exporter(rate, counter):
    place = {**JOB, "instance": "executor:8090", "executor_id": "1"}
    raw = [
        (rate, {**JOB, "instance": "driver:8090", "query_name": "q"}, np.full(20, 60.0)),
        ("metrics_executor_maxTasks", place, np.full(20, 2.0)),
        (counter.format("recordsread"), place, counted(60.0)),
        (counter.format("cputime"), place, counted(1e9)),
    ]
    queries, server = load_queries("spark-structured-streaming"), RawPrometheus(NOW_S, raw)
    wanted = ("workload_per_s", "throughput_per_s", "cpu_load")
    with Prometheus(HttpAccess(url=server.url)) as client:
        found = client.query_range(queries.jobs.running(), NOW_S, NOW_S, 60.0)
        pulled = client.pull(queries, JOB, NOW_S - 300.0, NOW_S, 60.0, metrics=wanted)
    server.close()
    assert [series.labels for series in found] == [JOB]
    assert {series.metric: series.values[-1] for series in pulled} == dict(zip(wanted, (60.0, 60.0, 0.5), strict=True))


def test_a_driver_that_is_scraped_on_its_page_and_by_the_jmx_exporter_counts_once():
    """The Kubernetes operator exports the driver by default, beside the page that the executors' slots are read of."""
    page, exporter = {**JOB, "instance": "driver:4040"}, {**JOB, "instance": "driver:8090", "query_name": "q"}
    raw = [
        ("metrics_spark_1_driver_spark_streaming_q_inputRate_total_Value", page, np.full(20, 60.0)),
        (f"{RATE}_total", exporter, np.full(20, 60.0)),
    ]
    queries, server = load_queries("spark-structured-streaming"), RawPrometheus(NOW_S, raw)
    with Prometheus(HttpAccess(url=server.url)) as client:
        (workload,) = client.pull(queries, JOB, NOW_S, NOW_S, 60.0, metrics=("workload_per_s",))
    server.close()
    assert list(workload.values) == [60.0]


@pytest.mark.parametrize(("rate", "counter"), NAMES)
def test_dumps_are_read_by_the_same_names(rate, counter):
    names = load_series_map()
    assert names.canonical(rate, {}).metric == "workload_per_s"
    assert names.canonical(counter.format("recordsread"), {"executor_id": "1"}).metric == "throughput_per_s"
    assert names.canonical(counter.format("cputime"), {"executor_id": "1"}).metric == "cpu_load"

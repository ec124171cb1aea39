"""Kafka Streams and Spark jobs, by the names that their exporters use, over real HTTP; one bad job stops no other."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from perdix.scan.finding import FoundJob
from perdix.scan.judging import Wanted, judge_jobs
from perdix.scan.scanning import found_in
from perdix.settings.access import HttpAccess
from perdix.settings.home import SHIPPED
from tests.scan.raw_prometheus import SCRAPED_S, RawPrometheus

NOW_S = 1_790_000_000.0 // 3_600 * 3_600 + 600
MINUTES = 26 * 60
RATE = 300.0 + 150.0 * np.sin(np.arange(MINUTES) / 120.0)  # records/s of one worker; 1,000 at CPU 1
IDLE = 40.0 + 0.0 * RATE
CPU = 0.1 + 0.9 * RATE / 1_000.0
MICROMETER = (
    "kafka_stream_thread_process_total",
    "kafka_consumer_fetch_manager_metrics_records_consumed_total",
    "kafka_consumer_fetch_manager_metrics_records_lag",
    "process_cpu_usage",
    "process_uptime_seconds",
    1.0,
)
# As version 1.0.1 named them of Kafka Streams 4.1: it cuts "_total" off what no rule calls a counter.
JMX_EXPORTER = (
    "kafka_streams_stream_thread_metrics_process",
    "kafka_consumer_consumer_fetch_manager_metrics_records_consumed",
    "kafka_consumer_consumer_fetch_manager_metrics_records_lag",
    "java_lang_operatingsystem_processcpuload",
    "java_lang_runtime_uptime",
    1_000.0,
)


def counted(rates):
    return np.cumsum(SCRAPED_S * rates)


def kafka_streams(application, workers=3, cpu=CPU, topic="orders", names=MICROMETER, rates=RATE):
    raw = []
    for k in range(workers):
        place = {
            "namespace": "shop",
            "application": application,
            "job": "streams",
            "instance": f"{application}-{k}:9404",
        }
        client = {"client_id": f"{application}-{k}-StreamThread-1-consumer", "topic": topic, "partition": str(k)}
        processed, consumed, lag, cpu_usage, uptime, second = names
        raw += [
            (processed, place, counted(rates)),
            (consumed, {**place, **client}, counted(rates)),
            (lag, {**place, **client}, np.full(MINUTES, 5.0)),
            (cpu_usage, place, cpu),
            (uptime, place, second * (1e5 + SCRAPED_S * np.arange(MINUTES))),
        ]
    return raw


def broker(topic, rates):
    return (
        "kafka_server_brokertopicmetrics_messagesin_total",
        {"topic": topic, "instance": "kafka:9404"},
        counted(rates),
    )


def broker_without_rules(topic, rates):
    """As the JMX exporter names it by itself, and Amazon MSK does."""
    return "kafka_server_BrokerTopicMetrics_Count", {"name": "MessagesInPerSec", "topic": topic}, counted(rates)


def spark(job, executors=2, queries=("q",), counts="{}_count"):
    """``counts``: what the JMX exporter makes of the name of an executor's counter."""
    place = {"namespace": "shop", "job": job, "instance": "driver:4040"}
    raw = [("process_start_time_seconds", place, np.full(MINUTES, NOW_S - 1e6))]
    for query in queries:  # named by the metric alone, as PrometheusServlet does
        name = f"metrics_app_1_driver_spark_streaming_{query}_inputRate_total_Value"
        raw.append((name, place, executors * RATE / len(queries)))
    for k in range(executors):
        here = {**place, "executor_id": str(k)}
        raw += [
            ("metrics_executor_maxTasks", here, np.full(MINUTES, 2.0)),
            (counts.format("spark_executor_recordsread"), here, counted(RATE)),
            (counts.format("spark_executor_cputime"), here, counted(2e9 * CPU)),
        ]
    return raw


def kafka_exporter(topic, rates, partitions=3):
    """Offsets of partitions, as kafka_exporter has them of a cluster whose brokers export nothing."""
    name, labels = "kafka_topic_partition_current_offset", {"topic": topic, "instance": "exporter:9308"}
    return [(name, {**labels, "partition": str(k)}, counted(rates / partitions)) for k in range(partitions)]


def test_queries_of_ones_own_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An old copy finds other jobs than what comes with perdix, or none."""
    file = tmp_path / "queries" / "flink.yaml"
    file.parent.mkdir()
    shutil.copyfile(SHIPPED / "queries" / "flink.yaml", file)
    server = RawPrometheus(NOW_S, [broker("orders", RATE)])
    wanted = Wanted(HttpAccess(url=server.url), NOW_S, 1.0)
    assert not any("your own" in note for note in found_in(wanted).notes)
    monkeypatch.setenv("PERDIX_CONF", str(tmp_path))
    notes = found_in(wanted).notes
    server.close()
    assert f"flink: asked by your own queries, {file}, not by those that come with perdix" in notes


@pytest.fixture(scope="module")
def judged():
    raw = [
        *kafka_streams("payments"),
        *kafka_streams("invoices", topic="bills", names=JMX_EXPORTER, rates=0.8 * RATE),
        broker("orders", 3 * RATE),
        broker("bills", 3 * 0.8 * RATE),
        broker("clicks", IDLE),
        *kafka_streams("percent", workers=1, cpu=100 * CPU, topic="other"),
        *spark("clickstream", queries=("clicks", "sessions")),
        *spark("of-exporter-1", counts="{}_type_counters_count_total"),
    ]
    server = RawPrometheus(NOW_S, raw)
    wanted = Wanted(HttpAccess(url=server.url), NOW_S, 1.0)
    found = found_in(wanted)
    judged = judge_jobs(wanted, found.jobs, processes=1)
    server.close()
    return {job.job.name: job for job in judged}


@pytest.mark.parametrize(("name", "topic", "takes"), [("payments", "orders", 3_000.0), ("invoices", "bills", 2_400.0)])
def test_a_kafka_streams_application_is_found_with_its_topic_and_judged(judged, name, topic, takes):
    job = judged[name]
    assert (job.job.engine, job.job.topic, job.job.scrape_interval_s) == ("kafka-streams", topic, 60.0)
    assert job.job.selector == {"namespace": "shop", "application": name, "job": "streams"}
    assert job.job.partitions == 3
    assert "its source has 3 partitions, of which a worker reads whole ones" in job.advice.notes
    assert job.advice.average_workers_now == 3.0
    assert job.advice.late_share_now == 0.0
    assert job.capacities[3][1] == pytest.approx(takes, rel=0.15)


@pytest.mark.parametrize(
    "topics",
    [
        [*kafka_exporter("orders", 3 * RATE), *kafka_exporter("clicks", IDLE)],
        [*kafka_exporter("orders", 3 * RATE), broker("orders", 3 * RATE), broker("clicks", 0.0 * RATE)],
        [broker_without_rules("orders", 3 * RATE), broker_without_rules("clicks", IDLE)],
    ],
    ids=["by kafka_exporter", "by both", "by brokers without rules"],
)
def test_a_topic_is_known_by_kafka_exporter_and_by_brokers_and_counts_once(topics):
    server = RawPrometheus(NOW_S, [*kafka_streams("payments"), *topics])
    wanted = Wanted(HttpAccess(url=server.url), NOW_S, 1.0)
    (found,) = found_in(wanted).jobs
    (judged,) = judge_jobs(wanted, [found], processes=1)
    server.close()
    assert found.topic == "orders"
    load_per_s = judged.course.load_per_s
    assert np.nanmax(load_per_s) == pytest.approx(3 * RATE.max(), rel=0.05)


@pytest.mark.parametrize("name", ["clickstream", "of-exporter-1"])
def test_a_spark_job_is_found_and_judged_although_its_latency_was_refused(judged, name):
    """One of two queries, and one as Spark 4.3 was seen through the exporter's version 1.0.1."""
    job = judged[name]
    assert job.job.scrape_interval_s == 60.0
    assert job.job.engine == "spark-structured-streaming"
    assert job.advice.average_workers_now == 2.0
    assert job.capacities[2][1] == pytest.approx(2_000.0, rel=0.15)
    assert any("latency_p95_ms" in note for note in job.advice.notes)


def test_a_job_that_began_just_now_is_not_said_to_lack_metrics():
    """Nothing is read of it: the first quarter of an hour holds no step of its workers' metrics."""
    job = FoundJob("new", "flink", {"job_name": "new"}, NOW_S, NOW_S)
    wanted = Wanted(HttpAccess(url="http://127.0.0.1:9"), NOW_S, 7.0)
    (judged,) = judge_jobs(wanted, [job], processes=1)
    assert judged.reason == "it has had metrics for less than 1 h; at least 6 h of its load are needed"


def test_a_job_whose_cpu_cannot_be_stands_beside_the_others_with_its_reason(judged):
    job = judged["percent"]
    assert job.advice is None
    assert "is it in percent? divide its query in conf/queries by 100" in job.reason


def test_neither_spark_nor_mlflow_nor_dagster_is_imported():
    code = (
        "import sys, perdix.cli.main, perdix.cli.scan;"
        "import perdix.scan.scanning, perdix.scan.page, perdix.scan.webhook, perdix.scan.job_files;"
        "heavy = {'pyspark', 'mlflow', 'dagster', 'great_expectations', 'statsforecast', 'pmdarima'};"
        "print(*(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr

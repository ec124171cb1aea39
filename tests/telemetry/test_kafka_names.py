"""Kafka's metrics, by each of the names that its exporters give them; over real HTTP, as a job is read live."""

from __future__ import annotations

import numpy as np
import pytest

from perdix.settings.access import HttpAccess
from perdix.telemetry.prometheus import Asked, Prometheus
from perdix.telemetry.queries import load_queries, load_series_map
from tests.scan.raw_prometheus import SCRAPED_S, RawPrometheus

NOW_S = 1_790_000_000.0
MINUTES = 20
CLIENT = "kafka_consumer_consumer_fetch_manager_metrics_records"
BROKER = "kafka_server_brokertopicmetrics"
EXPORTER = ["_total", ""]  # the JMX exporter 0.x; 1.0 to 1.5, which cut that from whatever is no declared counter
WORKER_PER_S = 60.0
OVER_A_RANGE = ("workload_per_s", "throughput_per_s", "memory_ratio")


def counted(per_s):
    return np.cumsum(np.full(MINUTES, SCRAPED_S * per_s))


def consumers(app, topics, suffix="_total", lag=30.0):
    """Two workers of an application, each of which reads one partition, under each of the topic's names."""
    raw = []
    for worker in range(2):
        place = {"app": app, "instance": f"{app}-{worker}:9404", "client_id": f"{app}-{worker}-StreamThread-1-consumer"}
        for topic in topics:
            raw.append((f"{CLIENT}_consumed{suffix}", {**place, "topic": topic}, counted(WORKER_PER_S)))
            partition = {**place, "topic": topic, "partition": str(worker)}
            raw.append((f"{CLIENT}_lag", partition, np.full(MINUTES, lag)))
        raw.append((f"{CLIENT}_consumed{suffix}", place, counted(9 * WORKER_PER_S)))  # of all topics, internal ones too
    return raw


def brokers(topic, suffix="_total", name="messagesin"):
    series = f"{BROKER}_{name}{suffix}"
    return [(series, {"topic": topic, "instance": f"kafka-{k}:9404"}, counted(WORKER_PER_S)) for k in range(2)]


def heap(name):
    place = {"app": "pay", "instance": "pay-0:9404", "area": "heap"}
    values = {"used": 300.0, "max": 900.0}
    return [(name.format(of), place, np.full(MINUTES, megabytes)) for of, megabytes in values.items()]


def read(raw, *selectors):
    """Return by selector: metric -> the sum over its series, of the newest minute."""
    server = RawPrometheus(NOW_S, raw)
    wanted = ("workload_per_s", "throughput_per_s", "consumer_lag_records")
    jobs = {str(number): selector for number, selector in enumerate(selectors)}
    with Prometheus(HttpAccess(url=server.url)) as client:
        asked = Asked(dict.fromkeys(jobs, wanted), jobs, NOW_S - 300.0, NOW_S, 60.0, 60.0)
        pulled = client.pull_jobs(load_queries("kafka-streams"), asked)
    server.close()
    found = []
    for job in jobs:
        sums = dict.fromkeys(wanted, 0.0)
        for series in pulled[job].series:
            sums[series.metric] += series.values[-1]
        found.append({metric: value for metric, value in sums.items() if value})
    return found


WHOLE = {"workload_per_s": 120.0, "throughput_per_s": 120.0, "consumer_lag_records": 60.0}


@pytest.mark.parametrize("suffix", EXPORTER)
@pytest.mark.parametrize("name", ["messagesin", "messagesinpersec"])
def test_counters_are_read_by_the_names_of_either_jmx_exporter(suffix, name):
    raw = [*consumers("pay", ["orders"], suffix), *brokers("orders", suffix, name)]
    assert read(raw, {"app": "pay", "topic": "orders"}) == [WHOLE]


def of_the_upgrade(before, after):
    """The series of both names: the former ends, and the latter begins, ten minutes before the end."""
    minutes = np.arange(MINUTES)
    halves = [(before, minutes < MINUTES - 10), (after, minutes >= MINUTES - 10)]
    return [(name, labels, np.where(there, values, np.nan)) for raw, there in halves for name, labels, values in raw]


@pytest.mark.parametrize("selector", [{"app": "pay", "topic": "orders"}, {"app": "pay"}], ids=["of a topic", "of all"])
def test_hours_in_which_an_exporter_was_upgraded_are_read_with_it(selector):
    """A scan's means over an hour meet both names of a counter, whose other labels are the same."""
    before, after = ([*consumers("pay", ["orders"], suffix), *brokers("orders", suffix)] for suffix in EXPORTER)
    before += heap("jvm_memory_bytes_{}")
    after += heap("jvm_memory_{}_bytes")
    server = RawPrometheus(NOW_S, of_the_upgrade(before, after))
    with Prometheus(HttpAccess(url=server.url)) as client:
        queries = load_queries("kafka-streams")
        wanted = [name for name in queries.metrics(selector) if name in OVER_A_RANGE]
        pulled = client.pull(queries, selector, NOW_S, NOW_S, 60.0, metrics=wanted, scrape_interval_s=900.0)
        warned = client.drain_warnings()
    server.close()
    assert (warned, {series.metric for series in pulled}) == ((), set(wanted))


@pytest.mark.parametrize("topics", [["shop_orders"], ["shop.orders", "shop_orders"]], ids=["up to 4.0", "from 4.1 on"])
def test_a_topic_with_a_dot_is_what_brokers_call_it_and_its_consumers_count_once(topics):
    raw = [*consumers("pay", topics), *brokers("shop.orders")]
    assert read(raw, {"app": "pay", "topic": "shop.orders"}) == [WHOLE]
    of_all_topics = {metric: value for metric, value in WHOLE.items() if metric != "workload_per_s"}
    assert read(raw, {"app": "pay"}) == [of_all_topics]


def test_jobs_whose_topics_have_dots_are_told_apart_in_one_query():
    raw = [*consumers("pay", ["shop_orders"]), *consumers("pay", ["shop_refunds"], lag=5.0)]
    raw += [*brokers("shop.orders"), *brokers("shop.refunds")]
    orders, refunds = read(raw, {"app": "pay", "topic": "shop.orders"}, {"app": "pay", "topic": "shop.refunds"})
    assert orders == WHOLE
    assert refunds == {**WHOLE, "consumer_lag_records": 10.0}


@pytest.mark.parametrize(
    "name",
    [
        "kafka_streams_stream_thread_metrics_process_total",
        "kafka_streams_stream_thread_metrics_process",
        "kafka_stream_thread_process_total",  # Micrometer's
    ],
)
def test_an_application_of_which_nobody_has_said_anything_is_found(name):
    server = RawPrometheus(NOW_S, [(name, {"app": "pay", "instance": "pay-0:9404"}, counted(WORKER_PER_S))])
    with Prometheus(HttpAccess(url=server.url)) as client:
        found = client.query_range(load_queries("kafka-streams").jobs.running(), NOW_S, NOW_S, 60.0)
    server.close()
    assert [series.labels for series in found] == [{"app": "pay"}]


@pytest.mark.parametrize("suffix", EXPORTER)
def test_dumps_are_read_by_the_same_names_and_a_topic_with_a_dot_once(suffix):
    names, client = load_series_map(), {"client_id": "pay-0-StreamThread-1-consumer", "instance": "pay-0:9404"}
    assert names.canonical(f"{BROKER}_messagesin{suffix}", {"topic": "shop.orders"}).metric == "workload_per_s"
    consumed = f"{CLIENT}_consumed{suffix}"
    assert names.canonical(consumed, {**client, "topic": "shop_orders"}).metric == "throughput_per_s"
    assert names.canonical(consumed, {**client, "topic": "shop.orders"}) is None
    waiting = {**client, "partition": "0"}
    assert names.canonical(f"{CLIENT}_lag", {**waiting, "topic": "shop_orders"}).metric == "consumer_lag_records"
    assert names.canonical(f"{CLIENT}_lag", {**waiting, "topic": "shop.orders"}) is None


def test_two_copies_of_kafka_exporter_are_counted_once():
    offsets, raw = "kafka_topic_partition_current_offset", consumers("pay", ["orders"])
    for exporter in ("exporter-a:9308", "exporter-b:9308"):
        for partition in "01":
            labels = {"topic": "orders", "partition": partition, "instance": exporter}
            raw.append((offsets, labels, counted(WORKER_PER_S)))
    assert read(raw, {"app": "pay", "topic": "orders"}) == [WHOLE]
    first, second = read(raw, {"app": "pay", "topic": "orders"}, {"app": "pay", "topic": "clicks"})
    assert (first["workload_per_s"], "workload_per_s" in second) == (120.0, False)

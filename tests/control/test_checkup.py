"""Every query of a job, asked at the twin's real Prometheus face: what is wrong with it, and what fixes it."""

import re
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perdix.control.checkup.facts import JobCheckup, QueryFact, Verdict
from perdix.control.checkup.job import check_job, fix_of
from perdix.control.sources import connected
from perdix.settings.stream_job import PrometheusSource, StreamJob
from perdix.telemetry.metrics import CANONICAL
from perdix.telemetry.prometheus import Prometheus
from perdix.telemetry.prometheus_answers import PrometheusError
from perdix.telemetry.queries import EngineQueries, load_queries
from perdix.telemetry.series import Series
from perdix.twin.emission import Scraping
from perdix.twin.job import JobTwin
from perdix.twin.living import LivingTwin, SimulatedClock
from perdix.twin.parameters import load_twin
from perdix.twin.workloads import arrivals_from
from tests.scan.raw_prometheus import SCRAPED_S, RawPrometheus
from tests.telemetry.wire_server import Wire, answer_of
from tests.twin.troubled_face import PrometheusFace, Trouble

START_S = 1_760_000_000
NOW_S = START_S + 1_500
STEP_S = 15.0
OWN = {"namespace": "wordcount", "job_name": "wordcount", "topic": "wordcount"}
RATES = {"wordcount": 20_000.0, "traffic": 60_000.0}


@pytest.fixture(scope="module")
def face() -> Iterator[PrometheusFace]:
    twins = {
        name: JobTwin(
            load_twin(name), 3, start_s=START_S, scale_out=4, arrivals=arrivals_from(np.full(7_200, rate), START_S)
        )
        for name, rate in RATES.items()
    }
    with PrometheusFace(LivingTwin(twins, SimulatedClock(NOW_S), scraping=Scraping(STEP_S))) as face:
        yield face


def a_job(face: PrometheusFace, **labels: str) -> StreamJob:
    source = PrometheusSource(url=face.url, selector={**OWN, **labels}, scrape_interval_s=STEP_S)
    return StreamJob(name="wordcount", prometheus=source)


def checked(job: StreamJob, now_s: float = NOW_S, **given: Any) -> JobCheckup:
    return check_job(job, now_s, **given)


def fact(checkup: JobCheckup, metric: str) -> QueryFact:
    return next(query for query in checkup.queries if query.metric == metric)


def changed(metric: str, promql: str) -> EngineQueries:
    """Flink's queries with another text for one metric; ``{}`` stands for the shipped one."""
    queries = load_queries("flink")
    texts = [text.model_copy(update={"promql": promql.format(f"({text.promql})")}) for text in queries.queries[metric]]
    return queries.model_copy(update={"queries": {**queries.queries, metric: texts}})


def test_every_query_of_a_well_job_shows_what_it_found(face: PrometheusFace) -> None:
    found = checked(a_job(face))
    assert found.ok, [query for query in found.queries if not query.ok]
    assert {query.metric for query in found.queries} == set(load_queries("flink").queries)
    assert not [query for query in found.queries if query.verdict is not Verdict.OK and query.metric != "memory_ratio"]
    throughput = fact(found, "throughput_per_s")
    assert throughput.series == 4
    assert throughput.newest == pytest.approx(20_000, rel=0.05)
    assert throughput.unit == "records/s"
    assert throughput.age_s is not None
    assert 0 <= throughput.age_s < 2 * STEP_S
    assert 'job_name="wordcount"' in throughput.query
    assert fact(found, "cpu_load").newest == pytest.approx(0.5, abs=0.4)


def test_a_label_that_no_series_has_is_named_with_the_nearest(face: PrometheusFace) -> None:
    found = checked(a_job(face, job_name="wordcont"))
    assert not found.ok
    missing = fact(found, "throughput_per_s")
    assert missing.verdict is Verdict.MISSING
    assert (missing.series, missing.newest) == (0, None)
    assert missing.fix == "no series has job_name 'wordcont': set prometheus.selector.job_name to 'wordcount'"
    assert fact(found, "workload_per_s").ok


def test_a_topic_that_does_not_exist_is_named_with_the_nearest(face: PrometheusFace) -> None:
    found = fact(checked(a_job(face, topic="wordcuont")), "workload_per_s")
    assert found.verdict is Verdict.MISSING
    assert found.fix == "no series has topic 'wordcuont': set prometheus.selector.topic to 'wordcount'"


def test_a_label_that_series_lack_is_to_be_left_out(face: PrometheusFace) -> None:
    found = checked(a_job(face, team="ads"))
    assert fact(found, "throughput_per_s").fix == "its series have no label 'team': take it out of prometheus.selector"


@pytest.mark.parametrize(
    ("topic", "read_as", "named"),
    [("shop.orders", "shop_orders", "'shop_orders' (a '_' may be a '.')"), ("orders", "orders", "'orders'")],
)
def test_a_topic_is_not_named_as_kafkas_consumers_write_it(topic: str, read_as: str, named: str) -> None:
    """They report shop.orders as shop_orders; job files have what the brokers call it."""
    minutes = SCRAPED_S * np.arange(90)
    consumer = {"app": "pay", "instance": "pay-0:9404", "client_id": "pay-0-StreamThread-1-consumer"}
    raw = [
        ("kafka_server_brokertopicmetrics_messagesin_total", {"topic": topic}, 60.0 * minutes),
        ("kafka_consumer_fetch_manager_records_consumed_total", {**consumer, "topic": read_as}, 60.0 * minutes),
    ]
    server, wrong = RawPrometheus(NOW_S, raw), topic.replace("ord", "rod")
    source = PrometheusSource(url=server.url, selector={"app": "pay", "topic": wrong}, scrape_interval_s=SCRAPED_S)
    found = checked(StreamJob(name="pay", engine="kafka-streams", prometheus=source))
    server.close()
    setting = f"no series has topic '{wrong}': set prometheus.selector.topic to"
    assert fact(found, "workload_per_s").fix == f"{setting} '{topic}'"
    assert fact(found, "throughput_per_s").fix == f"{setting} {named}"


def test_the_topic_of_another_job_contradicts_the_throughput_and_the_right_one_is_named(face: PrometheusFace) -> None:
    found = checked(a_job(face, topic="traffic"))
    assert not found.ok
    workload = fact(found, "workload_per_s")
    assert workload.verdict is Verdict.CONTRADICTORY
    assert "workload 60,000/s and throughput 20,000/s contradict each other" in workload.found.replace("59,9", "60,0")
    assert workload.fix == "topic 'wordcount' has the rate that the job reads: set prometheus.selector.topic to it"


def test_a_selector_without_a_topic_says_which_label_is_needed(face: PrometheusFace) -> None:
    job = a_job(face)
    assert job.prometheus is not None
    selector = {name: value for name, value in OWN.items() if name != "topic"}
    found = checked(job.model_copy(update={"prometheus": job.prometheus.model_copy(update={"selector": selector})}))
    workload = fact(found, "workload_per_s")
    assert (workload.ok, workload.verdict) == (False, Verdict.UNANSWERABLE)
    assert "needs the label topic" in workload.found
    assert workload.fix == "add topic to prometheus.selector"


@pytest.mark.parametrize(
    ("metric", "promql", "words", "fix"),
    [
        ("cpu_load", "{} * 100", "outside 0 to 1.5", "is it in percent? Set scale: 0.01"),
        ("busy_ratio", "{} * 1000", "outside 0 to 1.5", "is it in milliseconds per second? Set scale: 0.001"),
        ("uptime_s", "{} * 1000", "rises by 1,000 a second", "is it in milliseconds? Set scale: 0.001"),
        ("latency_p95_ms", "{} / 1000", "of the objective", "is it in seconds? Set scale: 1000"),
        ("latency_p95_ms", "{} * 1000", "only", "is it in microseconds? Set scale: 0.001"),
    ],
)
def test_a_wrong_unit_is_found_with_its_scale(
    face: PrometheusFace, metric: str, promql: str, words: str, fix: str
) -> None:
    found = fact(checked(a_job(face), queries_of=lambda _: changed(metric, promql)), metric)
    assert found.verdict in {Verdict.IMPLAUSIBLE, Verdict.DOUBTFUL}
    assert words in found.found
    assert fix in found.fix


def test_a_scrape_interval_that_is_too_short_is_why_rates_find_nothing(face: PrometheusFace) -> None:
    job = a_job(face)
    assert job.prometheus is not None
    often = job.model_copy(update={"prometheus": job.prometheus.model_copy(update={"scrape_interval_s": 2.0})})
    found = fact(checked(often), "throughput_per_s")
    assert found.verdict is Verdict.MISSING
    assert found.fix == "is it scraped every 15 s? Then set prometheus.scrape_interval_s to that"


def test_of_a_job_that_began_just_now_nobody_knows_how_often_it_is_scraped(face: PrometheusFace) -> None:
    """A Spark job of two minutes, scraped every 5 s, was said to be scraped every 34 s."""
    found = checked(a_job(face), START_S + 100.0, queries_of=lambda _: changed("throughput_per_s", "{} > 1e9"))
    assert "scraped every" not in fact(found, "throughput_per_s").fix


def test_a_job_that_shows_nothing_at_all_may_not_run(face: PrometheusFace) -> None:
    found = checked(a_job(face, job_name="x", namespace="y", topic="z"))
    assert "no query finds a series: does the job run" in found.problem
    assert found.fix == "start the job, correct prometheus.selector, or the queries in conf/queries/flink.yaml"
    assert not [query.fix for query in found.queries if "publish it" in query.fix], "not before the job is found"


def test_what_cannot_be_is_counted_and_told_with_its_range(face: PrometheusFace) -> None:
    found = fact(checked(a_job(face), queries_of=lambda _: changed("cpu_load", "{} * 100")), "cpu_load")
    assert found.rejected > 100
    assert found.newest is not None
    assert found.newest > 10
    assert not found.ok
    assert re.match(r"[\d.]+ is outside 0 to 1\.5 \([\d,]+ values of the last hour are\)", found.found)


def test_a_scale_beside_the_query_fixes_the_unit(face: PrometheusFace) -> None:
    queries = changed("cpu_load", "{} * 100")
    texts = [text.model_copy(update={"scale": 0.01}) for text in queries.queries["cpu_load"]]
    fixed = queries.model_copy(update={"queries": {**queries.queries, "cpu_load": texts}})
    found = fact(checked(a_job(face), queries_of=lambda _: fixed), "cpu_load")
    assert found.verdict is Verdict.OK


def test_a_metric_that_the_exporter_does_not_publish_is_missing(face: PrometheusFace) -> None:
    found = checked(a_job(face), queries_of=lambda _: changed("cpu_load", "nobody_publishes_this{{$selector}}"))
    cpu = fact(found, "cpu_load")
    assert (cpu.ok, cpu.verdict, cpu.needed) == (False, Verdict.MISSING, True)
    assert cpu.fix == "publish it, or correct the query of cpu_load in conf/queries/flink.yaml"
    found = checked(a_job(face), queries_of=lambda _: changed("busy_ratio", "nobody_publishes_this{{$selector}}"))
    busy = fact(found, "busy_ratio")
    assert (busy.ok, busy.verdict, busy.needed) == (True, Verdict.MISSING, False)
    assert found.ok


def test_a_topic_that_no_exporter_reports_says_which_are_read_and_where_another_is_named(face: PrometheusFace) -> None:
    nobody = changed("workload_per_s", "nobody_publishes_this{{$selector}}")
    workload = fact(checked(a_job(face), queries_of=lambda _: nobody), "workload_per_s")
    assert (workload.ok, workload.verdict) == (False, Verdict.MISSING)
    assert workload.fix == (
        "no topic has a rate here: scrape the brokers' JMX exporter or kafka_exporter; another exporter's records by "
        "the label 'topic' go to workload_per_s in conf/queries/flink.yaml"
    )


def test_a_query_that_the_server_refuses_is_told_with_its_answer(face: PrometheusFace) -> None:
    found = fact(checked(a_job(face), queries_of=lambda _: changed("cpu_load", "sum(((")), "cpu_load")
    assert found.verdict is Verdict.REFUSED
    assert "refuses the query" in found.found
    assert "conf/queries/flink.yaml" in found.fix


def test_scrapes_that_stand_still_are_stale(face: PrometheusFace) -> None:
    face.trouble = Trouble(newest_s=NOW_S - 600)
    try:
        found = checked(a_job(face))
    finally:
        face.trouble = Trouble()
    stale = fact(found, "throughput_per_s")
    assert stale.verdict is Verdict.STALE
    assert stale.age_s == pytest.approx(600, abs=61)
    assert "newest value is 10 min old, 45 s are allowed" in stale.found
    assert "targets page" in stale.fix


class Twice(Prometheus):
    """A server that scrapes each worker's throughput twice."""

    def pull_jobs(self, queries: Any, asked: Any) -> Any:
        found = super().pull_jobs(queries, asked)
        return {job: replace(pull, series=tuple(self._twice(pull.series))) for job, pull in found.items()}

    def _twice(self, series: tuple[Series, ...]) -> Iterator[Series]:
        for stream in series:
            yield stream
            if stream.metric == "throughput_per_s":
                yield replace(stream, labels={**stream.labels, "instance": "again:9249"})


def test_series_that_count_a_worker_twice_are_found(face: PrometheusFace) -> None:
    found = fact(checked(a_job(face), connect=Twice), "throughput_per_s")
    assert (found.ok, found.verdict, found.series) == (False, Verdict.DUPLICATED, 8)
    assert "2 series for each of 4 workers" in found.found
    assert "label 'instance'" in found.found


class ScrapedTwice(Prometheus):
    """A server whose raw series are there under two scrape jobs, which sums hide."""

    def query_range(self, promql: str, *args: Any, **more: Any) -> list[Series]:
        found = super().query_range(promql, *args, **more)
        if not promql.startswith("flink_taskmanager_job_task_operator_numRecordsIn{"):
            return found
        return [replace(stream, labels={**stream.labels, "job": job}) for stream in found for job in ("flink", "pods")]


def test_series_under_two_scrape_jobs_are_found_though_a_sum_hides_them(face: PrometheusFace) -> None:
    found = fact(checked(a_job(face), connect=ScrapedTwice), "throughput_per_s")
    assert (found.ok, found.verdict, found.series) == (False, Verdict.DUPLICATED, 4)
    assert found.found == "its series are there 2 times and differ in label 'job': counted 2 times"


def test_the_queries_of_one_spark_job_are_not_counted_twice() -> None:
    """Their series differ in their names alone, which PrometheusServlet makes of the query's."""
    driver = {"app": "clicks", "instance": "driver:4040"}
    raw: list[tuple[str, dict[str, str], np.ndarray]] = []
    for query in ("clicks", "sessions"):
        raw.append((f"metrics_app_1_driver_spark_streaming_{query}_inputRate_total_Value", driver, np.full(90, 30.0)))
    executor = {"app": "clicks", "instance": "executor:8090", "executor_id": "1"}
    raw.append(("metrics_executor_maxTasks", executor, np.full(90, 2.0)))
    raw.append(("spark_executor_recordsread_count", executor, np.cumsum(np.full(90, 60.0 * SCRAPED_S))))
    raw.append(("spark_executor_cputime_count", executor, np.cumsum(np.full(90, 1e9 * SCRAPED_S))))
    server = RawPrometheus(NOW_S, raw)
    source = PrometheusSource(url=server.url, selector={"app": "clicks"}, scrape_interval_s=SCRAPED_S)
    found = checked(StreamJob(name="clicks", engine="spark-structured-streaming", prometheus=source))
    slower = source.model_copy(update={"scrape_interval_s": SCRAPED_S / 5.0})
    missing = checked(StreamJob(name="clicks", engine="spark-structured-streaming", prometheus=slower))
    server.close()
    assert fact(found, "throughput_per_s").verdict is Verdict.OK
    assert fact(found, "workload_per_s").newest == 60.0
    assert fact(missing, "throughput_per_s").fix.startswith("is it scraped every 60 s?")


@pytest.mark.parametrize(
    ("cpu", "metric"),
    [(0.9, "cpu_load"), (0.2, "throughput_per_s")],
    ids=["in a burst more than a worker has", "in a burst what a worker may use"],
)
def test_counters_that_move_once_a_trigger_are_told_from_another_unit(cpu: float, metric: str) -> None:
    """A batch every ten minutes, in which Spark's executors count what they did; rates are asked over four."""
    minutes = np.arange(90)
    executor = {"app": "clicks", "instance": "executor:8090", "executor_id": "1"}
    batches = SCRAPED_S * (minutes // 10 * 10)
    raw = [
        ("metrics_app_1_driver_spark_streaming_q_inputRate_total_Value", {"app": "clicks"}, np.full(90, 60.0)),
        ("metrics_executor_maxTasks", executor, np.full(90, 1.0)),
        ("spark_executor_recordsread_count", executor, 60.0 * batches),
        ("spark_executor_cputime_count", executor, 1e9 * cpu * batches),
    ]
    server = RawPrometheus(NOW_S, raw)
    source = PrometheusSource(url=server.url, selector={"app": "clicks"}, scrape_interval_s=SCRAPED_S)
    found = checked(StreamJob(name="clicks", engine="spark-structured-streaming", prometheus=source))
    server.close()
    longer = "Where that is longer than 180 s, set prometheus.scrape_interval_s to a third of it"
    assert fact(found, metric).fix == f"is it counted once a trigger? {longer}"


def test_a_flink_job_that_starts_again_and_again_is_not_asked_for_its_trigger() -> None:
    minutes = np.arange(90)
    source = {"job_name": "clicks", "tm_id": "1", "operator_name": "Source: clicks"}
    raw = [
        ("kafka_server_brokertopicmetrics_messagesin_total", {"topic": "clicks"}, 60.0 * SCRAPED_S * minutes),
        ("flink_taskmanager_job_task_operator_numRecordsIn", source, 60.0 * SCRAPED_S * (minutes // 10 * 10)),
    ]
    server = RawPrometheus(NOW_S, raw)
    asked = PrometheusSource(
        url=server.url, selector={"job_name": "clicks", "topic": "clicks"}, scrape_interval_s=SCRAPED_S
    )
    found = checked(StreamJob(name="clicks", prometheus=asked))
    server.close()
    assert "trigger" not in fact(found, "throughput_per_s").fix


def test_a_throughput_of_0_while_records_arrive_is_doubtful_where_no_lag_explains_it(face: PrometheusFace) -> None:
    queries = changed("throughput_per_s", "{} * 0")
    without_lag = {name: texts for name, texts in queries.queries.items() if name != "consumer_lag_records"}
    found = checked(a_job(face), queries_of=lambda _: queries.model_copy(update={"queries": without_lag}))
    workload = fact(found, "workload_per_s")
    assert workload.verdict is Verdict.DOUBTFUL
    assert "arrive and 0/s are read" in workload.found


def test_a_selector_that_matches_two_jobs_names_the_label_that_tells_them_apart(face: PrometheusFace) -> None:
    job = a_job(face)
    assert job.prometheus is not None
    source = job.prometheus.model_copy(update={"selector": {"topic": "wordcount"}})
    found = fact(checked(job.model_copy(update={"prometheus": source})), "throughput_per_s")
    assert not found.ok
    assert found.found == "the selector matches 2 jobs, which differ in labels 'namespace', 'job_name'"
    assert found.fix == "add namespace and job_name to prometheus.selector"


def test_two_flink_jobs_of_one_name_that_run_at_once_are_not_taken_for_one() -> None:
    raw = [("kafka_server_brokertopicmetrics_messagesin_total", {"topic": "clicks"}, 120.0 * SCRAPED_S * np.arange(90))]
    for job_id in ("7a73f5", "205291"):
        source = {"job_name": "clicks", "job_id": job_id, "tm_id": "1", "operator_name": "Source: clicks"}
        raw.append(("flink_taskmanager_job_task_operator_numRecordsIn", source, 60.0 * SCRAPED_S * np.arange(90)))
    server = RawPrometheus(NOW_S, raw)
    selector = {"job_name": "clicks", "topic": "clicks"}
    asked = PrometheusSource(url=server.url, selector=selector, scrape_interval_s=SCRAPED_S)
    found = fact(checked(StreamJob(name="clicks", prometheus=asked)), "throughput_per_s")
    server.close()
    assert (found.ok, found.verdict) == (False, Verdict.DUPLICATED)
    assert found.found == "2 jobs of that name run, which differ in label 'job_id'"
    assert found.fix == "give each job a name of its own"


def test_a_server_that_does_not_listen_is_one_problem_and_no_query_is_asked() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    found = checked(StreamJob(name="ads", prometheus=PrometheusSource(url=url, selector=OWN)), connect=connected)
    assert not found.ok
    assert not found.answers
    assert "cannot be reached" in found.problem
    assert found.fix == "start it, or correct prometheus.url"
    assert {query.verdict for query in found.queries} == {Verdict.NOT_ASKED}


@pytest.mark.parametrize(
    ("answer", "scheme", "problem", "fix"),
    [
        (answer_of(b"no", status=b"401 Unauthorized"), "http", "HTTP 401", "set prometheus.token_file or token_env"),
        (answer_of(b"<html>", status=b"200 OK"), "http", "a web page", "Prometheus itself, without a login page"),
        (answer_of(b"{}", status=b"404 Not Found"), "http", "HTTP 404", "correct prometheus.url"),
        (answer_of(b"plain"), "https", "SSL", "write http:// in prometheus.url"),
    ],
)
def test_a_server_that_lets_nobody_in_says_what_to_set(answer: bytes, scheme: str, problem: str, fix: str) -> None:
    server = Wire(answer)
    try:
        url = server.url.replace("http", scheme, 1)
        found = checked(StreamJob(name="ads", prometheus=PrometheusSource(url=url, selector=OWN)))
    finally:
        server.close()
    assert not found.ok
    assert problem in found.problem
    assert fix in found.fix


def test_a_certificate_that_nobody_trusts_names_ca_file() -> None:
    error = PrometheusError(
        "unreachable", "https://p cannot be reached: [SSL: CERTIFICATE_VERIFY_FAILED] self-signed certificate"
    )
    assert fix_of(error, PrometheusSource(url="https://p")) == "name its authority in prometheus.ca_file"
    resolve = PrometheusError("unreachable", "http://p cannot be reached: [Errno -2] Name or service not known")
    assert "cannot be resolved" in fix_of(resolve, PrometheusSource(url="http://p"))


def test_certificates_that_cannot_be_read_are_no_missing_token(tmp_path: Path) -> None:
    source = PrometheusSource(url="https://127.0.0.1:9", ca_file=tmp_path / "gone.pem", token_file=tmp_path / "token")
    found = checked(StreamJob(name="ads", prometheus=source))
    assert "gone.pem" in found.problem
    assert found.fix == "let prometheus.ca_file name the certificates of your authority (PEM)"


def test_a_slow_server_is_given_up_within_its_time(face: PrometheusFace) -> None:
    ticks = iter(range(0, 1_000, 9))
    found = checked(a_job(face), stopwatch_s=lambda: float(next(ticks)), most_s=20.0)
    asked = [query for query in found.queries if query.verdict is not Verdict.NOT_ASKED]
    assert 0 < len(asked) < len(found.queries)
    assert not found.ok
    assert "20 s" in found.problem


def test_each_metric_has_its_unit_in_the_facts(face: PrometheusFace) -> None:
    assert all(query.unit == CANONICAL[query.metric].unit for query in checked(a_job(face)).queries)

"""Queries: what the shipped files say, and that a file that cannot be used is named by line."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdix.settings.yaml_files import SettingsError
from perdix.telemetry.metrics import CANONICAL, Scope
from perdix.telemetry.queries import Mapped, UnanswerableError, load_queries, load_series_map
from perdix.telemetry.query_text import duration, escaped, matchers

ENGINES = ["flink", "kafka-streams", "spark-structured-streaming", "canonical"]
SOURCE = {"operator_name": "Source: ads", "tm_id": "tm-1", "subtask_index": "0"}


@pytest.fixture(scope="module")
def names():
    return load_series_map()


def write(folder, text, name="flink"):
    (folder / f"{name}.yaml").write_text(text)
    return folder


class TestShipped:
    @pytest.mark.parametrize("engine", ENGINES)
    @pytest.mark.parametrize("selector", [{}, {"topic": "ads", "namespace": 'a "b" \\'}])
    def test_every_query_is_balanced_and_has_no_hole(self, engine, selector):
        queries = load_queries(engine)
        for metric in queries.metrics(selector):
            text = queries.promql(metric, selector, 60)
            bare = re.sub(r'"(\\.|[^"\\])*"', "", text)
            assert "$" not in bare
            for opening, closing in ("()", "[]", "{}"):
                assert bare.count(opening) == bare.count(closing)
            assert not re.search(r"\{\s*,|,\s*\}", bare)

    def test_flink_reads_throughput_as_a_rate_of_the_counter(self):
        text = load_queries("flink").promql("throughput_per_s", {"job_name": "ads"}, 60)
        assert "PerSecond" not in text
        assert 'numRecordsIn{operator_name=~"Source.*", job_name="ads"}[60s]' in text

    def test_a_scale_is_part_of_the_query_of_one_job_and_of_every_topic(self, tmp_path):
        query = "{needs: [topic], promql: 'sum(a{$selector})', scale: 0.001}"
        text = f"worker: {{labels: [pod]}}\nqueries: {{workload_per_s: [{query}]}}\n"
        queries = load_queries("flink", write(tmp_path, text))
        assert queries.promql("workload_per_s", {"topic": "ads"}, 60) == '(sum(a{topic="ads"})) * 0.001'
        assert queries.for_each("topic", "workload_per_s", 60) == '(sum(a{topic=~".+"})) * 0.001'

    def test_who_writes_the_queries_of_one_engine_keeps_those_of_the_others(self, tmp_path, monkeypatch):
        own = "worker: {labels: [pod]}\nqueries: {cpu_load: [{promql: 'a{$selector}'}]}\n"
        (tmp_path / "queries").mkdir()
        write(tmp_path / "queries", own)
        shipped = load_queries("kafka-streams")
        monkeypatch.setenv("PERDIX_CONF", str(tmp_path))
        assert load_queries("flink").metrics({}) == ("cpu_load",)
        assert load_queries("kafka-streams") == shipped
        assert [engine.engine for engine in load_series_map().engines] == sorted(ENGINES[:3])

    @pytest.mark.parametrize("scale", ["0", "-1", ".inf", "percent"])
    def test_a_scale_that_is_no_factor_is_refused_with_its_line(self, tmp_path, scale):
        text = (
            f"worker: {{labels: [pod]}}\nqueries:\n  cpu_load:\n    - promql: 'a{{$selector}}'\n      scale: {scale}\n"
        )
        with pytest.raises(SettingsError, match=r"flink\.yaml:5: 'queries\.cpu_load\.0\.scale'"):
            load_queries("flink", write(tmp_path, text))

    def test_flink_sums_lag_only_while_all_source_subtasks_report(self):
        text = load_queries("flink").promql("consumer_lag_records", {}, 60)
        assert text.startswith("sum by () (flink_taskmanager_job_task_operator_pendingRecords{}) and (count by () (")

    def test_the_topic_goes_to_the_broker_s_series_only(self):
        queries, selector = load_queries("flink"), {"topic": "ads", "namespace": "prod"}
        assert 'topic="ads"}' in queries.promql("workload_per_s", selector, 60)
        assert "prod" not in queries.promql("workload_per_s", selector, 60)
        assert "topic" not in queries.promql("cpu_load", selector, 60)

    def test_a_workload_without_a_topic_cannot_be_asked(self):
        queries = load_queries("flink")
        assert "workload_per_s" not in queries.metrics({})
        with pytest.raises(UnanswerableError, match=r"workload_per_s needs the label topic"):
            queries.promql("workload_per_s", {}, 60)

    def test_spark_falls_back_to_its_own_input_rate(self):
        queries = load_queries("spark-structured-streaming")
        assert "inputRate_total" in queries.promql("workload_per_s", {}, 60)
        assert "messagesin" in queries.promql("workload_per_s", {"topic": "ads"}, 60)
        with pytest.raises(UnanswerableError, match="no query for consumer_lag_records"):
            queries.promql("consumer_lag_records", {}, 60)

    def test_cpu_is_the_mean_of_a_minute_even_when_scraped_each_second(self):
        text = load_queries("flink").promql("cpu_load", {}, 4)
        assert "[60s]" in text

    def test_canonical_queries_know_every_metric(self):
        assert load_queries("canonical").metrics({}) == tuple(CANONICAL)


class TestSeriesMap:
    def test_flink_source_records(self, names):
        name = "flink_taskmanager_job_task_operator_numRecordsIn"
        assert names.canonical(name, SOURCE) == Mapped("throughput_per_s", "tm-1", "counter")
        assert names.canonical(name, {**SOURCE, "pod": "flink-1"}).worker == "flink-1"
        assert names.canonical(name, {**SOURCE, "operator_name": "Sink: db"}) is None

    def test_milliseconds_are_scaled(self, names):
        mapped = names.canonical("flink_jobmanager_job_uptime", {})
        assert (mapped.metric, mapped.worker, mapped.scale) == ("uptime_s", None, 0.001)

    def test_the_brokers_total_over_all_topics_is_left_out(self, names):
        name = "kafka_server_brokertopicmetrics_messagesin_total"
        assert names.canonical(name, {"topic": "ads"}).metric == "workload_per_s"
        assert names.canonical(name, {}) is None
        assert names.canonical(name, {"topic": "__consumer_offsets"}) is None

    def test_internal_topics_are_no_input_and_threads_are_no_workers(self, names):
        name = "kafka_consumer_consumer_fetch_manager_metrics_records_consumed_total"
        client = "app-7f3-StreamThread-2-consumer"
        assert names.canonical(name, {"topic": "ads", "client_id": client}).worker == "app-7f3"
        assert names.canonical(name, {"topic": "app-x-repartition", "client_id": client}) is None
        assert names.canonical(name, {"topic": "ads", "client_id": "app-StreamThread-2-restore-consumer"}) is None

    @pytest.mark.parametrize("metric", CANONICAL.values(), ids=lambda metric: metric.name)
    def test_canonical_names_are_themselves(self, names, metric):
        mapped = names.canonical(metric.name, {"worker": "w-1"})
        assert mapped == Mapped(metric.name, "w-1" if metric.scope is Scope.WORKER else None, "gauge")

    def test_what_nobody_knows_is_not_mapped(self, names):
        assert names.canonical("go_threads", {}) is None
        assert names.canonical("", {}) is None

    def test_no_engine_maps_two_names_of_one_export_to_a_metric_that_is_summed(self, names):
        for engine in names.engines:
            summed = [
                rule.metric for rule in engine.series if rule.metric in ("throughput_per_s", "consumer_lag_records")
            ]
            assert len(summed) == len(set(summed))


class TestBadFiles:
    @pytest.mark.parametrize(
        ("text", "line", "what"),
        [
            (
                "worker: {labels: [pod]}\nqueries:\n  nonsense:\n    - promql: a{$selector}\n",
                3,
                "not a canonical metric",
            ),
            ("worker: {labels: [pod]}\nqueries:\n  cpu_load:\n    - promql: a\n", 4, r"no \$selector"),
            ("worker: {labels: [pod]}\nqueries:\n  cpu_load:\n    - promql: a{$selector}[$windw]\n", 4, r"\$windw"),
            ("worker: {labels: [po-d]}\nqueries: {}\n", 1, "not a Prometheus label"),
            ("worker: {labels: [pod], pattern: x}\nqueries: {}\n", 1, "one group"),
            (
                "worker: {labels: [pod]}\nqueries: {}\nseries:\n  - {name: '(', metric: cpu_load, kind: gauge}\n",
                4,
                "regular",
            ),
            ("worker: {labels: [pod]}\nqueris: {}\n", 2, "did you mean 'queries'"),
            ("queries: {}\n", 1, "'worker' is missing"),
        ],
    )
    def test_names_file_line_and_mend(self, tmp_path, text, line, what):
        with pytest.raises(SettingsError, match=what) as raised:
            load_queries("flink", write(tmp_path, text))
        assert f"flink.yaml:{line}:" in str(raised.value)

    def test_an_engine_without_a_file(self, tmp_path):
        with pytest.raises(SettingsError, match="no such file"):
            load_queries("flink", tmp_path)

    def test_an_engine_of_another_name(self, tmp_path):
        with pytest.raises(SettingsError, match="rename the file"):
            load_queries("flink", write(tmp_path, "engine: beam\nworker: {labels: [pod]}\nqueries: {}\n"))


class TestText:
    @given(st.text())
    def test_an_escaped_value_reads_back(self, value):
        quoted = escaped(value)
        assert re.fullmatch(r'(?:[^"\\\n]|\\["\\n])*', quoted)
        back = re.sub(r"\\(.)", lambda match: {"n": "\n"}.get(match[1], match[1]), quoted)
        assert back == value

    def test_a_label_name_cannot_smuggle_a_matcher(self):
        with pytest.raises(ValueError, match="not a Prometheus label name"):
            matchers({'a="x"} or up{b': "y"})

    def test_durations(self):
        assert (duration(60), duration(1.5), duration(0.25)) == ("60s", "1500ms", "250ms")
        with pytest.raises(ValueError, match="duration"):
            duration(0)

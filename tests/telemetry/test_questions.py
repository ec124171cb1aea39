"""Jobs of one server are asked for together, and each is answered as if it had been asked for by itself."""

from __future__ import annotations

from contextlib import closing

import pytest

from perdix.settings.access import HttpAccess
from perdix.telemetry.prometheus import Asked, Prometheus, PrometheusError
from perdix.telemetry.queries import load_queries
from perdix.telemetry.questions import CHARACTERS_AT_ONCE, JOBS_AT_ONCE, STEPS_AT_ONCE, questions
from perdix.twin.job import JobTwin
from perdix.twin.living import LivingTwin, SimulatedClock
from perdix.twin.parameters import load_twin
from perdix.twin.prometheus_face import PrometheusFace
from tests.telemetry.test_prometheus import Server, success

START_S = 1_700_000_000
NAMES = ("orders", "clicks", "bills")


def asked_of(selectors, engine="flink", metrics=("throughput_per_s",)):
    found, unanswerable = questions(load_queries(engine), dict.fromkeys(selectors, metrics), selectors, 60.0)
    assert not any(unanswerable.values())
    return found


def test_jobs_that_differ_in_one_label_are_one_query():
    [one] = asked_of({name: {"namespace": "prod", "job_name": name} for name in NAMES})
    assert one.promql.startswith("sum by (job_name, pod, tm_id")
    assert 'job_name=~"orders|clicks|bills"' in one.promql
    assert 'namespace="prod"' in one.promql
    assert one.jobs_of({"job_name": "clicks", "pod": "p"}) == ("clicks",)
    assert one.jobs_of({"job_name": "of nobody"}) == ()


def test_jobs_that_differ_in_two_labels_are_one_query_and_told_apart_by_both():
    selectors = {"a": {"namespace": "x", "job_name": "j"}, "b": {"namespace": "y", "job_name": "k"}}
    [one] = asked_of(selectors)
    assert one.jobs_of({"namespace": "x", "job_name": "j"}) == ("a",)
    assert one.jobs_of({"namespace": "x", "job_name": "k"}) == (), "which nobody asked for"


def test_jobs_that_read_the_same_series_share_the_answer():
    [one] = asked_of({name: {"topic": "ads", "job_name": name} for name in NAMES}, metrics=("workload_per_s",))
    assert 'topic="ads"' in one.promql
    assert one.jobs_of({}) == NAMES


def test_a_job_by_itself_is_asked_for_as_it_is():
    [one] = asked_of({"a": {"job_name": "a.b"}})
    assert 'job_name="a.b"' in one.promql
    assert one.promql.startswith("sum by (pod, tm_id")


def test_values_are_matched_as_they_are_and_not_as_patterns():
    [one] = asked_of({"a": {"job_name": "a.b"}, "b": {"job_name": 'c|"d'}})
    assert r'job_name=~"a\\.b|c\\|\"d"' in one.promql


@pytest.mark.parametrize(("length", "most"), [(1, JOBS_AT_ONCE), (200, CHARACTERS_AT_ONCE // 200)])
def test_no_query_asks_for_too_many_jobs(length, most):
    selectors = {f"{number:0{length}}": {"job_name": f"{number:0{length}}"} for number in range(300)}
    found = asked_of(selectors)
    assert max(len(question.names()) for question in found) <= most
    assert sorted(name for question in found for name in question.names()) == sorted(selectors)


def test_a_long_range_is_asked_for_fewer_jobs_at_once():
    selectors = {f"{number}": {"job_name": f"{number}"} for number in range(64)}
    found, _ = questions(load_queries("flink"), dict.fromkeys(selectors, ("scale_out",)), selectors, 60.0, steps=720)
    assert max(len(question.names()) for question in found) == STEPS_AT_ONCE // 720


def test_jobs_told_apart_by_what_names_workers_are_asked_for_one_by_one():
    assert len(asked_of({name: {"pod": name} for name in NAMES})) == 3


def test_a_query_that_drops_the_labels_of_jobs_is_asked_for_one_by_one():
    queries = load_queries("flink")
    own = queries.queries["uptime_s"][0].model_copy(update={"promql": "min(up{$selector})"})
    queries = queries.model_copy(update={"queries": {"uptime_s": [own]}})
    selectors = {name: {"job_name": name} for name in NAMES}
    found, _ = questions(queries, dict.fromkeys(selectors, ("uptime_s",)), selectors, 60.0)
    assert [question.promql for question in found] == [f'min(up{{job_name="{name}"}})' for name in NAMES]


@pytest.fixture(scope="module")
def face():
    like = load_twin("wordcount")
    named = {name: like.model_copy(update={"name": name}) for name in NAMES}
    twins = {name: JobTwin(of, seed, start_s=START_S) for seed, (name, of) in enumerate(named.items())}
    for scale_out, twin in enumerate(twins.values(), start=2):
        twin.step(300)
        twin.rescale(scale_out, "a")
    with PrometheusFace(LivingTwin(twins, SimulatedClock(START_S + 900))) as face:
        yield face


@pytest.mark.parametrize("engine", ["flink", "canonical"])
def test_every_job_is_answered_as_if_it_had_been_asked_for_by_itself(face, engine):
    queries = load_queries(engine)
    label = "job" if engine == "canonical" else "job_name"
    selectors = {name: {label: name} | ({"topic": name} if engine == "flink" else {}) for name in NAMES}
    wanted = {name: queries.metrics(selectors[name]) for name in NAMES}
    asked = Asked(wanted, selectors, START_S + 500.0, START_S + 900.0, 5.0, 5.0)
    with Prometheus(HttpAccess(url=face.url)) as client:
        together = client.pull_jobs(queries, asked)
        for name in NAMES:
            alone = client.pull(queries, selectors[name], START_S + 500, START_S + 900, 5, scrape_interval_s=5.0)
            assert told(together[name].series) == told(alone)
            assert {answer.metric for answer in alone} >= {"throughput_per_s", "cpu_load", "scale_out"}


def told(series):
    return sorted(
        (stream.metric, stream.worker or "", stream.times_ms.tolist(), stream.values.tolist()) for stream in series
    )


def test_a_query_refused_for_all_is_asked_for_each_and_costs_only_who_is_refused():
    refused = 400, "application/json", b'{"status": "error", "error": "too long"}'
    server = Server()
    server.answer = lambda asked: (
        refused if "=~" in asked["query"] or "clicks" in asked["query"] else success(({}, [[START_S, "1"]]))
    )
    selectors = {name: {"job": name} for name in NAMES}
    asked = Asked(dict.fromkeys(NAMES, ("uptime_s",)), selectors, START_S, START_S + 60.0, 5.0, 5.0)
    with closing(server), Prometheus(HttpAccess(url=server.url)) as client:
        found = client.pull_jobs(load_queries("canonical"), asked)
    assert isinstance(found["clicks"], PrometheusError)
    assert [len(found[name].series) for name in ("orders", "bills")] == [1, 1]


def test_the_queries_of_a_fleet_are_counted_in_dozens():
    server = Server()
    server.answer = lambda _: success()
    queries = load_queries("canonical")
    selectors = {f"job-{number:04}": {"job": f"job-{number:04}"} for number in range(1_000)}
    asked = Asked(dict.fromkeys(selectors, queries.metrics({})), selectors, START_S, START_S + 180.0, 5.0, 5.0)
    with closing(server), Prometheus(HttpAccess(url=server.url)) as client:
        client.pull_jobs(queries, asked)
    assert len(server.asked) <= len(queries.metrics({})) * 16

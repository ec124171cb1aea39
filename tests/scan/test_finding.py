"""Finding jobs: what each engine is asked, what a job is called, and what is said where the server refuses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdix.scan.finding import ENGINES, FoundJob, find_jobs, nameable, named_apart, scrape_interval_s
from perdix.settings.access import HttpAccess
from perdix.settings.stream_job import NAME
from perdix.telemetry.prometheus import Prometheus
from perdix.telemetry.prometheus_answers import PrometheusError
from perdix.telemetry.queries import load_queries
from perdix.telemetry.series import Series
from perdix.twin.promql import parse
from tests.scan.raw_prometheus import RawPrometheus

NOW_S = 1_790_000_000.0
ALL = {engine: load_queries(engine) for engine in ENGINES}


class Server:
    """Answers every query about one engine's series; refuses those that hold a word."""

    def __init__(self, labels, word="numRecordsIn", refused=None, kind="rejected"):
        self.labels, self.word, self.refused, self.kind = labels, word, refused, kind

    def query_range(self, promql, start_s, end_s, step_s, *, lookback_s=None):
        if self.refused and self.refused in promql:
            raise PrometheusError(self.kind, "too many series")
        if self.word not in promql:
            return []
        value = 40.0 if "count_over_time" in promql else 1.0
        times_ms = np.array([round(1_000 * (end_s - 7_200)), round(1_000 * end_s)])
        return [Series("", None, times_ms, np.full(2, value), dict(labels)) for labels in self.labels]


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_says_how_its_jobs_are_found(engine):
    jobs = ALL[engine].jobs
    assert jobs is not None
    parse(jobs.running())
    parse(jobs.scraped("600s"))


def test_a_job_is_named_and_told_apart_by_its_engines_labels():
    found = find_jobs(Server([{"job_name": "orders", "namespace": "shop"}]), ALL, NOW_S, 7)
    (job,) = found.jobs
    assert (job.name, job.engine, job.selector) == ("orders", "flink", {"job_name": "orders", "namespace": "shop"})
    assert job.newest_s == NOW_S
    assert job.scrape_interval_s == 15.0


def test_series_without_any_label_of_a_job_are_no_job():
    assert find_jobs(Server([{}]), ALL, NOW_S, 7).jobs == ()


def test_a_server_that_refuses_one_engine_is_asked_for_the_others():
    found = find_jobs(Server([{"job_name": "orders"}], refused="kafka_stream"), ALL, NOW_S, 7)
    assert [job.name for job in found.jobs] == ["orders"]
    assert "kafka-streams" in found.notes[0]
    assert "too many series" in found.notes[0]


def test_a_server_that_lets_nobody_in_ends_the_search():
    with pytest.raises(PrometheusError, match="too many"):
        find_jobs(Server([], refused="flink", kind="unauthorised"), ALL, NOW_S, 7)


@pytest.mark.parametrize(("ids", "said"), [(["7a73f5", "205291"], True), (["7a73f5"], False)])
def test_two_jobs_of_one_name_that_run_at_once_are_said_to_be_judged_as_one(ids, said):
    """Each of a session cluster's jobs that nobody named is called the same."""
    name, place = "flink_taskmanager_job_task_operator_numRecordsIn", {"job_name": "orders", "operator_name": "Source"}
    server = RawPrometheus(NOW_S, [(name, {**place, "job_id": job_id}, np.arange(60.0)) for job_id in ids])
    with Prometheus(HttpAccess(url=server.url)) as client:
        found = find_jobs(client, ALL, NOW_S, 7)
    server.close()
    assert [job.name for job in found.jobs] == ["orders"]
    note = "flink: 2 jobs named orders run at once and are judged as one; give each a name of its own"
    assert found.notes == ((note,) if said else ())


@given(st.text(max_size=120))
def test_any_label_becomes_a_name_that_a_job_file_may_have(text):
    assert NAME.fullmatch(nameable(text))


@given(st.lists(st.tuples(st.sampled_from(["a", "A", "b" * 63]), st.sampled_from(["x", "y", ""])), max_size=12))
def test_no_two_jobs_have_the_same_name_not_even_on_a_disk_that_ignores_case(pairs):
    jobs = [FoundJob(name, "flink", {"namespace": namespace}, 0.0, 0.0) for name, namespace in pairs]
    names = [job.name for job in named_apart(jobs)]
    assert len(names) == len(pairs)
    assert len({name.lower() for name in names}) == len(names)
    assert all(NAME.fullmatch(name) for name in names)


@pytest.mark.parametrize(("samples", "seconds"), [(40, 15.0), (39, 15.0), (600, 1.0), (10, 60.0), (0, 300.0)])
def test_the_scrape_interval_is_the_usual_one_nearest_to_the_samples(samples, seconds):
    assert scrape_interval_s(samples) == seconds

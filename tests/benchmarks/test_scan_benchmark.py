"""The benchmark of scans: a week of a job that is the same each time, and a server that answers for several jobs."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.scan.past import BEGIN_S, DAY_S, Answer, answers, asked_of, job_of, sizes
from benchmarks.scan.server import _of_several, _row

SEED, NUMBER = 7_001, 4
NAME = f"zoo-{SEED}-{NUMBER}"


@pytest.fixture(scope="module")
def answered() -> list[Answer]:
    return answers(SEED, NUMBER, 1.0, lambda _: None)


def test_all_that_a_scan_asks_is_answered(answered: list[Answer]) -> None:
    asked = {question[0] for question in asked_of(NAME, 1.0, float(BEGIN_S + DAY_S))}
    lacking = {promql for promql in asked - {answer.promql for answer in answered} if "partition" not in promql}
    assert not lacking


def test_partitions_of_a_topic_are_answered_where_the_job_has_any() -> None:
    job = job_of(64_001, 5, 0.1)
    found = [a for a in answers(64_001, 5, 0.1, lambda _: None) if "kafka_topic_partitions" in a.promql]
    assert [int(np.nanmax(answer.values)) for answer in found] == [job.parameters.source.partitions] == [12]


def test_the_sizes_that_a_job_had_are_the_same_each_time_and_within_its_bounds() -> None:
    job = job_of(SEED, NUMBER, 7.0)
    plan = sizes(job, SEED, NUMBER)
    assert plan == sizes(job, SEED, NUMBER)
    assert all(1 <= workers <= job.maximum for _, workers in plan)


def test_a_query_for_several_jobs_gets_the_series_of_each_with_its_labels() -> None:
    def one(name: str) -> Answer:
        return Answer(f'sum by (pod) (rate(x{{job_name="{name}"}}[1h]))', {"pod": "p"}, 0.0, 60.0, np.ones(2))

    known = {answer.promql: [answer] for answer in (one("a"), one("b"))}
    found = _of_several(known, 'sum by (job_name, pod) (rate(x{job_name=~"a|b"}[1h]))')
    assert [answer.labels for answer in found] == [{"pod": "p", "job_name": "a"}, {"pod": "p", "job_name": "b"}]


def test_a_step_between_two_values_gets_the_older_one_and_none_beyond_the_last() -> None:
    answer = Answer("x", {}, 0.0, 60.0, np.array([1.0, np.nan, 3.0]))
    row = _row(answer, np.array([30.0, 60.0, 120.0, 600.0]), np.array([1.0, 2.0, 3.0, 4.0]))
    assert row["values"] == [(1.0, "1.0"), (3.0, "3.0")]

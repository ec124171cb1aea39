"""The benchmark of scans: a week of a job that is the same each time, and a server that answers for several jobs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks.scan import prepared
from benchmarks.scan.past import BEGIN_S, DAY_S, Answer, answers, asked_of, job_of, sizes
from benchmarks.scan.server import _of_several, _row
from perdix.replay.best_static import BestStatic

SEED, NUMBER = 7_001, 4
NAME = f"zoo-{SEED}-{NUMBER}"
PLAYED: Any = SimpleNamespace(outcome=SimpleNamespace(share_above_objective=0.0))


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


def test_what_is_kept_belongs_to_the_code_the_traces_and_the_questions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = prepared.kept_in(tmp_path, 1.0)
    assert prepared.kept_in(tmp_path, 1.0) == first
    others = {prepared.kept_in(tmp_path, 2.0)}
    for name, changed in (("code_version", lambda: "b"), ("asked_of", lambda *_: ["up"])):
        with monkeypatch.context() as patched:
            patched.setattr(prepared, name, changed)
            others.add(prepared.kept_in(tmp_path, 1.0))
    monkeypatch.setattr("benchmarks.scan.prepared.traces.digest", lambda: "c")
    assert len(others | {prepared.kept_in(tmp_path, 1.0), first}) == 5


def test_a_best_size_is_kept_for_its_objective_and_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepared, "best_static", lambda case: BestStatic(case.objectives.error_budget, True, PLAYED))
    rows = [
        prepared.truth(
            (SEED, NUMBER, 0.1, {"latency_p95_ms": 5_000.0, "error_budget": budget}, tmp_path), lambda _: None
        )
        for budget in (0.05, 0.3, 0.05)
    ]
    assert [row["workers"] for row in rows] == [0.05, 0.3, 0.05]

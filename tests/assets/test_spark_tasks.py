"""Work is dealt out to Spark's tasks and comes back in order; what fails fails alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdix.assets.spark import tasks as spark_tasks
from perdix.assets.spark.tasks import attempt, interpreter, run_tasks
from tests.assets.failing_tasks import work


def test_an_attempt_tells_what_was_raised_and_how_long_it_took(tmp_path: Path) -> None:
    answer = attempt({"job": "a", "calls": str(tmp_path / "calls"), "raises": True}, work)
    assert answer["error"] == "ValueError: the data of a is broken"
    assert answer["result"] == {}
    assert answer["seconds"] >= 0.0


@pytest.mark.spark
class TestOnSpark:
    def test_no_keys_start_nothing(self) -> None:
        assert run_tasks(None, [], interpreter) == []  # type: ignore[arg-type]

    def test_answers_come_in_the_order_of_the_keys(self, spark, tmp_path: Path) -> None:
        keys = [{"job": f"job{n}", "calls": str(tmp_path / "calls"), "raises": n == 2} for n in range(5)]
        answers = run_tasks(spark, keys, work)
        assert [answer.key["job"] for answer in answers] == [f"job{n}" for n in range(5)]
        assert [answer.error is None for answer in answers] == [True, True, False, True, True]

    def test_more_keys_than_tasks_are_dealt_out_in_batches(
        self, spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(spark_tasks, "MOST_TASKS", 3)
        keys = [{"job": f"job{n}", "calls": str(tmp_path / "calls")} for n in range(20)]
        frame = spark_tasks.spread(spark, keys, str)
        assert frame.rdd.getNumPartitions() == 3
        assert [answer.result["job"] for answer in run_tasks(spark, keys, work)] == [key["job"] for key in keys]

"""A run of tasks on Spark can be watched, cut and gone on with; a job that fails or kills its process fails alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from perdix.assets import kept_tasks
from perdix.assets.kept_answers import Kept, Progress, read_answer
from perdix.assets.kept_tasks import run_kept
from tests.assets.failing_tasks import work

pytestmark = pytest.mark.spark


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path / "trainings", "run-1")


@pytest.fixture
def keys(tmp_path: Path) -> Callable[..., list[dict[str, object]]]:
    def made(count: int, **special: dict[str, object]) -> list[dict[str, object]]:
        jobs = [f"job{number}" for number in range(count)]
        return [{"job": job, "calls": str(tmp_path / "calls"), **special.get(job, {})} for job in jobs]

    return made


def calls(tmp_path: Path) -> list[str]:
    return (tmp_path / "calls").read_text().split()


def test_every_job_has_its_answer_and_a_broken_one_its_reason(spark, kept: Kept, keys) -> None:
    told: list[Progress] = []
    run_kept(spark, keys(12, job3={"raises": True}), work, kept, told.append)
    answers = {f"job{n}": read_answer(kept.folder, f"job{n}") for n in range(12)}
    assert answers["job3"]["error"] == "ValueError: the data of job3 is broken"
    assert "failing_tasks.py" in answers["job3"]["trace"]
    assert [job for job, answer in answers.items() if answer["error"]] == ["job3"]
    assert answers["job5"]["result"] == {"job": "job5"}
    assert told[-1] == Progress(12, 12, 1, told[-1].left_s)


def test_progress_is_told_while_the_run_goes_on(spark, kept: Kept, keys, monkeypatch) -> None:
    monkeypatch.setattr(kept_tasks, "TELL_EVERY_S", 0.5)
    slow = {f"job{n}": {"seconds": 0.3} for n in range(16)}
    told: list[Progress] = []
    run_kept(spark, keys(16, **slow), work, kept, told.append)
    counts = [progress.done for progress in told]
    assert len(counts) >= 3
    assert counts == sorted(set(counts)), "told only when something has changed"
    assert counts[-1] == 16


def test_a_job_that_kills_its_process_fails_alone(spark, kept: Kept, keys) -> None:
    run_kept(spark, keys(10, job4={"dies": True}), work, kept, lambda _: None)
    errors = {job: read_answer(kept.folder, job)["error"] for job in (f"job{n}" for n in range(10))}
    assert errors.pop("job4").startswith("the process of its Spark task died: ")
    assert set(errors.values()) == {None}


def test_a_job_that_takes_too_long_fails_alone(spark, kept: Kept, keys) -> None:
    run_kept(spark, keys(3, job1={"seconds": 60.0, "limit_s": 0.2}), work, kept, lambda _: None)
    errors = [read_answer(kept.folder, f"job{n}")["error"] for n in range(3)]
    assert errors == [None, "TimeoutError: took longer than 0.2 s", None]


def test_a_run_that_is_cut_leaves_its_answers_no_tasks_and_can_go_on(
    spark, kept: Kept, keys, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(kept_tasks, "TELL_EVERY_S", 0.2)
    slow = keys(40, **{f"job{n}": {"seconds": 0.5} for n in range(40)})  # long enough for a busy machine to cut it

    def cut(progress: Progress) -> None:
        if progress.done >= 4:
            raise KeyboardInterrupt  # as from a signal, which whoever runs the tests may have taken for themselves

    with pytest.raises(KeyboardInterrupt):
        run_kept(spark, slow, work, kept, cut)
    time.sleep(1.0)
    done = [key["job"] for key in slow if kept.answer(str(key["job"]))]
    assert 4 <= len(done) < 40
    before = calls(tmp_path)
    time.sleep(1.0)
    assert calls(tmp_path) == before, "nothing goes on behind the back of whoever cut it"
    run_kept(spark, keys(40), work, kept, lambda _: None)
    again = calls(tmp_path)[len(before) :]
    assert not set(again) & set(done), "what was done is not done again"
    assert all(kept.answer(str(key["job"])) for key in slow)


def test_jobs_that_failed_are_tried_again_when_the_run_goes_on(spark, kept: Kept, keys) -> None:
    run_kept(spark, keys(2, job1={"raises": True}), work, kept, lambda _: None)
    run_kept(spark, keys(2), work, kept, lambda _: None)
    assert read_answer(kept.folder, "job1")["error"] is None


def test_another_run_does_everything_anew(spark, kept: Kept, keys, tmp_path: Path) -> None:
    for run in ("run-1", "run-2"):
        run_kept(spark, keys(2), work, Kept(kept.folder, run), lambda _: None)
    assert sorted(calls(tmp_path)) == ["job0", "job0", "job1", "job1"]


def test_workers_that_cannot_reach_the_folder_are_told_of(spark, tmp_path: Path, keys) -> None:
    class Elsewhere(Kept):
        """As on a machine on which the folder is another one."""

        def write(self, job: str, answer: object) -> None:
            """Lose the answer."""

    with pytest.raises(RuntimeError, match="Spark's workers must reach that folder"):
        run_kept(spark, keys(2), work, Elsewhere(tmp_path / "trainings", "run-1"), lambda _: None)

"""Answers are kept whole, per run, by the tasks themselves; what is counted is what is there."""

from pathlib import Path

import numpy as np
import pytest

from perdix.assets.kept_answers import Kept, Progress, Watch, read_answer


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path / "trainings", "run-1")


def done(error: str | None = None) -> dict[str, object]:
    return {"result": {}, "error": error, "seconds": 1.0}


class TestKept:
    def test_an_answer_comes_back_as_it_was(self, kept: Kept) -> None:
        kept.write("orders", {"result": {"wape": np.float64(0.1), "bias": float("nan")}, "error": None})
        assert read_answer(kept.folder, "orders") == {
            "run": "run-1",
            "result": {"wape": 0.1, "bias": None},  # what JSON cannot hold is null
            "error": None,
        }

    def test_it_is_told_apart_from_those_of_other_runs(self, kept: Kept) -> None:
        kept.write("orders", done())
        later = Kept(kept.folder, "run-2")
        assert later.answer("orders") is None
        assert read_answer(kept.folder, "orders") is not None
        later.write("orders", done("broken"))
        assert (kept.answer("orders"), later.answer("orders")["error"]) == (None, "broken")

    def test_work_that_began_and_has_not_ended_is_known(self, kept: Kept) -> None:
        assert not kept.begun("orders")
        kept.begin("orders")
        assert kept.begun("orders")
        assert not Kept(kept.folder, "run-2").begun("orders")
        kept.write("orders", done())
        assert not kept.begun("orders")
        assert [path.name for path in kept.folder.iterdir()] == ["orders.json"]

    @pytest.mark.parametrize("content", ["", "{", "[1]"])
    def test_a_file_that_is_no_answer_counts_as_none(self, kept: Kept, content: str) -> None:
        kept.folder.mkdir()
        (kept.folder / "orders.json").write_text(content)
        assert read_answer(kept.folder, "orders") is None

    @pytest.mark.parametrize("job", ["../../etc/passwd", "a job", "", "job.v2"])
    def test_no_name_leads_out_of_the_folder(self, kept: Kept, job: str) -> None:
        kept.begin(job)
        kept.write(job, done())
        assert kept.answer(job) is not None
        assert len(list(kept.folder.iterdir())) == 1


class TestWatch:
    def test_it_counts_answers_of_its_run_as_they_come(self, kept: Kept) -> None:
        Kept(kept.folder, "yesterday").write("a", done())
        watch = Watch(kept, ["a", "b", "c"])
        assert watch.progress(0.0) == Progress(3, 0, 0)
        kept.write("a", done())
        kept.write("b", done("broken"))
        assert watch.progress(1.0) == Progress(3, 0, 0), "what was not looked at is not counted"
        watch.look()
        assert watch.progress(2.0) == Progress(3, 2, 1)
        assert watch.unanswered() == ["c"]

    def test_an_answer_that_another_run_gives_meanwhile_counts(self, kept: Kept) -> None:
        watch = Watch(kept, ["a", "b"])
        Kept(kept.folder, "drift of a").write("a", done())
        watch.look()
        assert watch.unanswered() == ["b"]

    def test_a_run_that_goes_on_counts_what_it_has(self, kept: Kept) -> None:
        kept.write("a", done())
        assert Watch(kept, ["a", "b"]).unanswered() == ["b"]

    def test_what_is_left_is_reckoned_from_the_first_answers_on(self, kept: Kept) -> None:
        watch = Watch(kept, [f"job-{n}" for n in range(100)])
        for n in range(10):
            kept.write(f"job-{n}", done())
        watch.look()
        assert watch.progress(60.0).left_s is None, "a minute of starting workers says nothing about the rate"
        for n in range(10, 30):
            kept.write(f"job-{n}", done())
        watch.look()
        assert watch.progress(80.0).left_s == pytest.approx(70.0)


@pytest.mark.parametrize(
    ("progress", "words"),
    [
        (Progress(1000, 340, 2, 240.0), "340 of 1,000 jobs trained, 2 failed, about 4 min left"),
        (Progress(1000, 990, 0, 12.2), "990 of 1,000 jobs trained, 0 failed, about 12 s left"),
        (Progress(10, 0, 0), "0 of 10 jobs trained, 0 failed"),
        (Progress(1, 1, 1, 0.0), "1 of 1 job trained, 1 failed"),
    ],
)
def test_progress_reads_as_a_sentence(progress: Progress, words: str) -> None:
    assert str(progress) == words

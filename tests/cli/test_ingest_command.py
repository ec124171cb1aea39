"""What ``perdix ingest`` says of its own job after the samples are in the lake."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from perdix.assets import observation_tasks
from perdix.cli import ingest, runs
from perdix.cli.known_errors import known_errors
from perdix.cli.main import app
from perdix.cli.output import run_guarded
from perdix.settings.home import Home
from tests.assets.observing import DAY, definitions, run_here, sampled

BEFORE = "2026-03-03"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    home = Home(tmp_path).make()
    monkeypatch.setattr(runs, "_definitions", lambda _: definitions(home))
    monkeypatch.setattr("perdix.assets.observe.run_tasks", run_here)
    return home


def observed(job: str, *days: str) -> tuple[list[str], bool]:
    """Return what is wrong, and whether every day was observed."""
    files = {"totals": dict.fromkeys(("read", "kept", "masked", "quarantined", "unmapped"), 0), "files": []}
    document = {"job": job, "days": list(days), "seconds": 0.0, **files}
    with dg.DagsterInstance.ephemeral() as instance, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ingest._observed(document, list(days), instance, show=False)


def test_a_job_is_not_kept_back_by_another_jobs_samples(home: Home) -> None:
    sampled(home, "percent", 50.0)
    sampled(home, "good", 0.5)
    assert observed("good", DAY) == ([], True)


def test_a_job_whose_samples_are_wrong_is_named_with_rule_and_fix(home: Home) -> None:
    sampled(home, "percent", 50.0)
    problems, complete = observed("percent", DAY)
    assert not complete
    (said,) = problems
    assert said.startswith("samples: cpu_load_is_a_ratio (ERROR): 240 of 240 rows (100 %) are unexpected. percent goes")
    assert "Set `scale: 0.01`" in said


def test_a_check_names_its_days_where_days_lie_apart(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same sentence stood there once for each of them."""
    monkeypatch.setattr(runs, "explained_checks", lambda _: ["observations: has_rows (ERROR)"])
    monkeypatch.setattr(ingest, "_tell_of_samples", lambda *_: None)
    problems, _ = observed("ads", "2026-03-01", "2026-03-04", "2026-03-05")
    checks = [problem for problem in problems if "has_rows" in problem]
    named = ("2026-03-01", "2026-03-04 to 2026-03-05")
    assert checks == [f"{when}, observations: has_rows (ERROR)" for when in named]
    assert "observations: has_rows (ERROR)" in observed("ads", "2026-03-01")[0]


@pytest.mark.parametrize("broken", [(DAY,), (BEFORE, DAY)])
def test_days_that_could_not_be_observed_are_problems(
    home: Home, monkeypatch: pytest.MonkeyPatch, broken: tuple[str, ...]
) -> None:
    write = observation_tasks.write_observations

    def write_some(key: Mapping[str, Any]) -> Mapping[str, Any]:
        if key["day"] in broken:
            raise ValueError("torn")
        return write(key)

    sampled(home, "orders", 0.5, BEFORE)
    sampled(home, "orders", 0.5)
    monkeypatch.setattr(observation_tasks, "write_observations", write_some)
    problems, complete = observed("orders", BEFORE, DAY)
    assert not complete
    assert any("observations" in said and "ValueError: torn" in said for said in problems), problems


@pytest.mark.parametrize(
    ("days", "said"),
    [
        (
            ["1969-12-31", "1970-01-01"],
            ["1969-12-31 is before 2020-01-01: these times count from a start and are no dates"],
        ),
        (
            ["2019-05-01", "2019-05-02"],
            ["2019-05-01 to 2019-05-02 is before 2020-01-01, where days begin to be observed"],
        ),
        (["2019-05-01"], ["2019-05-01 is before 2020-01-01, where days begin to be observed"]),
        (
            ["1970-01-01", "2019-05-01"],
            ["1970-01-01 is before 2020-01-01: these times", "2019-05-01 is before 2020-01-01, where"],
        ),
    ],
)
def test_dates_that_are_too_old_are_told_from_times_that_count_from_a_start(
    monkeypatch: pytest.MonkeyPatch, days: list[str], said: list[str]
) -> None:
    monkeypatch.setattr(ingest, "_tell_of_samples", lambda *_: None)
    with dg.DagsterInstance.ephemeral() as instance:
        problems, complete = ingest._observed({"job": "ads"}, days, instance, show=False)
    assert complete
    assert len(problems) == len(said)
    assert all(problem.startswith(words) for problem, words in zip(problems, said, strict=True)), problems
    assert all(problem.endswith("; not observed") for problem in problems)


def test_a_folder_without_files_is_refused_before_anything_is_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def begun(*_: object, **__: object) -> None:
        raise AssertionError("Spark is started for nothing")

    monkeypatch.setenv("PERDIX_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(ingest, "_begun", begun)
    exports = tmp_path / "exports" / "of-may"
    exports.mkdir(parents=True)
    (exports / ".hidden.csv").write_text("Time,a\n1,2\n")
    code = run_guarded(
        lambda: app(["ingest", str(exports.parent), "--job", "ads"], standalone_mode=False), known_errors
    )
    assert code == 2
    words = f"{exports.parent}: no file to read (hidden files are passed over)"
    assert "".join(words.split()) in "".join(capsys.readouterr().err.split()), "lines may break anywhere in a path"
    assert not (tmp_path / "home" / "landing").exists()


def shown(document: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> str:
    """Return what a report is shown as, each run of white space as one space."""
    totals = dict.fromkeys(("read", "kept", "masked", "quarantined", "unmapped"), 0)
    usual = {
        "job": "ads",
        "failed": False,
        "days": [DAY],
        "files": [],
        "warnings": [],
        "problems": [],
        "totals": totals,
    }
    ingest._show(usual | document)
    return " ".join(capsys.readouterr().out.split())


def of_file(name: str, *remarks: str) -> dict[str, Any]:
    counts = dict.fromkeys(("read", "kept", "masked", "quarantined", "unmapped"), 0)
    return {"file": name, "format": "csv", "reasons": {}, "removal": "", "remarks": list(remarks), **counts}


def test_what_was_remarked_of_files_is_shown_once_with_their_names(capsys: pytest.CaptureFixture[str]) -> None:
    zone, empty = "date-times carry no zone; they were read as UTC", "the query matched no series"
    files = [of_file("may/cpu.csv", zone), of_file("lag.json", empty), of_file("may/late.csv", zone), of_file("x.csv")]
    said = shown({"files": files}, capsys)
    assert f"note cpu.csv and 1 more: {zone}" in said
    assert f"note lag.json: {empty}" in said
    assert said.count("no zone") == said.count("no series") == 1


def test_where_no_sample_was_read_there_is_nothing_to_look_at_next(capsys: pytest.CaptureFixture[str]) -> None:
    assert "next: perdix capacity ads" in shown({}, capsys)
    assert "next" not in shown({"days": []}, capsys)


def test_what_is_wrong_with_the_files_as_a_whole_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    said = shown({"warnings": ["series of 2 jobs were taken as one"]}, capsys)
    assert "warning series of 2 jobs were taken as one" in said

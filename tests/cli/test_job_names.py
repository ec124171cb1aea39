"""A job file that cannot be used is that, and never "no job has a file"."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perdix.cli.known_errors import known_errors
from perdix.cli.main import app
from perdix.cli.output import run_guarded
from perdix.settings.home import PROJECT
from tests.cli.width import wide

COMMANDS = (
    ["pause", "ads", "--for", "1h"],
    ["explain", "ads"],
    ["tick", "--job", "ads"],
    ["operators", "ads"],
    ["ingest", "--from-prometheus", "--job", "ads"],
    ["train", "--job", "ads"],
    ["doctor", "--job", "ads"],
)


def said(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert run_guarded(lambda: app(arguments, standalone_mode=False), known_errors) == 2
    return " ".join(capsys.readouterr().err.split())


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PERDIX_HOME", str(tmp_path))
    wide(monkeypatch)
    folder = tmp_path / "jobs"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda arguments: arguments[0])
def test_a_malformed_file_is_named_with_line_and_fix(
    arguments: list[str], jobs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (jobs / "ads.yaml").write_text("engin: flink\n")
    text = said(arguments, capsys)
    assert text.count("ads.yaml:1: unknown key 'engin'; did you mean 'engine'?") == 1
    assert "has a file" not in text
    assert "no tick" not in text


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda arguments: arguments[0])
def test_a_name_that_no_file_has_gets_the_nearest_one_though_that_file_is_malformed(
    arguments: list[str], jobs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (jobs / "adds.yaml").write_text("engin: flink\n")
    text = said(arguments, capsys)
    assert "did you mean 'adds'?" in text
    assert "has a file" not in text


@pytest.mark.usefixtures("jobs")
@pytest.mark.parametrize(
    "arguments", [["pause", "ads", "--for", "1h"], ["operators", "ads"], ["doctor", "--job", "ads"]]
)
def test_without_any_file_that_is_said(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    conf = PROJECT / "conf" / "jobs"
    assert f"no job has a file yet: write {conf / '<job>.yaml'} (every key: {conf / 'README.md'})" in said(
        arguments, capsys
    )


@pytest.mark.usefixtures("jobs")
def test_without_any_file_the_page_that_is_named_is_there_in_a_folder_without_conf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PERDIX_CONF", str(tmp_path))
    written = f"write {tmp_path / 'jobs' / '<job>.yaml'} (every key: {PROJECT / 'conf' / 'jobs' / 'README.md'})"
    for arguments in (["tick"], ["train"], ["ingest", "--from-prometheus", "--job", "ads"]):
        assert written in said(arguments, capsys)
    for arguments in (["jobs"], ["controller", "--ticks", "1"]):
        app(arguments, standalone_mode=False)
        assert written in " ".join(capsys.readouterr().out.split())


@pytest.mark.usefixtures("jobs")
@pytest.mark.parametrize("command", ["capacity", "forecast"])
def test_what_is_no_jobs_name_is_a_job_that_is_not_known(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "job 'Bestellungen für heute' is not known" in said([command, "Bestellungen für heute"], capsys)


def test_a_file_that_cannot_be_used_is_listed_at_once_and_no_longer_when_it_is_gone(
    jobs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (jobs / "bids.yaml").write_text("engine: flink\n")
    (jobs / "my ads.yaml").write_text("engine: flink\n")

    def listed() -> dict[str, str]:
        app(["jobs", "--json"], standalone_mode=False)
        return {row["job"]: row["sentence"] for row in json.loads(capsys.readouterr().out)["jobs"]}

    assert "my ads.yaml: 'my ads' cannot be a job's name: rename the file" in listed()["my ads"]
    app(["tick", "--json"], standalone_mode=False)
    capsys.readouterr()
    (jobs / "my ads.yaml").rename(jobs / "ads.yaml")
    assert list(listed()) == ["ads", "bids"]
    (jobs / "bids.yaml").unlink()
    assert list(listed()) == ["ads"], "as perdix metrics publishes it no more"


def test_a_tick_says_who_names_the_fix_for_a_job_without_metrics(
    jobs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (jobs / "ads.yaml").write_text("prometheus: {url: http://127.0.0.1:9}\n")
    (jobs / "bids.yaml").write_text("engine: flink\n")
    app(["tick"], standalone_mode=False)
    assert "perdix doctor --job ads names the fix" in " ".join(capsys.readouterr().out.split())


@pytest.mark.usefixtures("jobs")
def test_without_any_job_a_training_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(["train"], capsys)
    assert text.startswith("perdix: there is no job yet: ingest exports first")
    assert "''" not in text


def test_a_misspelt_job_is_not_resumed(jobs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (jobs / "ads.yaml").write_text("engine: flink\n")
    assert "job 'adz' is not known; did you mean 'ads'?" in said(["resume", "adz"], capsys)

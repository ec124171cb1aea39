"""The verbs, as far as they go without a cluster: what is refused, and in which words."""

import socket
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner

from perdix.cli.output import UserError
from testbed import kafka, prerequisites
from testbed.__main__ import app
from testbed.layout import Layout
from testbed.settings import Testbed


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def occupied() -> Iterator[int]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


def run(*words: object) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def refused(*words: object) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert isinstance(done.exception, UserError), done.output
    return str(done.exception)


@pytest.mark.parametrize(
    "words",
    [
        ["submit"],
        ["load", "--shape", "sine"],
        ["kill-worker", "tm-1"],
        ["start-worker", "tm-1"],
        ["resize-worker", "tm-1", "--cores", "0.2", "--heap-mb", "128"],
        ["stop-prometheus"],
        ["start-prometheus"],
    ],
)
def test_verbs_for_a_testbed_ask_for_one(state: Path, words: list[str]) -> None:
    assert "`python -m testbed up` first" in refused(*words, "--state", state)
    assert not state.exists()


def test_down_without_a_testbed_is_harmless(state: Path) -> None:
    assert run("down", "--state", state) == "nothing ran\n"
    assert not state.exists()


def test_down_with_purge_removes_the_folder(state: Path) -> None:
    Layout(state).prepare()
    run("down", "--purge", "--state", state)
    assert not state.exists()


def test_down_works_whatever_became_of_the_settings(state: Path) -> None:
    Layout(state).prepare()
    Layout(state).remembered.write_text("{")
    assert run("down", "--state", state) == "nothing ran\n"


def test_status_without_a_testbed_says_that_nothing_runs(state: Path) -> None:
    document = orjson.loads(run("status", "--json", "--state", state))
    assert document["schema"] == "perdix.testbed/1"
    assert document["job"] is None
    assert {part["state"] for part in document["parts"]} == {"ended"}
    assert "no job runs" in run("status", "--state", state)


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--workers", 0, "--workers: Input should be greater than or equal to 1, found 0"),
        ("--throttle", "fast", "--throttle: Input should be 'auto', 'burn' or 'sleep'"),
        ("--burn-ms", -1, "--burn-ms: "),
        ("--port-offset", 60_000, "--port-offset: 60000 moves ports out of the range"),
    ],
)
def test_an_option_that_cannot_be_meant_is_named(state: Path, option: str, value: object, words: str) -> None:
    assert words in refused("up", "--state", state, option, value)


def test_an_occupied_port_is_told_before_anything_starts(
    state: Path, occupied: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prerequisites, "missing", list)
    told = refused("up", "--state", state, "--port-offset", occupied - Testbed().ports.prometheus)
    assert f"127.0.0.1:{occupied} (prometheus)" in told
    assert "--port-offset" in told
    assert Layout(state).recall() is None


def test_missing_programs_are_told_before_anything_starts(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "Debian package maven" in refused("up", "--state", state)
    assert not state.exists()


def test_a_load_without_a_broker_is_refused(state: Path, occupied: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka, "TIMEOUT_S", 0.5)
    layout = Layout(state)
    layout.prepare()
    ports = Testbed().ports.model_copy(update={"kafka": occupied})
    layout.remember(Testbed(ports=ports))
    assert "no topic 'words'" in refused("load", "--shape", "sine", "--seconds", 2, "--state", state)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--shape", "zigzag"], "--shape: "),
        (["--shape", "sine", "--compress", "0"], "--compress: "),
        (["--shape", "sine", "--seconds", "0"], "--seconds: "),
        (["--shape", "sine", "--trace", "x.csv"], "either a trace"),
        ([], "either a trace"),
    ],
)
def test_a_load_that_cannot_be_meant_is_refused(state: Path, words: list[str], told: str) -> None:
    layout = Layout(state)
    layout.prepare()
    layout.remember(Testbed())
    assert told in refused("load", *words, "--state", state)


def test_faults_are_for_workers_that_there_are(state: Path) -> None:
    layout = Layout(state)
    layout.prepare()
    layout.remember(Testbed(workers=2))
    assert "there are tm-1, tm-2" in refused("kill-worker", "tm-3", "--state", state)
    assert "there are tm-1, tm-2" in refused("kill-worker", "kafka", "--state", state)
    assert "tm-2 does not run" in refused("kill-worker", "tm-2", "--state", state)
    assert "needs the JobManager" in refused("start-worker", "tm-2", "--state", state)
    size = ("--cores", 0.2, "--heap-mb")
    assert "there are tm-1, tm-2" in refused("resize-worker", "tm-3", *size, 128, "--state", state)
    assert "--heap-mb: " in refused("resize-worker", "tm-2", *size, 1, "--state", state)
    assert "needs the JobManager" in refused("resize-worker", "tm-2", *size, 128, "--state", state)

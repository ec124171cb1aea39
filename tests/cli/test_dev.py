"""What ``perdix dev`` starts, and where it says that things are."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import pytest

from perdix.cli.dev import alone, dev
from perdix.cli.output import UserError
from perdix.cli.processes import Processes
from perdix.settings.home import Home


@dataclass(frozen=True)
class Reached:
    ui_url: str = ""

    def experiment_urls(self) -> dict[str, str]:
        return {}


@pytest.mark.parametrize(
    ("store", "started", "pages"),
    [
        ("", ["twin", "mlflow", "dagster"], "MLflow   http://127.0.0.1:"),
        ("postgresql://me:secret@db.example/mlflow", ["twin", "mlflow", "dagster"], "MLflow   http://127.0.0.1:"),
        ("https://me:secret@mlflow.example", ["twin", "dagster"], "mlflow.example"),
    ],
)
def test_a_shared_mlflow_server_is_shown_and_no_second_one_started(
    store: str,
    started: list[str],
    pages: str,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PERDIX_HOME", str(tmp_path_factory.mktemp("home")))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    monkeypatch.setattr("perdix.models.registry.prepare", lambda *_: Reached())
    monkeypatch.setattr("perdix.cli.runs.instance", lambda *_: nullcontext())
    begun: dict[str, Sequence[str]] = {}

    def start(_: Processes, name: str, command: Sequence[str], __: Mapping[str, str]) -> None:
        begun[name] = command

    monkeypatch.setattr(Processes, "start", start)
    monkeypatch.setattr(Processes, "wait_until_answers", lambda *_, **__: None)
    monkeypatch.setattr(Processes, "watch", lambda _: None)
    dev(hours=0.0, act=False)
    assert list(begun) == started
    assert "secret" not in str(begun), "a password in a command is everybody's to read"
    said = capsys.readouterr().out
    assert pages in said
    assert "secret" not in said


def test_a_second_one_in_the_same_home_is_refused_while_the_first_runs(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would let the jobs of both follow its own twin, and leave them blind when it ends."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("PERDIX_HOME", str(home))
    monkeypatch.setattr("perdix.models.registry.prepare", lambda *_: Reached())
    monkeypatch.setattr("perdix.cli.runs.instance", lambda *_: nullcontext())
    monkeypatch.setattr(Processes, "start", lambda *_: None)
    monkeypatch.setattr(Processes, "wait_until_answers", lambda *_, **__: None)
    refused: list[str] = []

    def watch(_: Processes) -> None:
        with pytest.raises(UserError) as caught:
            dev(hours=0.0, act=False)
        refused.append(str(caught.value))

    monkeypatch.setattr(Processes, "watch", watch)
    for _ in range(2):  # once it has ended, another may begin
        dev(hours=0.0, act=False)
    assert len(refused) == 2
    assert f"{home}: perdix dev runs here already" in refused[0]


def test_what_a_killed_one_left_running_keeps_the_home_and_is_named(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGKILL leaves no time to end children: a second one would run beside the twin and the loop of the first."""
    home, sleeps = Home(tmp_path_factory.mktemp("home")), "import time; time.sleep(60)"
    with alone(home) as lock, Processes(home.root / "logs", holds=lock) as processes:
        processes.start("twin", [sys.executable, "-c", sleeps], {})
        lock.close()  # as SIGKILL closes it
        with pytest.raises(UserError) as caught, alone(home):
            raise AssertionError("it runs beside what was left")
        group = processes.children["twin"].pid
    assert f"end what is left: kill -- -{group}" in str(caught.value)
    with alone(home):
        pass

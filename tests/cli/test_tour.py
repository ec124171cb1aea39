"""The README's tour from its own text, but for what `make e2e` alone has the time for."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from perdix.cli.main import app
from tests.cli.tour import PROJECT, PROMISED, Clone, clone_of, tour, words


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clone]:
    with clone_of(tmp_path_factory.mktemp("clone")) as made:
        yield made


def invoked(*arguments: str) -> tuple[int, str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, " ".join(result.stdout.split())


def said(*arguments: str) -> str:
    return invoked(*arguments)[1]


def test_what_the_readme_prints_is_what_is_tried() -> None:
    assert tour() == list(PROMISED), "add what a new command of the tour must print to tests/cli/tour.py"


def test_a_command_that_nobody_tries_is_found() -> None:
    text = (PROJECT / "README.md").read_text(encoding="utf-8")
    more = tour(text.replace("\nperdix tick ", "\nperdix jobs --json  # more\nperdix tick "))
    assert [command for command in more if command not in PROMISED] == ["perdix jobs --json"]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("command", [name for name, promise in PROMISED.items() if not promise.slow])
def test_the_tour_works_as_printed(command: str, clone: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in clone.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(clone.folder)
    if not command.startswith("perdix"):
        assert PROMISED[command].said in clone.shell(command)
        return
    code, printed = invoked(*words(clone.here(command))[1:])
    assert (code, clone.here(PROMISED[command].said) in printed) == (0, True), printed


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.usefixtures("spark")
def test_exports_whose_times_count_from_zero_are_told_and_fail_nothing(
    shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDIX_HOME", str(tmp_path))
    told = said("ingest", str(shared_data / "metrics" / "testing" / "sine_workload.csv"), "--job", "sine")
    assert "1970-01-01 is before 2020-01-01: these times count from a start and are no dates" in told

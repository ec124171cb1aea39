"""Long commands say beforehand how long they take, where it does not mix with what they print."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from perdix.cli import how_long
from perdix.cli.main import app


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(1, "about 5 s"), (22, "about 20 s"), (59, "about 1 min"), (200, "about 3 min"), (7_000, "about 1.9 h")],
)
def test_a_time_is_as_coarse_as_it_can_be_known(seconds: float, said: str) -> None:
    assert how_long.about(seconds) == said


def test_what_runs_side_by_side_takes_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(how_long, "cores", lambda: 2)
    assert how_long.replay_s(6, 6, None) == pytest.approx(how_long.START_S + 27)
    assert how_long.replay_s(6, 6, 1) == pytest.approx(how_long.START_S + 54)
    assert how_long.replay_s(1, 6, 8) == pytest.approx(how_long.START_S + 9)


def test_months_in_coarse_time_are_as_long_as_they_were_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """215 days of three policies beside the best fixed size took 2 min 53 s; it was to be 2 min."""
    monkeypatch.setattr(how_long, "cores", lambda: 2)
    assert how_long.about(how_long.replay_s(4, 5_160, None, how_long.COARSE_S_PER_H)) == "about 3 min"


def test_more_jobs_and_more_bytes_take_longer() -> None:
    assert how_long.train_s(1) < how_long.train_s(10) < how_long.train_s(1_000)
    assert how_long.ingest_s(1_000) < how_long.ingest_s(1 << 30)


def test_a_replay_says_it_before_it_begins(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDIX_HOME", str(tmp_path))
    monkeypatch.setattr(how_long, "cores", lambda: 2)
    monkeypatch.setattr("os.cpu_count", lambda: 1)  # what is said matters, and a process per run takes seconds to start
    asked = ["replay", "--workload", "ads", "--policy", "static-6", "--hours", "0.1", "--json", "--no-pictures"]
    answer = CliRunner().invoke(app, [*asked, "--no-mlflow"], env={"COLUMNS": "120"})
    assert "2 runs of 0.1 h, about 5 s on 2 cores" in answer.stderr
    assert json.loads(answer.stdout)["failed"] == []

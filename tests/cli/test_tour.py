"""The five-minute tour on measured exports: it ends with a champion's forecast, or says why there is none."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import app

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.shared, pytest.mark.usefixtures("spark")]


def said(*arguments: str) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return " ".join(result.stdout.split())


@pytest.mark.parametrize(
    ("job", "files", "ends"),
    [
        ("ramp", ["figures/cpu_1.csv", "figures/throughput_1.csv", "figures/workload_1.csv"],
         "no champion for ramp: 21 minutes of workload are too few to judge a forecast of 15 minutes; ingest 38"),
        ("sine", ["testing/sine_cpu_p2.csv", "testing/sine_throughput_p2.csv"], "(champion version 1)"),
    ],
)  # fmt: skip
def test_real_exports_end_with_a_champion_or_with_a_sentence_why_not(
    job: str, files: list[str], ends: str, shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDIX_HOME", str(tmp_path))
    said("ingest", *(str(shared_data / "metrics" / file) for file in files), "--job", job)
    trained = said("train", "--job", job)
    assert "version 0" not in trained
    assert ends in said("forecast", job)


def test_exports_whose_times_count_from_zero_are_told_and_fail_nothing(
    shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDIX_HOME", str(tmp_path))
    told = said("ingest", str(shared_data / "metrics" / "testing" / "sine_workload.csv"), "--job", "sine")
    assert "1970-01-01 is before 2020-01-01: these times count from a start and are no dates" in told

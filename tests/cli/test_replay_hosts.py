"""``perdix replay --topology`` as a user calls it: tables, JSON, files, and errors in plain words."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from perdix.cli.known_errors import known_errors
from perdix.cli.main import app
from perdix.cli.output import run_guarded
from perdix.cli.replay.hosts import _table

DOCS = Path(__file__).resolve().parents[2] / "docs" / "json.md"
QUICK = ("--hours", "0.1", "--workers", "1", "--no-mlflow")
Call = Callable[..., Result]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Call:
    monkeypatch.setenv("PERDIX_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "140")

    def run(*arguments: str) -> Result:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = CliRunner().invoke(app, ["replay", "hosts", "manufacturing", *arguments])
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run


def documented() -> set[str]:
    row = re.search(r"^\| `perdix\.replay-hosts/1` \| ([^|]*) \|", DOCS.read_text(), re.MULTILINE)
    assert row is not None
    return set(re.findall(r"`(\w+)`", row[1]))


def test_json_has_the_keys_that_are_documented(call: Call, tmp_path: Path) -> None:
    file, out = tmp_path / "made" / "found.json", tmp_path / "out"
    result = call(
        *("--pattern", "stepwise", "--policies", "btu:unit_min=10,threshold", "--failures", "1", *QUICK),
        *("--json", str(file), "--out", str(out)),
    )
    assert result.exit_code == 0
    document = json.loads(file.read_text())
    assert document.pop("schema") == "perdix.replay-hosts/1"
    assert set(document) == documented()
    text = DOCS.read_text()
    results = document["results"]
    parts = [
        *results,
        *(part for found in results for name in ("leases", "steps", "decisions") for part in found[name]),
    ]
    parts += [bill for found in results for bill in found["bills"].values()]
    assert {key for part in parts for key in part if f"`{key}`" not in text} == set()
    assert [(result["policy"], result["dead_hosts"]) for result in results] == [
        ("btu:unit_min=10", 1),
        ("threshold", 1),
    ]
    assert set(results[0]["bills"]) == {"10"}
    assert set(results[1]["bills"]) == {"10", "30", "60"}
    assert [path.name for path in out.glob("*.png")] == ["manufacturing-stepwise.png"]
    assert len(list((out / "series").glob("*.parquet"))) == 2
    assert "real-time compliance" in result.output
    assert "left waiting" in result.output
    assert result.output.count("60 min") == 1, "billed by an hour: the baseline only"


def test_a_bare_json_goes_to_standard_output_and_all_patterns_are_played(call: Call) -> None:
    result = call("--policy", "threshold", "--no-pictures", *QUICK, "--json")
    document = json.loads(result.stdout)
    assert document["patterns"] == ["stepwise", "two-level", "random-walk-1", "random-walk-2"]
    assert document["pictures"] == []


@pytest.mark.slow
def test_runs_are_recorded_side_by_side(call: Call, tmp_path: Path) -> None:
    result = call("--pattern", "two-level", "--policy", "threshold", "--no-pictures", *QUICK[:-1], "--json")
    recorded = json.loads(result.stdout)["mlflow"]
    assert recorded["run_id"]
    assert (tmp_path / "home").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["hosts", "factory"], "known: manufacturing"),
        (["hosts", "manufacturing", "--pattern", "round"], "no pattern 'round'; known: stepwise"),
        (["hosts", "manufacturing", "--policy", "ds2"], "unknown policy 'ds2' for hosts"),
        (["hosts", "manufacturing", "--forecaster", "last-valu"], "did you mean 'last-value'?"),
    ],
)
def test_what_a_user_gets_wrong_is_said_in_one_sentence(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PERDIX_HOME", str(tmp_path / "home"))
    assert run_guarded(lambda: app(["replay", *arguments], standalone_mode=False), known_errors) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert words in said
    assert "Traceback" not in said


def test_columns_of_policies_that_differ_in_an_option_have_heads_of_their_own() -> None:
    spread = {"mean": 1.0, "sd": None}
    bill = {"resource_cost": spread, "total_cost": {"near": spread}, "premature": spread}
    summaries = [
        {"policy": policy, "compliance": {"near": spread}, "bills": {"60": bill}}
        for policy in ("btu:unit_min=60", "btu:unit_min=60:make_room=false", "btu:out_step=2:unit_min=60")
    ]
    heads = [str(column.header) for column in _table(summaries, ["near"]).columns[1:]]
    assert heads == ["btu\n60 min", "btu:make_room=false\n60 min", "btu:out_step=2\n60 min"]

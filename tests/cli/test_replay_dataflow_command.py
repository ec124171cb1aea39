"""``perdix replay operators`` as a user calls it: table, JSON, files, and errors in plain words."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from benchmarks.ds2_logs import write_ds2_logs
from perdix.cli.known_errors import known_errors
from perdix.cli.main import app
from perdix.cli.output import run_guarded
from perdix.cli.replay.operators import HEADS, _show
from perdix.twin.dataflow.job import DataflowTwin
from perdix.twin.dataflow.parameters import load_dataflow

DOCS = Path(__file__).resolve().parents[2] / "docs" / "json.md"
QUICK = ("--hours", "0.25", "--workers", "1", "--no-mlflow")
Call = Callable[..., Result]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Call:
    monkeypatch.setenv("PERDIX_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "100")

    def run(*arguments: str) -> Result:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = CliRunner().invoke(app, ["replay", *arguments])
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run


def documented() -> set[str]:
    row = re.search(r"^\| `perdix\.replay-dataflow/1` \| ([^|]*) \|", DOCS.read_text(), re.MULTILINE)
    assert row is not None
    return set(re.findall(r"`(\w+)`", row[1]))


def test_json_has_the_keys_that_are_documented(call: Call, tmp_path: Path) -> None:
    file, out = tmp_path / "made" / "found.json", tmp_path / "out"
    result = call(
        *("operators", "flink-wordcount", "--policy", "ds2,dhalion", "--seeds", "2", *QUICK),
        *("--json", str(file), "--out", str(out)),
    )
    assert result.exit_code == 0
    document = json.loads(file.read_text())
    assert document.pop("schema") == "perdix.replay-dataflow/1"
    assert set(document) == documented()
    text = DOCS.read_text()
    results = document["results"]
    assert {key for result in results for key in result if f"`{key}`" not in text} == set()
    assert {key for result in results for phase in result["phases"] for key in phase if f"`{key}`" not in text} == set()
    assert {
        key for result in results for look in result["decisions"] for key in look if f"`{key}`" not in text
    } == set()
    assert [(result["policy"], result["seed"]) for result in results] == [
        ("ds2", 1),
        ("dhalion", 1),
        ("ds2", 2),
        ("dhalion", 2),
    ]
    assert set(results[0]["parallelism"]) == {"source", "flatmap", "count"}
    assert results[0]["steps"] >= 1
    assert [path.name for path in out.glob("*.png")] == ["flink-wordcount.png"]
    assert len(list((out / "series").glob("*.parquet"))) == 4
    assert "19/11" in result.output


def test_a_bare_json_goes_to_standard_output(call: Call) -> None:
    result = call("operators", "nexmark-q1", "--policy", "static", "--no-pictures", *QUICK, "--json")
    assert json.loads(result.stdout)["pictures"] == []


def test_start_and_skew_change_the_dataflow(call: Call) -> None:
    said = call(
        *("operators", "flink-wordcount", "--start", "flatmap=12,count=9", "--skew", "0.5"),
        *("--policy", "static", "--no-pictures", *QUICK, "--json"),
    )
    (one,) = json.loads(said.stdout)["results"]
    assert one["start"] == {"source": 8, "flatmap": 12, "count": 9}
    assert one["optimum"] is None
    assert one["balanced_optimum"]["count"] in (5, 11), "of the phase that it ends in"


def test_rates_that_nothing_sustains_have_no_least_to_compare_with(call: Call, tmp_path: Path) -> None:
    """The command ended in a traceback below hours of results, and MLflow was given nothing for a number."""
    file = tmp_path / "narrow.yaml"
    file.write_text(
        "name: narrow\nslots: 2\noperators:\n  lines:\n    source: {phases: [{per_s: 1000}]}\n"
        "  count: {inputs: [lines], capacity_per_s: 100}\n"
    )
    found = call("operators", str(file), "--policy", "ds2", "--hours", "0.05", "--workers", "1", "--out", str(tmp_path))
    assert found.exit_code == 0
    assert "nothing sustains it" in found.output
    document = json.loads((tmp_path / "replay.json").read_text())
    assert document["results"][0]["instance_ratio"] is None
    assert "instance_ratio" not in document["summary"][0]


def test_ds2_reads_what_the_twin_logs_in_the_originals_formats(tmp_path: Path) -> None:
    twin = DataflowTwin(load_dataflow("heron-wordcount"))
    files = write_ds2_logs(twin, tmp_path, epochs=1, interval_s=60)
    given = [word for name in ("topology", "rates") for word in (f"--{name}", str(files[name]))]
    said = CliRunner().invoke(app, ["ds2", *given, "--sources", str(files["source_rates"]), "--json"])
    assert json.loads(said.stdout)["parallelism"] == {"source": 1, "flatmap": 10, "count": 20}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["operators", "heron"], "did you mean 'heron-wordcount'?"),
        (["operators", "storm"], "known: flink-wordcount"),
        (["operators", "nexmark-q1", "--policy", "hpa-80"], "unknown policy 'hpa-80' for a dataflow"),
        (["operators", "nexmark-q1", "--start", "mapper"], "expected operator=instances"),
        (["operators", "nexmark-q1", "--start", "mapper=²"], "expected operator=instances"),
        (["operators", "nexmark-q1", "--start", "mapper=1,mapper=2"], "'mapper' is given twice"),
        (["operators", "nexmark-q1", "--start", "map=3"], "no operator 'map'"),
        (["operators", "nexmark-q1", "--skew", "0.5"], "no operator is keyed"),
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


def test_every_figure_is_shown_on_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("perdix.cli.replay.operators.console.width", 80)
    figures = {name: {"mean": 5.5, "sd": 0.707} for name in ("steps", "instance_ratio", "achieved", "oscillations")}
    mine = {"policy": "flink-autoscaler", "seeds": 2, "converged": 1, "converged_s": {"mean": 1_769.0}, **figures}
    results = [
        {"policy": "flink-autoscaler", "seed": seed, "parallelism": {"source": 1, "count": 50 + seed}, "phases": []}
        for seed in (1, 2)
    ]
    dataflow = {"name": "any", "operators": ["source", "count"]}
    _show({"dataflow": dataflow, "seconds": 60, "seeds": [1, 2], "summary": [mine], "results": results})
    said = capsys.readouterr().out
    assert HEADS[-1] in said
    assert "…" not in said

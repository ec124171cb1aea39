"""``perdix replay`` as a user calls it: files, JSON, exit codes, and errors in plain words."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import duckdb
import pytest
from click.testing import Result
from typer.testing import CliRunner

from perdix.cli.known_errors import known_errors
from perdix.cli.main import app
from perdix.cli.output import run_guarded
from perdix.cli.replay.job_text import PROFILING, _clairvoyant, _table
from perdix.replay import campaign
from perdix.replay.case import Case
from perdix.replay.outcome import Played
from perdix.settings.yaml_files import SettingsError

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs" / "json.md"
QUICK = ("--hours", "0.1", "--workers", "1", "--no-mlflow", "--no-pictures")
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


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "shop.csv"
    path.write_text("second,tuples_per_second\n" + "".join(f"{10 * k},{100 + k % 60}\n" for k in range(400)))
    return path


def documented() -> set[str]:
    row = re.search(r"^\| `perdix\.replay/1` \| ([^|]*) \|", DOCS.read_text(), re.MULTILINE)
    assert row is not None
    return set(re.findall(r"`(\w+)`", row[1]))


def test_a_bare_json_goes_to_standard_output_with_the_keys_that_are_documented(call: Call, trace: Path) -> None:
    result = call("--workload", str(trace), "--policy", "static-12,static-11", "--seeds", "2", *QUICK, "--json")
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert document.pop("schema") == "perdix.replay/1"
    assert set(document) == documented()
    assert [(result["policy"], result["seed"]) for result in document["results"]] == [
        ("static-12", 1),
        ("static-11", 1),
        ("best-static", 1),
        ("static-12", 2),
        ("static-11", 2),
        ("best-static", 2),
    ]
    text = DOCS.read_text()
    assert {key for result in document["results"] for key in result if f"`{key}`" not in text} == set()
    assert document["results"][0]["average_workers"] == 12.0
    assert document["results"][0]["clairvoyant_ratio"] > 1.0
    assert document["results"][0]["of_frontier"] > 1.0
    assert [row["share_above_objective"] for row in document["frontier"][0]["at"]] == [0.01, 0.02, 0.05, 0.1]


@pytest.mark.parametrize("before", [True, False])
def test_json_takes_a_file_wherever_it_is_written(call: Call, trace: Path, tmp_path: Path, before: bool) -> None:
    file = tmp_path / "new" / "replay.json"
    words = ["--json", str(file)]
    rest = ["--workload", str(trace), "--policy", "static-12", *QUICK]
    result = call(*(words + rest if before else rest + words))
    assert json.loads(file.read_text())["results"][0]["policy"] == "static-12"
    assert "static-12" in result.stdout, "people still see the table"
    assert call(*rest, "--json", "-").stdout.startswith("{")
    assert call("--json", *rest).stdout.startswith("{")


def test_without_pictures_the_folder_is_not_said_to_hold_any(call: Call, trace: Path, tmp_path: Path) -> None:
    said = call("--workload", str(trace), "--policy", "static-12", *QUICK, "--out", str(tmp_path / "out")).stdout
    assert "series and replay.json: " in said
    drawn = call("--workload", str(trace), "--policy", "static-12", *QUICK[:-1], "--out", str(tmp_path / "out")).stdout
    assert re.search(r"series, \d+ pictures? and replay\.json: ", drawn)


def test_series_are_parquet_in_the_folder(call: Call, trace: Path, tmp_path: Path) -> None:
    result = call("--workload", str(trace), "--policy", "static-12", *QUICK, "--out", str(tmp_path / "out"))
    assert "out" in result.stdout
    seconds, workers = duckdb.sql(
        f"SELECT count(*), avg(workers) FROM '{tmp_path}/out/series/static-12-seed-1.parquet'"
    ).fetchall()[0]
    assert (seconds, workers) == (360, 12.0)
    assert json.loads((tmp_path / "out" / "replay.json").read_text())["hours"] == 0.1


def test_a_twins_own_workload_needs_no_file(call: Call) -> None:
    document = json.loads(call("--workload", "traffic", "--policy", "static-12", *QUICK, "--json").stdout)
    assert (document["trace"]["name"], document["twin"]["name"]) == ("traffic", "traffic")
    assert json.loads(call("--twin", "ads", "--policy", "static-12", *QUICK, "--json").stdout)["trace"]["name"] == "ads"


@pytest.mark.parametrize(
    ("words", "family"),
    [([], "damped-trend"), (["--forecaster", "none"], None), (["--forecaster", "seasonal-naive"], "seasonal-naive")],
)
def test_each_replay_fits_the_family_that_is_asked_for(
    call: Call, monkeypatch: pytest.MonkeyPatch, words: list[str], family: str | None
) -> None:
    """The shortest run trains nothing, so what matters is what the replay was told."""
    played, told = campaign.play, []

    def play(case: Case, **how: Any) -> Played:
        told.append(case.forecaster)
        return played(case, **how)

    monkeypatch.setattr(campaign, "play", play)
    document = json.loads(call("--policy", "static-12", *words, *QUICK, "--json").stdout)
    assert told == [family]
    assert document["forecaster"] == family


def test_another_twin_may_carry_it_and_bounds_and_price_are_the_users(call: Call, trace: Path) -> None:
    said = call(
        *("--workload", str(trace), "--twin", "ads", "--policy", "static-8", "--min", "2", "--max", "8"),
        *("--worker-price", "0.25", "--latency-objective", "8000", "--recovery-time", "300", "--noise", "0"),
        *(*QUICK, "--json"),
    )
    document = json.loads(said.stdout)
    assert document["twin"]["name"] == "ads"
    assert document["bounds"] == {"minimum": 2, "maximum": 8}
    assert document["objectives"]["latency_p95_ms"] == 8_000
    assert document["objectives"]["recovery_time_s"] == 300
    assert document["results"][0]["cost"] == pytest.approx(8 * 0.1 * 0.25)


@pytest.mark.slow
def test_pictures_and_mlflow_runs_are_made(call: Call, trace: Path) -> None:
    said = call("--workload", str(trace), "--policy", "static-12,hpa-80", "--hours", "0.1", "--workers", "1", "--json")
    document = json.loads(said.stdout)
    assert Path(document["pictures"][0]).read_bytes().startswith(b"\x89PNG")
    assert document["mlflow"]["compare_url"]


@pytest.mark.slow
def test_the_command_spreads_over_processes(call: Call, trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is played in this process fails, as no other knows the patch."""
    monkeypatch.setattr(campaign, "play", Mock(side_effect=RuntimeError("played here")))
    words = ("--policy", "static-12", "--hours", "0.1", "--workers", "2", "--no-mlflow", "--no-pictures", "--json")
    document = json.loads(call("--workload", str(trace), *words).stdout)
    assert (len(document["results"]), document["failed"]) == (2, [])


def test_one_that_fails_is_listed_and_the_exit_code_tells(
    call: Call, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = campaign.play

    def play(case: object, **how: object) -> object:
        if case.contender.label == "static-11":  # type: ignore[attr-defined]
            raise ValueError("the workers are [on] strike")
        return played(case, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(campaign, "play", play)
    arguments = ("--workload", str(trace), "--policy", "static-11,static-12", *QUICK)
    said = call(*arguments, "--json")
    assert said.exit_code == 1
    document = json.loads(said.stdout)
    assert [result["policy"] for result in document["results"]] == ["static-12", "best-static"]
    assert document["failed"] == [
        {"policy": "static-11", "seed": 1, "reason": "ValueError: the workers are [on] strike"}
    ]
    said = call(*arguments)
    assert said.exit_code == 1
    assert "Recommended: " in said.stdout
    assert "the workers are [on] strike" in said.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--workload", "wordcout"], "no such file, and no twin of that name; did you mean 'wordcount'?"),
        (["--workload", "absent.csv"], "no such file, and no twin of that name; twins: ads"),
        (["--workload", "perdix/cli/main.py"], "main.py:3: no time in"),
        (["--twin", "wordcot"], "did you mean 'wordcount'?"),
        (["--twin", "absent.yaml"], "twin 'absent.yaml': not known, and no YAML file"),
        (["--policy", "hpa-80,best-static"], "takes part in every replay without being named; leave it out"),
        (["--policy", ""], "no policy is named; known: "),
        (["operators", "nexmark-q5", "--policy", ""], "no policy is named; known: "),
        (["hosts", "manufacturing", "--policy", " , "], "no policy is named; known: "),
        (["hosts", "manufacturing", "--pattern", ""], "no pattern ''; known: stepwise"),
        (["--policy", "hpa80"], "unknown policy 'hpa80'; did you mean 'hpa-80'?"),
        (["--policy", "daedalus:grace=3"], "did you mean 'grace_s'?"),
        (["--step", "soon"], "--step soon: not a length of time; write it as 60, 30m or 1h"),
        (["--from", "2d"], "wordcount is a pattern without beginning and end; give --hours instead"),
        (["--workload", "job:nobody"], "workload 'job:nobody': no such job was ingested; twins: ads"),
        (["--policy", "static-13"], "13 workers are outside the bounds 1..12"),
        (["--max", "13"], "the twin 'wordcount' has 12"),
        (["--policy", "static-2,qescalor"], "policy 'qescalor' chooses sizes of workers, and the workers of twin"),
        (["--twin", "enrich", "--policy", "static-2,cba-smal"], "has no size 'smal'; it has medium, small, large"),
        (
            ["--forecaster", "damped"],
            "--forecaster: no family of forecasters is called 'damped'; did you mean 'damped-trend'?",
        ),
        (["--forecaster", "oracle"], "known: last-value, "),
        (["--forecaster", "oracle"], "ensemble; or 'none'"),
        (["--min", "5", "--max", "4"], "--min 5 is above the most, 4"),
        (["--json", "/proc/nowhere/replay.json"], "--json /proc/nowhere/replay.json: cannot be written"),
        (
            ["--out", "/proc/nowhere", "--hours", "0.02", "--policy", "static-12", "--workers", "1"],
            "--out /proc/nowhere",
        ),
    ],
)
def test_what_a_user_gets_wrong_is_said_in_one_sentence(
    arguments: Sequence[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PERDIX_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(ROOT)
    assert run_guarded(lambda: app(["replay", *arguments], standalone_mode=False), known_errors) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert words in said
    assert "Traceback" not in said


def test_a_twin_with_impossible_physics_is_named_by_file_and_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PERDIX_HOME", str(tmp_path / "home"))
    path = tmp_path / "odd.yaml"
    path.write_text("workers:\n  capacity_per_s: -5\nworkload: {shape: constant, peak_utilisation: 0.5}\n")
    assert run_guarded(lambda: app(["replay", "--twin", str(path)], standalone_mode=False), known_errors) == 2
    assert "odd.yaml:2" in capsys.readouterr().err.replace("\n", "")


def test_a_long_trace_of_half_hours_is_played_in_coarse_time_and_that_is_said(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdix.replay.pace.LONG_S", 2 * 86_400)  # else two weeks
    path = tmp_path / "counts.csv"
    path.write_text("step,count\n" + "".join(f"{k},{100 + 40 * (k % 48 < 20)}\n" for k in range(48 * 3)))
    with pytest.raises(SettingsError, match="--step 30m"):
        call("--workload", str(path), "--policy", "static-9", *QUICK[2:])
    document = tmp_path / "replay.json"
    arguments = (
        "--workload",
        str(path),
        "--step",
        "30m",
        "--from",
        "0",
        "--policy",
        "static-9",
        "--forecaster",
        "none",
    )
    said = call(*arguments, *QUICK[2:], "--json", str(document))
    assert said.exit_code == 0
    words = " ".join(said.stdout.split())
    assert "as asked for: the whole trace" in words
    assert "policies look every 15 min at metrics of every 30 s, the twin goes in steps of 10 s" in words
    found = json.loads(document.read_text())
    assert (found["hours"], found["step_s"]) == (72.0, 10)
    result = found["results"][0]
    assert (result["hours"], result["ticks"]) == (72.0, 3 * 96)
    assert result["worker_seconds"] == 9 * 3 * 86_400
    assert result["average_workers"] == 9.0
    fixed = found["results"][1]
    assert (fixed["policy"], fixed["hours"], fixed["held"]) == ("best-static", 72.0, True)
    assert fixed["worker_seconds"] == fixed["scale_out"] * 3 * 86_400
    assert result["best_static_ratio"] == 9 / fixed["scale_out"]
    assert result["clairvoyant_ratio"] is None


def test_a_tick_that_is_not_in_whole_steps_of_coarse_time_is_refused(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "counts.csv"
    path.write_text("count\n" + "".join(f"{100 + 40 * (k % 48 < 20)}\n" for k in range(48 * 15)))
    with pytest.raises(
        SettingsError, match=r"static-9:tick_s=45: a tick of 45 s is not in whole steps of 10 s.*--exact"
    ):
        call("--workload", str(path), "--step", "30m", "--from", "0", "--policy", "static-9:tick_s=45", *QUICK[2:])


def summarised(policy: str, workers: float, *, above: float = 0.0, left: float = 0.0) -> dict[str, object]:
    figures = {"average_workers": workers, "worker_seconds": 3600 * workers, "share_above_objective": above}
    spreads = {name: {"mean": value, "sd": None, "min": value, "max": value} for name, value in figures.items()}
    return {
        "policy": policy,
        "seeds": 1,
        "held": 1,
        **spreads,
        "unprocessed": {"mean": left, "sd": None, "min": left, "max": left},
    }


def test_what_profiling_cost_has_a_row_where_a_policy_needs_it() -> None:
    plain, profiled = summarised("static-12", 4.0), summarised("phoebe", 5.0)
    profiled["profiling_worker_seconds"] = {"mean": 7_200.0, "sd": None, "min": 7_200.0, "max": 7_200.0}
    latency = {"latency_ms": dict.fromkeys(("mean", "p50", "p95"))}
    shown = _table([{**plain, **latency}, {**profiled, **latency}])
    assert [[*column.cells][-1] for column in shown.columns] == [PROFILING, "-", "2"]
    assert PROFILING not in _table([{**plain, **latency}]).columns[0].cells


def test_the_bound_is_said_of_plans_that_are_ready_for_a_failure_and_never_late() -> None:
    """With an error budget, or without room to recover in, a fixed size may hold the objective and need less."""
    document = {"objectives": {"recovery_time_s": 600.0}, "clairvoyant": [{"average_workers": 8.5}], "pricing": None}
    assert _clairvoyant(document) == (
        "No plan that holds the objectives all the time, and would recover from a failure at any time within 10 min, "
        "needs less than 8.5 workers on average (clairvoyant bound)."
    )


def test_one_worker_is_one_in_the_sentence_of_the_bound() -> None:
    document = {"objectives": {"recovery_time_s": 600.0}, "clairvoyant": [{"average_workers": 1.0}], "pricing": None}
    assert "needs less than 1 worker on average" in _clairvoyant(document)


def test_a_job_that_is_nearly_idle_is_recommended_one_worker_not_twelve(call: Call, trace: Path) -> None:
    arguments = ("--workload", str(trace), "--peak-utilisation", "0.02", "--policy", "static-12", *QUICK)
    document = json.loads(call(*arguments, "--json").stdout)
    assert document["recommendation"]["policy"] == "best-static"
    assert document["recommendation"]["beaten"] == ["static-12"]
    assert document["results"][-1]["scale_out"] == 1
    said = " ".join(call(*arguments).stdout.split())
    assert "Recommended: a fixed size. 1 worker, kept all the time (best-static, known only afterwards)" in said
    assert "static-12 with 12 workers on average, 1100 % more." in said


def test_the_share_of_late_seconds_that_is_allowed_is_the_users(call: Call, trace: Path) -> None:
    arguments = ("--workload", str(trace), "--peak-utilisation", "0.9", "--policy", "static-12", *QUICK, "--json")
    strict, lax = (json.loads(call(*arguments, "--error-budget", share).stdout) for share in ("0", "0.8"))
    assert (strict["objectives"]["error_budget"], lax["objectives"]["error_budget"]) == (0.0, 0.8)
    assert strict["results"][-1]["scale_out"] > lax["results"][-1]["scale_out"]


def test_policies_that_do_not_fit_beside_each_other_go_into_the_next_table(
    call: Call, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdix.cli.replay.job_text.console.width", 70)
    said = call("--workload", str(trace), "--policy", "static-12,static-11,static-10", *QUICK).stdout
    tables = [line for line in said.splitlines() if "mean ± sd over seeds" in line]
    assert [line.split()[5:] for line in tables] == [["static-12", "static-11"], ["static-10", "best-static"]]

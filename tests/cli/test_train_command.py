"""``perdix train``: which jobs are trained, and on what."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from perdix.assets.kept_answers import Kept, note_promoted
from perdix.assets.training.record import iterate_trained
from perdix.cli.known_errors import known_errors
from perdix.cli.main import app
from perdix.cli.output import UserError, run_guarded
from perdix.cli.train import sampled_jobs
from perdix.models.sampling.rows import OperatorSamples, write_samples
from perdix.settings.home import Home
from tests.cli.made_up_runs import Instance, came_of
from tests.models.sampled import sampled


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("PERDIX_HOME", str(tmp_path))
    return Home(tmp_path)


def test_jobs_whose_sizes_were_sampled_are_known_even_where_no_exports_were_ingested(home: Home) -> None:
    assert sampled_jobs() == []
    for job in ("traffic", "enrich", "enrich"):
        write_samples(OperatorSamples(job, "dsa", tuple(sampled(6))), home.operator_samples)
    assert sampled_jobs() == ["enrich", "traffic"]


def test_a_job_that_is_not_known_names_the_nearest_that_was_sampled(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    write_samples(OperatorSamples("enrich", "dsa", tuple(sampled(6))), home.operator_samples)
    code = run_guarded(lambda: app(["train", "--job", "enrihc"], standalone_mode=False), known_errors)
    assert code == 2
    assert "did you mean 'enrich'?" in capsys.readouterr().err


@pytest.fixture
def featured(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two jobs with features, ``alpha`` and ``omega``, and nobody to run their trainings."""
    monkeypatch.setattr("perdix.cli.runs.instance", lambda _: Instance())
    for job in ("alpha", "omega"):
        (home.lake / "workload_features" / f"job={job}" / "day=2026-01-01").mkdir(parents=True)
        manifest = {"table": "workload_features", "keys": {"job": job, "day": "2026-01-01"}, "rows": 0}
        (home.lake / "workload_features" / f"job={job}" / "day=2026-01-01" / "_manifest.json").write_text(
            json.dumps({**manifest, "digest": "", "files": []})
        )


@pytest.mark.usefixtures("featured")
@pytest.mark.parametrize("failing", [{"alpha"}, {"omega"}, {"alpha", "omega"}])
def test_a_job_whose_training_fails_keeps_no_other_from_being_trained(
    monkeypatch: pytest.MonkeyPatch, failing: set[str]
) -> None:
    tried: list[str] = []

    def run_job(_: str, stretch: tuple[str, str], *__: object, must_succeed: bool = True) -> object:
        tried.append(stretch[0])
        fails = stretch[0] in failing
        if fails and must_succeed:
            raise UserError(f"run of {stretch[0]} failed\nrecent_range: no room")
        return came_of(f"of {stretch[0]}", {}, {"recent_range": "no room"} if fails else {})

    monkeypatch.setattr("perdix.cli.runs.run_job", run_job)
    result = CliRunner().invoke(app, ["train", "--json"])
    assert result.exit_code == 1
    assert tried == ["alpha", "omega"]
    document = json.loads(result.stdout)
    problems = [f"{job}: run of {job} failed; recent_range: no room" for job in sorted(failing)]
    assert document["problems"] == problems
    assert {row["job"] for row in document["models"]["forecast"]["jobs"] if "no room" in row["error"]} == failing
    result = CliRunner().invoke(app, ["train"])
    assert result.exit_code == 1
    assert all(problem in " ".join(result.output.split()) for problem in problems)


@pytest.mark.usefixtures("featured")
@pytest.mark.parametrize("answered", [True, False])
def test_a_model_that_cannot_be_learned_hides_no_other_that_was_promoted(
    home: Home, monkeypatch: pytest.MonkeyPatch, answered: bool
) -> None:
    """Of a job without CPU metrics no capacity is learned; its forecast is champion all the same."""
    forecast = {"winner": "ridge", "promote": True, "verdict": "first champion", "state": "..."}
    forecast["candidates"] = [{"family": "ridge", "metrics": {"wape": 0.05}}]

    def run_job(_: str, stretch: tuple[str, str], *__: object, must_succeed: bool = True) -> object:
        job, run_id = stretch[0], f"of-{stretch[0]}"
        Kept(home.trainings / "perdix-forecast", run_id).write(job, {"result": forecast, "error": None})
        old = {"result": {"winner": "line", "promote": True, "verdict": "of long ago"}, "error": None}
        new = {"result": {}, "error": f"{job} has no CPU loads"}
        Kept(home.trainings / "perdix-capacity", run_id if answered else "older").write(job, new if answered else old)
        why = "no job could be trained; alpha: alpha has no CPU loads"
        if must_succeed:
            raise UserError(f"run of {job} failed\ncapacity_candidates: {why}")
        champions = {"version": 3, "mlflow_run": "http://mlflow/3"}
        return came_of(run_id, {"forecast_champions": champions}, {"capacity_candidates": why})

    monkeypatch.setattr("perdix.cli.runs.run_job", run_job)
    result = CliRunner().invoke(app, ["train", "--json"])
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    found = document["models"]["forecast"]
    assert (found["version"], found["mlflow_run"]) == (3, "http://mlflow/3")
    row = {"winner": "ridge", "wape": 0.05, "promoted": True, "verdict": "first champion", "error": None}
    assert found["jobs"] == [{"job": job, **row} for job in ("alpha", "omega")]
    found = document["models"]["capacity"]
    assert (found["version"], [row["winner"] for row in found["jobs"]]) == (0, [None, None])
    errors = {row["job"]: row["error"] for row in found["jobs"]}
    if answered:
        assert errors == {job: f"{job} has no CPU loads" for job in ("alpha", "omega")}
    else:
        assert set(errors.values()) == {"capacity_candidates: no job could be trained; alpha: alpha has no CPU loads"}
    assert [problem.partition(":")[0] for problem in document["problems"]] == ["alpha", "omega"]
    said = " ".join(CliRunner().invoke(app, ["train"]).output.split())
    assert "forecast: perdix-forecast version 3" in said
    assert "failed alpha: run of-alpha failed; capacity_candidates: no job could be trained" in said


@pytest.mark.usefixtures("featured")
def test_a_job_that_the_gate_held_back_is_not_reported_as_promoted(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where another training of it ended first, so that it was judged against a champion of before."""
    why = "it was judged against another champion than there is now"

    def run_job(_: str, stretch: tuple[str, str], *__: object, **___: object) -> object:
        folder, job = home.trainings / "perdix-forecast", stretch[0]
        result = {"winner": "ridge", "promote": True, "verdict": "better", "state": "..."}
        Kept(folder, "run").write(job, {"result": result, "error": None})
        (kept,) = iterate_trained(folder, [job])
        note_promoted(folder, job, kept.digest, but=why if job == "alpha" else "")
        return came_of("run", {"forecast_champions": {"version": 3}, "capacity_champions": {}}, {})

    monkeypatch.setattr("perdix.cli.runs.run_job", run_job)
    rows = json.loads(CliRunner().invoke(app, ["train", "--json"]).stdout)["models"]["forecast"]["jobs"]
    assert [(row["job"], row["promoted"], row["verdict"]) for row in rows] == [
        ("alpha", False, why),
        ("omega", True, "better"),
    ]

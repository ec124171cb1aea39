"""``perdix train``: which jobs are trained, and on what."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from perdix.cli.known_errors import known_errors
from perdix.cli.main import app
from perdix.cli.output import UserError, run_guarded
from perdix.cli.train import sampled_jobs
from perdix.models.sampling.rows import write_samples
from perdix.models.sampling.samples import OperatorSamples
from perdix.settings.home import Home
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


class Instance:
    """A Dagster instance that knows another job between the two that are trained, so that these are two stretches."""

    def __enter__(self) -> Instance:
        return self

    def __exit__(self, *_: object) -> None: ...

    def add_dynamic_partitions(self, *_: object) -> None: ...

    def get_dynamic_partitions(self, _: str) -> list[str]:
        return ["alpha", "between", "omega"]


@pytest.mark.parametrize("failing", [{"alpha"}, {"omega"}, {"alpha", "omega"}])
def test_a_job_whose_training_fails_keeps_no_other_from_being_trained(
    home: Home, monkeypatch: pytest.MonkeyPatch, failing: set[str]
) -> None:
    tried: list[str] = []

    def run_job(_: str, stretch: tuple[str, str], *__: object) -> object:
        tried.append(stretch[0])
        if stretch[0] in failing:
            raise UserError(f"run of {stretch[0]} failed\nrecent_range: no room")
        return SimpleNamespace()

    def metadata(_: object) -> Mapping[str, Mapping[str, object]]:
        return {}

    monkeypatch.setattr("perdix.cli.runs.instance", lambda _: Instance())
    monkeypatch.setattr("perdix.cli.runs.run_job", run_job)
    monkeypatch.setattr("perdix.cli.runs.metadata", metadata)
    for job in ("alpha", "omega"):
        (home.lake / "workload_features" / f"job={job}" / "day=2026-01-01").mkdir(parents=True)
        manifest = {"table": "workload_features", "keys": {"job": job, "day": "2026-01-01"}, "rows": 0}
        (home.lake / "workload_features" / f"job={job}" / "day=2026-01-01" / "_manifest.json").write_text(
            json.dumps({**manifest, "digest": "", "files": []})
        )
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

"""``perdix train``: which jobs are trained, and on what."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdix.cli.known_errors import known_errors
from perdix.cli.main import app
from perdix.cli.output import run_guarded
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

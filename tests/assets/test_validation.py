"""The checks of a day in the real job: one job's bad samples stop that job only, and its answer says why."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from perdix.settings.home import Home
from perdix.telemetry.lake import Lake
from tests.assets.observing import DAY, definitions, run_here, sampled


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setattr("perdix.assets.observe.run_tasks", run_here)
    return Home(tmp_path).make()


def observed(home: Home, tags: dict[str, str] | None = None) -> dg.ExecuteInProcessResult:
    with dg.DagsterInstance.ephemeral() as instance, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return (
            definitions(home)
            .resolve_job_def("observe_day")
            .execute_in_process(instance=instance, partition_key=DAY, tags=tags, raise_on_error=False)
        )


def check(result: dg.ExecuteInProcessResult, name: str) -> dg.AssetCheckEvaluation:
    (found,) = [evaluation for evaluation in result.get_asset_check_evaluations() if evaluation.check_name == name]
    return found


def errors(result: dg.ExecuteInProcessResult, asset: str) -> dict[str, str]:
    (event,) = [event for event in result.get_asset_materialization_events() if event.asset_key == dg.AssetKey(asset)]
    rows: Any = event.materialization.metadata["jobs"]
    return {row.data["job"]: row.data["error"] for row in rows.records}


def test_one_jobs_bad_samples_keep_no_other_job_back(home: Home) -> None:
    sampled(home, "percent", 50.0)
    sampled(home, "good", 0.5)
    result = observed(home)
    assert result.success
    assert Lake(home.lake).jobs("workload_features") == ["good"]
    judged = check(result, "cpu_load_is_a_ratio")
    assert (judged.passed, judged.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert "percent goes no further" in str(judged.description)
    assert "Set `scale: 0.01`" in str(judged.description)
    assert "divide by 100 in the query that is exported" in str(judged.description)
    said = errors(result, "observations")
    assert said["good"] is None
    assert said["percent"].startswith("samples failed cpu_load_is_a_ratio: CPU loads beyond")


def test_where_every_job_is_blocked_the_run_stops(home: Home) -> None:
    sampled(home, "percent", 50.0)
    sampled(home, "cents", 5_000.0)
    result = observed(home)
    assert not result.success
    judged = check(result, "cpu_load_is_a_ratio")
    assert judged.severity == dg.AssetCheckSeverity.ERROR
    assert "cents, percent go no further" in str(judged.description)
    assert Lake(home.lake).jobs("job_observations") == []


def test_a_run_of_one_job_judges_and_observes_it_alone(home: Home) -> None:
    sampled(home, "percent", 50.0)
    sampled(home, "good", 0.5)
    assert observed(home, {"perdix/job": "good"}).success
    assert Lake(home.lake).jobs("job_observations") == ["good"]
    assert not observed(home, {"perdix/job": "percent"}).success
    assert observed(home, {"perdix/job": "good"}).success


def test_a_job_whose_samples_became_sound_is_observed_again(home: Home) -> None:
    sampled(home, "percent", 50.0)
    sampled(home, "good", 0.5)
    assert observed(home).success
    sampled(home, "percent", 0.5)
    result = observed(home)
    assert check(result, "cpu_load_is_a_ratio").passed
    assert Lake(home.lake).jobs("workload_features") == ["good", "percent"]


@pytest.mark.parametrize("other", [0.5, 50.0])
@pytest.mark.parametrize("damaged", ["_manifest.json", "*.parquet"])
def test_a_job_that_cannot_be_read_keeps_no_other_job_back(home: Home, damaged: str, other: float) -> None:
    """Also where a third job fails a check, so that each is judged by itself."""
    sampled(home, "broken", 0.5)
    sampled(home, "good", 0.5)
    sampled(home, "other", other)
    for path in (home.lake / "samples" / "job=broken").rglob(damaged):
        path.write_bytes(b"{")
    result = observed(home)
    assert result.success
    assert Lake(home.lake).jobs("workload_features") == (["good", "other"] if other < 1.0 else ["good"])
    assert "ingest its source again" in errors(result, "observations")["broken"]


def test_one_bad_hour_of_a_hundred_is_blocked(home: Home) -> None:
    """Together the jobs pass: one of a hundred is what the rule lets through of one job's rows."""
    sampled(home, "percent", 50.0)
    for number in range(9):
        sampled(home, f"good-{number}", 0.5, hours=12)
    result = observed(home)
    assert len(Lake(home.lake).jobs("workload_features")) == 9
    assert "percent goes no further" in str(check(result, "cpu_load_is_a_ratio").description)


def test_a_range_blocks_the_days_that_a_day_alone_blocks(home: Home) -> None:
    days = [f"2026-03-0{n}" for n in range(1, 8)]
    for day in days:
        sampled(home, "ads", 50.0 if day == DAY else 0.5, day)
    tags = {"dagster/asset_partition_range_start": days[0], "dagster/asset_partition_range_end": days[-1]}
    with dg.DagsterInstance.ephemeral() as instance, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        job = definitions(home).resolve_job_def("observe_day")
        result = job.execute_in_process(instance=instance, tags=tags, raise_on_error=False)
    assert Lake(home.lake).days("workload_features", "ads") == [day for day in days if day != DAY]
    judged = [
        evaluation
        for evaluation in result.get_asset_check_evaluations()
        if evaluation.check_name == "cpu_load_is_a_ratio"
    ]
    assert {evaluation.partition: evaluation.passed for evaluation in judged if evaluation.partition} == {
        day: day != DAY for day in days
    }

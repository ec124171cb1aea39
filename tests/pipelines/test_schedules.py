"""What happens by itself in a deployment: with jobs, and with nothing to do."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest

from perdix.assets.resources import Workspace
from perdix.settings.home import Home
from perdix.telemetry.tables import SOURCES

with warnings.catch_warnings():
    warnings.simplefilter("ignore", (dg.BetaWarning, dg.PreviewWarning))
    from perdix.pipelines.retrain_sensor import retrain_on_drift
    from perdix.pipelines.schedules import daily_ingest, daily_training

MORNING = datetime(2026, 3, 5, 2, 30, tzinfo=UTC)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "conf" / "jobs").mkdir(parents=True)
    return Workspace(home=str(tmp_path / "home"), conf=str(tmp_path / "conf"))


@pytest.fixture
def context(tmp_path: Path, workspace: Workspace) -> Iterator[dg.ScheduleEvaluationContext]:
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        made = dg.build_schedule_context(instance, scheduled_execution_time=MORNING, resources={"workspace": workspace})
        with made as context:
            yield context


def a_live_job(workspace: Workspace, name: str = "wordcount") -> None:
    file = workspace.conf_folder() / "jobs" / f"{name}.yaml"
    file.write_text("prometheus: {url: 'http://127.0.0.1:9', selector: {job_name: w, topic: t}}\n")


def test_both_schedules_and_the_retraining_run_as_soon_as_a_daemon_does() -> None:
    assert {schedule.default_status for schedule in (daily_ingest, daily_training)} == {
        dg.DefaultScheduleStatus.RUNNING
    }
    assert retrain_on_drift.default_status is dg.DefaultSensorStatus.RUNNING


@pytest.mark.parametrize("schedule", [daily_ingest, daily_training], ids=lambda schedule: schedule.name)
def test_whoever_only_opens_the_page_gets_no_runs_and_a_reason(
    schedule: dg.ScheduleDefinition, context: dg.ScheduleEvaluationContext, tmp_path: Path
) -> None:
    skipped = schedule(context)
    assert isinstance(skipped, dg.SkipReason)
    said = skipped.skip_message or ""
    assert f"write {tmp_path / 'conf' / 'jobs' / '<job>.yaml'} (every key: " in said
    assert said.endswith("), with its Prometheus, or run perdix ingest")


def test_a_job_with_a_prometheus_needs_no_exports(context: dg.ScheduleEvaluationContext, workspace: Workspace) -> None:
    a_live_job(workspace)
    ingested, trained = daily_ingest(context), daily_training(context)
    assert ingested.partition_key == "2026-03-04"
    assert trained.tags["dagster/asset_partition_range_start"] == "wordcount"
    assert trained.tags["dagster/asset_partition_range_end"] == "wordcount"


def test_a_training_every_six_hours_is_a_run_of_its_own_each_time(tmp_path: Path, workspace: Workspace) -> None:
    """Dagster leaves out a run whose key it has seen; the same tick evaluated again must be left out."""
    a_live_job(workspace)
    keys = []
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        for hour in (0, 6, 12, 18, 18):
            at = MORNING.replace(hour=hour)
            made = dg.build_schedule_context(instance, scheduled_execution_time=at, resources={"workspace": workspace})
            with made as context:
                keys.append(daily_training(context).run_key)
    assert len(set(keys)) == 4
    assert keys[-1] == keys[-2] == "daily-2026-03-05T18:30"


def test_exports_that_were_landed_by_hand_are_enough_once(
    context: dg.ScheduleEvaluationContext, workspace: Workspace
) -> None:
    """Each night a run that finds nothing new would fail for want of rows of yesterday."""
    folder = Home(Path(workspace.home)).landing / "ramp"
    folder.mkdir(parents=True)
    (folder / "export.csv").write_text("ts,workload_per_s")
    (folder / "away.csv").symlink_to("/etc/hostname")
    assert isinstance(daily_ingest(context), dg.RunRequest)
    ingested(workspace, "ramp", folder / "export.csv")
    skipped = daily_ingest(context)
    assert isinstance(skipped, dg.SkipReason)
    assert "ingested already" in (skipped.skip_message or "")


def test_a_job_whose_file_is_gone_and_that_nothing_was_ingested_of_lately_is_not_trained(
    context: dg.ScheduleEvaluationContext, workspace: Workspace, tmp_path: Path
) -> None:
    export = tmp_path / "export.csv"
    export.write_text("ts,workload_per_s")
    for job, days_ago in (("described", 20), ("gone", 20), ("lately", 2)):
        a_live_job(workspace, job)
        ingested(workspace, job, export)
        (manifest,) = workspace.lake().root.glob(f"sources/job={job}/*/_manifest.json")
        at_s = MORNING.timestamp() - days_ago * 86_400
        os.utime(manifest, (at_s, at_s))
    first = daily_training(context)
    assert first.tags["dagster/asset_partition_range_start"] == "described"
    for job in ("gone", "lately"):
        (workspace.conf_folder() / "jobs" / f"{job}.yaml").unlink()
    daily_training(context)
    assert context.instance.get_dynamic_partitions("stream_jobs") == ["described", "lately"]


def test_a_job_that_was_renamed_before_anything_was_ingested_of_it_is_not_trained(
    context: dg.ScheduleEvaluationContext, workspace: Workspace
) -> None:
    a_live_job(workspace, "ordrs")
    assert daily_training(context).tags["dagster/asset_partition_range_start"] == "ordrs"
    (workspace.conf_folder() / "jobs" / "ordrs.yaml").rename(workspace.conf_folder() / "jobs" / "orders.yaml")
    assert daily_training(context).tags["dagster/asset_partition_range_start"] == "orders"
    assert context.instance.get_dynamic_partitions("stream_jobs") == ["orders"]


@pytest.mark.parametrize("name", ["a/b", "..", "ü", "x" * 300])
def test_a_partition_that_no_job_can_be_called_as_does_not_keep_others_from_being_trained(
    name: str, context: dg.ScheduleEvaluationContext, workspace: Workspace
) -> None:
    """Anybody can add one on Dagster's page."""
    context.instance.add_dynamic_partitions("stream_jobs", [name])
    a_live_job(workspace)
    assert daily_training(context).tags["dagster/asset_partition_range_start"] == "wordcount"


def ingested(workspace: Workspace, job: str, file: Path) -> None:
    """Let the lake hold a file."""
    empty = dict.fromkeys(("read", "kept", "masked", "quarantined", "unmapped"), 0)
    content = file.read_bytes()
    row = {"file": file.name, "format": "csv", "digest": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    times = {"first_ts": None, "last_ts": None, "remarks": ""}
    table = pa.Table.from_pylist([{**row, **empty, **times}], schema=SOURCES.columns)
    workspace.lake().put("sources", {"job": job, "source": file.name}, table)

"""What Dagster's pages are told of a tick."""

from __future__ import annotations

import warnings
from dataclasses import replace
from logging import getLogger
from pathlib import Path

import dagster as dg
import pytest

from perdix.assets.resources import Workspace
from perdix.control.fleet_report import FleetReport
from perdix.control.state.journal import Status
from perdix.control.tick_io import TickReport
from perdix.settings.home import job_file_to_write

with warnings.catch_warnings():
    warnings.simplefilter("ignore", (dg.BetaWarning, dg.PreviewWarning))
    from perdix.pipelines import control_sensor
    from perdix.pipelines.control_location import build_control_defs
    from perdix.pipelines.control_sensor import DECISIONS, MOST_JOBS, control_loop, tick_metadata, tick_sentence


@pytest.mark.parametrize(("interval_s", "fails_after_s"), [(60, 300), (600, 3_000), (1, 300)])
def test_decisions_are_late_by_the_interval_of_ticks(
    interval_s: int, fails_after_s: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDIX_CONF", str(tmp_path))
    (tmp_path / "perdix.yaml").write_text(f"control: {{tick_interval_s: {interval_s}}}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", (dg.BetaWarning, dg.PreviewWarning))
        policy = build_control_defs().resolve_assets_def(DECISIONS).specs_by_key[DECISIONS].freshness_policy
    assert policy is not None
    assert policy.fail_window.to_timedelta().total_seconds() == fails_after_s


def report(**running: int | None) -> FleetReport:
    told = {
        name: TickReport(name, Status.ACTING, "holds", running=workers, wape=0.123456)
        for name, workers in running.items()
    }
    return FleetReport(started_s=0.0, finished_s=1.26, reports=told)


def test_a_tick_tells_the_workers_of_each_job() -> None:
    assert tick_sentence(report(traffic=3, ads=2, silent=None)) == "3 acting; 1.3 s. Workers: ads 2, traffic 3."


def test_a_tick_of_many_jobs_tells_of_the_first_only() -> None:
    told = tick_sentence(report(**{f"job-{k:02}": 1 for k in range(MOST_JOBS + 5)}))
    assert told.count("job-") == MOST_JOBS
    assert told.endswith("and 5 more.")


def test_a_tick_without_jobs_says_what_to_do() -> None:
    assert tick_sentence(report()) == f"No stream jobs: {job_file_to_write()}."


def test_nothing_is_shown_that_says_nothing() -> None:
    told = tick_metadata(report(ads=2))
    assert told["wape_mean"] == 0.1235
    assert "notes" not in told


def test_why_a_job_stands_so_is_shown_whole_whatever_is_in_it() -> None:
    why = "Paused: by an operator (move | migrate,\nsee <b>runbook</b>)."
    report = FleetReport({"ads": TickReport("ads", Status.PAUSED, why)}, started_s=0.0, finished_s=1.0)
    (row,) = tick_metadata(report)["why"].value.records
    assert row.data == {"job": "ads", "status": "paused", "why": why}


def test_of_many_jobs_those_that_are_not_served_as_usual_are_shown_first() -> None:
    """A table has twenty rows, and a fleet more jobs."""
    told = report(**{f"job-{k:02}": 1 for k in range(30)})
    blind = {"zebra": TickReport("zebra", Status.BLIND, "Blind: no sample at all.")}
    metadata = tick_metadata(replace(told, reports={**told.reports, **blind}))
    shown = metadata["why"].value.records
    assert [row.data["job"] for row in shown[:3]] == ["zebra", "job-00", "job-01"]
    assert metadata["not_shown"] == "11 more jobs; perdix jobs lists all"
    few = tick_metadata(report(**{f"job-{k:02}": 1 for k in range(21)}))
    assert few["not_shown"] == "1 more job; perdix jobs lists all"
    assert "not_shown" not in tick_metadata(report(ads=1))


def test_a_tick_in_which_nothing_happened_leaves_no_log_file_and_old_ticks_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dagster removes none of them by itself, and there is a tick a minute."""
    (tmp_path / "conf" / "jobs").mkdir(parents=True)
    workspace = Workspace(home=str(tmp_path / "home"), conf=str(tmp_path / "conf"))
    opened: list[str] = []
    forgotten: list[object] = []
    monkeypatch.setattr("perdix.pipelines.control_sensor.forget_ticks", lambda _, asset: forgotten.append(asset))
    monkeypatch.setattr("perdix.pipelines.control_sensor.FORGETS_EACH_S", 1.0)
    monkeypatch.setattr(dg.SensorEvaluationContext, "log", property(lambda _: opened.append("log") or getLogger()))
    with (
        dg.instance_for_test(temp_dir=str(tmp_path)) as instance,
        dg.build_sensor_context(instance, resources={"workspace": workspace}) as context,
    ):
        ticked = control_loop(context)
    assert isinstance(ticked, dg.SensorResult)
    assert ticked.skip_reason is not None
    assert opened == []
    assert forgotten == [dg.AssetKey("scaling_decisions")]


def test_settings_that_cannot_be_read_stop_no_tick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """perdix controller reads them once: a typo in a cron line must not end all scaling here, either."""
    file = tmp_path / "conf" / "perdix.yaml"
    file.parent.mkdir(parents=True)
    workspace = Workspace(home=str(tmp_path / "home"), conf=str(file.parent))
    intervals: list[float] = []
    ticks = control_sensor.tick_fleet
    monkeypatch.setattr(
        control_sensor,
        "tick_fleet",
        lambda jobs, io, *how, **so: intervals.append(io.tick_interval_s) or ticks(jobs, io, *how, **so),
    )
    with (
        dg.instance_for_test(temp_dir=str(tmp_path)) as instance,
        dg.build_sensor_context(instance, resources={"workspace": workspace}) as context,
    ):
        notes = []
        for text in ("training: {cron: often}", "control: {tick_interval_s: 90}", "training: {cron: often}"):
            file.write_text(f"{text}\n")
            (ticked,) = control_loop(context).asset_events
            notes.append("notes" in ticked.metadata and str(ticked.metadata["notes"].value))
    assert intervals == [60.0, 90.0, 90.0]
    assert notes[1] is False
    assert "perdix.yaml:1" in notes[2]
    assert notes[2].endswith("; what was read of it last is used, at first the defaults")


def test_what_stays_wrong_is_logged_once_as_dagster_removes_no_log_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "conf" / "jobs" / "ads.yaml"
    file.parent.mkdir(parents=True)
    workspace = Workspace(home=str(tmp_path / "home"), conf=str(tmp_path / "conf"))
    opened: list[str] = []
    monkeypatch.setattr(dg.SensorEvaluationContext, "log", property(lambda _: opened.append("log") or getLogger()))
    with (
        dg.instance_for_test(temp_dir=str(tmp_path)) as instance,
        dg.build_sensor_context(instance, resources={"workspace": workspace}) as context,
    ):
        for text, logged in (("mode: art", 1), ("mode: art", 1), ("mode: act", 1), ("mode: art", 2)):
            file.write_text(f"{text}\n")
            control_loop(context)
            assert len(opened) == logged

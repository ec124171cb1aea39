"""When a drift becomes a run: not before it can be judged, once, and until that run has ended."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from perdix.assets.resources import Workspace
from perdix.control.state.store import StateStore
from perdix.models.forecasting.retraining import judgeable_s

with warnings.catch_warnings():
    warnings.simplefilter("ignore", (dg.BetaWarning, dg.PreviewWarning))
    from perdix.pipelines.orphans import PROCESS
    from perdix.pipelines.retrain_sensor import RUN_KEY, retrain_on_drift

NOW_S = 1_772_625_600.0  # 2026-03-04 12:00Z


@dg.op
def nothing() -> None:
    """Stands for a training, of which the sensor sees only that its run has ended."""


@dg.job
def a_run() -> None:
    nothing()


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setattr("perdix.control.clock.WallClock.now_s", lambda _: NOW_S)
    (tmp_path / "conf").mkdir()
    return Workspace(home=str(tmp_path / "home"), conf=str(tmp_path / "conf"))


@pytest.fixture
def store(workspace: Workspace) -> Iterator[StateStore]:
    opened = StateStore(workspace.paths().state_url)
    yield opened
    opened.close()


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with dg.instance_for_test(temp_dir=str(tmp_path)) as opened:
        yield opened


def asked(workspace: Workspace, instance: dg.DagsterInstance) -> list[dg.RunRequest | dg.SkipReason]:
    with dg.build_sensor_context(instance, resources={"workspace": workspace}) as context:
        return list(retrain_on_drift(context))


def test_without_a_drift_nothing_is_asked(
    workspace: Workspace, store: StateStore, instance: dg.DagsterInstance
) -> None:
    assert asked(workspace, instance) == [dg.SkipReason("no stream job has drifted")]


def test_a_drift_waits_until_forecasts_can_be_judged_on_what_came_since(
    workspace: Workspace, store: StateStore, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    since_s = NOW_S - 1_200
    store.journal.request_retrain("ads", NOW_S, "WAPE 31 %", since_s=since_s)
    (skipped,) = asked(workspace, instance)
    assert isinstance(skipped, dg.SkipReason)
    assert "ads is trained at 2026-03-04 12:" in (skipped.skip_message or "")
    monkeypatch.setattr("perdix.control.clock.WallClock.now_s", lambda _: judgeable_s(since_s))
    (request,) = asked(workspace, instance)
    assert isinstance(request, dg.RunRequest)


def test_a_job_that_is_scraped_every_five_minutes_waits_until_it_can_be_judged(
    workspace: Workspace, store: StateStore, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A training that comes too early has no winner, and is one of the drift's few attempts."""
    file = workspace.conf_folder() / "jobs" / "ads.yaml"
    file.parent.mkdir()
    file.write_text("prometheus: {url: 'http://127.0.0.1:9', scrape_interval_s: 300}\n")
    store.journal.request_retrain("ads", NOW_S, "WAPE 31 %", since_s=NOW_S)
    for minutes, kind in ((41, dg.SkipReason), (100, dg.SkipReason), (103, dg.RunRequest)):
        monkeypatch.setattr("perdix.control.clock.WallClock.now_s", lambda _, at_s=NOW_S + 60 * minutes: at_s)
        (offered,) = asked(workspace, instance)
        assert isinstance(offered, kind)


def test_a_request_is_offered_until_its_run_has_ended_and_then_closed(
    workspace: Workspace, store: StateStore, instance: dg.DagsterInstance
) -> None:
    key = store.journal.request_retrain("ads", NOW_S, "WAPE 31 %", since_s=NOW_S - 3_600)
    first, second = asked(workspace, instance), asked(workspace, instance)
    assert [request.run_key for request in (*first, *second)] == [key, key], "Dagster drops a key that it knows"
    assert first[0].partition_key == "ads"
    assert first[0].tags["perdix/why"] == "WAPE 31 %"
    a_run.execute_in_process(instance=instance, tags={RUN_KEY: key})
    assert asked(workspace, instance) == [dg.SkipReason("no stream job has drifted")]
    assert store.journal.open_retrains() == []


def test_a_run_whose_process_was_killed_is_ended_and_holds_no_pool(
    instance: dg.DagsterInstance, workspace: Workspace
) -> None:
    folder = Path(instance.root_directory) / "processes"
    folder.mkdir()
    (folder / "gone").touch()
    tags = {PROCESS: "gone"}
    run = instance.create_run_for_job(a_run, tags=tags, status=dg.DagsterRunStatus.STARTED)
    asked(workspace, instance)
    found = instance.get_run_by_id(run.run_id)
    assert found is not None
    assert found.status == dg.DagsterRunStatus.FAILURE

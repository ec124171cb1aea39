"""A live job whose load changes, through Dagster's schedule and sensors alone, on simulated time.

The job has a Prometheus (a twin's, over HTTP) and no exports. Nothing here pulls, trains, promotes or adopts but what a
deployment runs by itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import numpy as np
import pytest

from perdix.assets.resources import Workspace
from perdix.control.state.store import StateStore
from perdix.models.registry import FORECAST
from perdix.settings.home import PROJECT, Home
from perdix.telemetry.lake import Lake
from perdix.twin.emission import Scraping
from perdix.twin.job import JobTwin
from perdix.twin.living import LivingTwin, SimulatedClock
from perdix.twin.prometheus_face import PrometheusFace
from perdix.twin.workloads import arrivals_from
from tests.control.rig import parameters

with warnings.catch_warnings():
    warnings.simplefilter("ignore", (dg.BetaWarning, dg.PreviewWarning))
    from perdix.pipelines.control_sensor import control_loop
    from perdix.pipelines.retrain_sensor import retrain_on_drift
    from perdix.pipelines.schedules import daily_training
    from perdix.pipelines.training_location import build_training_defs

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

CHANGE_S = int(datetime(2026, 3, 4, 14, tzinfo=UTC).timestamp())
PAST_S, CALM_S, AFTER_S = 8 * 3_600, 30 * 60, 100 * 60
JOB = """
engine: flink
prometheus:
  url: {url}
  selector: {{namespace: orders, topic: orders, job_name: orders}}
  scrape_interval_s: 10
bounds: {{minimum: 1, maximum: 8}}
"""
SETTINGS = "training: {thorough_families: [], history_days: 2}\n"


def load() -> np.ndarray:
    """Waves of four hours, and from the change on of twenty minutes; records/s for each second."""
    at_s = np.arange(-PAST_S, AFTER_S + 60.0)
    period_s = np.where(at_s < 0, 14_400.0, 1_200.0)
    noise = 1 + 0.03 * np.random.default_rng(7).standard_normal(len(at_s))
    return 30_000 * (0.55 - 0.45 * np.cos(2 * np.pi * at_s / period_s)) * noise


@dataclass
class Deployment:
    """What a deployment runs: the schedule, the two sensors, and the runs that they ask for."""

    home: Home
    workspace: Workspace
    instance: dg.DagsterInstance
    definitions: dg.Definitions
    clock: SimulatedClock
    told: list[dict[str, Any]] = field(default_factory=list)
    runs: list[dg.ExecuteInProcessResult] = field(default_factory=list)

    def sensor_context(self) -> dg.SensorEvaluationContext:
        return dg.build_sensor_context(instance=self.instance, resources={"workspace": self.workspace})

    def nightly(self) -> None:
        at = datetime.fromtimestamp(self.clock.now_s(), UTC)
        resources = {"workspace": self.workspace}
        with dg.build_schedule_context(self.instance, scheduled_execution_time=at, resources=resources) as context:
            request = daily_training(context)
        assert isinstance(request, dg.RunRequest)
        self.launch(request)

    def minute(self) -> None:
        """Let a minute pass, evaluate both sensors, and launch what they ask for."""
        self.clock.advance(60)
        with self.sensor_context() as context:
            ticked = control_loop(context)
        assert isinstance(ticked, dg.SensorResult)
        (event,) = ticked.asset_events
        self.told.append({name: value.value for name, value in event.metadata.items()})
        with self.sensor_context() as context:
            asked_for = list(retrain_on_drift(context))
        for asked in asked_for:
            if isinstance(asked, dg.RunRequest):
                self.launch(asked)

    def launch(self, request: dg.RunRequest) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # libraries' own
            done = self.definitions.resolve_job_def("train").execute_in_process(
                instance=self.instance,
                partition_key=request.partition_key,
                tags={**request.tags, **({"dagster/run_key": request.run_key} if request.run_key else {})},
                raise_on_error=False,
            )
        assert done.success, [event.event_specific_data for event in done.all_events if event.is_failure]
        self.runs.append(done)

    def metadata(self, asset: str) -> dict[str, Any]:
        event = self.instance.get_latest_materialization_event(dg.AssetKey(asset))
        assert event is not None
        assert event.asset_materialization is not None
        return {name: value.value for name, value in event.asset_materialization.metadata.items()}

    def verdict(self) -> str:
        """Return what the gate said of the newest training."""
        return str(self.metadata("forecast_champions")["jobs"].records[0].data["verdict"])

    def champion(self) -> int | None:
        current = self.workspace.registry().current_version(FORECAST)
        return None if current is None else current.version


@pytest.fixture
def deployment(
    tmp_path: Path, home_at: Callable[[Path], Home], spark: object, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Deployment]:
    home, conf = home_at(tmp_path / "home"), tmp_path / "conf"
    (conf / "jobs").mkdir(parents=True)
    for folder in ("queries", "expectations"):
        (conf / folder).symlink_to(PROJECT / "conf" / folder)
    (conf / "perdix.yaml").write_text(SETTINGS)
    clock = SimulatedClock(CHANGE_S - CALM_S)
    for reads in ("now_s", "elapsed_s"):  # leases run out by the second
        monkeypatch.setattr(f"perdix.control.clock.WallClock.{reads}", lambda _: clock.now_s())
    arrivals = arrivals_from(load(), CHANGE_S - PAST_S)
    twin = JobTwin(parameters(), 3, start_s=CHANGE_S - PAST_S, scale_out=5, arrivals=arrivals)
    living = LivingTwin({"orders": twin}, clock, scraping=Scraping(interval_s=10.0))
    workspace = Workspace(home=str(home.root), conf=str(conf))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        definitions = build_training_defs(workspace)
    with PrometheusFace(living) as face, dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        (conf / "jobs" / "orders.yaml").write_text(JOB.format(url=face.url))
        yield Deployment(home, workspace, instance, definitions, clock)


def worst(told: list[dict[str, Any]]) -> float:
    """Return the WAPE over the whole horizon, mean of the worst ten minutes in a row."""
    wapes = [row["horizon_wape_mean"] for row in told if "horizon_wape_mean" in row]
    return float(np.convolve(wapes, np.full(10, 0.1), mode="valid").max())


def newest_s(home: Home) -> float:
    """Return the newest sample of the lake, epoch seconds."""
    return max(row.timestamp() for row in Lake(home.lake).read("sources", "orders")["last_ts"].to_pylist())


def acted_on(home: Home) -> int:
    """Return the version of the forecast that the newest decision rests on; 0 is the fallback."""
    store = StateStore(home.state_url)
    try:
        return store.ledger.decisions("orders", limit=1)[0].intent.versions[FORECAST]
    finally:
        store.close()


def test_a_drift_is_requested_pulled_trained_promoted_and_adopted(deployment: Deployment) -> None:
    deployment.nightly()
    first = deployment.champion()
    assert first is not None, "a live job gets a champion from the schedule alone"
    pulled = deployment.metadata("recent_range")
    assert pulled["incomplete"] == 0
    assert pulled["adds_up"]

    while deployment.clock.now_s() < CHANGE_S:
        deployment.minute()
    assert acted_on(deployment.home) == first
    assert len(deployment.runs) == 1, "nothing has drifted yet"

    while len(deployment.runs) == 1:
        deployment.minute()
        assert deployment.clock.now_s() < CHANGE_S + 3_600, "nobody asked for a training"
    drifted = worst(deployment.told)
    assert drifted > 0.6
    assert "drift began at 2026-03-04 1" in deployment.verdict()
    assert newest_s(deployment.home) > CHANGE_S + 1_800, "what has drifted was pulled before it was trained on"
    second = deployment.champion()
    assert second not in (None, first)

    began = len(deployment.told)
    while deployment.clock.now_s() < CHANGE_S + AFTER_S:
        deployment.minute()
    assert acted_on(deployment.home) == second, "adopted without a restart, and no longer on the fallback"
    lately = deployment.told[-20:]
    assert np.mean([row["horizon_wape_mean"] for row in lately]) < drifted / 4
    assert [row["open_retrains"] for row in deployment.told[began + 1 :]] == [0] * (len(deployment.told) - began - 1)
    assert len(deployment.runs) == 2, "one drift, one run"

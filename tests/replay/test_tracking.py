"""A campaign in a real MLflow (SQLite and files): a run per policy, with what the compare page needs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest

from perdix.models.registry import Registry, prepare, tracking
from perdix.replay.campaign import Campaign, Setup
from perdix.replay.contenders import contenders
from perdix.replay.outcome import Played
from perdix.replay.side_by_side import Failed
from perdix.replay.tracking import EXPERIMENT, METRICS, POINTS, comparison_of, metrics_of
from perdix.replay.workload import Trace
from perdix.settings.home import Home
from perdix.settings.stream_job import Bounds
from perdix.twin.parameters import load_twin
from tests.replay.played import BILL, START_S, played

pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy:DeprecationWarning")

STARTED_S = 1_760_000_000.0


def campaign(*replays: Played, failed: tuple[Failed, ...] = (), price_per_h: float = 1.0) -> Campaign:
    bounds = Bounds(minimum=1, maximum=12)
    trace = Trace("sine", np.array([0.0, 1_800.0]), np.array([1.0, 2.0]), 3_600.0, 2.0)
    policies = contenders("daedalus:grace_s=120,hpa-80,static-12", bounds)
    seeds = tuple(sorted({*(replay.outcome.seed for replay in replays), *(failure.seed for failure in failed)}))
    setup = Setup(policies, trace, load_twin("wordcount"), bounds, seeds=seeds, hours=1.0, price_per_h=price_per_h)
    return Campaign(setup, replays, failed)


def usual() -> Campaign:
    return campaign(
        played("daedalus:grace_s=120", 1, 4.0, clairvoyant_ratio=1.1),
        played("daedalus:grace_s=120", 2, 6.0, clairvoyant_ratio=1.3),
        played("hpa-80", 1, 7.0, recovery_error=None),
        played("hpa-80", 2, 7.0, recovery_error=None),
        played("static-12", 1, 12.0, recovery_error=None, forecast_wape=None),
        failed=(Failed("static-12", 2, "ValueError: no such luck"),),
        price_per_h=0.5,
    )


def compared(of: Campaign) -> dict[str, Any]:
    return {item.name: item for item in comparison_of(of, STARTED_S).compared}


class TestWhatIsRecorded:
    def test_figures_are_means_over_seeds_and_the_important_ones_have_their_spread(self) -> None:
        metrics = compared(usual())["daedalus:grace_s=120"].metrics
        assert metrics["average_workers"] == pytest.approx(5.0)
        assert metrics["average_workers_sd"] == pytest.approx(np.sqrt(2.0))
        assert metrics["clairvoyant_ratio"] == pytest.approx(1.2)
        assert metrics["worker_hours"] == pytest.approx(5.0)
        assert metrics["cost"] == pytest.approx(2.5)

    def test_units_are_those_that_the_names_say(self) -> None:
        metrics = compared(usual())["hpa-80"].metrics
        assert metrics["above_objective_pct"] == pytest.approx(2.0)
        assert metrics["forecast_wape_pct"] == pytest.approx(5.0)
        assert metrics["capacity_error_pct"] == pytest.approx(3.0)
        assert metrics["latency_p99_ms"] == pytest.approx(20_000.0)

    def test_what_is_not_known_is_left_out_and_one_seed_has_no_spread(self) -> None:
        metrics = compared(usual())["static-12"].metrics
        assert "recovery_error_pct" not in metrics
        assert "forecast_wape_pct" not in metrics
        assert not [name for name in metrics if name.endswith("_sd")]

    def test_every_figure_that_mlflow_shows_is_in_the_document(self) -> None:
        """A renamed key of the document would leave a figure out without a word."""
        profiled = campaign(
            played("hpa-80", 1, 4.0, profiling_worker_s=7_200.0, bill=BILL, best_static_ratio=1.2, of_frontier=1.1)
        )
        metrics = compared(profiled)["hpa-80"].metrics
        assert set(METRICS) <= set(metrics)
        assert metrics["profiling_worker_hours"] == 2.0
        assert (metrics["cost"], metrics["paid_cores_used_pct"]) == (1.5, 80.0)
        assert metrics_of({"policy": "x", "seeds": 1}) == {}

    def test_the_compare_page_opens_with_the_workers(self) -> None:
        assert next(iter(compared(usual())["hpa-80"].metrics)) == "average_workers"

    def test_policies_differ_in_their_parameters_by_what_they_are(self) -> None:
        one, other = (compared(usual())[name].parameters for name in ("daedalus:grace_s=120", "hpa-80"))
        assert json.loads(one["options"]) == {"grace_s": 120}
        assert other["policy"] == "hpa-80"
        recorded = comparison_of(usual(), STARTED_S)
        assert recorded.parameters["trace"] == "sine"
        assert recorded.parameters["twin"] == "wordcount"
        assert recorded.parameters["seeds"] == "1,2"
        assert not set(one) & set(recorded.parameters)

    def test_the_best_fixed_size_has_a_run_with_its_workers(self) -> None:
        of = campaign(
            played("daedalus:grace_s=120", 1, 4.0, best_static_ratio=0.8),
            played("best-static", 1, 5.0, scale_out=5, best_static_ratio=1.0),
        )
        found = compared(of)
        assert list(found) == ["daedalus:grace_s=120", "best-static"]
        assert json.loads(found["best-static"].parameters["options"]) == {"scale_out": [5]}
        assert found["best-static"].tags["perdix.rule"] == "static"
        assert found["daedalus:grace_s=120"].metrics["best_static_ratio"] == 0.8
        note = comparison_of(of, STARTED_S).note
        assert note.startswith("Recommended: daedalus:grace_s=120.")
        assert "| best-static | 5 |" in note

    def test_a_course_over_a_week_is_few_points_and_keeps_its_peak(self) -> None:
        lag = np.zeros(7 * 86_400)
        lag[123_456] = 9e6
        week = compared(campaign(played("hpa-80", seconds=7 * 86_400, lag_records=lag)))["hpa-80"].series
        steps, values = zip(*week["course/lag_records"], strict=True)
        assert len(steps) <= POINTS
        assert max(values) == 9e6
        assert steps[-1] < 7 * 1_440
        assert list(steps) == sorted(set(steps))

    def test_a_course_in_long_steps_has_the_minutes_of_its_times(self) -> None:
        lag = np.zeros(360)
        lag[183] = 9e6  # after half an hour
        coarse = played("hpa-80", seconds=360, times_s=START_S + 10.0 * np.arange(360), lag_records=lag)
        points = compared(campaign(coarse))["hpa-80"].series["course/lag_records"]
        assert [minute for minute, _ in points] == list(range(60))
        assert points[30] == (30, 9e6)

    def test_minutes_without_output_are_gaps(self) -> None:
        latency_ms = np.full(3_600, 600.0)
        latency_ms[600:1_200] = np.nan
        course = compared(campaign(played("hpa-80", latency_p95_ms=latency_ms)))["hpa-80"].series
        values = [value for _, value in course["course/latency_p95_ms"]]
        assert np.isneginf(values).sum() == 10

    def test_a_campaign_without_a_replay_says_why(self) -> None:
        with pytest.raises(ValueError, match="hpa-80, seed 1: boom"):
            comparison_of(campaign(failed=(Failed("hpa-80", 1, "boom"),)), STARTED_S)


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory, home_at: Callable[[Path], Home]) -> Iterator[Registry]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        yield prepare(home_at(tmp_path_factory.mktemp("home")), "http://mlflow.example")


@pytest.fixture
def client(registry: Registry) -> Any:
    return tracking.client(registry.tracking_uri)


class TestInMlflow:
    def test_a_run_per_policy_is_nested_in_the_campaigns(self, registry: Registry, client: Any, tmp_path: Path) -> None:
        for name in ("sine.png", "replay.json", "hpa-80-seed-1.parquet"):
            (tmp_path / name).write_bytes(b"content")
        files = sorted(tmp_path.iterdir())
        recorded = registry.record(comparison_of(usual(), STARTED_S, files, {"dagster.run_id": "r-1"}))
        parent = client.get_run(recorded.run_id)
        assert client.get_experiment_by_name(EXPERIMENT).experiment_id == parent.info.experiment_id
        assert parent.info.run_name == "sine on wordcount, peak 75%"
        assert (parent.info.status, parent.info.start_time) == ("FINISHED", STARTED_S * 1_000)
        assert {artifact.path for artifact in client.list_artifacts(recorded.run_id)} == {
            "replay.json",
            "pictures",
            "series",
        }
        assert list(recorded.compared_run_ids) == ["daedalus:grace_s=120", "hpa-80", "static-12"]
        for name, run_id in recorded.compared_run_ids.items():
            nested = client.get_run(run_id)
            assert nested.info.run_name == name
            assert nested.data.tags["mlflow.parentRunId"] == recorded.run_id
            assert nested.data.tags["perdix.kind"] == "replay"
            assert nested.data.tags["dagster.run_id"] == "r-1"
            assert nested.data.tags["perdix.data_digest"] == usual().setup.trace.digest
            assert nested.data.tags["perdix.rule"] == name.split("-")[0].split(":")[0]
            assert nested.data.params["twin"] == "wordcount"
            assert nested.inputs.dataset_inputs[0].dataset.name == "sine"

    def test_the_campaigns_run_says_what_it_came_to(self, registry: Registry, client: Any) -> None:
        recorded = registry.record(comparison_of(usual(), STARTED_S))
        parent = client.get_run(recorded.run_id)
        assert parent.data.metrics["average_workers/static-12"] == 12.0
        assert parent.data.metrics["average_workers/daedalus-grace_s-120"] == pytest.approx(5.0)
        assert parent.data.tags["perdix.failed"] == "1"
        description = parent.data.tags["mlflow.note.content"]
        assert recorded.compare_url in description
        assert "| static-12 | 12 |" in description

    def test_the_links_open_mlflow_where_people_see_it(self, registry: Registry) -> None:
        recorded = registry.record(comparison_of(usual(), STARTED_S))
        assert recorded.run_url.startswith("http://mlflow.example/#/experiments/")
        asked = unquote(recorded.compare_url)
        assert asked.startswith("http://mlflow.example/#/compare-runs?runs=[")
        assert json.loads(asked.split("runs=")[1].split("&")[0]) == list(recorded.compared_run_ids.values())

    def test_a_policys_run_has_its_course_and_its_results(self, registry: Registry, client: Any) -> None:
        run_id = registry.record(comparison_of(usual(), STARTED_S)).compared_run_ids["hpa-80"]
        history = client.get_metric_history(run_id, "course/workers")
        assert {point.value for point in history} == {7.0}
        assert [point.step for point in history] == list(range(60))
        results = json.loads(Path(client.download_artifacts(run_id, "figures.json")).read_text())["results"]
        assert [(result["policy"], result["seed"]) for result in results] == [("hpa-80", 1), ("hpa-80", 2)]

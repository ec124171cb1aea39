"""The assets that compare policies: run in process with short replays, and as an operator may misconfigure them."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from perdix.assets.metadata import MOST_PICTURE_BYTES
from perdix.assets.resources import Workspace
from perdix.models.registry import tracking
from perdix.settings.home import Home

pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy:DeprecationWarning")

with warnings.catch_warnings():
    warnings.simplefilter("ignore", (dg.BetaWarning, dg.PreviewWarning))
    from perdix.assets.replays.hosts import hosts_comparison
    from perdix.assets.replays.jobs import policy_comparison
    from perdix.assets.replays.operators import operators_comparison
    from perdix.pipelines.training_location import build_training_defs

TINY = {"workload": "wordcount", "policies": "static-12,hpa-80", "seeds": 1, "hours": 0.2, "processes": 1}


def materialize(home: Home, **changes: Any) -> dg.ExecuteInProcessResult:
    return materialize_one(policy_comparison, home, **{**TINY, **changes})


def materialize_one(asset: dg.AssetsDefinition, home: Home, **config: Any) -> dg.ExecuteInProcessResult:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dg.materialize(
            [asset],
            resources={"workspace": Workspace(home=str(home.root))},
            run_config={"ops": {asset.key.to_user_string(): {"config": config}}},
            raise_on_error=False,
        )


def reason(result: dg.ExecuteInProcessResult) -> str:
    (failure,) = [event for event in result.all_events if event.is_step_failure]
    data = failure.step_failure_data
    return f"{data.error} {data.user_failure_data}"


@dataclass
class Materialized:
    home: Home
    metadata: dict[str, Any]


@pytest.fixture(scope="module")
def materialized(tmp_path_factory: pytest.TempPathFactory, home_at: Callable[[Path], Home]) -> Iterator[Materialized]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        home = home_at(tmp_path_factory.mktemp("home"))
        result = materialize(home, prices="visp-10", release="end-of-unit")
        assert result.success, reason(result)
        (event,) = result.asset_materializations_for_node("policy_comparison")
        yield Materialized(home, {name: value.value for name, value in event.metadata.items()})


def test_figures_of_every_policy_are_a_table_and_numbers_that_the_page_plots(materialized: Materialized) -> None:
    said = materialized.metadata
    rows = {row.data["policy"]: row.data for row in said["policies"].records}
    assert list(rows) == ["static-12", "hpa-80", "best-static"]
    assert rows["static-12"]["average_workers"] == 12.0
    assert said["average_workers_static-12"] == 12.0
    assert said["average_workers_hpa-80"] == pytest.approx(rows["hpa-80"]["average_workers"], abs=1e-4)
    assert (said["replays"], said["replays_failed"]) == (3, 0)


def test_the_best_fixed_size_and_what_is_recommended_are_on_the_page(materialized: Materialized) -> None:
    said = materialized.metadata
    assert said["best_static"] == {"1": said["average_workers_best-static"]}
    assert said["best_static_ratio_static-12"] == pytest.approx(12.0 / said["best_static"]["1"], abs=1e-4)
    assert said["recommendation"].startswith("Recommended: ")


def test_the_four_panels_are_shown_on_the_assets_page(materialized: Materialized) -> None:
    shown = materialized.metadata["comparison"]
    assert shown.startswith("![wordcount")
    assert "data:image/png;base64," in shown
    assert len(shown) < 4 / 3 * MOST_PICTURE_BYTES + 200


def test_files_are_beside_each_other_in_the_reports_of_the_home(materialized: Materialized) -> None:
    folder = Path(materialized.metadata["folder"])
    assert folder.parent == materialized.home.reports
    document = json.loads((folder / "replay.json").read_text())
    assert [result["policy"] for result in document["results"]] == ["static-12", "hpa-80", "best-static"]
    assert (folder / "wordcount.png").exists()
    assert len(list((folder / "series").glob("*.parquet"))) == 3


def test_its_links_lead_to_runs_of_this_materialization(materialized: Materialized) -> None:
    client = tracking.client(materialized.home.mlflow_url)
    run = client.get_run(materialized.metadata["mlflow_run"].rsplit("/", 1)[1])
    assert run.data.tags["perdix.kind"] == "replay"
    assert run.data.tags["dagster.run_id"]
    nested = client.search_runs([run.info.experiment_id], f"tags.`mlflow.parentRunId` = '{run.info.run_id}'")
    assert {run.info.run_name for run in nested} == {"static-12", "hpa-80", "best-static"}
    assert all(run.info.run_id in materialized.metadata["mlflow_compare"] for run in nested)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"workload": "wordcuont"}, "did you mean 'wordcount'"),
        ({"twin": "nobody"}, "twin 'nobody': not known"),
        ({"policies": "daedalos"}, "did you mean 'daedalus'"),
        ({"policies": "static-99"}, "outside the bounds"),
        ({"hours": 0.001}, "do not cover one tick"),
        ({"prices": "visp"}, "did you mean 'visp-"),
        ({"prices": "visp-10", "worker_cpu_cores": 5.0}, "fits on no host"),
        ({"prices": "visp-10", "release": "soon"}, "release 'soon': there is none"),
    ],
)
def test_what_cannot_be_replayed_is_named_and_nothing_is_written(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    home = Home(tmp_path).make()
    result = materialize(home, **changes)
    assert not result.success
    assert said in reason(result)
    assert not home.reports.exists()


def test_results_survive_an_mlflow_that_cannot_be_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    result = materialize(Home(tmp_path).make(), policies="static-12")
    assert result.success, reason(result)
    (event,) = result.asset_materializations_for_node("policy_comparison")
    assert "mlflow_run" not in event.metadata
    assert event.metadata["average_workers_static-12"].value == 12.0
    assert event.metadata["cost_static-12"].value == pytest.approx(12 * 0.2)
    assert "prices" not in event.metadata


def test_with_prices_it_shows_what_hosts_cost(materialized: Materialized) -> None:
    """Twelve workers of 2 GB are four of the paper's hosts; twelve minutes are two units of ten, at 1 each."""
    said = materialized.metadata
    rows = {row.data["policy"]: row.data for row in said["policies"].records}
    assert rows["static-12"]["cost"] == said["cost_static-12"] == 8.0
    assert rows["hpa-80"]["cost"] == said["cost_hpa-80"] <= 8.0
    assert said["prices"] == "visp-10 as of 2018-01-15, in unit"
    assert said["instance_types"] == dict.fromkeys(("static-12", "hpa-80", "best-static"), "dockerhost")


def test_operators_of_a_dataflow_are_compared_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    home = Home(tmp_path).make()
    asked = {"dataflow": "flink-wordcount", "policies": "ds2,static", "hours": 0.25, "processes": 1}
    result = materialize_one(operators_comparison, home, **asked)
    assert result.success, reason(result)
    (event,) = result.asset_materializations_for_node("operators_comparison")
    said = {name: value.value for name, value in event.metadata.items()}
    assert [row.data["policy"] for row in said["policies"].records] == ["ds2", "static"]
    assert said["steps_static"] == 0.0
    assert "data:image/png;base64," in said["comparison"]
    assert (Path(said["folder"]) / "replay.json").exists()
    run = tracking.client(home.mlflow_url).get_run(said["mlflow_run"].rsplit("/", 1)[1])
    assert (run.data.tags["perdix.kind"], run.data.tags["perdix.reason"]) == ("replay-dataflow", "manual")


def test_containers_on_hosts_are_compared_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    home = Home(tmp_path).make()
    asked = {"policies": "threshold", "patterns": "stepwise,two-level", "hours": 0.25, "processes": 1}
    result = materialize_one(hosts_comparison, home, **asked)
    assert result.success, reason(result)
    (event,) = result.asset_materializations_for_node("hosts_comparison")
    said = {name: value.value for name, value in event.metadata.items()}
    rows = [(row.data["pattern"], row.data["policy"]) for row in said["policies"].records]
    assert rows == [("stepwise", "threshold"), ("two-level", "threshold")]
    assert said["replays"] == 2
    for shown, pattern in (("comparison", "stepwise"), ("manufacturing-two-level", "two-level")):
        assert said[shown].startswith("!["), f"the picture of {pattern}"
    run = tracking.client(home.mlflow_url).get_run(said["mlflow_run"].rsplit("/", 1)[1])
    assert run.data.tags["perdix.kind"] == "replay-hosts"


@pytest.mark.parametrize(
    ("asset", "asked", "said"),
    [
        (operators_comparison, {"dataflow": "heron"}, "there is no dataflow 'heron'"),
        (operators_comparison, {"policies": "ds3"}, "ds3"),
        (hosts_comparison, {"patterns": "sometimes"}, "sometimes"),
        (hosts_comparison, {"forecaster": "last-vaule"}, "did you mean 'last-value'"),
        (hosts_comparison, {"hours": 0.0001}, "do not cover one look of a policy"),
    ],
)
def test_what_cannot_be_replayed_of_other_kinds_is_named(
    tmp_path: Path, asset: dg.AssetsDefinition, asked: dict[str, Any], said: str
) -> None:
    result = materialize_one(asset, Home(tmp_path).make(), **asked)
    assert not result.success
    assert said in reason(result)


@pytest.mark.parametrize(
    ("job", "asset"),
    [
        ("replay", "policy_comparison"),
        ("replay_operators", "operators_comparison"),
        ("replay_hosts", "hosts_comparison"),
    ],
)
def test_the_training_location_offers_each_as_a_job(job: str, asset: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        definitions = build_training_defs(Workspace())
    executable = definitions.resolve_job_def(job).asset_layer.executable_asset_keys
    assert {key.to_user_string() for key in executable} == {asset}

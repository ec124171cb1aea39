"""Performance models through Dagster: files of samples in, MLflow runs and a champion out."""

from __future__ import annotations

import base64
import json
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import dagster as dg
import pytest

from perdix.assets.performance.pictures import performance_curves
from perdix.assets.performance.tasks import train_performance
from perdix.assets.resources import Spark, Workspace
from perdix.models.performance.families import FAMILIES, FOREST, XGBOOST
from perdix.models.performance.fitted import FittedPerformance
from perdix.models.performance.samples import Sample, rates_of
from perdix.models.registry import PERFORMANCE, read_fleet, tracking
from perdix.models.sampling.rows import FailedSize, OperatorSamples, write_samples
from perdix.settings.home import Home
from tests.models.sampled import sampled, true_per_s

with warnings.catch_warnings():
    warnings.simplefilter("ignore", (dg.BetaWarning, dg.PreviewWarning))
    from perdix.assets.training.factory import build_training
    from perdix.assets.training.from_measurements import PERFORMANCE as MODEL
    from perdix.pipelines.jobs import train_performance as train_performance_job

PNG = b"\x89PNG"
FEW = sampled(3)  # four sizes: as many folds


def samples(job: str = "enrich", ended_s: float = 1.0, factor: float = 1.0, of: list[Sample] = FEW) -> OperatorSamples:
    taken = tuple(replace(sample, per_s=factor * sample.per_s) for sample in of)
    return OperatorSamples(job, "dsa", taken, (FailedSize(0.1, 64.0, "it died"),), ended_s=ended_s)


def key(folder: Path, **more: object) -> dict[str, object]:
    return {
        "samples": str(folder),
        "job": "enrich",
        "seed": 0,
        "repeats": 1,
        "champions": None,
        "pictures": False,
        **more,
    }


@pytest.mark.slow
def test_an_answer_is_what_a_training_is_made_of(tmp_path: Path) -> None:
    path = write_samples(samples(), tmp_path)
    found = train_performance(key(tmp_path, pictures=True))
    assert json.loads(json.dumps(found)) == found
    assert found["promote"]
    assert (found["samples"], found["rows"]) == (str(path), len(FEW))
    assert [candidate["family"] for candidate in found["candidates"]] == [family.family for family in FAMILIES]
    for candidate in found["candidates"]:
        assert set(candidate["metrics"]) >= {"relative_rmse", "rmse_spread_per_s", "mae_per_s", "fit_s", "samples"}
        assert candidate["parameters"]
    model = FittedPerformance.from_state(json.loads(found["state"]))
    assert model.family == found["winner"]
    assert not model.predict(3.0, 1_024.0).extrapolated[0]
    assert model.predict(4.0, 1_024.0).per_s[0] == pytest.approx(true_per_s(4.0, 1_024.0), rel=0.5)
    drawn = {name: base64.b64decode(text) for name, text in found["pictures"].items()}
    assert set(drawn) == {"performance.png", *(f"performance_{family.family}.png" for family in FAMILIES)}
    assert all(picture.startswith(PNG) for picture in drawn.values())


def test_a_job_that_was_never_sampled_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="enrich was never sampled; sample it first: perdix sample"):
        train_performance(key(tmp_path))


def test_samples_that_are_too_few_say_so(tmp_path: Path) -> None:
    write_samples(samples(of=FEW[:3]), tmp_path)
    with pytest.raises(ValueError, match="3 samples are too few"):
        train_performance(key(tmp_path))


def test_a_model_of_samples_with_one_memory_can_be_drawn() -> None:
    model = FittedPerformance.fit(
        XGBOOST, XGBOOST.published, [Sample(c, 512.0, 100.0 * c) for c in (1.0, 2.0, 3.0, 4.0)]
    )
    assert performance_curves("enrich", model, rates_of(model.samples)).startswith(PNG)


@dataclass
class Run:
    """A run of the assets."""

    home: Home
    instance: dg.DagsterInstance
    definitions: dg.Definitions

    def go(self, first: str, last: str) -> dg.ExecuteInProcessResult:
        tags = {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # libraries' own
            return self.definitions.resolve_job_def("train_performance").execute_in_process(
                instance=self.instance, tags=tags, raise_on_error=False
            )

    def metadata(self, asset: str, job: str) -> dict[str, object]:
        wanted = dg.AssetRecordsFilter(asset_key=dg.AssetKey(asset), asset_partitions=[job])
        (record,) = self.instance.fetch_materializations(wanted, limit=1).records
        assert record.asset_materialization is not None
        return {name: value.value for name, value in record.asset_materialization.metadata.items()}


@pytest.fixture
def run(
    tmp_path: Path, home_at: Callable[[Path], Home], monkeypatch: pytest.MonkeyPatch, spark: object
) -> Iterator[Run]:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    home, conf = home_at(tmp_path / "home"), tmp_path / "conf"
    conf.mkdir()
    (conf / "perdix.yaml").write_text("training: {performance_repeats: 2}\n")
    workspace = Workspace(home=str(home.root), conf=str(conf))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # libraries' own
        definitions = dg.Definitions(
            assets=build_training(MODEL),
            jobs=[train_performance_job],
            resources={"workspace": workspace, "spark": Spark(workspace=workspace)},  # finds the session of the tests
        )
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        instance.add_dynamic_partitions("stream_jobs", ["enrich", "never"])
        yield Run(home, instance, definitions)


@pytest.mark.e2e
@pytest.mark.spark
@pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy:DeprecationWarning")
def test_samples_become_a_champion_and_a_slower_operator_challenges_it(run: Run, tmp_path: Path) -> None:
    write_samples(samples(), run.home.operator_samples)
    first = run.go("enrich", "never")
    assert first.success
    checked = {evaluation.partition: evaluation.passed for evaluation in first.get_asset_check_evaluations()}
    assert checked == {"enrich": True, "never": False, None: False}, "each job has its own outcome"
    assert "never was never sampled" in str(run.metadata("performance_candidates", "never")["error"])
    winner = run.metadata("performance_candidates", "enrich")["winner"]
    registry = run.definitions.resources["workspace"].registry()
    champion = registry.current_version(PERFORMANCE)
    assert champion is not None
    (row,) = read_fleet(registry.download(PERFORMANCE, champion.version, tmp_path / "1.parquet")).jobs.to_dict(
        "records"
    )
    assert (row["job"], row["family"], row["samples"]) == ("enrich", winner, len(FEW))
    client = tracking.client(registry.tracking_uri)
    runs = client.search_runs([client.get_experiment_by_name(PERFORMANCE).experiment_id])
    tried = {
        tracked.data.tags["perdix.family"]: tracked
        for tracked in runs
        if tracked.data.tags["perdix.role"] == "candidate"
    }
    assert set(tried) == {family.family for family in FAMILIES}
    compared = {
        "relative_rmse_median",
        "rmse_per_s_median",
        "rmse_spread_per_s_median",
        "mae_per_s_median",
        "fit_s_median",
    }
    for tracked in tried.values():
        assert set(tracked.data.metrics) >= compared
        assert [item.path for item in client.list_artifacts(tracked.info.run_id, "pictures")] == ["pictures/enrich.png"]
    assert tried[FOREST.family].data.params["n_estimators"] == "100"

    write_samples(samples(ended_s=2.0, factor=0.5), run.home.operator_samples)
    again = train_performance(key(run.home.operator_samples, champions=str(tmp_path / "1.parquet")))
    assert again["promote"]
    assert f"the champion ({winner})" in again["verdict"]
    assert again["gate"]["gate_error"] < again["gate"]["gate_champion_error"]

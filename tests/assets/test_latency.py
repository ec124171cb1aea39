"""Latency models through Dagster: profile files in, MLflow runs and a champion out; one job's failure stays its own."""

from __future__ import annotations

import base64
import json
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import pytest

from perdix.assets.latency.pictures import highest_rates, latency_surface
from perdix.assets.latency.tasks import train_latency
from perdix.assets.resources import Spark, Workspace
from perdix.models.latency.selection import select_latency
from perdix.models.latency.state import latency_from_state
from perdix.models.latency.utilisation import UtilisationLatency
from perdix.models.profiling.profile import Profile
from perdix.models.profiling.rows import write_profile
from perdix.models.profiling.tmax import HighestRates
from perdix.models.registry import LATENCY, read_fleet, tracking
from perdix.settings.home import Home
from tests.models.measured_profile import known_job

with warnings.catch_warnings():
    warnings.simplefilter("ignore", (dg.BetaWarning, dg.PreviewWarning))
    from perdix.assets.training.factory import build_training
    from perdix.assets.training.from_measurements import LATENCY as MODEL
    from perdix.pipelines.jobs import profile as profile_job

PNG = b"\x89PNG"


def profile(job: str = "cars", ended_s: float = 1.0, **arguments: float) -> Profile:
    points, most = known_job(**arguments)
    small = tuple(point for point in points if point.scale_out in (2, 8))[::2]
    return Profile(job, small, most, worker_s=5_000.0, ended_s=ended_s)


def key(folder: Path, **more: object) -> dict[str, object]:
    return {"profiles": str(folder), "job": "cars", "seed": 0, "champions": None, "pictures": False, **more}


class TestTask:
    def test_an_answer_is_what_a_training_is_made_of(self, tmp_path: Path) -> None:
        path = write_profile(profile(), tmp_path)
        found = train_latency(key(tmp_path, pictures=True))
        assert json.loads(json.dumps(found)) == found
        assert (found["winner"], found["promote"]) == ("utilisation-limit", True)
        assert found["profile"] == str(path)
        assert [candidate["family"] for candidate in found["candidates"]] == ["utilisation-limit", "boosting-clusters"]
        assert all("tmax_line_mape" in candidate["metrics"] for candidate in found["candidates"])
        drawn = {name: base64.b64decode(text) for name, text in found["pictures"].items()}
        assert set(drawn) == {
            "latency_surface.png",
            "highest_rates.png",
            "latency_surface_utilisation-limit.png",
            "latency_surface_boosting-clusters.png",
        }
        assert all(picture.startswith(PNG) for picture in drawn.values())
        state = json.loads(found["state"])
        assert not latency_from_state(state).predict([8], [200_000.0]).normal[0]
        assert HighestRates.from_state(state["highest_rates"]).per_s(8) == pytest.approx(80_000, rel=0.01)

    def test_a_job_that_was_never_profiled_says_so(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="cars was never profiled"):
            train_latency(key(tmp_path))


def test_pictures_of_a_model_that_calls_nothing_normal_can_be_drawn() -> None:
    trained = select_latency(profile(), families=(UtilisationLatency,))
    nothing = latency_from_state({**trained.to_state(), "limit": {"profiled": 1e-9, "now": 1e-9}})
    drawn = latency_surface("cars", nothing, trained.points, trained.overloaded, trained.rates)
    assert drawn.startswith(PNG)
    assert highest_rates("cars", {4: 1e5}).startswith(PNG)


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
            return self.definitions.resolve_job_def("profile").execute_in_process(
                instance=self.instance, tags=tags, raise_on_error=False
            )

    def metadata(self, asset: str, job: str) -> dict[str, object]:
        wanted = dg.AssetRecordsFilter(asset_key=dg.AssetKey(asset), asset_partitions=[job])
        (record,) = self.instance.fetch_materializations(wanted, limit=1).records
        assert record.asset_materialization is not None
        return {name: value.value for name, value in record.asset_materialization.metadata.items()}


@pytest.fixture
def run(tmp_path: Path, home_at: Callable[[Path], Home], monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    home, conf = home_at(tmp_path / "home"), tmp_path / "conf"
    conf.mkdir()
    (conf / "perdix.yaml").write_text("{}\n")
    workspace = Workspace(home=str(home.root), conf=str(conf))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # libraries' own
        definitions = dg.Definitions(
            assets=build_training(MODEL),
            jobs=[profile_job],
            resources={"workspace": workspace, "spark": Spark(workspace=workspace)},  # which is never started
        )
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        instance.add_dynamic_partitions("stream_jobs", ["cars", "never"])
        yield Run(home, instance, definitions)


@pytest.mark.e2e
@pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy:DeprecationWarning")
def test_profiles_become_a_champion_and_a_slower_job_a_new_one(run: Run, tmp_path: Path) -> None:
    write_profile(profile(), run.home.profiles)
    assert run.go("cars", "never").success
    said = run.metadata("latency_candidates", "never")
    assert "never was never profiled" in str(said["error"])
    assert run.metadata("latency_candidates", "cars")["winner"] == "utilisation-limit"
    workspace = run.definitions.resources["workspace"]
    registry = workspace.registry()
    champion = registry.current_version(LATENCY)
    assert champion is not None
    (row,) = read_fleet(registry.download(LATENCY, champion.version, tmp_path / "1.parquet")).jobs.to_dict("records")
    assert (row["job"], row["family"]) == ("cars", "utilisation-limit")
    client = tracking.client(registry.tracking_uri)
    runs = client.search_runs([client.get_experiment_by_name(LATENCY).experiment_id])
    tried = {
        tracked.data.tags["perdix.family"]: tracked
        for tracked in runs
        if tracked.data.tags["perdix.role"] == "candidate"
    }
    assert set(tried) == {"utilisation-limit", "boosting-clusters"}
    compared = {"balanced_error_median", "missed_overloads_median", "unseen_missed_overloads_median", "fit_s_median"}
    for tracked in tried.values():
        assert set(tracked.data.metrics) >= compared
        assert tracked.data.metrics["balanced_error_median"] <= 1.0
        assert [item.path for item in client.list_artifacts(tracked.info.run_id, "pictures")] == ["pictures/cars.png"]

    write_profile(profile(ended_s=2.0, per_worker=6_000.0), run.home.profiles)
    assert run.go("cars", "cars").success
    again = registry.current_version(LATENCY)
    assert again is not None
    assert again.version > champion.version
    assert "champion" in str(run.metadata("latency_champions", "cars")["verdict"])

"""What becomes of trainings that end at the same time, and of a damaged cache: no champion is lost."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import orjson
import pandas as pd
import pytest

from perdix.assets.kept_answers import Kept
from perdix.assets.training.record import ANOTHER_CHAMPION, SHARED_GONE, Gate, Trained, read_gated, whole
from perdix.models.registry import (
    FORECAST,
    Fleet,
    FleetCorrupt,
    Publication,
    Published,
    RegistryError,
    RegistryUnavailable,
    TableGone,
    TrainingData,
    read_fleet,
)
from perdix.models.registry.fleet_table import name_of, write_fleet
from perdix.models.registry.publication import FleetVersion
from perdix.settings.home import Home
from tests.assets.test_training import Told
from tests.assets.test_training_record import answer

with warnings.catch_warnings():
    warnings.simplefilter("ignore", (dg.BetaWarning, dg.PreviewWarning))
    from perdix.assets.training import factory

TABLE = TrainingData("workload_features", "lake", "ab" * 32, 1, {})
STARTED_S = 1_772_582_400.0


class Versions:
    """A registry in memory; publishing takes a while."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.digests, self.champion, self.because = folder, dict[int, str](), 0, ""
        self.started_at_s = 0.0
        self.lock = threading.Lock()
        self.meanwhile: Callable[[], None] = lambda: None

    def current_version(self, name: str) -> FleetVersion | None:
        version = self.champion
        return FleetVersion(name, version, self.digests[version], "run") if version else None

    def publish(self, publication: Publication) -> Published:
        self.started_at_s = publication.started_at_s
        return self.published(publication.fleet)

    def published(self, fleet: Fleet) -> Published:
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
        time.sleep(0.1)
        with self.lock:
            version = len(self.digests) + 1
            self.digests[version] = write_fleet(fleet, self.folder / f"{version}.parquet")
        return Published(version, "run", "http://mlflow")

    def promote(self, _name: str, version: int, because: str = "") -> None:
        self.champion, self.because = version, because

    def download(self, _name: str, version: int, to: Path) -> Path:
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes((self.folder / f"{version}.parquet").read_bytes())
        return to

    def jobs(self) -> list[str]:
        return list(read_fleet(self.folder / f"{self.champion}.parquet").jobs["job"])


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home").make()


@pytest.fixture
def registry(tmp_path: Path) -> Versions:
    return Versions(tmp_path)


def workspace(home: Home, registry: Versions) -> Any:
    return SimpleNamespace(paths=lambda: home, registry=lambda: registry)


def publish(home: Home, registry: Versions, job: str, told: Told | None = None) -> dg.MaterializeResult:
    """Train a job, and let the gate decide."""
    Kept(home.trainings / FORECAST, "run-1").write(job, answer())
    return materialized(home, registry, job, told)


def materialized(home: Home, registry: Versions, job: str, told: Told | None = None) -> dg.MaterializeResult:
    """Let the gate decide on the answers that there are."""
    context: Any = Told() if told is None else told
    context.partition_keys, context.run = [job], SimpleNamespace(run_id="run-1", tags={})
    began = {"run-1": SimpleNamespace(start_time=STARTED_S)}
    context.instance = SimpleNamespace(get_run_stats=began.__getitem__)
    model: Any = SimpleNamespace(
        gate=lambda *_: Gate(FORECAST, "wape", lambda _: TABLE), more=lambda publication, _: publication
    )
    return factory._publish(context, workspace(home, registry), model)


def test_the_registry_says_of_each_job_why_it_was_promoted(home: Home, registry: Versions) -> None:
    publish(home, registry, "orders")
    assert registry.because == f"1 job(s): orders: {answer()['result']['verdict']}"


def test_mlflow_shows_since_when_a_training_ran_and_not_only_how_long_it_was_written(
    home: Home, registry: Versions
) -> None:
    publish(home, registry, "orders")
    assert registry.started_at_s == STARTED_S


def test_two_trainings_at_once_both_keep_their_champions(home: Home, registry: Versions) -> None:
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda job: publish(home, registry, job), ("orders", "clicks")))
    assert [result.metadata["promoted"] for result in results if result.metadata] == [1, 1]
    assert registry.jobs() == ["clicks", "orders"]
    assert len(registry.digests) == 2, "one waits for the other, and nothing is published twice"


def test_what_another_home_promoted_meanwhile_is_merged(home: Home, registry: Versions) -> None:
    def elsewhere() -> None:
        fleet = Fleet(pd.DataFrame({"job": ["ads"], "family": "linear", "state": "{}"}))
        registry.promote(FORECAST, registry.published(fleet).version, because="of another home")

    registry.meanwhile = elsewhere
    result = publish(home, registry, "orders")
    assert registry.jobs() == ["ads", "orders"]
    assert result.metadata is not None
    assert result.metadata["version"] == registry.champion


def test_a_champion_is_not_promoted_again_without_a_training(home: Home, registry: Versions) -> None:
    """Nor is a rollback undone by whoever materializes the champions once more."""
    publish(home, registry, "orders")
    Kept(home.trainings / FORECAST, "run-2").write("orders", answer())
    materialized(home, registry, "orders")
    assert registry.champion == 2, "trained anew"
    registry.promote(FORECAST, 1, because="rolled back")
    result = materialized(home, registry, "orders")
    assert registry.champion == 1
    assert result.metadata is not None
    assert result.metadata["promoted"] == 0


def test_a_challenger_is_not_promoted_over_a_champion_that_it_was_not_judged_against(
    home: Home, registry: Versions
) -> None:
    """As when two trainings of a job challenge the same one, or a promotion's answer was lost on the way."""

    def judged_against(champion: str | None, job: str) -> dict[str, Any]:
        trained = answer()
        trained["result"]["challenged"] = None if champion is None else name_of(champion)
        Kept(home.trainings / FORECAST, f"run-{champion}").write(job, trained)
        return dict(materialized(home, registry, job).metadata or {})

    fleet = Fleet(pd.DataFrame({"job": ["orders"], "family": "linear", "state": '{"of":"another"}'}))
    registry.promote(FORECAST, registry.published(fleet).version, because="of another training")
    told = judged_against(None, "orders")
    assert (told["promoted"], registry.champion) == (0, 1)
    assert "judged against another champion" in str(told["jobs"].records)
    (held,) = read_gated(home.trainings / FORECAST, ["orders"])
    assert (held.promoted, held.why) == (False, ANOTHER_CHAMPION), "what perdix train reports"
    assert judged_against('{"of":"a third"}', "orders")["promoted"] == 0
    assert judged_against(None, "clicks")["promoted"] == 1, "a job that still has none"
    assert judged_against('{"of":"another"}', "orders")["promoted"] == 1
    assert all(outcome.promoted for outcome in read_gated(home.trainings / FORECAST, ["orders", "clicks"]))


def test_a_model_whose_shared_one_was_fitted_anew_keeps_no_other_job_back(home: Home, registry: Versions) -> None:
    """As where a night's run failed at the registry, and goes on after a retraining of another job."""
    gone = answer(state=orjson.dumps({"of": name_of("{}")}).decode())
    trained = [Trained("orders", gone["result"], None, 1.0), Trained("clicks", answer()["result"], None, 1.0)]
    orders, clicks = whole(trained, ())
    assert (orders.usable, orders.why) == (False, SHARED_GONE)
    assert clicks.promoted
    assert whole(trained, [name_of("{}")]) == trained
    Kept(home.trainings / FORECAST, "run-1").write("orders", gone)
    with pytest.raises(ValueError, match=f"orders: {SHARED_GONE}"):
        materialized(home, registry, "orders")


@pytest.mark.parametrize("damage", [b"", b"PAR1 but no fleet"])
def test_a_damaged_cached_table_is_fetched_again(home: Home, registry: Versions, damage: bytes) -> None:
    publish(home, registry, "orders")
    found = factory.champion_file(workspace(home, registry), FORECAST)
    assert found is not None
    path, version = found
    path.write_bytes(damage)
    assert factory.champion_file(workspace(home, registry), FORECAST) == (path, version)
    assert list(read_fleet(path).jobs["job"]) == ["orders"]


def lost(home: Home, registry: Versions, error: RegistryError) -> None:
    """Let the champion's table be gone, here and where it was kept."""

    def refused(_name: str, _version: int, _to: Path) -> Path:
        raise error

    found = factory.champion_file(workspace(home, registry), FORECAST)
    assert found is not None
    found[0].unlink()
    registry.download = refused  # type: ignore[method-assign]


@pytest.mark.parametrize("kind", [TableGone, FleetCorrupt])
def test_a_champion_whose_table_is_gone_stops_no_training(
    home: Home, registry: Versions, kind: type[RegistryError]
) -> None:
    publish(home, registry, "orders")
    lost(home, registry, kind("its folder is empty; restore it"))
    told = Told()
    assert factory._champion_to_beat(told, workspace(home, registry), FORECAST) is None  # type: ignore[arg-type]
    (said,) = [line for level, line in told.lines if level == "warning"]
    assert said.startswith(f"{FORECAST}: trained without the champion, version 1: its folder is empty; restore it")
    publish(home, registry, "clicks", told)
    assert registry.jobs() == ["clicks"]


def test_a_store_that_does_not_answer_stops_the_training_so_that_no_champion_is_lost(
    home: Home, registry: Versions
) -> None:
    publish(home, registry, "orders")
    lost(home, registry, RegistryUnavailable("nobody answers"))
    with pytest.raises(RegistryUnavailable):
        publish(home, registry, "clicks")
    assert registry.jobs() == ["orders"]

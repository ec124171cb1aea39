"""The registry on a real MLflow: SQLite and files in a temporary folder."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from urllib.parse import unquote, urlsplit

import mlflow
import numpy as np
import pandas as pd
import pytest

from perdix.control.champions import Champions
from perdix.models.registry import (
    CAPACITY,
    FORECAST,
    Candidate,
    Fleet,
    FleetCorrupt,
    JobDetail,
    NoDatabase,
    NotRegistered,
    Publication,
    Published,
    Registry,
    RegistryError,
    RegistryUnavailable,
    TableGone,
    TrainingData,
    prepare,
    read_fleet,
    tracking,
)
from perdix.models.registry.fleet_table import name_of, to_text
from perdix.settings.home import GOOD_CHAMPION, PROJECT, Home

# MLflow 3.17 asks SQLAlchemy 2.1 for a loader strategy that it deprecates; nothing that perdix could fix.
pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy:DeprecationWarning")

STARTED_S = 1_700_000_000.0
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def registry(tmp_path: Path, home_at: Callable[[Path], Home], monkeypatch: pytest.MonkeyPatch) -> Registry:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return prepare(home_at(tmp_path / "home"))


@pytest.fixture
def client(registry: Registry):
    return tracking.client(registry.tracking_uri)


def nested(client, published: Published, role: str) -> dict[str, str]:
    """Return name -> id of the runs of one role below that of a training."""
    asked = f"tags.`mlflow.parentRunId` = '{published.run_id}' and tags.`perdix.role` = '{role}'"
    experiment_id = client.get_run(published.run_id).info.experiment_id
    return {run.info.run_name: run.info.run_id for run in client.search_runs([experiment_id], asked)}


def table_of(**wape: float) -> pd.DataFrame:
    return pd.DataFrame({"job": list(wape), "wape": list(wape.values()), "fit_s": 1.5})


@pytest.fixture
def publication() -> Callable[..., Publication]:
    def build(name: str = FORECAST, **changes) -> Publication:
        fleet = pd.DataFrame(
            {"job": ["orders", "clicks"], "family": ["linear", "auto-arima"], "state": ["{}", '{"order":[2,0,1]}']}
        ).assign(wape=[0.08, 0.04])
        base = {
            "fleet": Fleet(fleet),
            "candidates": [
                Candidate("linear", table_of(orders=0.08, clicks=0.12).assign(beats_naive=[True, False])),
                Candidate(
                    "auto-arima",
                    table_of(orders=0.09, clicks=0.04).assign(beats_naive=True),
                    {"max_p": 5},
                    {"wape.png": PNG},
                ),
            ],
            "data": TrainingData("workload_features", "lake/workload_features", "ab" * 32, 4711, {"ts": "datetime"}),
            "started_at_s": STARTED_S,
            "tags": {"dagster.run_id": "run-1"},
        }
        return Publication(name=name, **{**base, **changes})

    return build


def test_importing_the_registry_imports_no_mlflow() -> None:
    code = "import sys, perdix.models.registry; sys.exit('mlflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=PROJECT, check=False).returncode == 0


def test_a_publication_is_a_challenger_and_nothing_else(registry: Registry, publication) -> None:
    published = registry.publish(publication())
    challenger = registry.current_version(FORECAST, "challenger")
    assert challenger is not None
    assert (challenger.version, len(challenger.digest), challenger.run_id) == (1, 64, published.run_id)
    assert registry.current_version(FORECAST) is None
    assert registry.current_version(CAPACITY) is None
    assert published.run_url.endswith(f"/runs/{published.run_id}")


def test_the_compare_page_has_what_it_needs(registry: Registry, client, publication, tmp_path: Path) -> None:
    published = registry.publish(publication())
    parent = client.get_run(published.run_id)
    assert parent.data.metrics["wape_median"] == pytest.approx(0.06)
    assert parent.data.tags["dagster.run_id"] == "run-1"
    assert parent.data.tags["perdix.data_digest"] == "ab" * 32
    assert parent.info.status == "FINISHED"
    assert parent.info.start_time == STARTED_S * 1000

    runs = nested(client, published, "candidate")
    linear, arima = (client.get_run(runs[name]) for name in ("linear", "auto-arima"))
    assert linear.data.tags["mlflow.parentRunId"] == published.run_id
    assert set(linear.data.metrics) == set(arima.data.metrics)
    assert linear.data.metrics["wape_median"] == pytest.approx(0.10)
    assert (linear.data.metrics["beats_naive_share"], linear.data.metrics["chosen_share"]) == (0.5, 0.5)
    assert arima.data.params == {"family": "auto-arima", "max_p": "5"}
    (used,) = arima.inputs.dataset_inputs
    assert (used.dataset.name, used.dataset.digest) == ("workload_features", ("ab" * 32)[:36])
    names = {item.path for item in client.list_artifacts(runs["auto-arima"])}
    assert names == {"jobs.json", "pictures"}
    tabled = client.download_artifacts(runs["auto-arima"], "jobs.json", str(tmp_path))
    shown = pd.read_json(tabled, orient="split")
    assert list(zip(shown["job"], shown["wape"], strict=True)) == [("orders", 0.09), ("clicks", 0.04)]


def test_a_missing_metric_is_an_empty_cell(registry: Registry, client, publication) -> None:
    failed = pd.DataFrame({"job": ["orders"], "wape": [np.nan], "error": ["history too short"]})
    published = registry.publish(publication(candidates=[Candidate("auto-arima", failed)]))
    metrics = client.get_run(nested(client, published, "candidate")["auto-arima"]).data.metrics
    assert "wape_median" not in metrics
    assert metrics["jobs_failed"] == 1


@pytest.mark.parametrize(("jobs", "runs"), [(2, 2), (11, 0)])
def test_single_jobs_get_runs_in_small_fleets(registry: Registry, client, publication, jobs: int, runs: int) -> None:
    details = [JobDetail(f"job-{n}", "linear", {"wape": 0.1}, {}, {"forecast.png": PNG}) for n in range(jobs)]
    published = registry.publish(publication(details=details))
    found = nested(client, published, "job")
    assert len(found) == runs
    for run_id in found.values():
        assert [item.path for item in client.list_artifacts(run_id, "pictures")] == ["pictures/forecast.png"]


def test_promotion_moves_the_aliases_and_can_be_repeated_and_undone(registry: Registry, client, publication) -> None:
    def held() -> dict[str, int | None]:
        found = {alias: registry.current_version(FORECAST, alias) for alias in ("champion", "challenger", "previous")}
        return {alias: version and version.version for alias, version in found.items()}

    registry.publish(publication())
    registry.promote(FORECAST, 1, "first champion")
    assert held() == {"champion": 1, "challenger": None, "previous": None}
    registry.publish(publication())
    assert held() == {"champion": 1, "challenger": 2, "previous": None}
    for _ in range(2):
        registry.promote(FORECAST, 2, "WAPE 4 % against 6 %")
        assert held() == {"champion": 2, "challenger": None, "previous": 1}
    tags = client.get_model_version(FORECAST, "2").tags
    assert (tags["perdix.promoted_because"], tags["perdix.previous"]) == ("WAPE 4 % against 6 %", "1")
    registry.promote(FORECAST, 1, "rolled back")
    assert held() == {"champion": 1, "challenger": None, "previous": 2}


def test_promoting_what_is_not_there_changes_nothing(registry: Registry, publication) -> None:
    registry.publish(publication())
    with pytest.raises(NotRegistered, match="version 7"):
        registry.promote(FORECAST, 7)
    assert registry.current_version(FORECAST) is None


def test_the_downloaded_table_is_the_published_one(registry: Registry, publication, tmp_path: Path) -> None:
    wanted = publication()
    published = registry.publish(wanted)
    path = registry.download(FORECAST, published.version, tmp_path / "cache" / FORECAST / "1.parquet")
    assert [item.name for item in path.parent.iterdir()] == ["1.parquet"]
    fleet = read_fleet(path).jobs
    expected = wanted.fleet.jobs.sort_values("job").reset_index(drop=True)
    assert fleet[["job", "family", "state", "wape"]].equals(expected[["job", "family", "state", "wape"]])


def test_a_home_that_is_moved_takes_its_versions_along(
    registry: Registry, publication, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """MLflow keeps whole paths: a training in the new place would write to the old one."""
    home, moved = tmp_path / "home", tmp_path / "moved"
    registry.publish(publication())
    home.rename(moved)
    for _ in range(2):
        there = prepare(Home(moved))
    assert there.download(FORECAST, 1, tmp_path / "fleet.parquet").exists()
    there.publish(publication())
    assert not home.exists()
    assert len([*moved.rglob("artifacts/fleet.parquet")]) == 2
    assert caplog.text.count(f"{home.as_uri()}/mlartifacts/ is not there any more") == 1


def test_where_artifacts_are_is_left_alone_while_they_are_there(
    registry: Registry, publication, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of a home, or another one that shares its database, must not hide a champion from its owner."""
    home, other = tmp_path / "home", tmp_path / "other"
    registry.publish(publication())
    shutil.copytree(home, other)
    assert prepare(Home(other)).download(FORECAST, 1, tmp_path / "fleet.parquet").exists()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{home / 'mlflow.db'}")
    (tmp_path / "third").mkdir()
    prepare(Home(tmp_path / "third"))
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    assert prepare(Home(home)).download(FORECAST, 1, tmp_path / "fleet.parquet").exists()


def test_old_versions_are_removed_with_their_tables_but_for_those_in_use(
    registry: Registry, client, publication, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Registry, "MOST_VERSIONS", 2)
    registry.publish(publication())
    registry.promote(FORECAST, 1)
    registry.publish(publication())
    second = artifact_of(client, 2)
    assert second.exists()
    for _ in range(3):
        published = registry.publish(publication())
    assert published.version == 5
    assert sorted(int(version.version) for version in client.search_model_versions(f"name='{FORECAST}'")) == [1, 4, 5]
    assert not second.exists()
    assert all(artifact_of(client, version).exists() for version in (1, 4, 5))


def test_runs_of_old_trainings_are_removed_with_what_they_logged_but_for_those_of_versions_that_are_kept(
    registry: Registry, client, publication, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Registry, "MOST_VERSIONS", 1)
    day_s = 86_400
    details = [JobDetail("orders", "linear", {"wape": 0.1}, {}, {"forecast.png": PNG})]
    champion = registry.publish(publication(details=details))
    registry.promote(FORECAST, champion.version)
    second = registry.publish(publication(details=details))
    gone = {second.run_id, *nested(client, second, "candidate").values(), *nested(client, second, "job").values()}
    files = [Path(unquote(urlsplit(client.get_run(run_id).info.artifact_uri).path)) for run_id in gone]
    assert all(folder.exists() for folder in files)
    shutil.rmtree(files[0])  # by hand: its run is removed all the same
    recent = registry.publish(publication(started_at_s=STARTED_S + 20 * day_s))
    newest = registry.publish(publication(started_at_s=STARTED_S + 31 * day_s))
    experiment = client.get_run(newest.run_id).info.experiment_id
    left = {run.info.run_id for run in client.search_runs([experiment])}
    assert not left & gone
    assert not any(folder.exists() for folder in files)
    for kept in (champion, recent, newest):
        assert left >= {kept.run_id, *nested(client, kept, "candidate").values()}
    assert nested(client, champion, "job").keys() == {"orders"}


def test_a_run_that_is_being_written_is_kept_however_old_it_is(registry: Registry, client, publication) -> None:
    experiment = client.get_experiment_by_name(FORECAST).experiment_id
    tags = {"perdix.role": "training"}
    written = client.create_run(experiment, start_time=int(STARTED_S * 1_000), tags=tags).info.run_id
    failed = client.create_run(experiment, start_time=int(STARTED_S * 1_000), tags=tags).info.run_id
    client.set_terminated(failed, "FAILED")
    registry.publish(publication(started_at_s=STARTED_S + 31 * 86_400))
    left = {run.info.run_id for run in client.search_runs([experiment])}
    assert (written in left, failed in left) == (True, False)


def test_runs_that_are_registered_elsewhere_keep_no_other_from_being_removed(
    registry: Registry, client, publication, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten of them were the ten that a training looked at, each time anew."""
    monkeypatch.setattr("perdix.models.registry.store.LOOKED_AT", 4)
    experiment = client.get_experiment_by_name(FORECAST).experiment_id
    client.create_registered_model("mine")
    runs = [
        client.create_run(experiment, start_time=int(STARTED_S * 1_000) + n, tags={"perdix.role": "training"}).info
        for n in range(13)
    ]
    for n, run in enumerate(runs):
        client.set_terminated(run.run_id, "FAILED")
        if n < 10:
            client.create_model_version("mine", run.artifact_uri, run.run_id)
    registry.publish(publication(started_at_s=STARTED_S + 31 * 86_400))
    left = {run.info.run_id for run in client.search_runs([experiment])}
    assert [run.run_id in left for run in runs] == [True] * 10 + [False] * 3


def test_runs_of_a_training_that_was_killed_are_ended_by_a_later_one(registry: Registry, client, publication) -> None:
    """They ran without end on MLflow's pages. What somebody else runs there is left alone."""
    experiment = client.get_experiment_by_name(FORECAST).experiment_id
    started_ms = int(STARTED_S * 1_000)
    mine = [
        client.create_run(experiment, start_time=started_ms, tags={"perdix.role": role}).info.run_id
        for role in ("training", "candidate")
    ]
    other = client.create_run(experiment, start_time=started_ms).info.run_id
    for days, status in ((6, "RUNNING"), (8, "KILLED")):
        registry.publish(publication(started_at_s=STARTED_S + days * 86_400))
        assert [client.get_run(run_id).info.status for run_id in (*mine, other)] == [status, status, "RUNNING"]


def test_an_old_run_that_cannot_be_removed_keeps_no_other(
    registry: Registry, client, publication, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    experiment = client.get_experiment_by_name(FORECAST).experiment_id
    held, other = (
        client.create_run(experiment, start_time=int(STARTED_S * 1_000) + n, tags={"perdix.role": "training"})
        for n in range(2)
    )
    for run in (held, other):
        client.set_terminated(run.info.run_id, "FAILED")
    remove = type(client).delete_run

    def refuse(self, run_id: str) -> None:
        if run_id == held.info.run_id:
            raise RuntimeError("refused")
        remove(self, run_id)

    monkeypatch.setattr(type(client), "delete_run", refuse)
    registry.publish(publication(started_at_s=STARTED_S + 31 * 86_400))
    left = {run.info.run_id for run in client.search_runs([experiment])}
    assert (held.info.run_id in left, other.info.run_id in left) == (True, False)
    assert f"run {held.info.run_id} was not removed: RuntimeError" in caplog.text


def artifact_of(client, version: int) -> Path:
    location = client.get_model_version_download_uri(FORECAST, str(version))
    return Path(unquote(urlsplit(location).path)) / "artifacts" / "fleet.parquet"


def test_a_table_that_was_changed_is_not_believed(registry: Registry, client, publication, tmp_path: Path) -> None:
    registry.publish(publication())
    artifact = artifact_of(client, 1)
    read_fleet(artifact).jobs.assign(family="forged").to_parquet(artifact)
    with pytest.raises(FleetCorrupt, match="not the one that was published"):
        registry.download(FORECAST, 1, tmp_path / "1.parquet")
    assert not list(tmp_path.glob("*.parquet"))


def test_a_version_that_somebody_registered_by_hand_is_named_as_that(
    registry: Registry, client, publication, tmp_path: Path
) -> None:
    """MLflow's page registers a logged model in two clicks, without the digest of its table."""
    registry.publish(publication())
    published = client.get_model_version(FORECAST, "1")
    client.create_model_version(FORECAST, published.source, published.run_id)
    with pytest.raises(FleetCorrupt, match=r"version 2 was not registered by perdix: .*fleet_sha256; promote another"):
        registry.download(FORECAST, 2, tmp_path / "2.parquet")


def test_an_artifact_that_is_gone_is_the_store_being_unavailable(
    registry: Registry, client, publication, tmp_path: Path
) -> None:
    registry.publish(publication())
    artifact_of(client, 1).unlink()
    with pytest.raises(TableGone, match=f"downloading {FORECAST} version 1.*restore it or promote another version"):
        registry.download(FORECAST, 1, tmp_path / "1.parquet")
    with pytest.raises(NotRegistered, match="version 2"):
        registry.download(FORECAST, 2, tmp_path / "2.parquet")


class StoreAway:
    """An artifact store whose client fails with an error of its own, as those of clouds do."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def download_artifacts(self, artifact_path: str, dst_path: str) -> str:
        raise self._error


def the_store_is(monkeypatch: pytest.MonkeyPatch, client, store: StoreAway) -> None:
    """Let the tables of all versions lie in a store of S3 that answers as ``store`` does."""
    monkeypatch.setattr(type(client), "get_model_version_download_uri", lambda *_: "s3://user:secret@bucket/models/m-1")
    where = "mlflow.store.artifact.artifact_repository_registry.get_artifact_repository"
    monkeypatch.setattr(where, lambda *_, **__: store)


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (
            ModuleNotFoundError("No module named 'botocore.client'", name="botocore.client"),
            "the artifact store (s3) cannot be used: the package 'botocore' is missing; install it where perdix runs",
        ),
        (
            RuntimeError("Could not connect to the endpoint URL"),
            "the artifact store (s3) failed: RuntimeError: Could not connect to the endpoint URL; check that store, "
            "and the address and credentials that this process has for it",
        ),
        (
            mlflow.MlflowException("The following failures occurred:\n##### File artifacts/f #####\nno credentials"),
            "the artifact store (s3) failed: MlflowException: no credentials; check that store",
        ),
        (
            ConnectionError("reset by peer"),
            "the artifact store (s3) failed: ConnectionError: reset by peer; check that",
        ),
    ],
    ids=["no client", "its own error", "MLflow's", "of the system"],
)
def test_an_artifact_store_that_is_away_is_unavailable_and_named(
    registry: Registry, client, publication, monkeypatch: pytest.MonkeyPatch, error: Exception, sentence: str
) -> None:
    registry.publish(publication())
    the_store_is(monkeypatch, client, StoreAway(error))
    with pytest.raises(RegistryUnavailable) as caught:
        registry.download(FORECAST, 1, registry.artifact_root / "1.parquet")
    assert str(caught.value).startswith(f"downloading {FORECAST} version 1: {sentence}")
    assert "secret" not in str(caught.value)


def test_a_champion_that_cannot_be_fetched_waits_and_keeps_no_other_from_being_looked_for(
    registry: Registry, client, publication, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    registry.publish(publication())
    registry.promote(FORECAST, 1)
    the_store_is(monkeypatch, client, StoreAway(ModuleNotFoundError("No module named 'boto3'", name="boto3")))
    champions = Champions(tmp_path / "champions", registry)
    for _ in range(2):
        (note,) = champions.refresh(0.0)
        assert note.startswith(f"{FORECAST}: downloading {FORECAST} version 1: the artifact store (s3)")
        assert note.endswith("no champion: fallback")
    assert champions.fleet(CAPACITY).known


def test_looking_for_a_champion_creates_no_database(tmp_path: Path) -> None:
    database = tmp_path / "mlflow.db"
    with pytest.raises(NoDatabase, match=r"mlflow\.db is not there; restore it or fix MLFLOW_TRACKING_URI"):
        Registry(f"sqlite:///{database}", tmp_path).current_version(FORECAST)
    assert not database.exists()


def test_a_database_that_is_away_is_not_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that is not mounted: in an empty database nothing is champion, and the loop gave up those in use."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    home = Home(tmp_path / "home")
    good = home.champions / FORECAST / GOOD_CHAMPION
    good.parent.mkdir(parents=True)
    good.write_text("{}")
    with pytest.raises(NoDatabase, match=rf"mlflow\.db is not there; restore it.* remove {home.champions}"):
        prepare(home)
    assert not (home.root / "mlflow.db").exists()


def test_a_server_that_does_not_answer_is_unavailable_within_seconds(tmp_path: Path) -> None:
    registry = Registry("http://someone:secret@127.0.0.1:9", tmp_path)
    began = time.monotonic()
    with pytest.raises(RegistryUnavailable, match="start that server") as caught:
        registry.current_version(FORECAST)
    assert time.monotonic() - began < 20
    assert "someone:secret" not in str(caught.value).split(" failed: ")[0]


def test_a_page_that_a_proxy_does_not_find_takes_no_alias_away(proxy_without_mlflow: str, tmp_path: Path) -> None:
    with pytest.raises(RegistryUnavailable, match=r"404 page not found.*start that server or fix MLFLOW_TRACKING_URI"):
        Registry(proxy_without_mlflow, tmp_path).current_version(FORECAST)


@pytest.mark.parametrize("store", ["SQL", "files"])
def test_what_mlflow_itself_does_not_know_is_not_registered(
    registry: Registry, publication, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: str
) -> None:
    if store == "files":
        monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
        monkeypatch.chdir(tmp_path)  # beside a store of files, MLflow makes a database where it is started
        registry = Registry((tmp_path / "runs").as_uri(), tmp_path / "artifacts")
        registry.prepare()
    assert registry.current_version(FORECAST) is None
    registry.publish(publication())
    assert registry.current_version(FORECAST) is None
    assert registry.current_version(FORECAST, "challenger") is not None


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "Registered Model with name=a not found"}, NotRegistered),
        ({"error_code": "INVALID_PARAMETER_VALUE", "message": "Registered model alias a not found."}, NotRegistered),
        ({"error_code": "ENDPOINT_NOT_FOUND", "message": "/registered-models/alias not found"}, RegistryUnavailable),
        ({"code": 404, "message": "/registered-models/alias not found"}, RegistryUnavailable),
    ],
)
def test_of_a_servers_answers_only_those_of_mlflow_say_that_there_is_none(
    answer: dict[str, object], expected: type[RegistryError]
) -> None:
    with pytest.raises(expected), tracking.reached("http://mlflow", "reading an alias"):
        raise mlflow.exceptions.RestException(answer)


def test_a_database_that_is_none_is_unavailable(tmp_path: Path) -> None:
    database = tmp_path / "mlflow.db"
    database.write_text("an HTML error page")
    with pytest.raises(RegistryUnavailable, match="check that database"):
        Registry(f"sqlite:///{database}", tmp_path).current_version(FORECAST)


def test_a_database_that_cannot_be_opened_is_unavailable_within_seconds(tmp_path: Path) -> None:
    """MLflow tries ten times, over 100 s: the loop would serve no job meanwhile."""
    began = time.monotonic()
    with pytest.raises(RegistryUnavailable, match="unable to open database file; check that database"):
        Registry(f"sqlite:///{tmp_path}", tmp_path).current_version(FORECAST)
    assert time.monotonic() - began < 20


def test_a_refused_publication_leaves_a_failed_run_and_no_alias(registry: Registry, client, publication) -> None:
    strange = Candidate("linear", pd.DataFrame({"job": ["orders"], "wape\n%": [0.1]}))
    with pytest.raises(RegistryError, match=f"publishing {FORECAST}"):
        registry.publish(publication(candidates=[strange]))
    experiment = client.get_experiment_by_name(FORECAST)
    assert {run.info.status for run in client.search_runs([experiment.experiment_id])} == {"FAILED"}
    assert registry.current_version(FORECAST, "challenger") is None


def test_an_experiment_that_was_deleted_bars_no_training(
    registry: Registry, client, publication, tmp_path: Path, home_at: Callable[[Path], Home]
) -> None:
    client.delete_experiment(client.get_experiment_by_name(FORECAST).experiment_id)
    assert prepare(home_at(tmp_path / "home")).publish(publication()).version == 1


def test_two_candidates_of_one_family_are_refused(registry: Registry, publication) -> None:
    twice = [Candidate("linear", table_of(orders=0.1)), Candidate("linear", table_of(clicks=0.1))]
    with pytest.raises(ValueError, match="two candidates"):
        registry.publish(publication(candidates=twice))


def test_nothing_outside_of_the_home_is_touched(
    registry: Registry, publication, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = tmp_path / "elsewhere"
    empty.mkdir()
    monkeypatch.chdir(empty)
    registry.publish(publication())
    registry.promote(FORECAST, 1)
    assert mlflow.active_run() is None
    assert not list(empty.iterdir())
    assert os.environ["MLFLOW_DISABLE_TELEMETRY"] == "true"


def test_a_large_fleet_is_one_version_published_in_seconds(registry: Registry, publication, tmp_path: Path) -> None:
    jobs = [f"job-{n:04d}" for n in range(2000)]
    fleet = pd.DataFrame({"job": jobs, "family": "linear", "state": '{"tail": [1.0, 2.0]}', "wape": 0.1})
    candidates = [Candidate("linear", fleet[["job", "wape"]])]
    began = time.process_time()
    registry.publish(publication(fleet=Fleet(fleet), candidates=candidates))
    assert time.process_time() - began < 20  # one version per job took 12 minutes per 5,000
    assert len(read_fleet(registry.download(FORECAST, 1, tmp_path / "1.parquet"))) == 2000


def test_a_model_that_jobs_share_is_registered_once(registry: Registry, client, publication, tmp_path: Path) -> None:
    booster = to_text({"trees": list(range(1000))})
    state = to_text({"family": "global-trees", "shared": name_of(booster)})
    jobs = pd.DataFrame({"job": [f"job-{n}" for n in range(50)], "family": "global-trees", "state": state})
    wanted = publication(fleet=Fleet(jobs, {name_of(booster): booster}), candidates=[Candidate("global-trees", jobs)])
    published = registry.publish(wanted)
    version = client.get_model_version(FORECAST, str(published.version))
    assert version.tags["perdix.shared_models"] == "1"
    assert version.description == "50 jobs: global-trees 50; 1 model shared"
    fleet = read_fleet(registry.download(FORECAST, published.version, tmp_path / "1.parquet"))
    assert fleet.shared == {name_of(booster): booster}
    assert len(fleet) == 50


# Two copies of a process that has imported MLflow (seconds) and opened nothing.
AT_ONCE = """
import os, sys
from pathlib import Path
from perdix.models.registry import FORECAST, prepare, tracking
from perdix.settings.home import Home
tracking.quiet_environment()
import mlflow.store.tracking.sqlalchemy_store, mlflow.tracking
child = os.fork()
os.write(1, f"{prepare(Home(Path(sys.argv[1]))).current_version(FORECAST)}\\n".encode())
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) if child else 0)
"""


@pytest.mark.slow
def test_processes_that_start_at_once_make_one_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    command = [sys.executable, "-W", "ignore", "-c", AT_ONCE, str(tmp_path / "home")]
    ended = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=180, check=False)
    assert (ended.returncode, ended.stdout.split()) == (0, ["None", "None"]), ended.stderr


def test_who_reads_does_not_wait_for_who_writes(registry: Registry, publication) -> None:
    registry.publish(publication())
    database = tracking.sqlite_file(registry.tracking_uri)
    with closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")  # as a training that is just writing does
        other.execute("UPDATE registered_models SET description = 'a'")
        began_s = time.monotonic()
        assert registry.current_version(FORECAST, "challenger") is not None
        assert time.monotonic() - began_s < 5


def test_the_list_of_runs_opens_with_the_metrics_that_decide(registry: Registry, client, publication) -> None:
    published = registry.publish(publication())
    experiment = client.get_experiment_by_name(FORECAST)
    (view,) = [value for key, value in experiment.tags.items() if key == "mlflow.sharedViewState.perdix"]
    columns = json.loads(view)["selectedColumns"]
    assert "metrics.`wape_median`" in columns
    assert registry.experiment_urls()[FORECAST].endswith("viewStateShareKey=perdix")
    logged = {
        f"metrics.`{name}`" for name in client.get_run(nested(client, published, "candidate")["linear"]).data.metrics
    }
    assert {column for column in columns if "wape_median" in column or "chosen" in column} <= logged
    registry.prepare()  # twice is harmless


def test_a_family_that_could_not_be_judged_says_why_on_its_run(registry: Registry, client, publication) -> None:
    failed = table_of(orders=0.08, clicks=0.12).assign(error=["needs two days", "needs two days"])
    some = table_of(orders=0.08, clicks=0.12).assign(error=["", "the history is constant"])
    fine = table_of(orders=0.1, clicks=0.2).assign(error=[None, float("nan")])
    two = table_of(orders=0.1, clicks=0.2).assign(error=["needs two days", "the history is constant"])
    tried = [Candidate("mstl", failed), Candidate("linear", some), Candidate("auto-arima", fine), Candidate("sum", two)]
    published = registry.publish(publication(candidates=tried))
    said = {
        name: client.get_run(run).data.tags.get("perdix.not_judged")
        for name, run in nested(client, published, "candidate").items()
    }
    assert said == {
        "mstl": "on 2 of 2 jobs: needs two days",
        "linear": "on 1 of 2 jobs: the history is constant",
        "auto-arima": None,
        "sum": "on 2 of 2 jobs: needs two days (1 other reason: jobs.json)",
    }


def test_a_reason_that_is_longer_than_mlflow_takes_is_cut(registry: Registry, client, publication) -> None:
    failed = table_of(orders=0.08).assign(error=["x" * 50_000])
    published = registry.publish(publication(candidates=[Candidate("mstl", failed)]))
    said = client.get_run(nested(client, published, "candidate")["mstl"]).data.tags["perdix.not_judged"]
    assert said.startswith("on 1 of 1 job: xxx")
    assert len(said) < 1_000

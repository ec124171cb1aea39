"""The champions' cache against a registry that fails in every way, and one real round through MLflow."""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import pandas as pd
import pytest

from perdix.control.champions import Champions, write_whole
from perdix.models.registry import FLEET_MODELS, FORECAST, FleetVersion, Registry, RegistryUnavailable
from perdix.models.registry.fleet_table import Fleet, checked_fleet, merge_rows, name_of, read_fleet, write_fleet


@dataclass
class Shelf:
    """A registry on disk whose failures a test chooses."""

    folder: Path
    version: int | None = None
    down: bool = False
    lookups: int = 0
    downloads: list[int] = field(default_factory=list)

    def publish(
        self, version: int, state: str = '{"a": 1}', job: str = "orders", shared: dict[str, str] | None = None
    ) -> None:
        fleet = pd.DataFrame({"job": [job], "family": ["linear"], "state": [state]})
        write_fleet(Fleet(fleet, shared or {}), self.path(version))
        self.version = version

    def path(self, version: int) -> Path:
        return self.folder / f"shelf-{version}.parquet"

    def current_version(self, name: str, alias: str = "champion") -> FleetVersion | None:
        self.lookups += 1
        if self.down:
            raise RegistryUnavailable("MLflow does not answer")
        if self.version is None or name != FORECAST:
            return None
        digest = hashlib.sha256(self.path(self.version).read_bytes()).hexdigest()
        return FleetVersion(name, self.version, digest, "run")

    def download(self, name: str, version: int, to: Path) -> Path:
        self.downloads.append(version)
        write_whole(to, self.path(version).read_bytes())
        return to


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    (tmp_path / "shelf").mkdir()
    return Shelf(tmp_path / "shelf")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "champions"


def test_a_version_is_fetched_once_and_then_served_from_memory(shelf: Shelf, folder: Path) -> None:
    shelf.publish(3)
    champions = Champions(folder, shelf)
    for minute in range(5):
        assert champions.refresh(60.0 * minute) == ()
    fleet = champions.fleet(FORECAST)
    assert (fleet.version, fleet.rows["orders"].family, fleet.rows["orders"].state) == (3, "linear", '{"a": 1}')
    assert shelf.downloads == [3]
    assert (folder / FORECAST / "3.parquet").exists()


def test_a_new_version_is_picked_up_without_a_restart(shelf: Shelf, folder: Path) -> None:
    shelf.publish(1)
    champions = Champions(folder, shelf)
    champions.refresh(0.0)
    shelf.publish(2, state='{"a": 2}')
    champions.refresh(60.0)
    assert champions.fleet(FORECAST).version == 2
    shelf.version = 1  # an operator goes back: no second download
    champions.refresh(120.0)
    assert champions.fleet(FORECAST).version == 1
    assert shelf.downloads == [1, 2]


def test_tables_that_nobody_uses_are_removed(shelf: Shelf, folder: Path) -> None:
    champions = Champions(folder, shelf)
    for version in range(1, 31):
        shelf.publish(version)
        champions.refresh(60.0 * version)
    shelf.version = 3
    champions.refresh(3_600.0)
    kept = {int(path.stem) for path in (folder / FORECAST).glob("*.parquet")}
    assert kept == {3, *range(21, 31)}
    assert champions.fleet(FORECAST).version == 3


@pytest.mark.parametrize("restarted", [False, True])
def test_a_version_of_the_same_number_from_another_registry_is_fetched(
    shelf: Shelf, folder: Path, restarted: bool
) -> None:
    """Whoever makes MLflow's database anew, or turns to another server, begins to count at one again."""
    shelf.publish(1)
    champions = Champions(folder, shelf)
    champions.refresh(0.0)
    shelf.publish(1, state='{"a": 2}')
    champions = Champions(folder, shelf) if restarted else champions
    assert champions.refresh(60.0) == ()
    assert champions.fleet(FORECAST).rows["orders"].state == '{"a": 2}'
    assert Champions(folder, None).fleet(FORECAST).rows["orders"].state == '{"a": 2}'
    champions.refresh(120.0)
    assert shelf.downloads == [1, 1]


def test_when_mlflow_is_down_the_last_good_version_stays_also_after_a_restart(shelf: Shelf, folder: Path) -> None:
    shelf.publish(1)
    Champions(folder, shelf).refresh(0.0)
    shelf.down = True
    for champions in (Champions(folder, shelf), Champions(folder, None)):
        notes = champions.refresh(60.0)
        assert champions.fleet(FORECAST).version == 1
    assert notes == ()
    notes = Champions(folder, shelf).refresh(60.0)
    assert "version 1 stays in use" in notes[0]


def test_a_dead_mlflow_is_not_asked_every_minute(shelf: Shelf, folder: Path) -> None:
    shelf.down = True
    champions = Champions(folder, shelf)
    for minute in range(60):
        notes = champions.refresh(60.0 * minute)
        assert "no champion: fallback" in notes[0]
    assert shelf.lookups <= 3 * 10  # three fleet models, with pauses that double up to a quarter of an hour
    shelf.down = False
    shelf.publish(1)
    champions.refresh(60.0 * 90)
    assert champions.fleet(FORECAST).version == 1


def test_a_server_that_does_not_answer_is_asked_for_one_model_only(shelf: Shelf, folder: Path) -> None:
    """Each question of one that hangs takes twenty seconds, in which no job is served."""
    shelf.down = True
    champions = Champions(folder, shelf)
    for minute in range(60):
        asked = shelf.lookups
        (note,) = champions.refresh(60.0 * minute)
        assert all(f"{name}: no champion: fallback" in note for name in FLEET_MODELS), "each is reported"
        assert shelf.lookups - asked <= 1


def test_a_clock_that_was_ahead_for_a_failure_does_not_keep_it_from_asking_again(shelf: Shelf, folder: Path) -> None:
    shelf.publish(1)
    shelf.down = True
    champions = Champions(folder, shelf)
    champions.refresh(86_400.0)
    shelf.down = False
    assert champions.refresh(60.0) == ()
    assert champions.fleet(FORECAST).version == 1


def test_a_broken_download_keeps_the_last_good_version(shelf: Shelf, folder: Path) -> None:
    shelf.publish(1)
    champions = Champions(folder, shelf)
    champions.refresh(0.0)
    shelf.publish(2)
    good = shelf.download

    def torn(name: str, version: int, to: Path) -> Path:
        good(name, version, to)
        to.write_bytes(to.read_bytes()[:-20])
        return to

    shelf.download = torn  # type: ignore[method-assign]
    notes = champions.refresh(60.0)
    assert "SHA-256" in notes[0]
    assert "version 1 stays in use" in notes[0]
    assert champions.fleet(FORECAST).version == 1
    shelf.download = good  # type: ignore[method-assign]
    assert champions.refresh(1_000.0) == ()
    assert champions.fleet(FORECAST).version == 2


@pytest.mark.parametrize(
    "spoil", [lambda file: file.write_bytes(b"<html>"), lambda file: file.unlink()], ids=["not Parquet", "gone"]
)
def test_a_spoilt_cache_file_is_fetched_again(shelf: Shelf, folder: Path, spoil) -> None:
    shelf.publish(1)
    Champions(folder, shelf).refresh(0.0)
    spoil(folder / FORECAST / "1.parquet")
    offline = Champions(folder, None)
    assert offline.fleet(FORECAST).version == 0
    assert "cannot be used" in offline.refresh(0.0)[0] if (folder / FORECAST / "1.parquet").exists() else True
    champions = Champions(folder, shelf)
    assert champions.refresh(0.0) == ()
    assert champions.fleet(FORECAST).version == 1


def test_a_table_without_the_columns_is_refused(shelf: Shelf, folder: Path) -> None:
    shelf.publish(1)
    pd.DataFrame({"job": ["orders"]}).to_parquet(shelf.path(2))
    champions = Champions(folder, shelf)
    champions.refresh(0.0)
    shelf.version = 2
    notes = champions.refresh(60.0)
    assert "column family, state is missing" in notes[0]
    assert champions.fleet(FORECAST).version == 1


def test_an_alias_that_was_taken_away_means_no_champion_and_says_so_for_sure(shelf: Shelf, folder: Path) -> None:
    shelf.publish(1)
    champions = Champions(folder, shelf)
    champions.refresh(0.0)
    shelf.version = None
    champions.refresh(60.0)
    assert champions.fleet(FORECAST).version == 0
    assert champions.fleet(FORECAST).known
    assert Champions(folder, None).fleet(FORECAST).version == 0
    assert not Champions(folder, None).fleet(FORECAST).known


def test_a_page_that_a_proxy_does_not_find_takes_no_champion_away(
    shelf: Shelf, folder: Path, proxy_without_mlflow: str
) -> None:
    shelf.publish(1)
    Champions(folder, shelf).refresh(0.0)
    champions = Champions(folder, Registry(proxy_without_mlflow, folder))
    notes = champions.refresh(60.0)
    assert "404 page not found" in notes[0]
    assert "version 1 stays in use" in notes[0]
    assert champions.fleet(FORECAST).version == 1
    assert Champions(folder, None).fleet(FORECAST).version == 1


def test_a_database_that_is_away_takes_no_champion_away(shelf: Shelf, folder: Path, tmp_path: Path) -> None:
    """A disk that is not mounted, or a shell that lacks the controller's MLFLOW_TRACKING_URI."""
    shelf.publish(1)
    Champions(folder, shelf).refresh(0.0)
    away = Registry(f"sqlite:///{tmp_path / 'mlflow.db'}", tmp_path)
    for _ in range(2):
        champions = Champions(folder, away)
        (note,) = champions.refresh(60.0)
        assert f"{tmp_path / 'mlflow.db'} is not there" in note
        assert f"{FORECAST}: version 1 stays in use" in note
        assert champions.fleet(FORECAST).version == 1


def test_a_damaged_champion_is_not_forgotten_while_the_database_is_away(
    shelf: Shelf, folder: Path, tmp_path: Path
) -> None:
    shelf.publish(1)
    Champions(folder, shelf).refresh(0.0)
    (folder / FORECAST / "1.parquet").write_bytes(b"half a table")
    champions = Champions(folder, Registry(f"sqlite:///{tmp_path / 'mlflow.db'}", tmp_path))
    (note,) = champions.refresh(60.0)
    assert f"{tmp_path / 'mlflow.db'} is not there" in note
    assert f"{FORECAST}: no champion: fallback" in note
    assert not champions.fleet(FORECAST).known
    Champions(folder, shelf).refresh(120.0)
    assert Champions(folder, None).fleet(FORECAST).version == 1


def test_before_the_first_training_there_is_no_database_and_nothing_is_wrong(folder: Path, tmp_path: Path) -> None:
    champions = Champions(folder, Registry(f"sqlite:///{tmp_path / 'mlflow.db'}", tmp_path))
    assert champions.refresh(0.0) == ()
    assert all(champions.fleet(name).known for name in FLEET_MODELS)


def test_files_appear_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "beat.json"
    write_whole(file, b"first")

    def full(*_args: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="no space"):
        write_whole(file, b"second")
    assert file.read_bytes() == b"first"
    assert [file.name for file in tmp_path.iterdir()] == ["beat.json"]


def test_nothing_is_unpickled(shelf: Shelf, folder: Path) -> None:
    """A state is text; a row that holds a pickle is text, too, and no forecaster accepts it."""
    shelf.publish(1, state=orjson.dumps({"family": "linear", "pickle": "gASVCAAAAAAAAACMBHRlc3SULg=="}).decode())
    champions = Champions(folder, shelf)
    champions.refresh(0.0)
    assert isinstance(champions.fleet(FORECAST).rows["orders"].state, str)


def test_models_that_rows_share_are_read_once_beside_them(shelf: Shelf, folder: Path) -> None:
    booster = '{"trees":[1,2]}'
    shelf.publish(1, state=f'{{"shared":"{name_of(booster)}"}}', shared={name_of(booster): booster})
    champions = Champions(folder, shelf)
    champions.refresh(0.0)
    fleet = champions.fleet(FORECAST)
    assert list(fleet.rows) == ["orders"]
    assert fleet.shared == {name_of(booster): {"trees": [1, 2]}}


def test_a_row_that_a_newer_version_carries_over_keeps_its_own(shelf: Shelf, folder: Path) -> None:
    """So a retraining of one job of a thousand is no reason to take the others in anew."""
    shelf.publish(1)
    retrained = pd.DataFrame({"job": ["clicks"], "family": ["linear"], "state": ["{}"], "verdict": ["promote"]})
    write_fleet(checked_fleet(merge_rows(read_fleet(shelf.path(1), 1), retrained)), shelf.path(2))
    shelf.version = 2
    champions = Champions(folder, shelf)
    champions.refresh(0.0)
    fleet = champions.fleet(FORECAST)
    assert (fleet.version, fleet.rows["orders"].version, fleet.rows["clicks"].version) == (2, 1, 2)

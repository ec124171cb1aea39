"""Nobody but its owner reads what perdix knows of a company's systems, also where an earlier perdix made the files."""

import os
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from perdix.control.publish.standing import PublishedState
from perdix.control.state.journal import JobStatus, Status, Tick
from perdix.control.state.schema import StateError
from perdix.control.state.store import StateStore
from perdix.settings.home import Home


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def files_of(home: Home) -> dict[str, int]:
    return {path.name: mode(path) for path in home.root.glob("state.db*")}


def write(store: StateStore) -> None:
    store.journal.record_tick(Tick(60.0, 61.0, "a"), [JobStatus("ads", Status.ACTING, 60.0)])


def test_a_new_home_and_its_state_are_their_owners_alone(tmp_path: Path) -> None:
    home = Home(tmp_path / "home").make()
    with closing(StateStore(home.state_url)) as store:
        write(store)
        assert files_of(home) == {"state.db": 0o600, "state.db-wal": 0o600, "state.db-shm": 0o600}
    assert mode(home.root) == 0o700


def test_a_home_that_an_earlier_perdix_left_open_is_closed_to_others(tmp_path: Path) -> None:
    home = Home(tmp_path / "home").make()
    with closing(StateStore(home.state_url)) as store:
        write(store)
        for path in home.root.glob("state.db*"):
            path.chmod(0o644)
        home.root.chmod(0o755)
        with closing(StateStore(Home(home.root).make().state_url)) as again:
            write(again)
            assert files_of(home) == {"state.db": 0o600, "state.db-wal": 0o600, "state.db-shm": 0o600}
    assert mode(home.root) == 0o700


def test_a_state_store_elsewhere_is_closed_and_the_folder_that_it_lies_in_is_not_ours(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir(mode=0o755)
    (folder / "perdix.db").touch(mode=0o664)
    with closing(StateStore(f"sqlite:///{folder / 'perdix.db'}")):
        assert mode(folder / "perdix.db") == 0o600
    assert mode(folder) == 0o755


@pytest.mark.parametrize(
    "which", ["shared by all", "the working folder", "the user's home", "above the working folder"]
)
def test_a_folder_that_holds_more_than_perdix_is_left_as_it_is(
    which: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "place"
    folder.mkdir()
    folder.chmod(0o1777 if which == "shared by all" else 0o755)
    if which == "the working folder":
        monkeypatch.chdir(folder)
    elif which == "the user's home":
        monkeypatch.setenv("HOME", str(folder))
    elif which == "above the working folder":
        (folder / "project").mkdir()
        monkeypatch.chdir(folder / "project")
    before = mode(folder)
    Home(folder).make()
    assert mode(folder) == before


@pytest.mark.parametrize(
    "url", ["postgresql://me:s3cret@db:s3port/perdix", "postgresql:/me:s3cret@db", "nodb://me:s3cret@db/x"]
)
def test_a_store_that_cannot_be_named_is_told_without_its_password(url: str) -> None:
    for opening in (StateStore, PublishedState):
        if opening is PublishedState and url.startswith("nodb"):
            continue  # opened with the first read
        with pytest.raises(StateError) as error:
            opening(url)
        assert "PERDIX_STATE_URL" in str(error.value)
        assert "s3" not in str(error.value)

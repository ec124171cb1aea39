"""What ``perdix demo`` forgets of an earlier demo, and that it touches nothing that is not its own."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from perdix.cli.demo.run import clear_ground
from perdix.cli.dev import say_lives
from perdix.cli.output import UserError
from perdix.cli.twin_jobs import write_twin_jobs
from perdix.control.clock import Moment
from perdix.control.job_files import stream_jobs
from perdix.control.lease import acquire
from perdix.control.state.journal import JobStatus, Status, Tick
from perdix.control.state.store import StateStore
from perdix.settings.home import PROJECT, Home

NAMES = ["ads", "traffic", "wordcount"]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("PERDIX_CONF", str(tmp_path / "conf"))
    (tmp_path / "conf" / "jobs").mkdir(parents=True)
    for folder in ("twins", "operators"):
        (tmp_path / "conf" / folder).symlink_to(PROJECT / "conf" / folder)
    return Home(tmp_path / "home").make()


@pytest.fixture
def open_store() -> Iterator[Callable[[str], StateStore]]:
    opened: list[StateStore] = []

    def opening(url: str) -> StateStore:
        opened.append(StateStore(url))
        return opened[-1]

    yield opening
    for store in opened:
        store.close()


def remember(store: StateStore, *jobs: str) -> None:
    statuses = [JobStatus(job, Status.ACTING, 60.0, "holds") for job in jobs]
    store.journal.record_tick(Tick(60.0, 61.0, "demo"), statuses)


def test_a_second_demo_forgets_the_first_and_leaves_every_other_job_as_it_is(
    place: Home, open_store: Callable[[str], StateStore]
) -> None:
    store = open_store(place.state_url)
    clear_ground(place, store, NAMES)
    write_twin_jobs(place, "http://127.0.0.1:9", mode="act")
    remember(store, "ads", "orders")
    store.journal.pause("orders", 900.0, 60.0, "load test")
    clear_ground(place, store, NAMES)
    assert set(store.journal.statuses()) == {"orders"}
    assert set(store.journal.pauses(100.0)) == {"orders"}


def test_tokens_of_leases_never_start_again(place: Home, open_store: Callable[[str], StateStore]) -> None:
    store = open_store(place.state_url)
    clear_ground(place, store, NAMES)
    first = acquire(store, "job:ads", "demo", Moment(1_700_000_000.0, 0.0, "boot"), 10.0)
    clear_ground(place, store, NAMES)
    again = acquire(store, "job:ads", "demo", Moment(1_700_000_020.0, 20.0, "boot"), 10.0)
    assert first is not None
    assert again is not None
    assert again.token > first.token


def test_files_beside_the_state_store_are_not_the_demos(
    place: Home, open_store: Callable[[str], StateStore], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    notes = tmp_path / "perdix-notes.txt"
    notes.write_text("mine", encoding="utf-8")
    store = open_store("sqlite:///perdix")
    remember(store)
    clear_ground(place, store, NAMES)
    assert notes.read_text(encoding="utf-8") == "mine"
    assert len(store.journal.ticks()) == 1


def test_a_job_of_the_same_name_that_no_demo_made_stops_the_demo_before_it_changes_anything(
    place: Home, open_store: Callable[[str], StateStore], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDIX_STATE_URL", f"sqlite:///{tmp_path / 'shared.db'}")
    store = open_store(place.state_url)
    remember(store, "ads")
    with pytest.raises(UserError, match=r"job 'ads' in sqlite://.*PERDIX_HOME=.*without PERDIX_STATE_URL"):
        clear_ground(place, store, NAMES)
    assert set(store.journal.statuses()) == {"ads"}
    assert not place.jobs.exists()


@pytest.mark.parametrize("where", ["conf/jobs/ads.yaml", "home/jobs/ads.yaml", "home/landing/ads/export.csv"])
def test_files_of_the_same_name_stop_it_too(
    where: str, place: Home, open_store: Callable[[str], StateStore], tmp_path: Path
) -> None:
    path = tmp_path / where
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("mode: act\n", encoding="utf-8")
    with pytest.raises(UserError, match="ads"):
        clear_ground(place, open_store(place.state_url), NAMES)
    assert path.read_text(encoding="utf-8") == "mode: act\n"


def test_a_demo_that_was_interrupted_knows_its_own_again(place: Home, open_store: Callable[[str], StateStore]) -> None:
    store = open_store(place.state_url)
    clear_ground(place, store, NAMES)
    (place.landing / "ads").mkdir(parents=True)
    clear_ground(place, store, NAMES)
    remember(store, "ads")
    clear_ground(place, store, NAMES)
    assert not store.journal.statuses()


def test_job_files_of_twins_never_replace_a_file_that_somebody_wrote(place: Home) -> None:
    place.jobs.mkdir(parents=True)
    (place.jobs / "ads.yaml").write_text("mode: act\n", encoding="utf-8")
    with pytest.raises(UserError, match="is not of a twin"):
        write_twin_jobs(place, "http://127.0.0.1:9", mode="act")


def test_dev_says_which_twins_a_job_file_of_the_operator_stands_before(
    place: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "conf" / "jobs" / "ads.yaml"
    say_lives(write_twin_jobs(place, "http://127.0.0.1:9", mode="act"), "http://127.0.0.1:9")
    assert "counts" not in capsys.readouterr().out
    own.write_text("mode: advise\n", encoding="utf-8")
    say_lives(write_twin_jobs(place, "http://127.0.0.1:9", mode="act"), "http://127.0.0.1:9")
    assert f"ads: {own} counts, not its twin" in capsys.readouterr().out.replace("\n", "")
    assert stream_jobs(place).jobs["ads"].mode == "advise"

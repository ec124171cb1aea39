"""A full disk, a store that takes no writes, a heartbeat that cannot be written: the loop says so and lives on."""

import shutil
import sqlite3
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
import sqlalchemy as sa

from perdix.control.controller import run
from perdix.control.fleet import tick_fleet
from perdix.control.fleet_report import FleetReport, LoopFault
from perdix.control.job_files import FollowedFiles, JobFiles
from perdix.control.publish.metrics import PublishedCollector
from perdix.control.publish.standing import PublishedState
from perdix.control.state.journal import JobStatus, Status, Tick
from perdix.control.state.store import StateStore
from perdix.settings.stream_job import StreamJob
from perdix.targets.contract import TargetError
from perdix.twin.living import SimulatedClock
from tests.control.rig import HIGH, LOW, Rig, applied

ODD = "half a pair \ud800, markup [/], \x1b[2J, NUL \x00"


@pytest.fixture
def store(tmp_path: Path):
    opened = StateStore(f"sqlite:///{tmp_path / 'state.db'}")
    yield opened
    opened.close()


@pytest.fixture
def rig(store: StateStore) -> Rig:
    return Rig.of(store, HIGH, scale_out=2)


def minute(rig: Rig, heartbeat: Path | None = None) -> FleetReport:
    rig.twin.step(60)
    return tick_fleet([rig.job], rig.io, SimulatedClock(rig.now_s), holder="a", heartbeat=heartbeat)


class FullDisk:
    """Lets SQLite's file grow no further: its writes then fail as they do on a full disk."""

    def __init__(self, store: StateStore) -> None:
        self._engine = store.database._engine

    def __enter__(self) -> "FullDisk":
        sa.event.listen(self._engine, "checkout", _grow_no_more)
        for size in (2_000, 200, 20, 1):  # what is left in the pages that there are
            learned = "learned (job, kind, schema_number, document, learned_s)"
            self._fill(f"{learned} VALUES (hex(randomblob(8)), 'fill', 1, hex(zeroblob(:size)), 0)", size)
            self._fill("ticks VALUES (random(), 'fill', 0, hex(zeroblob(:size)))", size)
        return self

    def __exit__(self, *_: object) -> None:
        sa.event.remove(self._engine, "checkout", _grow_no_more)
        with self._engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA max_page_count = 1000000")
            connection.execute(sa.text("DELETE FROM ticks WHERE holder = 'fill'"))

    def _fill(self, row: str, size: int) -> None:
        with suppress(sa.exc.OperationalError):
            while True:
                with self._engine.begin() as connection:
                    connection.execute(sa.text(f"INSERT INTO {row}"), {"size": size})


def _grow_no_more(connection: sqlite3.Connection, *_: object) -> None:
    connection.execute("PRAGMA max_page_count = 1")  # SQLite takes the present size in place of less


def test_on_a_full_disk_nothing_is_scaled_and_each_tick_says_so_and_room_heals_it(store: StateStore, rig: Rig) -> None:
    with FullDisk(store):
        for _ in range(3):
            report = minute(rig)
            assert report.others["orders"].status is Status.BROKEN
            assert "database or disk is full" in report.others["orders"].sentence
            assert "INSERT" not in report.others["orders"].sentence
            assert LoopFault.JOURNAL in report.faults
            assert "FAILED: journal" in report.sentence()
        assert rig.target.asked == []
    healed = minute(rig)
    assert healed.faults == ()
    assert len(applied(rig)) == 1


def test_a_store_that_may_only_be_read_stops_nothing_but_the_writing(store: StateStore, rig: Rig) -> None:
    engine = store.database._engine
    sa.event.listen(engine, "checkout", _read_only)
    report = minute(rig)
    assert "readonly" in report.others["orders"].sentence
    assert report.faults == (LoopFault.JOURNAL,)
    sa.event.remove(engine, "checkout", _read_only)
    with closing(engine.raw_connection()) as connection:
        connection.cursor().execute("PRAGMA query_only = 0")
    assert minute(rig).faults == ()


def _read_only(connection: sqlite3.Connection, *_: object) -> None:
    connection.execute("PRAGMA query_only = 1")


@pytest.mark.parametrize("obstacle", ["a folder in its place", "no folder for it", "a full device"])
def test_a_heartbeat_that_cannot_be_written_is_told_and_every_job_served(
    tmp_path: Path, rig: Rig, obstacle: str
) -> None:
    heartbeat = tmp_path / "beats" / "heartbeat.json"
    if obstacle == "a folder in its place":
        heartbeat.mkdir(parents=True)
    elif obstacle == "no folder for it":
        heartbeat.parent.write_text("", encoding="utf-8")
    else:
        heartbeat = Path("/proc/self/heartbeat.json")  # takes no file, whoever asks
    report = minute(rig, heartbeat)
    assert report.faults == (LoopFault.HEARTBEAT,)
    assert f"the heartbeat {heartbeat} cannot be written" in report.notes[0]
    assert "orders" in report.reports
    assert not list(tmp_path.glob("beats/.heartbeat*"))


def test_the_heartbeat_comes_back_with_its_place(tmp_path: Path, rig: Rig) -> None:
    heartbeat = tmp_path / "heartbeat.json"
    heartbeat.mkdir()
    assert minute(rig, heartbeat).faults == (LoopFault.HEARTBEAT,)
    heartbeat.rmdir()
    assert minute(rig, heartbeat).faults == ()
    assert orjson.loads(heartbeat.read_bytes())["faults"] == []


def test_champions_that_cannot_be_looked_for_cost_no_tick(rig: Rig) -> None:
    class Defective:
        def __getattr__(self, name: str):
            return getattr(rig.champions, name)

        def refresh(self, now_s: float):
            raise RecursionError("a defect")

    rig.twin.step(60)
    io = type(rig.io)(rig.source, rig.store, Defective(), lambda _: rig.target)
    report = tick_fleet([rig.job], io, SimulatedClock(rig.now_s), holder="a")
    assert report.faults == (LoopFault.CHAMPIONS,)
    assert "orders" in report.reports


@pytest.mark.parametrize("claimed", [False, True])
def test_jobs_that_cannot_be_read_together_are_served_one_after_the_other(
    store: StateStore, rig: Rig, *, claimed: bool
) -> None:
    class Defective:
        def served(self, batches: Iterable[list[StreamJob]], *_: object) -> Iterator[None]:
            if claimed:
                assert list(batches) == [[rig.job]]
            raise RecursionError("a defect")
            yield

    rig.twin.step(60)
    io = replace(rig.io, ahead=Defective())
    report = tick_fleet([rig.job], io, SimulatedClock(rig.now_s), holder="a")
    assert report.faults == (LoopFault.READ_AHEAD,)
    assert "orders" in report.reports


def test_the_controller_goes_on_through_every_fault(tmp_path: Path, store: StateStore, rig: Rig) -> None:
    heartbeat = tmp_path / "heartbeat.json"
    heartbeat.mkdir()
    files = JobFiles(jobs={"orders": rig.job}, faults={"bad": ODD}, problems=(ODD,))
    clock = SimulatedClock(rig.now_s)

    class Waits:
        def wait(self, timeout: float) -> bool:
            clock.advance(timeout)
            rig.twin.step(round(timeout))
            return False

    with FullDisk(store):
        reports = list(run(lambda: files, rig.io, clock, holder="a", stop=Waits(), ticks=3, heartbeat=heartbeat))
    assert [report.faults for report in reports] == [(LoopFault.JOB_FILES, LoopFault.JOURNAL, LoopFault.HEARTBEAT)] * 3


def test_faults_are_counted_for_prometheus(tmp_path: Path, store: StateStore) -> None:
    url = store.database.url.render_as_string(hide_password=False)
    collector = PublishedCollector(PublishedState(url), FollowedFiles((tmp_path,)), SimulatedClock(0.0))
    collector.note((LoopFault.JOURNAL, LoopFault.HEARTBEAT))
    collector.note((LoopFault.HEARTBEAT,))
    counted = {
        sample.labels["what"]: sample.value
        for family in collector.collect()
        for sample in family.samples
        if sample.name == "perdix_loop_faults_total"
    }
    assert counted == {
        "champions": 0, "job_files": 0, "read_ahead": 0, "journal": 1, "heartbeat": 2, "process": 0
    }  # fmt: skip


def test_odd_text_in_a_targets_error_is_stored_and_stops_nobody(store: StateStore, rig: Rig) -> None:
    rig.target.refusing = TargetError(ODD)
    report = minute(rig)
    assert report.faults == ()
    assert r"half a pair \ud800, markup [/], \x1b[2J" in store.journal.statuses()["orders"].sentence
    assert r"half a pair \ud800" in str(store.ledger.decisions("orders")[0].error)


def test_odd_text_in_any_error_of_one_job_is_stored(store: StateStore, rig: Rig) -> None:
    rig.source.change = lambda window: (_ for _ in ()).throw(RuntimeError(ODD)).__next__()
    report = minute(rig)
    assert report.faults == ()
    assert r"RuntimeError: half a pair \ud800" in store.journal.statuses()["orders"].sentence


def test_the_store_takes_every_text_and_keeps_what_is_plain(store: StateStore) -> None:
    status = JobStatus("ads", Status.BROKEN, 60.0, ODD, {"notes": [ODD], ODD: 1})
    store.journal.record_tick(Tick(60.0, 61.0, "demo", {"notes": [ODD]}), [status])
    store.journal.pause("ads", 900.0, 60.0, ODD)
    store.journal.request_retrain("ads", 60.0, ODD)
    kept = store.journal.statuses()["ads"]
    assert kept.sentence == "half a pair \\ud800, markup [/], \x1b[2J, NUL \\x00"
    assert kept.details["notes"] == [kept.sentence]
    assert store.journal.pauses(60.0)["ads"].why == kept.sentence
    assert [request.reason for request in store.journal.open_retrains()] == [kept.sentence]


def test_a_job_of_low_load_goes_on_beside_one_whose_error_is_odd(store: StateStore) -> None:
    rigs = {"good": Rig.of(store, LOW), "bad": Rig.of(store, LOW)}
    for name, rig_of in rigs.items():
        rig_of.job = rig_of.job.model_copy(update={"name": name})
    rigs["bad"].target.unreadable = ODD
    good = rigs["good"]
    good.twin.step(60)
    io = type(good.io)(good.source, store, good.champions, lambda job: rigs[job.name].target)
    report = tick_fleet([member.job for member in rigs.values()], io, SimulatedClock(good.now_s), holder="a")
    assert report.faults == ()
    assert report.reports["bad"].status is Status.UNREACHABLE
    assert report.reports["good"].status is Status.ACTING


@pytest.fixture
def small_disk(tmp_path: Path):
    """A real file system of 900 kB."""
    place = tmp_path / "disk"
    place.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", "size=900k", "tmpfs", str(place)]
    if shutil.which("mount") is None or subprocess.run(mounting, capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount a file system")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_disk_that_is_really_full_ends_nothing_and_room_heals_all_of_it(small_disk: Path) -> None:
    store = StateStore(f"sqlite:///{small_disk / 'state.db'}")
    try:
        rig = Rig.of(store, HIGH, scale_out=2)
        fill = small_disk / "fill"
        with suppress(OSError), fill.open("wb") as stream:
            while True:
                stream.write(bytes(512))
                stream.flush()
        heartbeat = small_disk / "heartbeat.json"
        report = minute(rig, heartbeat)
        assert report.faults == (LoopFault.JOURNAL, LoopFault.HEARTBEAT)
        assert "full" in report.others["orders"].sentence
        assert rig.target.asked == []
        fill.unlink()
        assert minute(rig, heartbeat).faults == ()
        assert len(applied(rig)) == 1
    finally:
        store.close()

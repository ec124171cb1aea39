"""A store that cannot be read, as the published metrics show it: a scrape answers all the same."""

import contextlib
import hashlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from perdix.control.job_files import FollowedFiles
from perdix.control.publish.metrics import PublishedCollector
from perdix.control.publish.standing import PublishedState
from perdix.control.state.journal import JobStatus, Status, Tick
from perdix.control.state.schema import SCHEMA
from perdix.control.state.store import StateStore
from perdix.twin.living import SimulatedClock
from tests.control.published import NOW_S, a_status, an_intent, scrape, sqlite_url


class TestAStoreThatCannotBeRead:
    """A scrape answers all the same, writes nothing, and goes on to publish what it knew."""

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return tmp_path / "not yet, 100 %?" / "state.db"

    @pytest.fixture
    def collector(self, path: Path, tmp_path: Path) -> PublishedCollector:
        return PublishedCollector(
            PublishedState(sqlite_url(path)), FollowedFiles((tmp_path / "none",)), SimulatedClock(NOW_S + 1)
        )

    @pytest.fixture
    def filled(self, path: Path) -> Iterator[StateStore]:
        opened = StateStore(sqlite_url(path))
        an_intent(opened, NOW_S, "ads", 7)
        a_status(opened, NOW_S, "ads", scale_out=4)
        yield opened
        opened.close()

    def test_an_absent_store_is_told_and_not_made(self, collector: PublishedCollector, path: Path) -> None:
        seen = scrape(collector)
        assert (seen("up"), seen("scrape_errors_total", cause="absent")) == (0, 1)
        assert scrape(collector)("scrape_errors_total", cause="absent") == 2
        assert not path.parent.exists()
        assert "there is none yet" in collector.problem
        with contextlib.closing(StateStore(sqlite_url(path))):
            assert scrape(collector)("up") == 1
        assert collector.problem == ""

    def test_an_empty_file_is_no_store(self, collector: PublishedCollector, path: Path) -> None:
        path.parent.mkdir()
        path.touch()
        assert scrape(collector)("scrape_errors_total", cause="absent") == 1

    def test_a_file_that_is_no_database_is_told(self, collector: PublishedCollector, path: Path) -> None:
        path.parent.mkdir()
        path.write_text("<!doctype html>" * 100)
        assert scrape(collector)("scrape_errors_total", cause="other") == 1

    def test_a_locked_store_freezes_what_was_known(
        self, collector: PublishedCollector, path: Path, filled: StateStore
    ) -> None:
        assert scrape(collector)("desired_scale_out", stream_job="ads") == 7
        filled.close()
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("PRAGMA locking_mode = EXCLUSIVE")
            other.execute("BEGIN EXCLUSIVE")
            other.execute("UPDATE desired_scales SET scale_out = 1")
            seen = scrape(collector)
        assert (seen("up"), seen("scrape_errors_total", cause="locked")) == (0, 1)
        assert seen("scrape_duration_seconds") < 5.0
        assert seen("desired_scale_out", stream_job="ads") == 7
        assert seen("desired_timestamp_seconds", stream_job="ads") == NOW_S
        assert seen("state_read_timestamp_seconds") == NOW_S + 1
        assert scrape(collector)("up") == 1, "and it recovers by itself"

    def test_a_writer_keeps_no_scrape_waiting(self, collector: PublishedCollector, filled: StateStore) -> None:
        with filled.together() as once:
            once.journal.pause("ads", NOW_S + 60, NOW_S)
            assert scrape(collector)("up") == 1

    def test_another_schema_is_told(self, collector: PublishedCollector, filled: StateStore) -> None:
        with filled.database.writing() as connection:
            connection.execute(sa.text(f"UPDATE state_version SET number = {SCHEMA + 1}"))
        assert scrape(collector)("scrape_errors_total", cause="schema") == 1

    def test_a_scrape_writes_nothing(self, collector: PublishedCollector, path: Path, filled: StateStore) -> None:
        filled.close()
        with contextlib.closing(sqlite3.connect(path)) as other:
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        before = hashlib.sha256(path.read_bytes()).hexdigest()
        assert scrape(collector)("up") == 1
        assert hashlib.sha256(path.read_bytes()).hexdigest() == before
        wal = path.with_name("state.db-wal")
        assert not wal.exists() or wal.stat().st_size == 0

    def test_rows_of_an_older_perdix_are_published_as_far_as_they_go(
        self, collector: PublishedCollector, filled: StateStore
    ) -> None:
        old = {"event": "nothing", "scale_out": 4, "wanted": None, "wape": 0.2, "notes": [], "reason": "hold_good"}
        filled.journal.record_tick(Tick(NOW_S, NOW_S, "a"), [JobStatus("ads", Status.ACTING, NOW_S, "", old)])
        seen = scrape(collector)
        assert seen("current_scale_out", stream_job="ads") == 4
        assert seen("forecast_wape_ratio", stream_job="ads") == 0.2
        assert seen("capacity_records_per_second", stream_job="ads") is None

    def test_words_that_are_not_known_do_not_become_labels(
        self, collector: PublishedCollector, filled: StateStore
    ) -> None:
        a_status(filled, NOW_S, "ads", scale_out=4, reason="hold_by_moonlight")
        with filled.database.writing() as connection:
            connection.execute(sa.text("UPDATE statuses SET status = 'dreaming'"))
        seen = scrape(collector)
        assert seen.label("decision_info", "reason", "ads") == "other"
        assert seen.label("status_info", "status", "ads") == "other"

    def test_a_row_that_makes_no_sense_takes_no_other_job_with_it(
        self, collector: PublishedCollector, filled: StateStore
    ) -> None:
        an_intent(filled, NOW_S, "odd", 3)
        a_status(filled, NOW_S, "odd", scale_out="four", capacity=[1])
        seen = scrape(collector)
        assert seen("desired_scale_out", stream_job="ads") == 7
        assert seen("desired_scale_out", stream_job="odd") == 3
        assert seen("up") == 1
        assert seen("scrape_errors_total", cause="other") == 1

    def test_numbers_that_are_none_are_left_out(self, collector: PublishedCollector, filled: StateStore) -> None:
        a_status(filled, NOW_S, "ads", scale_out=None, failure_recovery_s=float("inf"), wape=float("nan"))
        seen = scrape(collector)
        for name in ("current_scale_out", "failure_recovery_seconds", "forecast_wape_ratio"):
            assert seen(name, stream_job="ads") is None

    def test_a_fleet_costs_as_many_queries_as_a_job(self, collector: PublishedCollector, filled: StateStore) -> None:
        def queries() -> int:
            count = 0

            def counted(*_: Any) -> None:
                nonlocal count
                count += 1

            sa.event.listen(sa.Engine, "before_cursor_execute", counted)
            try:
                assert scrape(collector)("up") == 1
            finally:
                sa.event.remove(sa.Engine, "before_cursor_execute", counted)
            return count

        one = queries()
        for number in range(30):
            an_intent(filled, NOW_S, f"job{number}", 3)
            a_status(filled, NOW_S, f"job{number}", scale_out=3)
        assert queries() == one

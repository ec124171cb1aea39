"""The store as a whole: opened by many at once, all or nothing, and what a crash leaves behind."""

import multiprocessing
import os
import signal
import sqlite3
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa

from perdix.control.clock import Moment
from perdix.control.lease import acquire
from perdix.control.state.journal import Tick
from perdix.control.state.learned import Kind
from perdix.control.state.ledger import Intent, State
from perdix.control.state.schema import StateError, decisions, state_version
from perdix.control.state.store import COPIED_AT_ONCE, Retention, StateStore, _Shared

NOW_S = 1_700_000_000.0
SPAWN = multiprocessing.get_context("spawn")
SEEN = Kind("seen")


def intent(scale_out: int = 5, window_end_s: float = NOW_S) -> Intent:
    return Intent(
        "wordcount", window_end_s, NOW_S, 3, scale_out, "daedalus", "scale_out", "why", NOW_S + 900, {"forecast": 1}, {}
    )


def open_and_record(url: str, number: int) -> None:
    store = StateStore(url)
    store.ledger.record(intent(window_end_s=float(number)))
    store.close()


def test_any_number_of_processes_may_open_an_empty_database_at_once(state_url: str) -> None:
    processes = [SPAWN.Process(target=open_and_record, args=(state_url, number)) for number in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    store = StateStore(state_url)
    assert len(store.ledger.decisions("wordcount")) == 3
    store.close()


def test_several_calls_share_a_transaction_that_only_reads(store: StateStore) -> None:
    with store.seen() as seen:
        assert seen.ledger.decisions("wordcount") == []
        store.ledger.record(intent())
        with pytest.raises(RuntimeError, match="only reads"):
            seen.ledger.record(intent())
    assert len(store.ledger.decisions("wordcount")) == 1


def test_many_threads_may_write_at_once(store: StateStore) -> None:
    with ThreadPoolExecutor(8) as pool:
        stored = list(pool.map(lambda number: store.ledger.record(intent(window_end_s=float(number % 20))), range(80)))
    assert sum(stored) == 20, "each decision is stored by exactly one of those that tried"
    states = [entry.state for entry in store.ledger.decisions("wordcount")]
    assert states.count(State.INTENT) == 1
    assert states.count(State.SUPERSEDED) == 19


def test_several_writes_happen_together_or_not_at_all(store: StateStore) -> None:
    def write_and_fail() -> None:
        with store.together() as once:
            assert once.ledger.record(intent())
            once.learned.learn("wordcount", NOW_S, {SEEN: {"windows": 1}})
            assert once.ledger.desired("wordcount") is not None, "what was written is read back inside"
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write_and_fail()
    assert store.ledger.desired("wordcount") is None
    assert store.learned.recall("wordcount", SEEN)["seen"].document is None
    with store.together() as once:
        assert once.ledger.record(intent())
        assert not once.ledger.record(intent())
        once.learned.learn("wordcount", NOW_S, {SEEN: {"windows": 1}})
    assert store.ledger.desired("wordcount") is not None


def test_a_part_that_fails_inside_is_undone_alone(store: StateStore) -> None:
    with store.together() as once:
        once.journal.pause("wordcount", NOW_S + 60, NOW_S)
        with pytest.raises(sa.exc.IntegrityError):
            once.ledger.record(Intent(**{**intent().__dict__, "sentence": None}))
    assert list(store.journal.pauses(NOW_S)) == ["wordcount"]
    assert store.ledger.desired("wordcount") is None, "the desired scale-out went with the decision that failed"
    assert store.ledger.decisions() == []


@pytest.mark.parametrize("ended_by", [KeyboardInterrupt, OSError])
def test_a_part_whose_connection_is_lost_fails_with_what_ended_it(ended_by: type[BaseException]) -> None:
    def interrupted(connection: sa.Connection) -> None:
        with _Shared(connection).writing():
            connection.invalidate()  # as SQLAlchemy does where a statement is interrupted, or the server has gone
            raise ended_by

    with pytest.raises(ended_by), sa.create_engine("sqlite://").connect() as connection, connection.begin():
        interrupted(connection)


def test_a_scratch_store_keeps_what_was_written_and_undoes_a_part_that_fails() -> None:
    store = StateStore.scratch()
    assert store.ledger.record(intent(scale_out=4))
    with pytest.raises(sa.exc.IntegrityError):
        store.ledger.record(Intent(**{**intent(window_end_s=1.0).__dict__, "sentence": None}))
    with store.together() as once:
        once.learned.learn("wordcount", NOW_S, {SEEN: {"windows": 1}})
    wanted = store.ledger.desired("wordcount")
    assert wanted is not None
    assert wanted.scale_out == 4
    assert store.learned.recall("wordcount", SEEN)["seen"].document == {"windows": 1}
    store.close()


def die_inside(url: str) -> None:
    store = StateStore(url)
    store.ledger.record(intent(scale_out=4, window_end_s=1.0))
    with store.together() as once:
        once.ledger.record(intent(scale_out=9, window_end_s=2.0))
        once.learned.learn("wordcount", NOW_S, {SEEN: {"windows": 2}})
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_controller_killed_in_the_middle_leaves_the_last_whole_truth(state_url: str) -> None:
    process = SPAWN.Process(target=die_inside, args=(state_url,))
    process.start()
    process.join(120)
    assert process.exitcode == -signal.SIGKILL
    store = StateStore(state_url)
    desired = store.ledger.desired("wordcount")
    assert desired is not None
    assert (desired.scale_out, desired.decision.state) == (4, State.INTENT)
    assert store.learned.recall("wordcount", SEEN)["seen"].document is None
    assert store.ledger.record(intent(scale_out=9, window_end_s=2.0)), "the repeated tick stores what was lost"
    assert not store.ledger.record(intent(scale_out=4, window_end_s=1.0)), "and what was kept it does not store again"
    store.close()


def test_a_database_of_a_newer_perdix_is_refused(store: StateStore, state_url: str) -> None:
    with store.database.writing() as connection:
        connection.execute(state_version.update().values(number=99))
    with pytest.raises(StateError, match="written with schema 99, this perdix knows 4"):
        StateStore(state_url)


def test_a_database_of_the_first_schema_is_taken_over_with_all_that_is_in_it(store: StateStore, state_url: str) -> None:
    store.ledger.record(intent(scale_out=4, window_end_s=1.0))
    with store.database.writing() as connection:
        connection.execute(sa.text("ALTER TABLE decisions DROP COLUMN mix"))
        connection.execute(sa.text("ALTER TABLE decisions DROP COLUMN from_mix"))
        for column in ("asked_token", "account", "ticks", "last_s"):
            connection.execute(sa.text(f"ALTER TABLE decisions DROP COLUMN {column}"))
        connection.execute(sa.text("ALTER TABLE learned DROP COLUMN packed"))
        connection.execute(sa.text("ALTER TABLE retrains DROP COLUMN since_s"))
        for column in ("boot", "deadline_s", "ttl_s", "renewals"):
            connection.execute(sa.text(f"ALTER TABLE leases DROP COLUMN {column}"))
        connection.execute(state_version.update().values(number=1))
    for _ in range(2):  # once taken over, nothing is left to do
        later = StateStore(state_url)
        desired = later.ledger.desired("wordcount")
        assert desired is not None
        assert (desired.scale_out, dict(desired.mix)) == (4, {})
        assert later.journal.drifts(1e12) == {}
        later.close()


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("not a url", "not a URL of a SQLite or PostgreSQL"),
        ("nosuchdialect://me:secret@host/db", "not a URL of a SQLite or PostgreSQL"),
        ("mysql://me:secret@host/db", "not a URL of a SQLite or PostgreSQL"),  # whether or not it has a driver
        ("sqlite:////proc/perdix/state.db", "/proc/perdix"),
        ("postgresql+nodriver://me:secret@host/db", "postgresql"),
    ],
)
def test_an_unusable_url_is_answered_with_a_mend_and_without_the_password(url: str, says: str) -> None:
    with pytest.raises(StateError) as caught:
        StateStore(url)
    assert says in str(caught.value)
    assert "PERDIX_STATE_URL" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    path.write_text("<html>not a database, and long enough to be taken for a header of one</html>" * 20)
    before = path.read_bytes()
    with pytest.raises(StateError, match="not a database"):
        StateStore(f"sqlite:///{path}")
    assert path.read_bytes() == before


def test_sqlite_is_opened_with_a_write_ahead_log(tmp_path: Path) -> None:
    store = StateStore(f"sqlite:///{tmp_path / 'state.db'}")
    store.close()
    connection = sqlite3.connect(tmp_path / "state.db")
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


def test_reading_goes_on_while_another_writes(store: StateStore) -> None:
    store.ledger.record(intent(scale_out=4))
    with store.together() as once:
        once.ledger.record(intent(scale_out=9, window_end_s=NOW_S + 60))
        desired = store.ledger.desired("wordcount")
        assert desired is not None
        assert desired.scale_out == 4


def test_pruning_bounds_the_store_and_keeps_what_is_desired(store: StateStore) -> None:
    day = 86_400.0
    for number in range(200):
        at_s = NOW_S + number * day
        store.ledger.record(Intent("w", at_s, at_s, 3, 3, "daedalus", "hold_good", "why", at_s, {}, {}))
        store.journal.record_tick(Tick(at_s, at_s, "h"), [])
    store.ledger.record(intent())
    now_s = NOW_S + 200 * day
    store.prune(now_s, Retention(decisions_s=30 * day, quiet_s=10 * day, journal_s=5 * day, ticks_s=5 * day))
    with store.database.reading() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(decisions)).scalar() == 10 + 1
    assert len(store.journal.ticks(limit=1_000)) == 5
    assert store.ledger.desired("wordcount") is not None
    assert (
        store.prune(now_s, Retention(decisions_s=30 * day, quiet_s=10 * day, journal_s=5 * day, ticks_s=5 * day)) == 0
    )


def test_a_store_that_cannot_be_opened_names_what_helps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    damaged = tmp_path / "state.db"
    StateStore(f"sqlite:///{damaged}").close()
    whole = damaged.read_bytes()
    for left in (whole[:9_000], b"no database" * 900):
        damaged.write_bytes(left)
        for beside in tmp_path.glob("state.db-*"):
            beside.unlink()
        with pytest.raises(StateError, match="put a backup in its place"):
            StateStore(f"sqlite:///{damaged}")
    monkeypatch.setitem(sys.modules, "psycopg", None)
    for scheme in ("postgresql", "postgres"):
        with pytest.raises(StateError, match=r"pip install 'psycopg\[binary\]'"):
            StateStore(f"{scheme}://me@127.0.0.1:1/perdix")


def test_a_store_is_copied_whole_into_an_empty_one_of_either_kind(store: StateStore, tmp_path: Path) -> None:
    own = StateStore(f"sqlite:///{tmp_path / 'own.db'}")
    own.ledger.record(intent())
    for number in range(COPIED_AT_ONCE + 1):
        own.journal.pause(f"job-{number}", NOW_S + 60.0, NOW_S, "load test")
    own.learned.learn("wordcount", NOW_S, {SEEN: {"most": 7}})
    acquire(own, "job:wordcount", "a", Moment(NOW_S, 10.0, "boot"), 60.0)
    assert store.copy_from(own) == COPIED_AT_ONCE + 1 + 4  # a decision, what it wants, what was learned, the lease
    assert store.ledger.desired("wordcount") == own.ledger.desired("wordcount")
    assert store.ledger.decisions("wordcount") == own.ledger.decisions("wordcount")
    assert store.journal.pauses(NOW_S) == own.journal.pauses(NOW_S)
    assert store.learned.recall("wordcount", SEEN) == own.learned.recall("wordcount", SEEN)
    assert acquire(store, "job:wordcount", "b", Moment(NOW_S, 11.0, "boot"), 60.0) is None, "held, as before"
    with pytest.raises(StateError, match=r"holds decisions already; name an empty one"):
        store.copy_from(own)
    own.close()


def test_a_row_that_a_database_does_not_take_leaves_the_store_empty(store: StateStore, tmp_path: Path) -> None:
    own = StateStore(f"sqlite:///{tmp_path / 'own.db'}")
    own.ledger.record(intent())
    with own.database.writing() as connection:
        connection.exec_driver_sql("ALTER TABLE pauses RENAME TO gone")
    with pytest.raises(StateError, match="nothing was copied: no such table: pauses"):
        store.copy_from(own)
    assert store.ledger.decisions("wordcount") == []
    own.close()

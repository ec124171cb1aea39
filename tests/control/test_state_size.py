"""How little is stored: a hold that stays is one row, accounts and documents are packed, and the file shrinks."""

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from perdix.control.explain import explain
from perdix.control.explain_text import render
from perdix.control.state.journal import JobStatus, Status, Tick
from perdix.control.state.learned import Kind
from perdix.control.state.ledger import FOLD_S, Intent, State
from perdix.control.state.packing import ACCOUNT, packed, unpacked
from perdix.control.state.schema import decisions, learned
from perdix.control.state.store import Retention, StateStore
from perdix.settings.durations import DAY_S
from tests.control.rig import LOW, Rig

NOW_S = 1_700_000_000.0
MINUTE_S = 60.0
SCHEMA_3 = Path(__file__).parent / "schema_3.sql"


def hold(minute: float, **changes) -> Intent:
    now_s = NOW_S + minute * MINUTE_S
    account = {"seen": {"workload_per_s": 100.0 + minute}, "notes": []}
    made = Intent("w", now_s, now_s, 3, 3, "daedalus", "hold_good", f"why {minute}", now_s + 900.0, {}, account)
    return replace(made, **changes)


def rows(store: StateStore) -> int:
    with store.database.reading() as connection:
        return connection.execute(sa.select(sa.func.count()).select_from(decisions)).scalar_one()


# ---- a hold that stays -----------------------------------------------------------------------------------------------


def test_a_hold_that_stays_is_one_row_that_counts_and_tells_what_the_last_tick_saw(store: StateStore) -> None:
    for minute in range(5):
        assert store.ledger.record(hold(minute))
    (entry,) = store.ledger.decisions("w")
    assert (entry.ticks, entry.intent.made_s, entry.last_s) == (5, NOW_S, NOW_S + 240.0)
    assert entry.intent.sentence == "why 4"
    assert entry.intent.explanation["seen"]["workload_per_s"] == 104.0
    assert entry.decision_id == hold(4).decision_id, "by the name that the last tick reports"
    assert entry.intent.valid_until_s == NOW_S + 240.0 + 900.0


def test_the_same_tick_again_is_not_counted_again(store: StateStore) -> None:
    assert store.ledger.record(hold(0))
    assert store.ledger.record(hold(1))
    assert not store.ledger.record(hold(1))
    assert store.ledger.decisions("w")[0].ticks == 2


def test_ticks_that_saw_the_same_steps_count_too(store: StateStore) -> None:
    """Where ticks come more often than scrapes."""
    assert store.ledger.record(hold(0))
    for seconds in (15.0, 30.0, 30.0):
        store.ledger.record(replace(hold(0), made_s=NOW_S + seconds))
    (entry,) = store.ledger.decisions("w")
    assert (entry.ticks, entry.last_s) == (3, NOW_S + 30.0)


def test_a_row_stands_for_a_quarter_of_an_hour_at_most(store: StateStore) -> None:
    for minute in range(60):
        store.ledger.record(hold(minute))
    assert [entry.ticks for entry in store.ledger.decisions("w")] == [15] * 4
    asked_s = NOW_S + 20 * MINUTE_S
    (entry,) = store.ledger.decisions("w", until_s=asked_s, limit=1)
    assert entry.intent.made_s <= asked_s < entry.intent.made_s + FOLD_S


@pytest.mark.parametrize(
    "changes",
    [
        {"reason": "hold_grace"},
        {"from_scale_out": 4, "scale_out": 4},
        {"policy": "hpa-80"},
        {"versions": {"perdix-forecast": 2}},
        {"act": False},
        {"made_s": NOW_S - 1.0},
        {"job": "another"},
    ],
)
def test_whatever_is_decided_otherwise_has_a_row_of_its_own(store: StateStore, changes: dict) -> None:
    store.ledger.record(hold(0))
    store.ledger.record(hold(1, **changes))
    assert rows(store) == 2


def test_a_rescale_is_never_folded_and_ends_a_hold(store: StateStore) -> None:
    store.ledger.record(hold(0))
    store.ledger.record(hold(1, scale_out=5, reason="scale_out"))
    store.ledger.record(hold(2))
    assert [(entry.state, entry.ticks) for entry in store.ledger.decisions("w")] == [
        (State.HELD, 1),
        (State.INTENT, 1),
        (State.HELD, 1),
    ]


def test_advice_that_stays_is_folded_too_and_in_a_simulation_as_well() -> None:
    store = StateStore.scratch()
    for minute in range(3):
        store.ledger.record(hold(minute, scale_out=5, reason="scale_out", act=False))
    assert [(entry.state, entry.ticks) for entry in store.ledger.decisions("w")] == [(State.ADVISED, 3)]
    store.close()


def test_explain_tells_how_long_it_has_held(store: StateStore) -> None:
    rig = Rig.of(store, LOW, scale_out=1)
    rig.minutes(12)
    found = explain(store, "orders")
    assert found.entry is not None
    assert found.entry.ticks > 1
    text = render(found, verbose=True)
    assert f"The same in {found.entry.ticks} ticks until " in text
    assert "Seen: workload" in text
    assert found.to_dict()["decision"]["ticks"] == found.entry.ticks


# ---- packing ---------------------------------------------------------------------------------------------------------


def test_text_is_packed_into_fewer_bytes_and_unpacked_as_it_was() -> None:
    text = '{"believed":{"capacities":[{"basis":"observed 3 min ago at 2 workers"}]},"seen":{"cpu_load":0.3}}'
    assert unpacked(packed(text, ACCOUNT)) == text
    assert unpacked(packed(text)) == text
    assert len(packed(text, ACCOUNT)) < len(packed(text)) < len(text)


@pytest.mark.parametrize("content", [b"", b"\x07abc", packed("{}")[:-3], b"\x00abc"])
def test_what_cannot_be_unpacked_is_told(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"perdix does not know|damaged"):
        unpacked(content)


def test_a_large_document_is_packed_and_a_damaged_one_is_told_and_started_afresh(store: StateStore) -> None:
    kind, document = Kind("big"), {"cells": [1.5] * 500}
    store.learned.learn("w", NOW_S, {kind: document})
    assert store.learned.recall("w", kind)["big"].document == document
    with store.database.writing() as connection:
        kept = connection.execute(sa.select(learned.c.packed)).scalar_one()
        assert len(kept) < 200
        connection.execute(learned.update().values(packed=kept[:-4]))
    found = store.learned.recall("w", kind)["big"]
    assert found.document is None
    assert "starting afresh" in (found.note or "")


# ---- statuses --------------------------------------------------------------------------------------------------------


def test_a_status_keeps_since_when_it_is_so(store: StateStore) -> None:
    for at_s, status in ((1.0, Status.ACTING), (2.0, Status.ACTING), (3.0, Status.BLIND)):
        store.journal.record_tick(Tick(at_s, at_s, "h"), [JobStatus("w", status, at_s)])
        found = store.journal.statuses()["w"]
        assert (found.since_s, found.updated_s) == ({1.0: 1.0, 2.0: 1.0, 3.0: 3.0}[at_s], at_s)
    assert store.journal.served_s() == {"w": 3.0}


# ---- the file --------------------------------------------------------------------------------------------------------


def fill(store: StateStore, count: int) -> None:
    with store.together() as once:
        for number in range(count):
            once.learned.learn(f"job {number}", NOW_S, {Kind("k"): {"text": f"{number}" * 60}})
            at_s = NOW_S + number
            once.journal.record_tick(Tick(at_s, at_s, "h", {"text": "x" * 2_000}), [])


def test_the_file_shrinks_after_pruning(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    store = StateStore(f"sqlite:///{path}")
    fill(store, 1_000)
    store.prune(NOW_S, Retention())
    full = path.stat().st_size
    assert full > 2_000_000
    store.prune(NOW_S + DAY_S, Retention())
    assert path.stat().st_size < 0.25 * full
    store.close()


def test_a_file_of_an_older_perdix_is_taken_over_and_shrinks_too(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    old = sqlite3.connect(path)
    old.executescript(SCHEMA_3.read_text())
    old.execute("INSERT INTO state_version VALUES ('schema', 3)")
    kept = {
        "decision_id": "id",
        "job": "w",
        "window_end_s": NOW_S,
        "made_s": NOW_S,
        "from_scale_out": 3,
        "scale_out": 5,
    }
    kept |= {"policy": "daedalus", "reason": "scale_out", "sentence": "why", "versions": "{}", "valid_until_s": NOW_S}
    kept |= {"explanation": '{"seen":{"cpu_load":0.5}}', "act": 1, "state": "confirmed", "attempts": 1}
    names, marks = ", ".join(kept), ", ".join("?" * len(kept))
    old.execute(f"INSERT INTO decisions ({names}) VALUES ({marks})", list(kept.values()))
    old.execute("INSERT INTO learned VALUES ('w', 'k', 1, '{\"a\":1}', ?)", (NOW_S,))
    old.execute("INSERT INTO leases VALUES ('job:w', 'a', 7, ?, ?)", (NOW_S, NOW_S + 55.0))
    told = [(NOW_S + n, NOW_S + n, "x" * 2_000) for n in range(1_000)]
    old.executemany("INSERT INTO ticks VALUES (?, 'h', ?, ?)", told)
    old.commit()
    old.close()
    store = StateStore(f"sqlite:///{path}")
    (entry,) = store.ledger.decisions("w")
    assert (entry.state, entry.ticks, entry.last_s) == (State.CONFIRMED, 1, None)
    assert entry.intent.explanation == {"seen": {"cpu_load": 0.5}}
    assert store.learned.recall("w", Kind("k"))["k"].document == {"a": 1}
    assert store.ledger.record(hold(1))
    full = path.stat().st_size
    store.prune(NOW_S + DAY_S, Retention())
    assert path.stat().st_size < 0.25 * full
    store.close()

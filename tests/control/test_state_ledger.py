"""The ledger: stored once, stored first, and every end of a decision is told apart."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from perdix.control.state.ledger import Intent, State
from perdix.control.state.refusals import BACKOFF_LIMIT_S, backoff_s
from perdix.control.state.store import StateStore

NOW_S = 1_700_000_000.0


def intent(**changes: Any) -> Intent:
    given: dict[str, Any] = {
        "job": "wordcount",
        "window_end_s": NOW_S - 5,
        "made_s": NOW_S,
        "from_scale_out": 3,
        "scale_out": 5,
        "policy": "daedalus",
        "reason": "scale_out",
        "sentence": "5 workers hold; 4 would not.",
        "valid_until_s": NOW_S + 900,
        "versions": {"forecast": 3, "capacity": 2},
        "explanation": {"candidates": [{"scale_out": 4, "recovery_s": float("inf")}], "wape": 0.07},
        "predicted_recovery_s": 110.0,
    }
    return Intent(**{**given, **changes})


def test_a_decision_is_stored_with_the_desired_scale_out_and_its_explanation(store: StateStore) -> None:
    assert store.ledger.desired("wordcount") is None
    assert store.ledger.record(intent())
    desired = store.ledger.desired("wordcount")
    assert desired is not None
    assert (desired.scale_out, desired.since_s, desired.decision.state) == (5, NOW_S, State.INTENT)
    kept = store.ledger.decision(intent().decision_id)
    assert kept == desired.decision
    assert kept.intent.explanation == {"candidates": [{"scale_out": 4, "recovery_s": None}], "wape": 0.07}
    assert replace(kept.intent, explanation={}) == replace(intent(), explanation={})


def test_the_same_decision_is_stored_once_and_does_not_come_back_to_life(store: StateStore) -> None:
    assert store.ledger.record(intent())
    assert store.ledger.applied(intent().decision_id, NOW_S + 1)
    assert not store.ledger.record(intent(made_s=NOW_S + 9, sentence="the same window, decided again"))
    assert [(entry.state, entry.intent.made_s) for entry in store.ledger.decisions("wordcount")] == [
        (State.APPLIED, NOW_S)
    ]


@pytest.mark.parametrize(
    "change",
    [{"job": "ysb"}, {"window_end_s": NOW_S}, {"scale_out": 6}, {"versions": {"forecast": 4, "capacity": 2}}],
)
def test_another_job_window_scale_out_or_model_is_another_decision(store: StateStore, change: dict[str, Any]) -> None:
    assert intent(**change).decision_id != intent().decision_id
    assert store.ledger.record(intent())
    assert store.ledger.record(intent(**change))


def test_the_order_of_versions_and_the_wording_do_not_make_another_decision() -> None:
    turned = intent(versions={"capacity": 2, "forecast": 3}, sentence="other words", made_s=NOW_S + 3)
    assert turned.decision_id == intent().decision_id


def test_the_way_of_a_decision_that_goes_well(store: StateStore) -> None:
    store.ledger.record(intent())
    key = intent().decision_id
    assert store.ledger.applied(key, NOW_S + 1)
    assert not store.ledger.applied(key, NOW_S + 2), "applied twice"
    assert store.ledger.confirmed(key, NOW_S + 40)
    assert not store.ledger.confirmed(key, NOW_S + 50)
    entry = store.ledger.decision(key)
    assert entry is not None
    assert (entry.state, entry.attempts, entry.applied_s, entry.closed_s) == (
        State.CONFIRMED,
        1,
        NOW_S + 1,
        NOW_S + 40,
    )
    desired = store.ledger.desired("wordcount")
    assert desired is not None
    assert desired.scale_out == 5


def test_a_controller_that_died_after_the_target_accepted_may_confirm_from_the_intent(store: StateStore) -> None:
    store.ledger.record(intent())
    assert store.ledger.confirmed(intent().decision_id, NOW_S + 60)
    assert store.ledger.rescales("wordcount", NOW_S) == (NOW_S + 60, 1)


def test_a_failed_attempt_waits_longer_each_time_and_keeps_the_desired_scale_out(store: StateStore) -> None:
    store.ledger.record(intent())
    waits = []
    for attempt in range(8):
        entry = store.ledger.failed(intent().decision_id, NOW_S, f"refused {attempt}", retriable=True)
        assert entry is not None
        assert entry.next_attempt_s is not None
        assert (entry.state, entry.attempts, entry.error) == (State.INTENT, attempt + 1, f"refused {attempt}")
        waits.append(entry.next_attempt_s - NOW_S)
    assert waits == [15.0, 30.0, 60.0, 120.0, 240.0, 480.0, 600.0, 600.0]
    assert backoff_s(10_000) == BACKOFF_LIMIT_S
    assert store.ledger.desired("wordcount") is not None
    assert store.ledger.applied(intent().decision_id, NOW_S + 1)
    healed = store.ledger.decision(intent().decision_id)
    assert healed is not None
    assert (healed.attempts, healed.error, healed.next_attempt_s) == (9, None, None)


def test_what_cannot_be_retried_is_given_up_once(store: StateStore) -> None:
    store.ledger.record(intent())
    entry = store.ledger.failed(intent().decision_id, NOW_S + 2, "no such deployment", retriable=False)
    assert entry is not None
    assert (entry.state, entry.closed_s, entry.next_attempt_s) == (State.FAILED, NOW_S + 2, None)
    assert store.ledger.failed(intent().decision_id, NOW_S + 3, "again", retriable=True) == entry
    assert not store.ledger.applied(intent().decision_id, NOW_S + 4)
    assert store.ledger.failed("no such decision", NOW_S, "x", retriable=True) is None


def test_an_applied_decision_that_the_target_lost_is_tried_again_and_still_counts_as_one_rescale(
    store: StateStore,
) -> None:
    store.ledger.record(intent())
    store.ledger.applied(intent().decision_id, NOW_S + 1)
    entry = store.ledger.failed(intent().decision_id, NOW_S + 90, "reached 4 of 5", retriable=True)
    assert entry is not None
    assert entry.state is State.INTENT
    store.ledger.applied(intent().decision_id, NOW_S + 120)
    assert store.ledger.rescales("wordcount", NOW_S)[1] == 1


def test_a_new_decision_supersedes_the_open_one_and_takes_over_the_desired_scale_out(store: StateStore) -> None:
    later = intent(made_s=NOW_S + 60, window_end_s=NOW_S + 55, scale_out=7)
    store.ledger.record(intent())
    store.ledger.record(intent(job="ysb"))
    store.ledger.record(later)
    states = {entry.decision_id: entry.state for entry in store.ledger.decisions()}
    assert states == {
        intent().decision_id: State.SUPERSEDED,
        later.decision_id: State.INTENT,
        intent(job="ysb").decision_id: State.INTENT,
    }
    old = store.ledger.decision(intent().decision_id)
    assert old is not None
    assert later.decision_id in (old.error or "")
    desired = store.ledger.desired("wordcount")
    assert desired is not None
    assert (desired.scale_out, desired.decision.decision_id) == (7, later.decision_id)


@pytest.mark.parametrize(
    ("change", "state"), [({"scale_out": 3}, State.HELD), ({"act": False}, State.ADVISED), ({}, State.INTENT)]
)
def test_only_a_change_that_may_be_made_becomes_desired(
    store: StateStore, change: dict[str, Any], state: State
) -> None:
    store.ledger.record(intent(**change))
    assert [entry.state for entry in store.ledger.decisions("wordcount")] == [state]
    assert (store.ledger.desired("wordcount") is not None) == (state is State.INTENT)
    assert store.ledger.rescales("wordcount", 0.0) == (None, 0)


def test_an_advice_does_not_disturb_what_is_under_way(store: StateStore) -> None:
    store.ledger.record(intent())
    store.ledger.record(intent(act=False, made_s=NOW_S + 60, window_end_s=NOW_S + 60, scale_out=9))
    desired = store.ledger.desired("wordcount")
    assert desired is not None
    assert (desired.scale_out, desired.decision.state) == (5, State.INTENT)


def test_withdrawing_ends_what_is_open_and_wants_nothing_more(store: StateStore) -> None:
    store.ledger.record(intent())
    assert store.ledger.withdraw("wordcount", NOW_S + 5, "because it expired")
    assert not store.ledger.withdraw("wordcount", NOW_S + 6, "again")
    entry = store.ledger.decision(intent().decision_id)
    assert entry is not None
    assert (entry.state, entry.error) == (State.SUPERSEDED, "superseded because it expired")
    assert store.ledger.desired("wordcount") is None


def test_rescales_are_counted_by_when_they_were_applied(store: StateStore) -> None:
    for hour in range(30):
        made = intent(made_s=NOW_S + 3600 * hour, window_end_s=NOW_S + 3600 * hour)
        store.ledger.record(made)
        store.ledger.applied(made.decision_id, made.made_s + 2)
    now_s = NOW_S + 29 * 3600 + 60
    assert store.ledger.rescales("wordcount", now_s - 86_400) == (NOW_S + 29 * 3600 + 2, 24)
    assert store.ledger.rescales("ysb", 0.0) == (None, 0)


def test_outcomes_add_up(store: StateStore) -> None:
    store.ledger.record(intent())
    key = intent().decision_id
    assert store.ledger.set_outcome(key, {"reached": 5, "downtime_s": 28.0})
    assert store.ledger.set_outcome(key, {"reached": 5, "caught_up": True}, observed_recovery_s=96.0)
    assert not store.ledger.set_outcome("no such decision", {})
    entry = store.ledger.decision(key)
    assert entry is not None
    assert entry.outcome == {"reached": 5, "downtime_s": 28.0, "caught_up": True}
    assert entry.observed_recovery_s == 96.0


def test_decisions_are_found_by_time_and_state_newest_first(store: StateStore) -> None:
    for minute in range(6):
        at_s = NOW_S + 60 * minute
        store.ledger.record(intent(made_s=at_s, window_end_s=at_s, scale_out=3 if minute % 2 else 5 + minute))
    found: Callable[..., list[float]] = lambda **given: [  # noqa: E731
        (entry.intent.made_s - NOW_S) / 60 for entry in store.ledger.decisions("wordcount", **given)
    ]
    assert found() == [5, 4, 3, 2, 1, 0]
    assert found(limit=2) == [5, 4]
    assert found(since_s=NOW_S + 60, until_s=NOW_S + 180) == [3, 2, 1]
    assert found(states=[State.HELD]) == [5, 3, 1]
    assert store.ledger.decisions("ysb") == []


def test_pruning_keeps_what_is_open_or_desired_and_drops_quiet_decisions_first(store: StateStore) -> None:
    day = 86_400.0

    def keep(job: str, age_days: float, **changes: Any) -> Intent:
        made = intent(job=job, made_s=NOW_S - age_days * day, window_end_s=NOW_S - age_days * day, **changes)
        store.ledger.record(made)
        return made

    open_one = keep("open", 400)
    desired_one = keep("desired", 400)
    store.ledger.confirmed(desired_one.decision_id, NOW_S - 400 * day)
    old, newer = keep("changed", 100), keep("changed", 50)
    keep("held", 20, scale_out=3)
    recent_hold = keep("held", 5, scale_out=3)
    assert store.ledger.prune(NOW_S - 90 * day, NOW_S - 14 * day) == 2
    left = {entry.decision_id for entry in store.ledger.decisions()}
    assert left == {item.decision_id for item in (open_one, desired_one, newer, recent_hold)}
    assert old.decision_id not in left


def test_other_sizes_of_as_many_workers_are_another_decision(store: StateStore) -> None:
    before, after = {"small": 3}, {"small": 1, "large": 2}
    swap = intent(scale_out=3, from_scale_out=3, window_end_s=1.0, from_mix=before, mix=after)
    stay = intent(scale_out=3, from_scale_out=3, window_end_s=1.0, from_mix=before, mix=before)
    assert (swap.first_state, stay.first_state) == (State.INTENT, State.HELD)
    assert swap.decision_id != stay.decision_id
    store.ledger.record(swap)
    desired = store.ledger.desired("wordcount")
    assert desired is not None
    assert (dict(desired.mix), dict(desired.decision.intent.from_mix)) == (after, before)

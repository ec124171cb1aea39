"""How often a target is asked that does not do it: the count is the job's, whatever is decided meanwhile."""

import pytest

from perdix.control.job_memory import recall
from perdix.control.memories import Memories
from perdix.control.reconcile import Event
from perdix.control.state.ledger import Intent, State
from perdix.control.state.refusals import REMEMBERED_S, backoff_s
from perdix.control.state.store import StateStore
from perdix.settings.stream_job import PolicySettings
from perdix.targets.contract import Fault, TargetError
from tests.control.rig import HIGH, Rig

NOW_S = 1_760_000_000.0
RBAC = TargetError("403: cannot update deployments/scale \ud800", fault=Fault.LASTING)
BUSY = TargetError("503: no leader")
TOO_MANY = TargetError("422: at most 2 replicas", fault=Fault.SIZE)


def wants(rig: Rig, scale_out: int) -> None:
    policy = PolicySettings(name="static", options={"scale_out": scale_out})
    rig.job = rig.job.model_copy(update={"policy": policy})


def changing_its_mind(rig: Rig, minutes: int) -> None:
    """Another number each minute: each tick makes a new decision, with a key of its own."""
    for _ in range(minutes):
        wants(rig, 4 + rig.twin.now_s // 60 % 4)
        rig.minutes(1)


def intent(made_s: float, scale_out: int = 5, job: str = "orders") -> Intent:
    return Intent(job, made_s, made_s, 2, scale_out, "static", "scale_out", "", made_s + 900.0, {}, {})


def next_attempt_s(store: StateStore, job: str = "orders") -> float | None:
    desired = store.ledger.desired(job)
    assert desired is not None
    return desired.decision.next_attempt_s


@pytest.mark.parametrize(
    ("faults", "at_most"),
    [
        ([Fault.LASTING], 10),
        ([Fault.SIZE], 10),
        ([Fault.PASSING], 15),
        ([Fault.PASSING, Fault.LASTING], 20),
        ([Fault.PASSING, Fault.LASTING, Fault.SIZE], 24),
    ],
)
def test_of_90_decisions_in_90_minutes_few_are_asked_for_where_none_succeeds(
    store: StateStore, faults: list[Fault], at_most: int
) -> None:
    asked = 0
    for minute in range(90):
        now_s = NOW_S + 60.0 * minute
        store.ledger.record(intent(now_s, 4 + minute % 4))
        desired = store.ledger.desired("orders")
        assert desired is not None
        if desired.decision.is_due(now_s):
            asked += 1
            store.ledger.failed(
                desired.decision.decision_id, now_s, "no", retriable=True, fault=faults[asked % len(faults)]
            )
    assert 6 <= asked <= at_most


def test_a_right_that_is_missing_for_90_minutes_is_seldom_asked_for_however_often_is_decided(store: StateStore) -> None:
    rig = Rig.of(store, HIGH, scale_out=2)
    rig.memories = Memories()
    rig.target.refusing = RBAC
    changing_its_mind(rig, 90)
    assert 6 <= len(rig.target.asked) <= 10
    assert len({key for _, key in rig.target.asked}) > 3, "they were different decisions"
    assert recall(store, "orders").memory.avoided == (), "and none of the sizes is to blame"


def test_the_first_decision_after_a_refusal_says_why_it_waits(store: StateStore) -> None:
    rig = Rig.of(store, HIGH, scale_out=2)
    rig.target.refusing = RBAC
    changing_its_mind(rig, 5)
    waiting = rig.reports[-1]
    assert waiting.event is Event.WAITING
    assert "next attempt later: 403: cannot update" in waiting.sentence


def test_the_count_starts_anew_when_what_was_asked_for_runs(store: StateStore) -> None:
    rig = Rig.of(store, HIGH, scale_out=2, grace_s=0.0)
    rig.target.refusing = BUSY
    wants(rig, 6)
    rig.minutes(8)
    rig.target.refusing = None
    assert Event.CONFIRMED in {report.event for report in rig.minutes(15)}
    asked = len(rig.target.asked)
    rig.target.refusing = BUSY
    wants(rig, 7)
    rig.minutes(3)
    assert len(rig.target.asked) == asked + 3, "in a row, as after a first failure"


def test_what_a_target_accepts_and_forgets_is_asked_for_less_and_less_often(store: StateStore) -> None:
    rig = Rig.of(store, HIGH, scale_out=2)
    wants(rig, 6)
    for number in range(30):
        rig.minutes(1)
        if rig.twin.requested != 2:
            rig.twin.rescale(2, f"forgotten {number}")
    assert 4 <= len(rig.target.asked) <= 8


def test_the_pause_is_the_jobs_own_and_ends_by_itself(store: StateStore) -> None:
    store.ledger.record(intent(NOW_S))
    for _ in range(3):
        store.ledger.failed(intent(NOW_S).decision_id, NOW_S, "403", retriable=True, fault=Fault.LASTING)
    store.ledger.record(intent(NOW_S + 30.0, 6))
    assert next_attempt_s(store) == NOW_S + 60.0
    store.ledger.record(intent(NOW_S + 30.0, 6, "other"))
    assert next_attempt_s(store, "other") is None
    store.ledger.record(intent(NOW_S + 60.0, 7))
    assert next_attempt_s(store) is None


def test_a_failure_of_yesterday_does_not_count_today(store: StateStore) -> None:
    store.ledger.record(intent(NOW_S))
    for _ in range(9):
        store.ledger.failed(intent(NOW_S).decision_id, NOW_S, "403", retriable=True, fault=Fault.LASTING)
    later_s = NOW_S + REMEMBERED_S + 1.0
    entry = store.ledger.failed(intent(NOW_S).decision_id, later_s, "403", retriable=True, fault=Fault.LASTING)
    assert entry is not None
    assert entry.next_attempt_s == later_s + backoff_s(1, Fault.LASTING)


def test_a_clock_that_was_set_back_keeps_no_decision_waiting(store: StateStore) -> None:
    store.ledger.record(intent(NOW_S))
    store.ledger.failed(intent(NOW_S).decision_id, NOW_S, "403", retriable=True, fault=Fault.LASTING)
    store.ledger.record(intent(NOW_S - 86_400.0, 6))
    assert next_attempt_s(store) is None


def test_a_refusal_and_the_end_of_its_decision_are_stored_together(
    store: StateStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig.of(store, HIGH, scale_out=2)
    rig.target.refusing = TOO_MANY
    wants(rig, 6)
    with monkeypatch.context() as patch:
        patch.setattr("perdix.control.state.ledger.Ledger.withdraw", _crash)
        with pytest.raises(KeyboardInterrupt):
            rig.minutes(1)
    desired = store.ledger.desired("orders")
    assert desired is not None
    assert (desired.decision.state, desired.decision.attempts, next_attempt_s(store)) == (State.INTENT, 0, None)


def _crash(*_args: object, **_options: object) -> None:
    raise KeyboardInterrupt

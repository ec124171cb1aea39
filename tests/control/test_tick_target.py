"""DESIGN section 5 between perdix and the target: refusals, time-outs, shortfalls, rollbacks, crashes."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from perdix.control.decide import Avoided
from perdix.control.job_memory import AVOIDED, recall
from perdix.control.reconcile import Event
from perdix.control.state.journal import Status
from perdix.control.state.ledger import Intent, State
from perdix.control.state.store import StateStore
from perdix.policies.contract import Reason
from perdix.settings.stream_job import Bounds, Objectives, PolicySettings
from perdix.targets.contract import Running, TargetError
from perdix.telemetry.window import Window
from tests.control.rig import HIGH, LOW, Rig, applied, masked, restarts_of

# ---- the target refuses, times out, or reaches less ----------------------------------------------


def test_an_unreadable_target_means_no_decision(store: StateStore) -> None:
    rig = Rig.of(store, HIGH, scale_out=2)
    rig.target.unreadable = "no answer in time"
    report = rig.minutes(1)[-1]
    assert report.status is Status.UNREACHABLE
    assert report.decision is None
    assert "no answer in time" in report.sentence
    rig.target.unreadable = None
    assert rig.minutes(1)[-1].event is Event.APPLIED


def test_a_job_that_is_down_is_blind_and_not_in_a_rescale_that_nobody_asked_for(store: StateStore) -> None:
    rig = Rig.of(store, LOW, scale_out=2, policy=PolicySettings(name="static", options={"scale_out": 2}))
    rig.minutes(2)
    rig.target.never_settling, rig.source.change = True, lambda window: masked(window, 1.0, 1)
    report = rig.minutes(3)[-1]
    assert report.status is Status.BLIND
    assert report.sentence.startswith("Blind: throughput_per_s is absent")
    assert report.decision is not None
    said = "The job restarts, or others rescale it: asked for 2 workers, got 2 workers."
    assert (report.decision.reason, report.decision.sentence) == (Reason.HOLD_UNSETTLED, said)
    store.journal.pause("orders", rig.now_s + 3_600.0, rig.now_s, "maintenance")
    assert rig.minutes(1)[-1].status is Status.PAUSED, "whoever paused it has it down on purpose"


def test_a_refusing_target_is_asked_again_with_the_same_key_and_growing_pauses(store: StateStore) -> None:
    rig = Rig.of(store, HIGH, scale_out=2)
    rig.target.refusing = TargetError("503: rebalancing")
    events = [report.event for report in rig.minutes(4)]
    assert events[0] is Event.REFUSED
    desired = store.ledger.desired("orders")
    assert desired is not None
    assert desired.decision.state is State.INTENT
    assert "rebalancing" in (desired.decision.error or "")
    assert len({key for _, key in rig.target.asked}) == 1
    rig.target.refusing = None
    reports = rig.minutes(6)
    assert Event.CONFIRMED in [report.event for report in reports]
    assert len(applied(rig)) == 1


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"bounds": Bounds(minimum=1, maximum=4)}, "no answer"),
        ({"policy": PolicySettings(name="static", options={"scale_out": 2})}, None),
    ],
    ids=["bounds, without metrics", "judgement"],
)
def test_what_was_refused_is_not_asked_for_once_it_is_no_longer_wanted(
    store: StateStore, change: dict[str, object], error: str | None
) -> None:
    rig = Rig.of(store, HIGH, scale_out=2, policy=PolicySettings(name="static", options={"scale_out": 8}))
    rig.target.refusing = TargetError("503: rebalancing")
    rig.minutes(1)
    assert [size for size, _ in rig.target.asked] == [8]
    rig.target.refusing, rig.source.error = None, error
    rig.job = rig.job.model_copy(update=change)
    rig.minutes(4)
    assert 8 not in [size for size, _ in rig.target.asked[1:]]
    (entry,) = [decision for decision in store.ledger.decisions("orders") if decision.intent.scale_out == 8]
    assert entry.state is State.SUPERSEDED


def _waiting(store: StateStore, *, scale_out: int, wanted: int, per_s: float) -> Rig:
    rig = Rig.of(store, per_s, scale_out=scale_out, policy=static(wanted))
    rig.target.refusing = TargetError("503: rebalancing")
    rig.minutes(1)
    assert [size for size, _ in rig.target.asked] == [wanted]
    rig.target.refusing = None
    return rig


def static(scale_out: int) -> PolicySettings:
    return PolicySettings(name="static", options={"scale_out": scale_out})


@pytest.mark.parametrize("now_wanted", [8, 4], ids=["more", "not so few"])
def test_a_scale_in_that_was_refused_is_not_asked_for_once_more_workers_are_wanted(
    store: StateStore, now_wanted: int
) -> None:
    """Although a guard keeps what is wanted now from being asked for."""
    rig = _waiting(store, scale_out=5, wanted=3, per_s=20_000.0)
    barred = [Avoided(4, rig.now_s + 3_000.0, "so it is").to_state()]
    barred += [Avoided(6, rig.now_s + 3_000.0, "asked for 6 workers, got 5 workers", and_above=True).to_state()]
    store.learned.learn("orders", rig.now_s, {AVOIDED: {"sizes": barred}})
    rig.job = rig.job.model_copy(update={"policy": static(now_wanted)})
    rig.minutes(4)
    assert [size for size, _ in rig.target.asked] == [3]
    assert rig.twin.scale_out == 5


def test_a_scale_out_that_was_refused_goes_out_although_a_guard_holds_a_larger_one(store: StateStore) -> None:
    rig = _waiting(store, scale_out=2, wanted=5, per_s=30_000.0)
    store.learned.learn("orders", rig.now_s, {AVOIDED: {"sizes": [Avoided(3, rig.now_s + 3_000.0, "x").to_state()]}})
    rig.job = rig.job.model_copy(update={"policy": static(3)})
    rig.minutes(2)
    assert rig.twin.requested == 5


def test_a_scale_in_that_was_refused_is_not_asked_for_once_memory_is_full(store: StateStore) -> None:
    rig = _waiting(store, scale_out=5, wanted=3, per_s=20_000.0)
    rig.job = rig.job.model_copy(update={"objectives": Objectives(memory_ratio=0.8)})
    rig.source.change = _full
    rig.minutes(3)
    assert [size for size, _ in rig.target.asked] == [3]
    assert rig.reports[-1].decision.reason is Reason.HOLD_MEMORY


def _full(window: Window) -> Window:
    share = np.full_like(window.job_metrics["scale_out"], 0.75)
    return replace(window, job_metrics={**window.job_metrics, "memory_ratio": share})


def with_a_waiting_rollback(store: StateStore) -> Rig:
    """A job of three workers whose way back to eight was refused a minute ago."""
    rig = Rig.of(store, 10_000.0, scale_out=3, policy=static(3))
    back = Intent("orders", rig.now_s, rig.now_s, 3, 8, "perdix", Reason.ROLLBACK, "back to 8", rig.now_s + 900, {}, {})
    store.ledger.record(back)
    rig.target.refusing = TargetError("503: rebalancing")
    rig.minutes(1)
    rig.target.refusing = None
    return rig


def test_a_waiting_rollback_goes_no_further_than_bounds_that_were_lowered(store: StateStore) -> None:
    rig = with_a_waiting_rollback(store)
    rig.job = rig.job.model_copy(update={"bounds": Bounds(minimum=1, maximum=4)})
    (report,) = rig.minutes(1)
    assert [size for size, _ in rig.target.asked] == [8, 4]
    assert report.decision.reason is Reason.ROLLBACK
    assert "4 workers" in report.sentence


def test_a_waiting_rollback_outlasts_a_pause_in_which_the_bounds_are_lowered(store: StateStore) -> None:
    rig = with_a_waiting_rollback(store)
    paused = {"bounds": Bounds(minimum=1, maximum=4), "paused_until": datetime.fromtimestamp(rig.now_s + 90, UTC)}
    rig.job = rig.job.model_copy(update=paused)
    assert [report.status for report in rig.minutes(2)] == [Status.PAUSED, Status.ACTING]
    assert [size for size, _ in rig.target.asked] == [8, 4]


def test_without_metrics_what_was_decided_is_still_asked_for(store: StateStore) -> None:
    """A hold that judges nothing takes nothing back."""
    rig = Rig.of(store, HIGH, scale_out=2, policy=PolicySettings(name="static", options={"scale_out": 8}))
    rig.target.refusing = TargetError("503: rebalancing")
    rig.minutes(1)
    rig.target.refusing, rig.source.error = None, "no answer"
    rig.minutes(2)
    assert rig.twin.requested == 8


def test_a_final_refusal_is_remembered_and_not_repeated_each_minute(store: StateStore) -> None:
    rig = Rig.of(store, HIGH, scale_out=2)
    rig.target.refusing = TargetError("quota of 5 workers", retriable=False)
    report = rig.minutes(1)[-1]
    assert report.event is Event.GIVEN_UP
    wanted = rig.target.asked[0][0]
    memory = recall(store, "orders").memory
    assert memory.avoided[0].bars(wanted, rig.now_s)
    assert not memory.avoided[0].bars(wanted, rig.now_s + 3_601)
    rig.target.refusing = None
    rig.minutes(2)
    assert wanted not in [size for size, _ in rig.target.asked[1:]]
    assert rig.twin.requested < wanted


def test_what_a_target_can_give_at_most_is_asked_for_once_it_says_so(
    store: StateStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each size in between would be refused, too, after a pause that doubles up to half an hour."""
    rig = Rig.of(store, HIGH, scale_out=2, policy=PolicySettings(name="static", options={"scale_out": 8}))
    scale = rig.target.scale

    def up_to_four(scale_out: int, *asked: Any, **more: Any) -> Running:
        if scale_out > 4:
            raise TargetError("it has a maximum parallelism of 4", retriable=False, most=4)
        return scale(scale_out, *asked, **more)

    monkeypatch.setattr(rig.target, "scale", up_to_four)
    rig.minutes(4)
    assert [size for size, _ in rig.target.asked] == [4]
    assert rig.twin.requested == 4


def test_a_target_that_reaches_less_is_retried_then_given_up_and_larger_sizes_avoided(store: StateStore) -> None:
    rig = Rig.of(store, HIGH, scale_out=2)
    rig.target.reaching = 4
    reports = rig.minutes(20)
    events = [report.event for report in reports]
    assert Event.FELL_SHORT in events
    assert Event.GIVEN_UP in events
    given_up = reports[events.index(Event.GIVEN_UP)]
    assert "asked for 8 workers, got 4 workers" in given_up.sentence
    memory = recall(store, "orders").memory
    assert any(size.and_above and size.scale_out == 5 for size in memory.avoided)
    failed = store.ledger.decisions("orders", states=[State.FAILED])
    assert len(failed) == 1
    assert len(applied(rig)) == 1


def test_a_size_that_cannot_be_reached_is_given_up_however_long_restarts_take(store: StateStore) -> None:
    """Six attempts do not fit into the quarter of an hour for which a decision is worth carrying out."""
    policy = PolicySettings(name="static", options={"scale_out": 8})
    rig = Rig.of(store, HIGH, scale_out=2, restart=restarts_of(170.0), policy=policy)
    rig.target.reaching = 4
    events = [report.event for report in rig.minutes(40)]
    assert Event.GIVEN_UP in events
    assert any(size.and_above and size.scale_out == 5 for size in recall(store, "orders").memory.avoided)
    assert store.ledger.rescales("orders", 0.0)[1] == 1


def test_a_minimum_that_was_raised_above_what_can_be_had_is_not_asked_for_again_and_again(store: StateStore) -> None:
    """Each time would count as a rescale, and the day's would be used up by the time that the minimum is corrected."""
    rig = Rig.of(store, LOW, scale_out=4, policy=PolicySettings(name="static", options={"scale_out": 4}))
    rig.target.reaching = 4
    rig.minutes(3)
    rig.job = rig.job.model_copy(update={"bounds": Bounds(minimum=8, maximum=8)})
    reports = rig.minutes(60)
    assert Event.GIVEN_UP in [report.event for report in reports]
    assert "8 workers are already asked for" in reports[-1].sentence
    assert reports[-1].decision is not None
    assert reports[-1].decision.reason is Reason.HOLD_AVOIDED, "it is a judgement, whose wish is fresh"
    assert store.ledger.rescales("orders", 0.0)[1] == 1


def test_advice_that_others_follow_and_cannot_reach_stays_as_it_is(store: StateStore) -> None:
    policy = PolicySettings(name="static", options={"scale_out": 8})
    rig = Rig.of(store, LOW, scale_out=4, policy=policy, mode="advise")
    rig.twin.rescale(8, "by hand")
    rig.target.reaching = 5
    assert [report.decision.scale_out for report in rig.minutes(20)[-5:] if report.decision is not None] == [8] * 5


def test_a_rescale_that_never_ends_is_rolled_back(store: StateStore) -> None:
    rig = Rig.of(store, HIGH, scale_out=2)
    rig.minutes(1)
    rig.target.never_settling = True
    reports = rig.minutes(12)
    back = next(report for report in reports if report.decision and report.decision.reason is Reason.ROLLBACK)
    assert back.decision is not None
    assert back.decision.scale_out == 2
    assert "did not end" in back.sentence
    assert rig.target.asked[-1][0] == 2


def test_a_scale_in_that_the_job_does_not_survive_is_rolled_back_and_avoided(store: StateStore) -> None:
    rig = Rig.of(store, 22_000.0, scale_out=6, policy=PolicySettings(name="static", options={"scale_out": 1}))
    reports = rig.minutes(25)
    back = [report for report in reports if report.decision and report.decision.reason is Reason.ROLLBACK]
    assert back
    assert back[0].decision is not None
    assert back[0].decision.scale_out == 6
    assert rig.twin.requested > 1  # the policy still wants one worker, and is not allowed to
    assert any(report.decision and report.decision.reason is Reason.HOLD_AVOIDED for report in reports[-5:])
    outcome = next(decision.outcome for decision in store.ledger.decisions("orders") if decision.outcome)
    assert outcome["recovered"] is False


def test_a_size_that_was_too_small_to_scale_in_to_may_be_grown_to(store: StateStore) -> None:
    rig = Rig.of(store, 22_000.0, scale_out=6, policy=PolicySettings(name="static", options={"scale_out": 2}))
    rig.minutes(25)
    assert [size.scale_out for size in recall(store, "orders").memory.avoided] == [2]
    rig.twin.rescale(1, "by hand")
    rig.minutes(4)
    assert rig.twin.scale_out == 2, "one worker is overloaded, and it is two that the policy wants"


def test_somebody_else_who_scales_the_job_is_respected(store: StateStore) -> None:
    rig = Rig.of(store, LOW, scale_out=6)
    rig.minutes(8)
    assert rig.twin.scale_out < 6
    rig.job = rig.job.model_copy(update={"policy": PolicySettings(name="static", options={"scale_out": 3})})
    rig.minutes(8)
    rig.job = rig.job.model_copy(update={"paused_until": datetime.fromtimestamp(rig.now_s + 3_000, UTC)})
    rig.twin.rescale(7, "by hand")
    reports = rig.minutes(4)
    assert rig.twin.scale_out == 7
    assert Event.WITHDRAWN in [report.event for report in reports]
    assert store.ledger.desired("orders") is None


# ---- restart in the middle of a tick -------------------------------------------------------------

POINTS = [
    ("perdix.control.state.ledger.Ledger.record", "before the intent is stored"),
    ("perdix.control.tick.Reconciler.carry_out", "between storing and asking"),
    ("perdix.targets.twin.LocalTwinTarget.scale", "while asking"),
    ("perdix.control.state.ledger.Ledger.applied", "after asking, before noting so"),
    ("perdix.control.state.ledger.Ledger.confirmed", "before noting what runs"),
]


@pytest.mark.parametrize(("point", "when"), POINTS, ids=[when for _, when in POINTS])
@pytest.mark.parametrize("later_s", [0, 60], ids=["rerun at once", "at the next tick"])
def test_a_crash_never_scales_twice(
    store: StateStore, monkeypatch: pytest.MonkeyPatch, point: str, when: str, later_s: int
) -> None:
    rig = Rig.of(store, HIGH, scale_out=2)
    rig.twin.step(60)
    before = store.ledger.desired("orders")
    with monkeypatch.context() as patched:
        patched.setattr(point, _crash)
        for _ in range(2 if "confirmed" in point else 1):
            try:
                rig.tick()
            except _Crash:
                break
            rig.twin.step(60)
        else:
            pytest.fail(f"{when}: the point was never reached")
    assert before is None
    rig.twin.step(later_s)
    reports = [rig.tick(), *rig.minutes(4)]
    assert len(applied(rig)) == 1
    keys = {key for _, key in rig.target.asked}
    assert len(keys) == 1
    assert [decision.state for decision in store.ledger.decisions("orders", states=[State.CONFIRMED])] == [
        State.CONFIRMED
    ]
    assert keys == {store.ledger.decisions("orders", states=[State.CONFIRMED])[0].decision_id}
    assert reports[-1].status is Status.ACTING


class _Crash(BaseException):
    """Nothing catches it, as nothing catches a killed process."""


def _crash(*_args: object, **_options: object) -> None:
    raise _Crash

"""Rescales that others carry out count for the grace period and the budget of a job that is only advised."""

from contextlib import suppress
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdix.control.followed import Followed
from perdix.control.job_memory import FOLLOWED, recall
from perdix.control.reconcile import Event
from perdix.control.state.store import StateStore
from perdix.policies.contract import Reason
from perdix.settings.durations import DAY_S
from perdix.settings.stored import restored
from perdix.settings.stream_job import PolicySettings
from perdix.settings.targets import AdvisorySettings
from perdix.targets.contract import TargetError
from perdix.telemetry.window import Window
from tests.control.rig import HIGH, LOW, Rig


def test_the_first_scale_out_that_is_seen_is_no_change():
    assert Followed().seen(3, 100.0).changes_s == ()


def test_a_change_is_remembered_with_its_time_and_what_is_not_told_is_none():
    followed = Followed().seen(3, 100.0).seen(None, 160.0).seen(3, 220.0).seen(5, 280.0)
    assert followed.last_s == 280.0
    assert (followed.within(200.0), followed.within(281.0)) == (1, 0)


def test_what_is_older_than_a_day_is_forgotten():
    followed = Followed().seen(3, 0.0).seen(4, 1.0).seen(5, DAY_S + 2.0)
    assert followed.changes_s == (DAY_S + 2.0,)


@given(st.lists(st.one_of(st.none(), st.integers(1, 9)), max_size=40))
def test_it_outlives_a_restart_and_counts_each_change_once(shown):
    followed = Followed()
    for minute, scale_out in enumerate(shown):
        followed = restored(Followed, followed.to_state()).seen(scale_out, 60.0 * minute)
    told = [line for line in shown if line is not None]
    assert len(followed.changes_s) == sum(before != after for before, after in pairwise(told))


@pytest.mark.parametrize("back_s", [3_600.0, 86_400.0])
def test_a_change_seen_before_the_clock_was_set_back_keeps_no_advice_back(store: StateStore, back_s: float):
    rig = Rig.of(store, HIGH, scale_out=2, mode="advise")
    store.learned.learn("orders", rig.now_s, {FOLLOWED: {"scale_out": 2, "changes_s": [rig.now_s + back_s]}})
    reports = rig.minutes(2)
    assert Reason.HOLD_GRACE not in {report.decision.reason for report in reports}


def test_a_rescale_by_hand_starts_a_grace_period_of_a_job_that_perdix_scales(store: StateStore):
    policy = PolicySettings(name="static", options={"scale_out": 3})
    rig = Rig.of(store, LOW, scale_out=3, policy=policy, grace_s=600.0)
    rig.minutes(2)
    rig.twin.rescale(7, "by hand", None)
    rig.minutes(9)
    assert (rig.twin.scale_out, rig.target.asked) == (7, [])
    rig.minutes(4)
    assert rig.twin.scale_out == 3


@pytest.mark.parametrize("while_waiting", [503, None])
def test_what_somebody_asks_for_while_a_decision_waits_is_respected(store: StateStore, while_waiting: int | None):
    rig = Rig.of(store, 2 * LOW, scale_out=3, policy=PolicySettings(name="static", options={"scale_out": 5}))
    rig.job = rig.job.model_copy(update={"grace_s": 600.0})
    rig.target.refusing = TargetError(f"HTTP {while_waiting}") if while_waiting else None
    rig.target.meanwhile = None if while_waiting else _lost
    with suppress(ConnectionError):
        rig.minutes(1)
    rig.target.refusing = rig.target.meanwhile = None
    rig.twin.rescale(8, "by hand", None)
    reports = rig.minutes(5)
    assert rig.twin.scale_out == 8
    assert (reports[0].event, "someone else asked for 8 workers" in reports[0].sentence) == (Event.WITHDRAWN, True)
    assert reports[-1].decision.reason is Reason.HOLD_GRACE


def _lost() -> None:
    raise ConnectionError


def test_what_was_asked_for_before_and_was_never_reached_is_nobody_elses_wish(store: StateStore):
    rig = Rig.of(store, 2 * LOW, scale_out=3, policy=PolicySettings(name="static", options={"scale_out": 8}))
    rig.target.reaching = 6
    rig.minutes(30)
    assert rig.reports[-1].running == 6, "8 were asked for and are given up"
    rig.job = rig.job.model_copy(update={"policy": PolicySettings(name="static", options={"scale_out": 4})})
    rig.target.refusing = TargetError("HTTP 503")
    rig.minutes(2)
    rig.target.refusing = None
    reports = rig.minutes(4)
    assert rig.twin.scale_out == 4
    assert Event.WITHDRAWN not in {report.event for report in reports}


def test_a_worker_that_comes_and_goes_uses_up_no_budget_of_advice(store: StateStore):
    rig = Rig.of(store, 30_000.0, scale_out=5, mode="advise", target=AdvisorySettings())
    rig.job = rig.job.model_copy(update={"policy": PolicySettings(name="static", options={"scale_out": 5})})
    rig.minutes(3)
    for lost_min, back_min in [(1, 1)] * 4 + [(3, 4)] * 2:
        rig.source.change = _one_fewer
        rig.minutes(lost_min)
        rig.source.change = None
        rig.minutes(back_min)
    assert recall(store, "orders").memory.followed.changes_s == ()


def _one_fewer(window: Window) -> Window:
    fewer = window.job_metrics["scale_out"].copy()
    fewer[-2:] -= 1
    return replace(window, job_metrics={**window.job_metrics, "scale_out": fewer})


def test_a_lost_worker_that_the_target_goes_on_without_starts_no_grace_period(store: StateStore):
    policy = PolicySettings(name="static", options={"scale_out": 5})
    rig = Rig.of(store, 30_000.0, scale_out=4, policy=policy, grace_s=600.0)
    rig.minutes(15)
    rig.target.reaching = 4
    rig.minutes(2)
    assert recall(store, "orders").memory.followed.changes_s == ()


def test_more_workers_after_a_restart_that_others_brought_are_no_failure(store: StateStore):
    rig = Rig.of(store, 3 * LOW, scale_out=4, mode="advise")
    rig.minutes(3)
    rig.twin.rescale(8, "by KEDA", None)
    rig.minutes(15)
    downtimes = recall(store, "orders").memory.downtimes
    assert (downtimes.out.seen, downtimes.failure.seen) == (1.0, 0.0)


@pytest.mark.parametrize("reaching", [None, 4])
def test_what_perdix_asked_for_itself_is_no_change_by_others(store: StateStore, reaching: int | None):
    rig = Rig.of(store, HIGH, scale_out=2)
    rig.target.reaching = reaching
    rig.minutes(4)
    assert rig.twin.scale_out > 2
    assert recall(store, "orders").memory.followed.changes_s == ()


def test_advice_keeps_the_grace_period_after_somebody_else_has_followed_it(store: StateStore):
    rig = Rig.of(store, HIGH, scale_out=2, mode="advise")
    rig.minutes(2)
    asked = rig.reports[-1].decision
    assert asked.scale_out > 2, "more workers are advised"
    rig.twin.rescale(asked.scale_out, "by KEDA", None)
    reports = rig.minutes(3)
    assert Reason.HOLD_GRACE in {report.decision.reason for report in reports}
    assert len(store.learned.recall("orders", FOLLOWED)["followed"].document["changes_s"]) == 1

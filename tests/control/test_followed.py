"""Rescales that others carry out count for the grace period and the budget of a job that is only advised."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from perdix.control.followed import DAY_S, Followed
from perdix.control.job_memory import FOLLOWED
from perdix.control.state.store import StateStore
from perdix.policies.contract import Reason
from tests.control.rig import HIGH, Rig


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
        followed = Followed.from_state(followed.to_state()).seen(scale_out, 60.0 * minute)
    told = [one for one in shown if one is not None]
    assert len(followed.changes_s) == sum(before != after for before, after in pairwise(told))


def test_advice_keeps_the_grace_period_after_somebody_else_has_followed_it(store: StateStore):
    rig = Rig.of(store, HIGH, scale_out=2, mode="advise")
    rig.minutes(2)
    asked = rig.reports[-1].decision
    assert asked.scale_out > 2, "more workers are advised"
    rig.twin.rescale(asked.scale_out, "by KEDA", None)
    reports = rig.minutes(3)
    assert Reason.HOLD_GRACE in {report.decision.reason for report in reports}
    assert len(store.learned.recall("orders", FOLLOWED)["followed"].document["changes_s"]) == 1

"""Downtimes settle on what is observed and stay within bounds."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.recovery.downtime import CEILING_S, FLOOR_S, MOST_FAILURES, MOST_LOST_S, Downtimes


def test_starts_as_in_the_paper():
    downtimes = Downtimes()
    assert (downtimes.between(4, 6), downtimes.between(6, 4), downtimes.between(4, 4)) == (30.0, 15.0, 30.0)


@given(st.lists(st.floats(0, 1e6), max_size=50))
def test_stays_within_bounds(observed):
    downtimes = Downtimes()
    for value in observed:
        downtimes = downtimes.observed(3, 5, value)
    assert FLOOR_S <= downtimes.out_s <= CEILING_S
    assert downtimes.in_s == 15.0


def test_settles_within_a_few_rescales():
    downtimes = Downtimes()
    for _ in range(12):
        downtimes = downtimes.observed(5, 3, 40.0)
    assert downtimes.in_s == pytest.approx(40.0, rel=0.06)


def test_one_recovery_that_went_wrong_does_not_spoil_the_next_predictions():
    downtimes = Downtimes().observed(3, 5, 500.0)
    assert downtimes.out_s == 30.0 + 0.25 * 30.0


def test_what_a_restart_loses_is_learnt_from_the_balance_of_a_recovery():
    downtimes = Downtimes()
    for _ in range(40):
        # 30 s of standstill, 12 s of full capacity lost, three quarters of the capacity used: 42 s / (1 - 0.75)
        downtimes = downtimes.caught_up(30.0, 168.0, 0.75)
    assert downtimes.lost_s == pytest.approx(12.0, rel=0.01)


@given(st.lists(st.tuples(st.floats(0, 1e4), st.floats(0, 1e5), st.floats(0, 3)), max_size=30))
def test_what_is_lost_stays_within_bounds(recoveries):
    downtimes = Downtimes()
    for recovery in recoveries:
        downtimes = downtimes.caught_up(*recovery)
    assert 0.0 <= downtimes.lost_s <= MOST_LOST_S


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
def test_a_failed_observation_is_not_believed(value):
    with pytest.raises(ValueError, match="finite and not negative"):
        Downtimes().observed(3, 5, value)


def test_state():
    downtimes = Downtimes(20.0, 10.0, 60.0)
    assert Downtimes.from_state(downtimes.to_state()) == downtimes
    assert Downtimes.from_state({"out_s": math.nan, "in_s": None, "failure_s": 1e9}) == Downtimes(failure_s=CEILING_S)


def test_failures_of_a_profile_count_beside_those_of_the_job():
    profiled = Downtimes().after_failures(50.0, 4)
    assert (profiled.failure_s, profiled.failures) == (50.0, 4.0), "what was anticipated rests on no failure"
    seen = profiled.observed(3, 3, 60.0)
    assert seen.failure_s == 50.0 + 10.0 / 5
    again = seen.after_failures(52.0, 5)
    assert (again.failure_s, again.failures) == (52.0, 10.0)
    assert again.after_failures(52.0, 50).failures == MOST_FAILURES


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
def test_a_mean_that_cannot_be_is_not_believed(value):
    with pytest.raises(ValueError, match="finite and not negative"):
        Downtimes().after_failures(value, 3)

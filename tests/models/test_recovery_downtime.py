"""Downtimes settle on what is observed and stay within bounds."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.recovery.downtime import CEILING_S, FLOOR_S, Downtimes


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
    for _ in range(8):
        downtimes = downtimes.observed(5, 3, 40.0)
    assert downtimes.in_s == pytest.approx(40.0, rel=0.06)


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
def test_a_failed_observation_is_not_believed(value):
    with pytest.raises(ValueError, match="finite and not negative"):
        Downtimes().observed(3, 5, value)


def test_state():
    downtimes = Downtimes(20.0, 10.0, 60.0)
    assert Downtimes.from_state(downtimes.to_state()) == downtimes
    assert Downtimes.from_state({"out_s": math.nan, "in_s": None, "failure_s": 1e9}) == Downtimes(failure_s=CEILING_S)

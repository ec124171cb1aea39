"""Downtimes settle on what is observed and stay within bounds."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdix.models.recovery.downtime import (
    CEILING_S,
    FLOOR_S,
    IN_PLACE_LOST_S,
    IN_PLACE_S,
    LOST_S,
    MOST_LOST_S,
    MOST_SEEN,
    OUT_S,
    Anticipated,
    Downtimes,
)


def test_starts_as_in_the_paper():
    downtimes = Downtimes()
    assert (downtimes.between(4, 6), downtimes.between(6, 4), downtimes.between(4, 4)) == (30.0, 15.0, 30.0)


@given(st.lists(st.floats(0, 1e6), max_size=50))
def test_stays_within_bounds(observed):
    downtimes = Downtimes()
    for value in observed:
        downtimes = downtimes.observed(3, 5, value)
    assert FLOOR_S <= downtimes.out_s <= CEILING_S
    assert FLOOR_S <= downtimes.in_s <= CEILING_S


def test_what_was_never_seen_follows_what_was():
    quick = Downtimes().observed(6, 4, 1.0).observed(6, 4, 1.0)
    assert quick.out_s == pytest.approx(2.0 * quick.in_s)
    assert quick.observed(4, 6, 20.0).in_s == quick.in_s, "what was seen does not follow"
    assert quick.failure_s == Downtimes().failure_s, "a failure has to be detected first"


def test_what_was_only_assumed_weighs_a_quarter_of_the_first_observation():
    once = Downtimes().observed(5, 3, 60.0)
    assert once.in_s == pytest.approx(15.0 * 4.0**0.8), "between 15 and 60 s, in shares"
    assert once.observed(5, 3, 60.0).in_s == pytest.approx((once.in_s * 60.0) ** 0.5)


@pytest.mark.parametrize("true_s", [1.0, 2.0, 40.0, 120.0])
def test_settles_within_a_few_rescales(true_s):
    """The first belief may be a dozen times too long."""
    downtimes = Downtimes()
    for _ in range(4):
        downtimes = downtimes.observed(3, 5, true_s)
    assert downtimes.out_s == pytest.approx(true_s, rel=0.6)
    for _ in range(8):
        downtimes = downtimes.observed(3, 5, true_s)
    assert downtimes.out_s == pytest.approx(true_s, rel=0.2)


def seen(*downtimes_s):
    downtimes = Downtimes()
    for downtime_s in downtimes_s:
        downtimes = downtimes.observed(3, 5, downtime_s)
    return downtimes.out_s


def test_one_recovery_that_went_wrong_does_not_spoil_the_next_predictions():
    assert seen(*[20.0] * 9, 500.0) == pytest.approx(seen(*[20.0] * 9) * 2**0.1, rel=0.02)
    assert seen(*[20.0] * 9, 500.0, 20.0) < 1.2 * 20.0


def test_two_odd_recoveries_in_a_row_are_a_change_of_the_job():
    """State grew, or an image must be pulled now: the next prediction is near what comes."""
    assert seen(*[5.0] * 12, 50.0, 72.0) == pytest.approx(60.0)
    assert seen(*[60.0] * 12, 5.0, 5.0) == pytest.approx(5.0)


def test_one_too_long_and_one_too_short_are_no_change():
    assert seen(*[20.0] * 12, 500.0, 2.0) == pytest.approx(20.0, rel=0.1)


@given(st.lists(st.floats(10.0, 40.0), min_size=3, max_size=12))
def test_what_is_believed_lies_among_what_was_seen(observed):
    assert min(*observed, 30.0) * (1 - 1e-9) <= seen(*observed) <= max(*observed, 30.0) * (1 + 1e-9)


def test_what_a_restart_loses_is_learnt_from_the_balance_of_a_recovery():
    downtimes = Downtimes()
    for _ in range(40):
        # 30 s of standstill, 12 s of full capacity lost, three quarters of the capacity used: 42 s / (1 - 0.75)
        downtimes = downtimes.caught_up(2, 3, 30.0, 168.0, 0.75)
    assert downtimes.lost_s == pytest.approx(12.0, rel=0.01)
    assert downtimes.lost_between(3, 2) == downtimes.lost_between(2, 3) == downtimes.lost_s


def test_what_failures_lose_says_nothing_of_rescales_that_make_a_checkpoint_first():
    """Rescales in place lose next to nothing; a failure loses what was done since the last checkpoint."""
    downtimes = Downtimes()
    for _ in range(40):
        downtimes = downtimes.caught_up(2, 3, 2.0, 2.0, 0.0).caught_up(3, 3, 30.0, 168.0, 0.75)
    assert downtimes.lost_s == pytest.approx(0.0, abs=0.2)
    assert downtimes.failure_lost_s == pytest.approx(12.0, rel=0.02)


def test_rescales_in_place_are_assumed_to_be_short_until_one_was_seen():
    assumed = Downtimes().in_place()
    assert assumed.out_s == assumed.in_s == IN_PLACE_S
    assert assumed.lost_s == IN_PLACE_LOST_S
    assert (assumed.failure_s, assumed.failure_lost_s) == (OUT_S, LOST_S), "a failure has to be detected all the same"
    seen = assumed.observed(5, 3, 40.0)
    assert seen.in_place() == seen
    assert seen.in_s == pytest.approx(IN_PLACE_S * (40.0 / IN_PLACE_S) ** 0.8)
    assert assumed.in_place() == assumed
    failed = assumed.caught_up(3, 3, 30.0, 168.0, 0.75).in_place()
    assert failed.lost_s == IN_PLACE_LOST_S < failed.failure_lost_s, "a failure says nothing of rescales in place"
    learnt = assumed.losing(3, 2, 0.5)
    assert learnt.in_place() == learnt, "what was learnt of what is lost stays, also where no stop was seen yet"
    assert Downtimes().in_place(checkpoint=False).lost_s == LOST_S


def test_a_state_from_before_failures_were_kept_apart_counts_for_both():
    state = {key: value for key, value in Downtimes().to_state().items() if "lost" not in key}
    found = Downtimes.from_state({**state, "lost_s": 12.0, "losses": 3.0})
    assert found.lost_s == found.failure_lost_s == 12.0
    assert found.caught_up(2, 3, 2.0, 2.0, 0.0).lost_s == pytest.approx(9.0)


@given(st.lists(st.tuples(st.floats(0, 1e4), st.floats(0, 1e5), st.floats(0, 3)), max_size=30))
def test_what_is_lost_stays_within_bounds(recoveries):
    downtimes = Downtimes()
    for recovery in recoveries:
        downtimes = downtimes.caught_up(2, 3, *recovery)
    assert 0.0 <= downtimes.lost_s <= MOST_LOST_S


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
def test_a_failed_observation_is_not_believed(value):
    with pytest.raises(ValueError, match="finite and not negative"):
        Downtimes().observed(3, 5, value)


@given(st.lists(st.tuples(st.integers(1, 3), st.floats(0, 1e4)), max_size=20))
def test_state(observed):
    downtimes = Downtimes().caught_up(2, 3, 30.0, 168.0, 0.75)
    for candidate, downtime_s in observed:
        downtimes = downtimes.observed(2, candidate, downtime_s)
    assert Downtimes.from_state(json.loads(json.dumps(downtimes.to_state()))) == downtimes


@pytest.mark.parametrize(
    "part",
    [{"out": [math.nan, 0.0, None]}, {"inward": [10.0, -1.0, None]}, {"failure": [10.0]}, {"lost": [math.inf, 1.0]}],
)
def test_a_state_that_cannot_be_is_refused(part):
    with pytest.raises(ValueError, match=r"finite|unpack"):
        Downtimes.from_state({**Downtimes().to_state(), **part})


def test_failures_of_a_profile_count_beside_those_of_the_job():
    profiled = Downtimes().after_failures(50.0, 4)
    assert profiled.failure == Anticipated(50.0, 4.0), "what was anticipated rests on no failure"
    seen = profiled.observed(3, 3, 60.0)
    assert seen.failure_s == pytest.approx(50.0 * 1.2 ** (1 / 5))
    again = seen.after_failures(seen.failure_s, 5)
    assert again.failure == Anticipated(pytest.approx(seen.failure_s), 10.0)
    assert again.after_failures(52.0, 50).failure.seen == MOST_SEEN


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
def test_a_mean_that_cannot_be_is_not_believed(value):
    with pytest.raises(ValueError, match="finite and not negative"):
        Downtimes().after_failures(value, 3)

"""Which deployments of a profiling step are valid; a test per defect of the original program."""

import math

import pytest

from perdix.models.profiling.profile import ProfilePoint, expected_latency_ms, valid_deployments


def point(scale_out, rate, latency, valid=True):
    return ProfilePoint(scale_out, rate, rate, latency, valid)


def test_the_group_with_the_lower_latencies_is_valid():
    found = valid_deployments({2: 36_000.0, 5: 1_025.0, 8: 1_040.0, 11: 1_030.0}, 40_000.0)
    assert found == {2: False, 5: True, 8: True, 11: True}


def test_one_group_drops_nobody():
    assert all(valid_deployments({2: 1_000.0, 5: 1_400.0, 8: 900.0}, 20_000.0).values())


def test_groups_of_equal_size_are_not_merged():
    found = valid_deployments({2: 30_000.0, 5: 31_000.0, 8: 1_000.0, 11: 1_010.0}, 40_000.0)
    assert found == {2: False, 5: False, 8: True, 11: True}


def test_where_nobody_has_a_neighbour_not_everyone_is_valid():
    found = valid_deployments({2: 900_000.0, 5: 30_000.0, 8: 1_000.0}, 40_000.0)
    assert found == {2: False, 5: False, 8: True}


def test_the_distance_is_the_same_in_either_direction():
    """Published: |a - b| / a < 2 calls 1 s a neighbour of any 100 s, and 100 s none of 1 s."""
    low = valid_deployments({1: 1_000.0, 2: 100_000.0, 3: 110_000.0}, 1e4)
    high = valid_deployments({3: 110_000.0, 2: 100_000.0, 1: 1_000.0}, 1e4)
    assert low == high == {1: True, 2: False, 3: False}


def test_a_majority_of_overloads_is_not_valid():
    assert valid_deployments({2: 30_000.0, 5: 31_000.0, 8: 1_000.0}, 4e4) == {2: False, 5: False, 8: True}


def test_a_chain_of_small_gaps_does_not_reach_any_latency():
    found = valid_deployments({1: 1_000.0, 2: 2_500.0, 3: 6_000.0, 4: 15_000.0}, 1e4)
    assert found[1]
    assert not found[4]


def test_one_earlier_point_is_a_level_and_not_nan():
    earlier = [point(5, 20_000, 1_000.0)]
    assert expected_latency_ms(5, 80_000.0, earlier) == 1_000.0
    assert valid_deployments({5: 1_500.0, 8: 9_000.0}, 40_000.0, earlier) == {5: True, 8: True}
    assert valid_deployments({5: 9_000.0}, 40_000.0, earlier) == {5: False}


def test_below_three_a_line_through_earlier_points_decides():
    earlier = [point(23, 1e5 * k, 1_000.0 + 100.0 * k) for k in range(1, 5)]
    assert expected_latency_ms(23, 6e5, earlier) == pytest.approx(1_600.0)
    assert valid_deployments({23: 3_000.0}, 6e5, earlier) == {23: True}
    assert valid_deployments({23: 6_000.0}, 6e5, earlier) == {23: False}


def test_a_falling_line_does_not_lead_to_expect_less_than_ever_seen():
    earlier = [point(5, 1e4, 1_200.0), point(5, 2e4, 900.0)]
    assert expected_latency_ms(5, 9e4, earlier) == 900.0


def test_earlier_invalid_points_and_other_deployments_tell_nothing():
    earlier = [point(5, 1e4, 90_000.0, valid=False), point(8, 1e4, 1_000.0)]
    assert math.isnan(expected_latency_ms(5, 2e4, earlier))
    assert valid_deployments({5: 50_000.0}, 2e4, earlier) == {5: True}


def test_when_all_are_overloaded_at_once_their_own_past_tells():
    earlier = [point(n, 2e4, 1_000.0) for n in (2, 5, 8)]
    found = valid_deployments({2: 50_000.0, 5: 48_000.0, 8: 52_000.0}, 4e4, earlier)
    assert not any(found.values())


def test_what_was_not_measured_or_lags_behind_is_not_valid():
    found = valid_deployments(
        {2: math.nan, 5: 1_000.0, 8: 1_000.0, 11: 1_000.0}, 1e5, throughputs_per_s={5: 7e4, 8: 0.99e5, 11: math.nan}
    )
    assert found == {2: False, 5: False, 8: True, 11: True}


def test_a_step_without_a_rate_is_refused():
    with pytest.raises(ValueError, match="rate above 0"):
        valid_deployments({2: 1.0}, 0.0)

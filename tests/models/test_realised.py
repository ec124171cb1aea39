"""Forecasts against what was measured since: over the first minute, the whole horizon, and beside last value."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdix.models.forecasting.contract import Forecast, Workload
from perdix.models.realised import Missed, come_true


def forecast(mean, origin_s=1000.0, step_s=1.0) -> Forecast:
    return Forecast(origin_s, step_s, np.asarray(mean, dtype=float))


def test_a_forecast_comes_true_on_its_own_steps():
    made = forecast(np.full(900, 110.0))
    minute = come_true(made, Workload(940.0, 1.0, np.full(120, 100.0)))
    assert minute.first_minute_wape == pytest.approx(0.1)
    assert minute.horizon_wape is None
    whole = come_true(made, Workload(1000.0, 10.0, np.full(90, 100.0)))
    assert whole.horizon_wape == pytest.approx(0.1)
    later = come_true(made, Workload(1030.0, 1.0, np.full(900, 100.0)))  # half of the first minute was not read
    assert later.first_minute_wape == pytest.approx(0.1)


def test_what_was_not_measured_is_not_judged():
    made = forecast(np.full(900, 100.0))
    assert come_true(made, Workload(1000.0, 1.0, np.full(900, np.nan))).horizon_wape is None
    assert come_true(made, Workload(0.0, 1.0, np.full(500, 1.0))).first_minute_wape is None
    part = come_true(made, Workload(1000.0, 1.0, np.full(25, 100.0)))
    assert part.first_minute_wape is None


def test_coarse_steps_and_fine_measurements_meet():
    made = forecast([100.0] * 15, step_s=60.0)
    fine = come_true(made, Workload(1000.0, 1.0, np.tile([50.0, 150.0], 450)))
    assert fine.horizon_wape == pytest.approx(0.0)


def test_the_whole_horizon_is_held_against_the_last_minute_before_it():
    made = forecast(np.full(900, 110.0))
    measured = np.concatenate([np.full(60, 80.0), np.full(900, 100.0)])
    missed = come_true(made, Workload(940.0, 1.0, measured)).missed
    assert missed == Missed(
        1000.0, pytest.approx(15 * 10.0), pytest.approx(15 * 20.0), pytest.approx(15 * 100.0), 900.0
    )


def test_noise_within_a_minute_is_held_against_nobody():
    noise = np.tile([0.0, 200.0], 480)
    missed = come_true(forecast(np.full(90, 100.0), step_s=10.0), Workload(940.0, 1.0, noise)).missed
    assert missed is not None
    assert (missed.by_forecast, missed.by_last_value) == (pytest.approx(0.0), pytest.approx(0.0))


@pytest.mark.parametrize(("step_s", "per_s"), [(1.0, 1e-12), (10.0, 1e-3), (60.0, 1e-3)])
def test_a_forecast_of_less_than_a_record_is_right_where_nothing_arrives(step_s, per_s):
    """A smoothed load never falls to zero: each idle night was an infinite error, and asked for a retrain."""
    made = forecast(np.full(round(900 / step_s), per_s), step_s=step_s)
    found = come_true(made, Workload(940.0, 1.0, np.zeros(960)))
    assert (found.first_minute_wape, found.horizon_wape) == (0.0, 0.0)
    assert found.missed == Missed(1000.0, 0.0, 0.0, 0.0, 900.0)


def test_a_forecast_of_a_load_that_does_not_arrive_is_wrong_without_limit():
    made = forecast(np.full(90, 0.02), step_s=10.0)  # more than a record in the first minute
    found = come_true(made, Workload(940.0, 1.0, np.zeros(960)))
    assert (found.first_minute_wape, found.horizon_wape) == (math.inf, math.inf)
    assert found.missed == Missed(1000.0, pytest.approx(15 * 0.02), 0.0, 0.0, 900.0)
    little = come_true(forecast(np.full(90, 1e-12), step_s=10.0), Workload(940.0, 1.0, np.full(960, 5.0)))
    assert little.first_minute_wape == pytest.approx(1.0)


def test_without_the_minute_before_there_is_no_last_value_to_compare_with():
    whole = come_true(forecast(np.full(900, 100.0)), Workload(1000.0, 1.0, np.full(900, 100.0)))
    assert whole.horizon_wape == 0.0
    assert whole.missed is None


@given(st.integers(0, 960), st.integers(0, 960))
def test_a_gap_in_the_truth_costs_at_most_what_it_hides(first, second):
    measured = np.full(960, 100.0)
    measured[min(first, second) : max(first, second)] = np.nan
    missed = come_true(forecast(np.full(900, 110.0)), Workload(940.0, 1.0, measured)).missed
    if missed is not None:
        assert missed.by_forecast == pytest.approx(0.1 * missed.actual)
        assert missed.by_last_value == pytest.approx(0.0)
        assert 0.5 * 1500.0 <= missed.actual <= 1500.0

"""For how long a scale-out is likely to suit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdix.models.forecasting.contract import Forecast
from perdix.policies.daedalus import expected_stay_s


def forecast(rates: np.ndarray, step_s: float = 1.0) -> Forecast:
    return Forecast(0.0, step_s, rates)


def line(per_s: float, slope: float, count: int = 900) -> Forecast:
    return forecast(per_s + slope * np.arange(1.0, count + 1.0))


def test_a_flat_load_stays_for_as_long_as_may_be_counted_on():
    assert expected_stay_s(line(100.0, 0.0), 90.0, 110.0) == 1800.0


@pytest.mark.parametrize("slope", [0.05, -0.05])
def test_it_ends_when_the_load_leaves_what_suits(slope):
    assert expected_stay_s(line(100.0, slope), 80.0, 120.0) == pytest.approx(400.0, abs=1.0)


@pytest.mark.parametrize("slope", [0.015, -0.015])
def test_beyond_its_horizon_the_forecast_goes_on_as_it_ended(slope):
    assert expected_stay_s(line(100.0, slope), 80.0, 120.0) == pytest.approx(20.0 / 0.015, abs=2.0)


def test_a_crest_within_the_horizon_counts_and_what_follows_it_goes_on_falling():
    rates = np.concatenate([np.linspace(90.0, 100.0, 450), np.linspace(100.0, 90.0, 450)])
    assert expected_stay_s(forecast(rates), 80.0, 99.0) == pytest.approx(405.0, abs=2.0)
    assert expected_stay_s(forecast(rates), 80.0, 101.0) == pytest.approx(900.0 + 450.0, abs=5.0)


def test_of_a_single_step_no_slope_is_known():
    assert expected_stay_s(forecast(np.array([5.0]), 60.0), 0.0, 9.0) == 1800.0


@pytest.mark.parametrize("rates", [[], [1.0, np.nan]])
def test_a_forecast_that_is_none_is_refused(rates):
    with pytest.raises(ValueError, match="forecast"):
        expected_stay_s(forecast(np.array(rates)), 0.0, 1.0)


@given(st.lists(st.floats(0.0, 1e6), min_size=1, max_size=50), st.floats(0.0, 1e6), st.floats(1.0, 3.0))
def test_a_wider_range_is_never_left_sooner(rates, low, wider):
    told = forecast(np.array(rates), 10.0)
    stays = expected_stay_s(told, low, 2.0 * low)
    assert 0.0 <= stays <= expected_stay_s(told, low / wider, 2.0 * low * wider) <= 1800.0

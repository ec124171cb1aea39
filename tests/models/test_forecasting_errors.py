from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdix.models.forecasting.errors import (
    coverage,
    error_of_maximum,
    mae,
    quantile_loss,
    smape,
    under_forecast_rate,
    wape,
)

NAN = float("nan")


def test_wape_by_hand():
    assert wape([100, 200, 100], [110, 180, 100]) == pytest.approx(30 / 400)
    assert wape([100, NAN, 100], [110, 5, NAN]) == pytest.approx(0.1)


def test_wape_of_a_truth_that_is_zero():
    assert wape([0, 0], [0, 0]) == 0.0
    assert wape([0, 0], [0, 1]) == math.inf
    assert math.isnan(wape([NAN], [1]))
    assert math.isnan(wape([], []))


def test_smape_mae_coverage_by_hand():
    assert smape([100, 0], [50, 0]) == pytest.approx((2 * 50 / 150) / 2)
    assert mae([1, 2, NAN], [2, 0, 9]) == 1.5
    assert coverage([1, 2, 3, NAN], [1, 1, 5, 0]) == pytest.approx(2 / 3)
    assert all(math.isnan(error([], [])) for error in (smape, mae, coverage, error_of_maximum))


def test_error_of_the_maximum():
    assert error_of_maximum([50, 100, 80], [90, 60, 70]) == pytest.approx(-0.1)
    assert error_of_maximum([50, 100], [NAN, 200]) == 1.0
    assert error_of_maximum([0, 0], [0, 0]) == 0.0
    assert error_of_maximum([0, 0], [0, 3]) == math.inf


def test_under_forecast_rate_counts_what_is_beyond_the_tolerance():
    assert under_forecast_rate([-0.2, -0.1, 0.3, NAN]) == pytest.approx(1 / 3)
    assert under_forecast_rate([-0.2, -0.1, 0.3], tolerance=0.0) == pytest.approx(2 / 3)
    assert math.isnan(under_forecast_rate([NAN]))


def test_a_quantile_pays_for_the_side_it_should_not_be_on():
    assert quantile_loss([-1.0, 1.0], 0.9) == pytest.approx((0.9 + 0.1) / 2)
    assert quantile_loss([-2.0, NAN], 0.5) == 1.0
    assert math.isnan(quantile_loss([NAN], 0.9))


@given(st.lists(st.floats(-1e3, 1e3), min_size=5, max_size=60), st.sampled_from([0.5, 0.9, 0.95]), st.floats(-2e3, 2e3))
def test_no_level_costs_less_than_the_quantile_itself(values, probability, level):
    truth = np.array(values)
    quantile = np.quantile(truth, probability, method="inverted_cdf")
    best, other = (quantile_loss(guess - truth, probability) for guess in (quantile, level))
    assert best <= other + 1e-9 * (1.0 + abs(other))


def test_lengths_must_agree():
    with pytest.raises(ValueError, match="2 actual values against 1"):
        wape([1, 2], [1])


@given(st.lists(st.floats(0.1, 1e6), min_size=1), st.floats(1e-3, 1e3))
def test_wape_has_no_unit(rates, unit):
    truth = np.array(rates)
    guess = truth[::-1]
    assert wape(truth * unit, guess * unit) == pytest.approx(wape(truth, guess), rel=1e-6, abs=1e-12)

"""The projected rate: the highest averaging bin of a forecast."""

import math

import numpy as np
import pytest

from perdix.models.forecasting.contract import Forecast
from perdix.models.forecasting.projected_rate import averaging_bins_per_s, projected_rate_per_s


def forecast(rates):
    return Forecast(0.0, 10.0, np.asarray(rates, float), {0.9: 2.0 * np.asarray(rates, float)})


def test_a_rising_workload_is_met_where_it_will_be():
    rising = forecast(np.arange(100.0))
    assert averaging_bins_per_s(rising).tolist() == [9.5, 29.5, 49.5, 69.5, 89.5]
    assert projected_rate_per_s(rising) == 89.5


def test_a_falling_workload_is_met_where_it_is():
    assert projected_rate_per_s(forecast(np.arange(100.0)[::-1])) == 89.5


def test_bins_are_equally_long_where_steps_do_not_divide():
    assert averaging_bins_per_s(forecast([0, 10, 20]), 2).tolist() == pytest.approx([10 / 3, 50 / 3])
    assert averaging_bins_per_s(forecast([7.0]), 5).tolist() == pytest.approx([7.0] * 5)
    mean = averaging_bins_per_s(forecast(np.arange(7.0) ** 2), 4).mean()
    assert mean == pytest.approx(np.mean(np.arange(7.0) ** 2))


def test_one_bin_is_the_mean_and_a_quantile_is_taken_instead():
    assert projected_rate_per_s(forecast([1.0, 3.0]), 1) == 2.0
    assert projected_rate_per_s(forecast([1.0, 3.0]), 1, quantile=0.9) == 4.0


def test_what_cannot_be_averaged_is_refused():
    with pytest.raises(ValueError, match="1 bin or more"):
        projected_rate_per_s(forecast([1.0]), 0)
    with pytest.raises(ValueError, match="no steps"):
        projected_rate_per_s(forecast([]))
    with pytest.raises(ValueError, match="not finite"):
        projected_rate_per_s(forecast([1.0, math.nan]))

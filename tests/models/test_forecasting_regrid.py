from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.interpolate import CubicHermiteSpline

from perdix.models.forecasting.regrid import _hermite, bridged, mean_preserving


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=30), st.sampled_from([5, 10, 60]))
def test_every_bin_keeps_its_mean_and_no_rate_is_negative(means, bin_s):
    knots_s = bin_s * np.arange(len(means) + 1.0)
    rates = mean_preserving(knots_s, np.array(means), np.arange(bin_s * len(means) + 1.0))
    scale = max(*means, 1.0)
    assert np.allclose(rates.reshape(-1, bin_s).mean(axis=1), means, atol=1e-8 * scale)
    assert (rates >= -1e-8 * scale).all()


def test_a_ramp_of_bins_is_a_ramp_of_seconds():
    rates = mean_preserving(60.0 * np.arange(11.0), 100.0 * np.arange(1, 11.0), np.arange(601.0))
    assert np.allclose(np.diff(rates), 100 / 60)


def test_short_gaps_are_bridged_and_long_ones_end_the_part():
    nan = np.nan
    assert bridged(np.array([nan, 1, nan, 3, nan]), 1).tolist() == [1, 2, 3]
    assert bridged(np.array([1, nan, nan, 5, 6]), 1).tolist() == [5, 6]
    assert bridged(np.array([1, nan, nan, 4]), 2).tolist() == [1, 2, 3, 4]
    assert bridged(np.array([nan, nan]), 5).tolist() == []


@given(
    st.lists(st.floats(0.0, 1e6), min_size=1, max_size=30),
    st.lists(st.floats(0.01, 100.0), min_size=30, max_size=30),
    st.integers(1, 200),
)
def test_the_cubic_is_scipys_to_the_last_bit(means, widths, steps):
    knots_s = np.concatenate([[0.0], np.cumsum(widths[: len(means)])])
    amounts, slopes = np.cumsum([0.0, *means]), np.array([*means, means[0]])
    at_s = np.linspace(knots_s[0], knots_s[-1], steps)
    expected = CubicHermiteSpline(knots_s, amounts, slopes)(at_s)
    np.testing.assert_array_equal(_hermite(knots_s, amounts, slopes, at_s), expected)

"""Cells become rates of any step, and keep their means."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from perdix.models.forecasting.regrid import rates_between

RATES = st.lists(st.floats(0.0, 1e6), min_size=1, max_size=12)


@given(st.lists(st.floats(0.0, 1e6), min_size=1, max_size=2), RATES)
def test_cells_keep_their_means_and_rates_are_not_negative(measured, ahead):
    seconds = rates_between(np.arange(10.0 * len(ahead) + 1), np.array(measured), np.array(ahead), 10.0)
    assert np.allclose(seconds.reshape(-1, 10).mean(axis=1), ahead, atol=1e-8 * max(1.0, *measured, *ahead))
    assert (seconds >= 0.0).all()


@given(RATES, st.floats(0.0, 300.0), st.floats(0.5, 40.0))
def test_beyond_the_last_cell_its_value_is_held(ahead, first_s, step_s):
    edges_s = first_s + step_s * np.arange(12.0)
    rates = rates_between(edges_s, np.array(ahead[:1]), np.array(ahead), 10.0)
    beyond = edges_s[:-1] >= 10.0 * len(ahead)
    assert np.allclose(rates[beyond], ahead[-1], atol=1e-8 * max(1.0, *ahead))
    assert np.isfinite(rates).all()


def test_a_forecast_below_zero_counts_as_zero():
    assert rates_between(np.array([0.0, 10.0]), np.array([1.0]), np.array([-5.0]), 10.0).tolist() == [0.0]

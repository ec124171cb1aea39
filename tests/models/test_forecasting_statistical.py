"""Exponential smoothing and Theta forecast as their own recursions do, though they are kept as ARIMA."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdix.models.forecasting.contract import Workload
from perdix.models.forecasting.statistical import ExponentialSmoothing, Theta, as_arima
from perdix.models.forecasting.tail import Tail

BOTH = pytest.mark.parametrize("family", [ExponentialSmoothing, Theta])
SERIES = 100.0 + np.cumsum(np.random.default_rng(0).normal(size=400))


def smoothed(series: np.ndarray, alpha: float, beta: float, phi: float, steps: int) -> np.ndarray:
    """Forecast by the recursion of the textbook, from a level at the first value and no slope."""
    level, slope = series[0], 0.0
    for value in series[1:]:
        error = value - (level + phi * slope)
        level, slope = level + phi * slope + alpha * error, phi * slope + beta * error
    return level + slope * np.cumsum(phi ** np.arange(1.0, steps + 1))


@given(st.floats(0.1, 0.95), st.floats(0.05, 0.9), st.floats(0.8, 0.97))
def test_an_arima_says_what_the_recursion_of_the_textbook_says(alpha, share, phi):
    beta = share * alpha
    for trend, damping in ((None, 1.0), (beta, 1.0), (beta, phi)):
        arima = as_arima(alpha, trend, damping, 1.0)
        expected = smoothed(SERIES, alpha, trend or 0.0, damping, 10)
        assert np.allclose(arima.forecast(SERIES, 10), expected, atol=0.2)


def workload(per_s: np.ndarray) -> Workload:
    return Workload(0.0, 60.0, per_s)


def forecast_of(member: ExponentialSmoothing | Theta, history: Workload) -> np.ndarray:
    return member.project(Tail.of(history, member.cell_s, member.keep_s), 60.0 * np.arange(16.0))


def test_a_slope_goes_on_and_theta_goes_half_of_it():
    ramp = workload(100.0 + 2.0 * np.arange(300.0) + np.random.default_rng(1).normal(0.0, 1.0, 300))
    trend, theta = (forecast_of(family.fit(ramp), ramp) for family in (ExponentialSmoothing, Theta))
    assert np.diff(trend).mean() == pytest.approx(2.0, rel=0.2)
    assert np.diff(theta).mean() == pytest.approx(1.0, rel=0.05)


@BOTH
def test_a_constant_stays(family):
    flat = workload(np.full(100, 7.0))
    assert np.allclose(forecast_of(family.fit(flat), flat), 7.0)


@BOTH
def test_the_unit_does_not_matter(family):
    small, large = workload(SERIES), workload(1e6 * SERIES)
    assert np.allclose(1e6 * forecast_of(family.fit(small), small), forecast_of(family.fit(large), large), rtol=1e-3)


@BOTH
def test_a_state_of_numbers_brings_it_back(family):
    history = workload(SERIES)
    member = family.fit(history)
    state = json.loads(json.dumps(member.to_state()))
    again = family.with_parameters(state["cell_s"], state["keep_s"], state["parameters"])
    assert np.array_equal(forecast_of(again, history), forecast_of(member, history))


@BOTH
def test_gaps_are_bridged_and_too_little_is_refused(family):
    gappy = SERIES.copy()
    gappy[380:385] = np.nan
    member = family.fit(workload(gappy))
    assert np.isfinite(forecast_of(member, workload(gappy))).all()
    with pytest.raises(ValueError, match=r"needs 20 cells of 60 s in a row; the history has 12"):
        family.fit(workload(SERIES[:12]))

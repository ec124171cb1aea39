"""ARIMA families that fit in a fraction of a second."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdix.models.forecasting.contract import Workload
from perdix.models.forecasting.fast_arima import (
    LARGEST_INVERSE_ROOT,
    Autoregression,
    FastArima,
    LocalArima,
    MinuteArima,
    fit_autoregression,
    fit_fixed,
    invertible,
)
from perdix.models.forecasting.tail import Tail

FAMILIES = [FastArima, LocalArima, MinuteArima, Autoregression]
EDGES_S = np.arange(0.0, 901.0, 60.0)


def sine(seconds: int = 7200) -> Workload:
    return Workload(0.0, 1.0, 30_000.0 + 20_000.0 * np.sin(2 * np.pi * np.arange(seconds) / 10_800.0))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_smooth_workload_is_followed_over_the_horizon(family):
    whole = sine(7200 + 900)
    history = whole.part(0, 7200)
    member = family.fit(history)
    said = member.project(Tail.of(history, member.cell_s, member.keep_s), EDGES_S)
    assert said == pytest.approx(whole.per_s[7200:].reshape(15, 60).mean(axis=1), rel=0.1)


@pytest.mark.parametrize("family", FAMILIES)
def test_parameters_rebuild_the_member(family):
    member = family.fit(sine(3600))
    assert family.with_parameters(member.cell_s, member.keep_s, member.parameters()) == member


@pytest.mark.parametrize("family", FAMILIES)
def test_a_constant_workload_stays(family):
    history = Workload(0.0, 1.0, np.full(1800, 500.0))
    member = family.fit(history)
    assert member.project(Tail.of(history, member.cell_s), EDGES_S) == pytest.approx(np.full(15, 500.0))


@pytest.mark.parametrize("family", FAMILIES)
def test_too_short_a_history_is_refused(family):
    with pytest.raises(ValueError, match=f"needs {family.least_series} bins"):
        family.fit(sine(120))


def test_lengths_stretch_with_the_horizon():
    member = FastArima.fit(Workload(0.0, 3600.0, sine(400).per_s), horizon_s=12 * 3600.0)
    assert member.bin_s == 3600.0


def test_a_fit_of_noise_forecasts_without_running_away():
    series = 1000.0 + np.random.default_rng(1).normal(0.0, 50.0, 200)
    assert np.abs(fit_fixed(series, (2, 1, 3)).forecast(series, 30) - 1000.0).max() < 200.0


@given(st.lists(st.floats(-1.5, 1.5), min_size=1, max_size=3))
def test_a_moving_average_is_made_invertible(inverse_roots):
    made = invertible(tuple(np.poly(inverse_roots)[1:]))
    size = np.abs(np.roots([1.0, *made]))
    assert len(made) == len(inverse_roots)
    assert (size <= LARGEST_INVERSE_ROOT + 1e-2).all()


def test_an_invertible_moving_average_stays():
    assert invertible((0.5, -0.2)) == pytest.approx((0.5, -0.2))
    assert invertible((2.0,)) == pytest.approx((0.5,))
    assert invertible(()) == ()


def test_an_autoregression_finds_the_coefficients_that_made_a_series():
    rng = np.random.default_rng(1)
    steps = np.zeros(5000)
    for at in range(2, len(steps)):
        steps[at] = 0.6 * steps[at - 1] - 0.3 * steps[at - 2] + rng.normal()
    found = fit_autoregression(1e4 + np.cumsum(steps), 2)
    assert found.order == (2, 1, 0)
    assert found.ar == pytest.approx((0.6, -0.3), abs=0.03)
    assert found.sigma2 == pytest.approx(1.0, rel=0.05)


@given(st.lists(st.floats(0.0, 1e6), min_size=1, max_size=60))
def test_an_autoregression_never_runs_away(rates):
    found = fit_autoregression(np.array(rates), 12)
    assert len(found.ar) <= max(1, (len(rates) - 1) // 3)
    assert np.abs(np.roots([1.0, *(-value for value in found.ar)])).max(initial=0.0) < 1.0 + 1e-9


@pytest.mark.parametrize(("count", "lags"), [(1, 0), (3, 0), (4, 1), (7, 2), (40, 12)])
def test_an_autoregression_of_a_handful_of_values_takes_fewer_lags(count, lags):
    assert len(fit_autoregression(np.random.default_rng(1).normal(size=count), 12).ar) == lags

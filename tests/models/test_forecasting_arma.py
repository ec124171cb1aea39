"""Our recursion against pmdarima's own predictions."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest

from perdix.models.forecasting.arma import Arima
from perdix.models.forecasting.auto_arima import AutoArima, _numbers, search
from perdix.models.forecasting.contract import Workload
from perdix.models.forecasting.tail import Tail
from perdix.settings.stored import restored, stored


def simulated(count: int, d: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    noise = rng.normal(0, 1, count + 50)
    series = np.zeros(count + 50)
    for t in range(2, count + 50):
        series[t] = 0.3 + 0.6 * series[t - 1] - 0.2 * series[t - 2] + noise[t] + 0.5 * noise[t - 1]
    for _ in range(d):
        series = np.cumsum(series)
    return series[50:]


@pytest.mark.parametrize(
    ("order", "intercept"),
    [
        ((2, 0, 1), True),
        ((1, 0, 2), False),
        ((0, 1, 1), False),
        ((2, 1, 2), True),
        ((3, 1, 0), False),
        ((1, 2, 2), False),
        ((0, 1, 0), False),
        ((0, 2, 0), False),
    ],
)
def test_equal_to_pmdarima_after_the_fit_and_after_new_data(order, intercept):
    pmdarima = pytest.importorskip("pmdarima")
    series = simulated(160, order[1], seed=sum(order))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # convergence is not what is tested
        fitted = pmdarima.ARIMA(order, with_intercept=intercept, maxiter=30).fit(series[:120])
        ours = _numbers(fitted, 1.0)
        scale = np.abs(series).max()
        assert np.allclose(ours.forecast(series[:120], 60), fitted.predict(60), atol=1e-3 * scale)
        fitted.arima_res_ = fitted.arima_res_.append(series[120:])  # new data, same parameters
        expected = fitted.arima_res_.forecast(60)
    assert np.allclose(ours.forecast(series, 60), expected, atol=1e-3 * scale)


def test_an_unwritten_order_is_a_walk_a_drift_or_a_line():
    series = np.array([1.0, 2.0, 4.0, 7.0])
    assert Arima(1, 0.0, (), (), 1.0).forecast(series, 3).tolist() == [7.0, 7.0, 7.0]
    assert Arima(1, 2.0, (), (), 1.0).forecast(series, 3).tolist() == [9.0, 11.0, 13.0]
    assert Arima(2, 0.0, (), (), 1.0).forecast(series, 3).tolist() == [10.0, 13.0, 16.0]
    assert Arima(0, 3.0, (0.5,), (), 1.0).forecast(np.array([10.0]), 2).tolist() == [8.0, 7.0]


def test_the_search_finds_a_model_counts_warnings_and_shows_none(recwarn):
    series = 1e5 + 1e4 * simulated(200, 1, seed=1)
    found = search(series, 1)
    assert found.arima.d == 1
    assert found.not_converged >= 0
    assert not recwarn.list
    step = np.abs(np.diff(series)).mean()
    assert np.abs(found.arima.forecast(series[:-1], 1)[0] - series[-1]) < 5 * step


def test_no_constant_with_two_differences():
    at = np.arange(150.0)
    rng = np.random.default_rng(2)
    parabola = 50.0 * at**2 + rng.normal(0, 30.0, 150)  # what pmdarima's own intercept switch would take
    assert search(parabola, 2).arima.constant == 0.0


def test_what_cannot_be_fitted_is_passed_over(monkeypatch):
    """Which order of differencing fails on a workload without noise depends on the machine's arithmetic."""
    history = Workload(0.0, 1.0, 8_000.0 + 500.0 * np.sin(np.arange(7_200) / 700.0))
    failing = {1}

    def fragile(series, d):
        if d in failing:
            raise ValueError(f"no ARIMA with d = {d} could be fitted")
        return search(series, d)

    monkeypatch.setattr("perdix.models.forecasting.auto_arima.search", fragile)
    assert AutoArima.fit(history).arima.d == 2
    failing.add(2)
    with pytest.raises(ValueError, match=r"^bins of 10 s: no ARIMA with d = 1 .*; bins of 10 s: .* d = 2 .*60 s"):
        AutoArima.fit(history)


@pytest.mark.parametrize("ar", [(1.7, -0.6999999999999998), (1.9999999999999, -0.9999999999999), (0.5, 0.5)])
def test_what_hardly_fades_is_forecast_without_a_word(ar):
    series = 100.0 + simulated(60, 1, seed=1)
    ahead = Arima(1, 0.0, ar, (0.2, 0.1, 0.3), 1.0).forecast(series, 20)  # warnings are errors here
    assert np.isfinite(ahead).all()
    assert abs(ahead[0] - series[-1]) < 10.0 * np.std(np.diff(series))


def test_a_constant_series_is_a_walk_without_noise():
    found = search(np.full(60, 12.5), 2)
    assert found.arima == Arima(1, 0.0, (), (), 0.0)


def test_a_state_is_numbers():
    model = Arima(1, 0.5, (0.25, -0.125), (0.75,), 3.0)
    assert restored(Arima, json.loads(json.dumps(stored(model)))) == model


def test_the_loop_needs_no_fitting_library():
    program = (
        "import sys, numpy as np\n"
        "from perdix.models.forecasting.families import AutoArima\n"
        "from perdix.models.forecasting.arma import Arima\n"
        "from perdix.models.forecasting.contract import Workload\n"
        "from perdix.models.forecasting.forecaster import Forecaster, forecaster_from_state\n"
        "member = AutoArima(10.0, 7200.0, 10.0, Arima(1, 0, (.5,), (.2,), 1.0), 0)\n"
        "made = Forecaster.of([member], Workload(0.0, 10.0, np.linspace(1.0, 9.0, 720)))\n"
        "made = forecaster_from_state(made.update(Workload(7200.0, 1.0, np.ones(60))).to_state())\n"
        "made.forecast(900)\n"
        "heavy = {'pmdarima', 'statsforecast', 'statsmodels', 'sklearn', 'pandas', 'xgboost', 'numba'}\n"
        "assert not heavy & set(sys.modules), sorted(heavy & set(sys.modules))\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_forecast_takes_under_five_milliseconds():
    model = Arima(1, 0.0, (0.5, 0.1, 0.1), (0.2, 0.1, 0.1), 1.0)
    member = AutoArima(10.0, 7200.0, 10.0, model, 0)
    tail = Tail(0.0, 10.0, 1e4 + simulated(721, 1, seed=3), 7210.0)
    times = []
    for _ in range(20):
        began = time.process_time()
        member.project(tail, np.arange(901.0))
        times.append(time.process_time() - began)
    assert min(times) < 0.005

"""Predicted recovery times: the vectors of the paper's rules, and a second-by-second replay as the judge."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdix.models.forecasting.contract import Forecast
from perdix.models.recovery.prediction import predict_recoveries_s


def predict_recovery_s(forecast, capacity_per_s, downtime_s, *rest, **more):
    """The recovery time of a single candidate."""
    return float(predict_recoveries_s(forecast, [capacity_per_s], [downtime_s], *rest, **more)[0])


def forecast(rates, step_s=1.0):
    return Forecast(1_000.0, step_s, np.asarray(rates, dtype=float))


FLAT = forecast(np.full(900, 100_000.0))


def test_the_vector_of_the_paper():
    assert predict_recovery_s(FLAT, 150_000, 30, 10, 100_000) == pytest.approx(110.0)


def test_the_same_vector_when_the_forecast_is_not_quite_flat():
    rates = np.full(900, 100_000.0)
    rates[-1] += 1
    assert predict_recovery_s(forecast(rates), 150_000, 30, 10, 100_000) == pytest.approx(110.0)


@pytest.mark.parametrize("step_s", [1.0, 10.0, 45.0])
def test_the_step_of_the_forecast_does_not_matter(step_s):
    rates = np.full(int(900 / step_s), 100_000.0)
    rates[-1] = 99_000.0
    assert predict_recovery_s(forecast(rates, step_s), 150_000, 30, 10, 100_000) == pytest.approx(110.0)


def test_highest_utilisation_for_600_seconds():
    highest = (600 - 30) / (600 + 10)  # of the capacity, from downtime + (downtime + checkpoint) r / (1 - r) <= 600
    assert highest == pytest.approx(0.934, abs=0.001)
    assert predict_recovery_s(FLAT, 100_000 / highest, 30, 10, 100_000) == pytest.approx(600.0)


def test_lag_adds_to_the_backlog():
    assert predict_recovery_s(FLAT, 150_000, 30, 10, 100_000, lag_records=1e6) == pytest.approx(130.0)


def test_a_forecast_above_capacity_adds_backlog():
    """40 s at 50,000 above capacity leave 2 M more to do; clipping that to 0 is the published program's mistake."""
    rates = np.full(900, 100_000.0)
    rates[30:70] = 200_000.0
    assert predict_recovery_s(forecast(rates), 150_000, 30, 10, 100_000) == pytest.approx(
        30 + 40 + (4e6 + 2e6) / 50_000
    )


def test_no_capacity_never_catches_up_whatever_arrives():
    """With nothing in the first step, all that was to be done seemed done."""
    later = forecast(np.array([0.0, 1_000.0, 1_000.0]), 60.0)
    for capacity in (0.0, -5.0, math.nan):
        assert predict_recovery_s(later, capacity, 30.0, 10.0, 0.0) == math.inf
    assert predict_recovery_s(later, 2_000.0, 30.0, 10.0, 0.0) == 30.0


def test_never_catches_up():
    for capacity in (0.0, -5.0, math.nan, 100_000.0, 50_000.0):
        assert predict_recovery_s(FLAT, capacity, 30, 10, 100_000) == math.inf


def test_beyond_the_horizon_the_last_value_goes_on():
    rates = np.full(900, 100_000.0)
    rates[-1] = 120_000.0
    backlog = 10 * 100_000 + 900 * 100_000 + 20_000 - 870 * 101_000
    assert predict_recovery_s(forecast(rates), 101_000, 30, 10, 100_000) == math.inf
    found = predict_recovery_s(forecast(rates), 125_000, 890, 10, 100_000)
    behind = 10 * 100_000 + 900 * 100_000 + 20_000 - 10 * 125_000
    assert found == pytest.approx(900 + behind / 5_000)
    assert backlog > 0


def test_a_downtime_beyond_the_horizon_counts_all_arrivals():
    rates = np.linspace(50_000, 60_000, 60)
    expected = 100 + (10 * 50_000 + rates.sum() + 40 * 60_000) / 40_000
    assert predict_recovery_s(forecast(rates), 100_000, 100, 10, 50_000) == pytest.approx(expected)


def test_nothing_to_do_is_done_at_the_restart():
    idle = forecast(np.append(np.zeros(99), 5.0))
    assert predict_recovery_s(idle, 1_000, 15.5, 10, 0.0) == 15.5
    assert predict_recovery_s(forecast(np.zeros(60)), 1_000, 15.5, 10, 0.0) == 15.5


def test_a_quantile_of_the_forecast_can_be_asked():
    both = Forecast(0.0, 1.0, np.full(900, 1e5), {0.9: np.full(900, 1.2e5)})
    assert predict_recovery_s(both, 150_000, 30, 10, 1e5, quantile=0.9) > predict_recovery_s(both, 150_000, 30, 10, 1e5)


def replayed(rates, capacity, downtime, backlog, step_s=0.05):
    """Replay in small steps: what arrives is queued, what the running job can take is taken."""
    for step in range(int(len(rates) / step_s)):
        at = step * step_s
        if at >= downtime and backlog <= 1e-6:
            return at
        backlog += rates[int(at)] * step_s - (capacity * step_s if at >= downtime else 0.0)
        if at >= downtime:
            # A queue is not negative, and the job is caught up when it first is empty.
            backlog = max(backlog, 0.0)
    return math.inf


rates_strategy = st.lists(st.floats(0, 200.0), min_size=30, max_size=60)


@given(rates_strategy, st.floats(10, 300.0), st.integers(0, 20), st.floats(0, 2_000))
def test_agrees_with_a_replay(rates, capacity, downtime, lag):
    found = predict_recovery_s(forecast(rates), capacity, downtime, 10, rates[0], lag_records=lag)
    expected = replayed(rates, capacity, downtime, 10 * rates[0] + lag)
    if math.isfinite(expected):
        slack = 0.2 + 0.05 * 200 / max(capacity - max(rates), 1.0) if capacity > max(rates) else 1.5
        assert found == pytest.approx(expected, abs=slack)
    else:
        assert found >= len(rates) - 0.1


@given(rates_strategy, st.floats(1, 300.0), st.floats(1.0, 2.0), st.floats(0, 40), st.floats(0, 1_000))
def test_is_monotone(rates, capacity, factor, downtime, lag):
    base = predict_recovery_s(forecast(rates), capacity, downtime, 10, 50.0, lag_records=lag)
    assert base >= downtime
    more = predict_recovery_s(forecast(rates), capacity * factor, downtime, 10, 50.0, lag_records=lag)
    assert more <= base * (1 + 1e-9) + 1e-9
    assert predict_recovery_s(forecast(rates), capacity, downtime, 10, 50.0, lag_records=lag * factor) >= base - 1e-6
    assert predict_recovery_s(forecast(rates), capacity, downtime, 20, 50.0, lag_records=lag) >= base - 1e-6


def test_candidates_at_once_equal_one_by_one():
    rates = 1e5 + 3e4 * np.sin(np.arange(900) / 120)
    capacities, downtimes = np.linspace(0, 3e5, 24), np.where(np.arange(24) < 9, 15.0, 30.0)
    together = predict_recoveries_s(forecast(rates), capacities, downtimes, 10, 1e5, lag_records=5e4)
    single = [
        predict_recovery_s(forecast(rates), capacity, downtime, 10, 1e5, lag_records=5e4)
        for capacity, downtime in zip(capacities, downtimes, strict=True)
    ]
    np.testing.assert_allclose(together, single)
    assert predict_recoveries_s(forecast(rates), [], [], 10, 1e5).shape == (0,)
    assert predict_recoveries_s(forecast(rates), capacities, 30.0, 10, 1e5).shape == (24,)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"forecast": forecast([])}, "no steps"),
        ({"forecast": forecast([1.0, math.nan])}, "1 of 2 forecast steps"),
        ({"downtime_s": math.nan}, "downtimes must be finite"),
        ({"downtime_s": -1.0}, "downtimes must be finite"),
        ({"checkpoint_interval_s": -1.0}, "checkpoint interval"),
        ({"recent_workload_per_s": math.nan}, "recent workload"),
        ({"lag_records": math.nan}, "consumer lag"),
    ],
)
def test_bad_input_is_named(change, message):
    good = {"forecast": FLAT, "capacity_per_s": 1.5e5, "downtime_s": 30.0, "checkpoint_interval_s": 10.0,
            "recent_workload_per_s": 1e5}  # fmt: skip
    with pytest.raises(ValueError, match=message):
        predict_recovery_s(**{**good, **change})

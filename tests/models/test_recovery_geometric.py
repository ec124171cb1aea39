"""Phoebe's recursion: its vectors, its limit, and what the original program got wrong."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perdix.models.forecasting.contract import Forecast
from perdix.models.recovery.prediction import geometric_recoveries_s, predict_recoveries_s


def forecast(rates, step_s=1.0):
    return Forecast(1_000.0, step_s, np.asarray(rates, dtype=float), {0.9: 1.1 * np.asarray(rates, dtype=float)})


LOAD = 100_000.0
FLAT = forecast(np.full(900, LOAD))


@pytest.mark.parametrize(
    ("share", "without_end", "cut_at_1_s"), [(0.25, 150.0, 149.8), (0.5, 230.0, 229.1), (0.75, 470.0, 467.3)]
)
def test_vectors_of_constant_load(share, without_end, cut_at_1_s):
    found = geometric_recoveries_s(FLAT, [LOAD / share], 110.0, 10.0, LOAD)
    assert found[0] == pytest.approx(cut_at_1_s, abs=0.06)
    exact = geometric_recoveries_s(FLAT, [LOAD / share], 110.0, 10.0, LOAD, close_to_zero_s=1e-9)
    assert exact[0] == pytest.approx(without_end, abs=1e-6)


@pytest.mark.parametrize(("downtime_s", "share"), [(90.0, 0.474), (110.0, 0.368), (130.0, 0.263)])
def test_largest_utilisation_that_recovers_in_180_s(downtime_s, share):
    just = (180.0 - downtime_s) / (180.0 + 10.0)
    assert just == pytest.approx(share, abs=5e-4)
    found = geometric_recoveries_s(FLAT, [LOAD / just, LOAD / (just + 0.02)], downtime_s, 10.0, LOAD)
    assert found[0] <= 180.0 < found[1]
    assert found[0] == pytest.approx(180.0, abs=1.0)


def test_terms_of_a_varying_workload():
    """c(0) replays 10 s at 50/s and the downtime's 30 s; c(1) what came in those 20 s, at the doubled rate."""
    rates = np.concatenate([np.full(30, 50.0), np.full(970, 100.0)])
    found = geometric_recoveries_s(forecast(rates), [100.0 * 4 / 3], 30.0, 10.0, 50.0, close_to_zero_s=1e-9)
    first = (10 * 50 + 30 * 50) / (400 / 3)
    assert first == pytest.approx(15.0)
    assert found[0] == pytest.approx(30 + first / (1 - 0.75))


def test_a_job_that_never_catches_up_has_no_finite_recovery_time():
    """The original stops at the horizon: a load above T_max got about the horizon as its recovery time."""
    found = geometric_recoveries_s(FLAT, [LOAD, 0.5 * LOAD, 0.0, math.nan, -1.0], 110.0, 10.0, LOAD)
    assert np.isinf(found).all()


def test_beyond_the_horizon_the_last_value_goes_on():
    short = forecast(np.append(np.full(59, LOAD), 0.9 * LOAD))
    exact = predict_recoveries_s(short, [1.1 * LOAD, 0.9 * LOAD], 110.0, 10.0, LOAD)
    found = geometric_recoveries_s(short, [1.1 * LOAD, 0.9 * LOAD], 110.0, 10.0, LOAD)
    assert found[0] == pytest.approx(exact[0])
    assert np.isinf(found[1])


def test_candidates_are_reckoned_side_by_side():
    capacities, downtimes = LOAD * np.array([1.2, 2.0, 4.0, 0.9]), np.array([110.0, 90.0, 130.0, 110.0])
    together = geometric_recoveries_s(FLAT, capacities, downtimes, 10.0, LOAD)
    alone = [geometric_recoveries_s(FLAT, [c], [d], 10.0, LOAD)[0] for c, d in zip(capacities, downtimes, strict=True)]
    assert together.tolist() == alone
    assert together.shape == (4,)


def test_lag_and_quantile():
    more = geometric_recoveries_s(FLAT, [2 * LOAD], 110.0, 10.0, LOAD, lag_records=1e6, close_to_zero_s=1e-9)
    assert more[0] == pytest.approx(230.0 + 1e6 / LOAD)
    high = geometric_recoveries_s(FLAT, [2 * LOAD], 110.0, 10.0, LOAD, quantile=0.9)
    assert high[0] > 230.0


def test_a_missing_number_is_refused():
    for arguments in ((math.nan, LOAD), (10.0, math.nan), (-1.0, LOAD)):
        with pytest.raises(ValueError, match="finite and not negative"):
            geometric_recoveries_s(FLAT, [2 * LOAD], 110.0, *arguments)
    with pytest.raises(ValueError, match="downtimes"):
        geometric_recoveries_s(FLAT, [2 * LOAD], -1.0, 10.0, LOAD)
    with pytest.raises(ValueError, match="no steps"):
        geometric_recoveries_s(forecast([]), [2 * LOAD], 1.0, 10.0, LOAD)
    with pytest.raises(ValueError, match="not finite"):
        geometric_recoveries_s(forecast([1.0, math.nan]), [2 * LOAD], 1.0, 10.0, LOAD)


@given(
    rates=st.lists(st.floats(0.0, 1_000.0), min_size=2, max_size=60),
    capacity=st.floats(50.0, 5_000.0),
    downtime_s=st.floats(1.0, 150.0),
    step_s=st.sampled_from([1.0, 10.0, 30.0]),
)
@example(rates=[0.0, 853.0], capacity=853.0, downtime_s=1.0, step_s=1.0)
def test_it_converges_to_the_exact_catch_up(rates, capacity, downtime_s, step_s):
    expected = forecast(rates, step_s)
    exact = predict_recoveries_s(expected, [capacity], downtime_s, 10.0, 100.0)[0]
    found = geometric_recoveries_s(expected, [capacity], downtime_s, 10.0, 100.0, close_to_zero_s=1e-7)[0]
    if math.isinf(exact):
        assert math.isinf(found)
    else:
        assert found == pytest.approx(exact, abs=1e-3, rel=1e-6)
        cut = geometric_recoveries_s(expected, [capacity], downtime_s, 10.0, 100.0)[0]
        assert cut <= exact + 1e-6

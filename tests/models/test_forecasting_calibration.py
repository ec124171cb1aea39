"""Quantiles of the path and of the maximum: calibrated on what has come true, in units of the members' disagreement."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from perdix.models.forecasting.backtest import backtest
from perdix.models.forecasting.calibration import Calibration
from perdix.models.forecasting.contract import PROBABILITIES, Workload
from perdix.models.forecasting.damped_trend import DampedTrend
from perdix.models.forecasting.errors import coverage
from perdix.models.forecasting.fast_arima import FastArima
from perdix.models.forecasting.forecaster import Forecaster, forecaster_from_state
from perdix.models.forecasting.origins import stops_of
from perdix.models.forecasting.seasonal_naive import LastValue
from perdix.models.forecasting.statistical import ExponentialSmoothing
from perdix.models.forecasting.tail import Tail
from perdix.models.forecasting.track_record import TrackRecord

LEAD_S, LEADS, ORIGINS = 60.0, 5, 200
MIDDLES_S = LEAD_S * (np.arange(LEADS) + 0.5)
FLAT = Tail.of(Workload(0.0, 1.0, np.full(900, 1000.0)), 1.0)


def record(members: np.ndarray, actual: np.ndarray) -> TrackRecord:
    """Return a record of forecasts ``(origins, members, leads)`` whose mean was said, beside the truth."""
    origins_s = LEAD_S * np.arange(len(members), dtype=np.float64)
    return TrackRecord(LEAD_S, origins_s, members, members.mean(axis=1), actual, actual)


def missed(members: int = 1, apart: float = 0.0, size: float = 100.0, seed: int = 1) -> TrackRecord:
    rng = np.random.default_rng(seed)
    said = 1000.0 + apart * np.linspace(-1.0, 1.0, members)[None, :, None] * np.ones((ORIGINS, 1, LEADS))
    return record(said, 1000.0 + size * rng.normal(size=(ORIGINS, LEADS)))


def walk(count: int, seed: int, step_s: float = 10.0) -> Workload:
    rng = np.random.default_rng(seed)
    return Workload(0.0, step_s, 50_000.0 + np.cumsum(rng.normal(0.0, 150.0, count)))


@pytest.mark.parametrize("members", [1, 3])
def test_quantiles_exceed_the_share_of_errors_that_they_promise(members):
    history = missed(members, apart=50.0 * (members > 1))
    mean, said = np.full(LEADS, 1000.0), history.forecasts[0]
    upper = Calibration(history, FLAT).quantiles(mean, MIDDLES_S, said)
    for probability in PROBABILITIES[1:]:
        assert np.mean(history.actual <= upper[probability]) == pytest.approx(probability, abs=0.02)


def test_margins_are_wide_where_members_disagree():
    calibration = Calibration(missed(3, apart=50.0), FLAT)
    mean = np.full(LEADS, 1000.0)
    near, far = (mean + apart * np.array([[-1.0], [0.0], [1.0]]) for apart in (10.0, 200.0))
    for made in (calibration.quantiles, calibration.maxima):
        assert (made(mean, MIDDLES_S, far)[0.9] > made(mean, MIDDLES_S, near)[0.9]).all()


def test_one_member_alone_misses_by_records_not_by_shares():
    calibration = Calibration(missed(1), FLAT)
    low, high = np.full(LEADS, 1000.0), np.full(LEADS, 9000.0)
    above_low = calibration.quantiles(low, MIDDLES_S, low[None])[0.9] - low
    above_high = calibration.quantiles(high, MIDDLES_S, high[None])[0.9] - high
    assert above_high == pytest.approx(above_low)


def test_noise_within_a_part_widens_quantiles_of_single_steps_only():
    rng = np.random.default_rng(1)
    noisy = Tail.of(Workload(0.0, 1.0, 1000.0 + 30.0 * rng.normal(size=900)), 1.0)
    calibration = Calibration(missed(1, size=1.0), noisy)
    assert calibration.noise_per_s == pytest.approx(30.0, rel=0.1)
    seconds = np.arange(0.5, 300.0)
    fine = calibration.quantiles(np.full(300, 1000.0), seconds, np.full((1, 300), 1000.0))[0.9]
    coarse = calibration.quantiles(np.full(LEADS, 1000.0), MIDDLES_S, np.full((1, LEADS), 1000.0))[0.9]
    assert fine.mean() == pytest.approx(1000.0 + 1.28 * 30.0, rel=0.01)
    assert coarse.mean() < 1005.0


def test_with_too_few_origins_a_random_walk_takes_the_place_of_errors():
    tail = Tail.of(walk(300, 0), 10.0)
    few = record(np.full((4, 2, LEADS), 1000.0), np.full((4, LEADS), 1000.0))
    upper = Calibration(few, tail).quantiles(np.full(LEADS, 1000.0), MIDDLES_S, np.full((2, LEADS), 1000.0))
    assert (np.diff(upper[0.9]) > 0.0).all()
    assert upper[0.5].tolist() == [1000.0] * LEADS


@given(
    arrays(np.float64, (20, 3, LEADS), elements=st.floats(0.0, 1e6)),
    arrays(np.float64, (20, LEADS), elements=st.one_of(st.floats(0.0, 1e6), st.just(float("nan")))),
    arrays(np.float64, (3, LEADS), elements=st.floats(0.0, 1e6)),
)
def test_quantiles_ascend_with_their_probability_and_maxima_with_time(members, actual, projections):
    mean = projections.mean(axis=0)
    calibration = Calibration(record(members, actual), FLAT)
    upper = calibration.quantiles(mean, MIDDLES_S, projections)
    highest = calibration.maxima(mean, MIDDLES_S, projections)
    for lower, higher in itertools.pairwise(PROBABILITIES):
        assert (upper[lower] <= upper[higher] + 1e-6).all()
        assert (highest[lower] <= highest[higher] + 1e-6).all()
    for values in (*upper.values(), *highest.values()):
        assert np.isfinite(values).all()
        assert (values >= 0.0).all()
    assert all((np.diff(values) >= 0.0).all() for values in highest.values())
    assert (highest[0.8] >= np.maximum.accumulate(mean) - 1e-6).all()


def test_the_upper_quantile_of_a_random_walk_covers_what_it_promises():
    shares = []
    for seed in range(20):
        whole = walk(1440 + 90, seed)
        made = Forecaster.fit(whole.part(0, 1440), {"last-value": LastValue, "damped-trend": DampedTrend})
        shares.append(coverage(whole.per_s[1440:], made.forecast(900.0, 10.0).quantiles[0.9]))
    assert 0.7 <= np.mean(shares) <= 0.99  # 20 walks, each of one path: a standard error of about 6 %


@pytest.mark.parametrize("family", [ExponentialSmoothing, FastArima])
def test_a_member_of_long_cells_alone_covers_single_steps_too(family):
    """Its cells are minutes, in which noise of ten seconds is averaged away; its truth is in steps of the workload."""
    rng = np.random.default_rng(3)
    noisy = Workload(0.0, 10.0, 1_000.0 * (1.0 + rng.normal(0.0, 0.15, 2_160)))
    walked = backtest({family.family: family}, noisy, stops=stops_of(noisy))
    judged = walked.backtests[family.family]
    assert coverage(judged.actual, judged.upper) == pytest.approx(0.9, abs=0.05)
    highest = judged.actual.max(axis=1) <= judged.highest[:, -1]
    assert highest.mean() > 0.7
    alone = walked.forecaster.only(family.family)
    assert alone.finest.cell_s == 10.0
    assert forecaster_from_state(alone.to_state()).update(noisy.part(2_100, 2_160)).finest.cell_s == 10.0

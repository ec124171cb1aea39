"""How much members count: by their errors of late, and never by what has not come true."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from perdix.models.forecasting.track_record import TrackRecord
from perdix.models.forecasting.weighting import combine, weights_of

LEAD_S, LEADS = 60.0, 3
RATES = st.floats(0.0, 1e9, width=32)


def record(forecasts: np.ndarray, actual: np.ndarray) -> TrackRecord:
    """Return forecasts ``(origins, members, leads)`` a minute apart, and the truth ``(origins, leads)``."""
    origins_s = LEAD_S * np.arange(len(forecasts), dtype=np.float64)
    return TrackRecord(LEAD_S, origins_s, forecasts, forecasts.mean(axis=1), actual, actual)


def missing_by(*errors: float, origins: int = 20) -> TrackRecord:
    truth = np.full((origins, LEADS), 1000.0)
    said = np.stack([truth + error for error in errors], axis=1)
    return record(said, truth)


def test_where_nothing_has_come_true_members_count_alike():
    assert weights_of(TrackRecord.empty(4, LEADS, LEAD_S)).tolist() == [[0.25] * LEADS] * 4
    unsettled = record(np.ones((5, 2, LEADS)), np.full((5, LEADS), np.nan))
    assert weights_of(unsettled) == pytest.approx(np.full((2, LEADS), 0.5))


def test_members_that_are_about_as_good_count_nearly_alike():
    better, worse = weights_of(missing_by(100.0, 110.0))[:, 0]
    assert better > worse > 0.45


def test_a_member_three_times_as_bad_does_not_count():
    assert weights_of(missing_by(10.0, 30.0))[1].max() < 0.01


def test_each_part_of_the_horizon_has_its_own_weights():
    truth = np.full((20, LEADS), 1000.0)
    errors = np.array([1.0, 50.0, 100.0])
    near, far = truth + errors, truth + errors[::-1]
    weights = weights_of(record(np.stack([near, far], axis=1), truth))
    assert weights[0, 0] > 0.99
    assert weights[1, 2] > 0.99
    assert weights[0, 1] == pytest.approx(0.5)


def test_an_origin_at_a_low_rate_says_as_much_as_one_at_a_high_rate():
    scale = np.where(np.arange(20) % 2, 1.0, 1e4)[:, None] * np.ones(LEADS)
    truth = 1000.0 * scale
    good_when_busy, good_when_calm = (
        truth + np.where(scale > 1.0, 10.0, 30.0) * scale,
        truth + np.where(scale > 1.0, 30.0, 10.0) * scale,
    )
    assert weights_of(record(np.stack([good_when_busy, good_when_calm], axis=1), truth)) == pytest.approx(
        np.full((2, LEADS), 0.5), abs=0.02
    )


def test_one_wild_forecast_does_not_silence_a_member_for_hours():
    truth = np.full((60, LEADS), 1000.0)
    steady, better_but_once = truth + 50.0, truth + 20.0
    better_but_once[30] += 1e9
    assert weights_of(record(np.stack([steady, better_but_once], axis=1), truth))[1].min() > 0.9


def test_where_the_usual_member_does_not_err_those_that_do_are_as_bad_as_it_gets():
    truth = np.full((20, LEADS), 1000.0)
    weights = weights_of(record(np.stack([truth, truth, truth + 1e-3], axis=1), truth))
    assert weights[:, 0] == pytest.approx([0.5, 0.5, 0.0], abs=1e-6)


def test_recent_errors_count_more():
    truth = np.full((240, LEADS), 1000.0)
    early, late = truth.copy(), truth.copy()
    early[:120] += 100.0
    late[120:] += 100.0
    weights = weights_of(record(np.stack([early, late], axis=1), truth))
    assert (weights[0] > weights[1]).all()


def test_a_member_that_said_nothing_gets_the_worst_error():
    silent = missing_by(10.0, 50.0, 0.0)
    forecasts = silent.forecasts.copy()
    forecasts[:, 2] = np.nan
    weights = weights_of(replace(silent, forecasts=forecasts))
    assert weights[2] == pytest.approx(weights[1], rel=1e-3)


@given(
    arrays(np.float64, (12, 3, LEADS), elements=RATES),
    arrays(np.float64, (12, LEADS), elements=st.one_of(RATES, st.just(float("nan")))),
)
def test_weights_are_shares(forecasts, actual):
    weights = weights_of(record(forecasts, actual))
    assert np.isfinite(weights).all()
    assert (weights >= 0.0).all()
    assert weights.sum(axis=0) == pytest.approx(np.ones(LEADS))


@given(arrays(np.float64, (8, 2, LEADS), elements=st.floats(0.0, 1e6)), st.floats(0.01, 100.0))
def test_weights_do_not_depend_on_the_unit(forecasts, scale):
    actual = np.full((8, LEADS), 500.0)
    before, after = record(forecasts, actual), record(scale * forecasts, scale * actual)
    if (np.abs(forecasts - 500.0).mean(axis=0).min(axis=0) > 1e-3).all():
        assert weights_of(after) == pytest.approx(weights_of(before), abs=1e-3)


@given(arrays(np.float64, (3, 5), elements=RATES), arrays(np.float64, (3, 5), elements=st.floats(0.0, 1.0)))
def test_a_combination_lies_between_its_members(projections, weights):
    made = combine(projections, weights)
    assert (made >= projections.min(axis=0) - 1e-6 * (1.0 + projections.max(axis=0))).all()
    assert (made <= projections.max(axis=0) * (1.0 + 1e-6) + 1e-6).all()


def test_a_member_without_a_forecast_leaves_its_weight_to_the_others():
    projections = np.array([[np.nan, 10.0], [30.0, 20.0]])
    assert combine(projections, np.full((2, 2), 0.5)).tolist() == pytest.approx([30.0, 15.0])
    with pytest.raises(ValueError, match="no member can forecast"):
        combine(np.full((2, 1), np.nan), np.full((2, 1), 0.5))

"""T_max over the scale-out."""

import json
import math

import numpy as np
import pytest

from perdix.models.profiling.tmax import FAMILIES, HighestRates, leave_one_out
from tests.models.measured_profile import measured_profile

LINEAR = {2: 20_000.0, 5: 50_000.0, 8: 80_000.0, 11: 110_000.0}


@pytest.mark.parametrize("family", ["line", "usl", None])
def test_a_linear_job_is_found_linear(family):
    rates = HighestRates.fit(LINEAR, family)
    assert rates.per_s([1, 6, 24]) == pytest.approx([10_000, 60_000, 240_000], rel=0.01)
    assert rates.per_s(7).shape == ()


def test_one_scale_out_is_taken_per_worker():
    assert HighestRates.fit({4: 40_000.0}).per_s([1, 4, 8]) == pytest.approx([10_000, 40_000, 80_000], rel=0.01)


def test_a_sub_linear_job_is_left_to_the_scalability_law():
    sizes = np.arange(1, 25, 3)
    truth = 10_000 * sizes / (1 + 0.05 * (sizes - 1) + 0.0005 * sizes * (sizes - 1))
    rates = HighestRates.fit(dict(zip(sizes.tolist(), truth.tolist(), strict=True)))
    assert rates.family == "usl"
    assert rates.per_s(sizes) == pytest.approx(truth, rel=1e-6)


def test_the_slope_is_never_negative():
    rates = HighestRates.fit({2: 50_000.0, 8: 30_000.0}, "line")
    assert rates.coefficients[0] >= 0.0
    assert (np.diff(rates.per_s(np.arange(1, 30))) >= 0).all()


def test_ridge_shrinks_the_slope_and_adds_to_small_scale_outs():
    """The published one says more of one worker than two, five or eight did each."""
    published, better = HighestRates.fit(LINEAR, "ridge"), HighestRates.fit(LINEAR, "line")
    assert published.per_s(1) > better.per_s(1) > 9_990


def test_what_was_not_measured_is_left_out():
    assert HighestRates.fit({**LINEAR, 14: math.nan, 17: 0.0}).known == HighestRates.fit(LINEAR).known
    with pytest.raises(ValueError, match="no T_max is known"):
        HighestRates.fit({2: math.nan})
    with pytest.raises(ValueError, match="0 workers"):
        HighestRates.fit({0: 5.0})
    with pytest.raises(ValueError, match="two scale-outs"):
        HighestRates.fit({2: 5.0}, "ridge")
    with pytest.raises(ValueError, match="'spline'"):
        HighestRates.fit(LINEAR, "spline")


def test_the_running_job_moves_it_and_is_forgotten():
    rates = HighestRates.fit(LINEAR)
    slower = rates
    for _ in range(12):
        slower = slower.learned(6, 45_000.0)
    assert rates.per_s(6) == pytest.approx(60_000, rel=0.01)
    assert 45_000 < slower.per_s(6) < 55_000
    assert len(slower.known) == len(rates.known) + 1
    for _ in range(600):
        slower = slower.learned(11, 110_000.0)
    assert [point.scale_out for point in slower.known if point.running] == [11]


def test_a_rate_that_was_kept_up_with_teaches_only_above_what_was_believed():
    rates = HighestRates.fit(LINEAR)
    assert rates.learned(5, 30_000.0, saturated=False) is rates
    assert rates.learned(5, 80_000.0, saturated=False).per_s(5) > rates.per_s(5)
    assert rates.learned(5, math.nan) is rates


def test_what_did_not_saturate_the_job_lowers_nothing_that_it_was_seen_to_take():
    """The mean with a lower bound fell below what the job had done, the more the longer it kept up."""
    measured = HighestRates.fit(LINEAR).learned(6, 80_000.0)
    between = 0.5 * (float(measured.per_s(6)) + 80_000.0)
    assert float(measured.per_s(6)) < between < 80_000.0
    assert measured.learned(6, between, saturated=False) is measured
    assert measured.learned(6, between).per_s(6) != measured.per_s(6)
    assert measured.learned(6, 90_000.0, saturated=False).per_s(6) > measured.per_s(6)


def test_the_state_is_json():
    rates = HighestRates.fit(LINEAR, "usl").learned(6, 55_000.0)
    again = HighestRates.from_state(json.loads(json.dumps(rates.to_state())))
    assert again == rates
    for broken in ({}, {**rates.to_state(), "known": []}, {**rates.to_state(), "known": [{"scale_out": 1}]}):
        with pytest.raises(ValueError, match="T_max"):
            HighestRates.from_state(broken)


@pytest.mark.shared
def test_on_the_measured_job_the_line_is_nearer_than_the_published_ridge(shared_data):
    _, most = measured_profile(shared_data)
    errors = {family: leave_one_out(most, family).mape for family in FAMILIES}
    assert errors["ridge"] == pytest.approx(0.0466, abs=5e-4)
    assert errors["line"] == pytest.approx(0.0362, abs=5e-4)
    published = HighestRates.fit(most, "ridge")
    assert published.coefficients == pytest.approx((15_891.5, 6_896.4), abs=0.1)
    assert float(published.per_s(24)) == pytest.approx(388_293, abs=1)
    assert HighestRates.fit(most).family == "line"

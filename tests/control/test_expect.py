"""The recovery to expect: what is written down when the job is stopped, whatever the policy planned with."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdix.control.expect import expected_recovery_s
from perdix.models.capacity.contract import Estimate
from perdix.models.forecasting.contract import Forecast
from perdix.models.recovery.downtime import Downtimes
from perdix.policies.contract import Situation
from perdix.settings.stream_job import Bounds, Objectives

DOWNTIMES = Downtimes.assumed(out_s=30.0, in_s=15.0, failure_s=40.0, lost_s=5.0)


def situation(load: float = 100_000.0, **changes: Any) -> Situation:
    """100,000/s on four workers of 37,500/s each."""
    whole = Situation(
        now_s=1_000.0,
        scale_out=4,
        workload_per_s=load,
        recent_workload_per_s=load,
        lag_records=0.0,
        cpu_load=0.7,
        forecast=Forecast(1_000.0, 1.0, np.full(900, load)),
        capacities={n: Estimate(n, 37_500.0 * n, 30_000.0 * n, 45_000.0 * n, True, "test") for n in range(1, 9)},
        downtimes=DOWNTIMES,
        bounds=Bounds(minimum=1, maximum=8),
        objectives=Objectives(checkpoint_interval_s=10.0),
    )
    return replace(whole, **changes)


@pytest.mark.parametrize(
    ("scale_out", "stands_s", "spare_per_s"),
    [(4, 45.0, 50_000.0), (6, 35.0, 125_000.0), (3, 20.0, 12_500.0)],
)
def test_arrivals_of_the_stop_and_of_what_is_lost_are_caught_up(
    scale_out: int, stands_s: float, spare_per_s: float
) -> None:
    """The downtime of its own direction and 5 s lost, both of which count once; no whole checkpoint is replayed."""
    expected_s = stands_s + stands_s * 100_000.0 / spare_per_s
    assert expected_recovery_s(situation(), scale_out) == pytest.approx(expected_s)


def test_what_waits_already_is_caught_up_too() -> None:
    without, with_lag = (expected_recovery_s(situation(lag_records=lag), 4) for lag in (0.0, 500_000.0))
    assert without is not None
    assert with_lag == pytest.approx(without + 500_000.0 / 50_000.0)
    assert expected_recovery_s(situation(lag_records=None), 4) == without, "an unmeasured lag is counted as none"


def test_what_is_not_known_or_never_ends_is_not_expected() -> None:
    assert expected_recovery_s(situation(), 2) is None, "75,000/s never catch up with 100,000/s"
    assert expected_recovery_s(situation(), 9) is None
    assert expected_recovery_s(situation(capacities={}), 4) is None
    for value in (0.0, -1.0, math.nan):
        broken = {4: Estimate(4, value, value, value, True, "test")}
        assert expected_recovery_s(situation(capacities=broken), 4) is None


def test_the_middle_is_expected_not_the_low_end() -> None:
    wide = {4: Estimate(4, 150_000.0, 101_000.0, 900_000.0, True, "wide")}
    assert expected_recovery_s(situation(capacities=wide), 4) == expected_recovery_s(situation(), 4)


@pytest.mark.parametrize(("low", "high"), [(0.0, 900_000.0), (101_000.0, math.inf)])
def test_an_interval_without_an_end_says_no_less_than_none(low: float, high: float) -> None:
    endless = {4: Estimate(4, 150_000.0, low, high, True, "endless")}
    assert expected_recovery_s(situation(capacities=endless), 4) == expected_recovery_s(situation(), 4)


@given(load=st.floats(0, 290_000), scale_out=st.integers(1, 8), lag=st.floats(0, 1e7))
def test_it_is_never_shorter_than_the_stop_and_never_shorter_for_more_load(
    load: float, scale_out: int, lag: float
) -> None:
    here = expected_recovery_s(situation(load, lag_records=lag), scale_out)
    if here is None:
        assert load >= 37_500.0 * scale_out
        return
    assert here >= DOWNTIMES.between(4, scale_out)
    more = expected_recovery_s(situation(1.1 * load, lag_records=lag), scale_out)
    assert more is None or more >= here - 1e-6

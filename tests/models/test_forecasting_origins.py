from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdix.models.forecasting.contract import Workload
from perdix.models.forecasting.origins import SCORED, WARM_UP, least_steps, stops_of


def history_of(seconds: float, step_s: float = 10.0) -> Workload:
    return Workload(1_700_000_000.0, step_s, np.ones(int(seconds / step_s)))


def test_a_week_is_judged_in_blocks_of_its_second_half():
    history = history_of(7 * 86_400, 60.0)
    stops = stops_of(history)
    day = (stops.scored_s - history.start_s) / 86_400
    starts = day[np.diff(day, prepend=-1.0) > 0.1]
    assert len(starts) == 4
    assert starts[0] > 3.5
    assert day[-1] * 86_400 == history.end_s - history.start_s - 900
    assert stops.scored.sum() == SCORED
    assert stops.origins_s[-1] == history.end_s


def test_every_block_is_led_in_by_three_horizons():
    stops = stops_of(history_of(7 * 86_400, 60.0))
    first_of_block = np.flatnonzero(np.diff(stops.scored.astype(int), prepend=0) == 1)
    assert len(first_of_block) == 4
    for first in first_of_block:
        lead_in_s = stops.origins_s[first - WARM_UP : first + 1]
        assert not stops.scored[first - WARM_UP : first].any()
        assert np.allclose(np.diff(lead_in_s), 300.0)


def test_an_hour_is_one_walk_with_closer_stops():
    history = history_of(3600, 1.0)
    stops = stops_of(history)
    assert stops.scored.sum() == 18
    assert stops.origins_s[0] - history.start_s >= 1200
    assert stops.scored_s[-1] == history.end_s - 900
    assert np.allclose(np.diff(stops.scored_s), 60.0)
    assert stops.origins_s[-1] == history.end_s


def test_only_where_the_truth_was_measured_is_an_origin_scored():
    history = history_of(7 * 86_400, 60.0)
    holed = history.per_s.copy()
    holed[7000:10_000] = np.nan  # two of the last three days
    stops = stops_of(Workload(history.start_s, 60.0, holed))
    assert stops.scored.sum() == SCORED
    for origin_s in stops.scored_s:
        end = round((origin_s - history.start_s) / 60.0)
        assert np.isfinite(holed[end : end + 15]).mean() >= 0.5


@pytest.mark.parametrize("rates", [np.empty(0), np.ones(50), np.full(2000, np.nan)])
def test_without_enough_truth_there_is_no_stop(rates):
    assert len(stops_of(Workload(0.0, 10.0, rates)).origins_s) == 0


@pytest.mark.parametrize(("step_s", "horizon_s"), [(1.0, 900.0), (10.0, 900.0), (60.0, 900.0), (3600.0, 43_200.0)])
def test_the_shortest_history_that_leaves_enough_is_known(step_s, horizon_s):
    needed = least_steps(step_s, horizon_s, 8)
    assert stops_of(Workload(0.0, step_s, np.ones(needed)), horizon_s).scored.sum() >= 8
    assert stops_of(Workload(0.0, step_s, np.ones(needed - 2)), horizon_s).scored.sum() < 8


@settings(deadline=None, max_examples=60)
@given(
    count=st.integers(0, 5000),
    step_s=st.sampled_from([1.0, 5.0, 60.0, 300.0, 900.0, 3600.0]),
    horizon_s=st.sampled_from([900.0, 43_200.0]),
)
def test_stops_lie_inside_in_order_and_every_scored_one_has_its_whole_truth(count, step_s, horizon_s):
    history = Workload(0.0, step_s, np.ones(count))
    stops = stops_of(history, horizon_s)
    assert (np.diff(stops.origins_s) > 0).all()
    assert ((stops.origins_s > 0) & (stops.origins_s <= history.end_s)).all()
    assert (stops.scored_s <= history.end_s - horizon_s).all()
    assert stops.scored.sum() <= SCORED

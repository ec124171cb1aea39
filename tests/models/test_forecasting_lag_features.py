"""Features know nothing after the origin, and do not depend on the level."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdix.models.forecasting.lag_features import CALENDAR, LAGS, features

HOUR_S = 3600.0
SERIES = np.random.default_rng(0).normal(size=24 * 9)


@given(st.integers(LAGS, len(SERIES) - 24), st.floats(-1e6, 1e6), st.sampled_from([12, 24]))
def test_what_comes_after_the_origin_changes_nothing(origin, poison, leads):
    """Nor a day ahead, whose last hours have theirs of the day before at the origin."""
    poisoned = SERIES.copy()
    poisoned[origin:] = poison
    clean, dirty = (features(each, 0.0, HOUR_S, np.array([origin]), leads) for each in (SERIES, poisoned))
    assert np.array_equal(clean, dirty, equal_nan=True)


@given(st.floats(-100.0, 100.0))
def test_the_level_changes_nothing(level):
    origins = np.array([30, 200])
    moved = features(SERIES + level, 0.0, HOUR_S, origins, 12)
    assert np.allclose(moved, features(SERIES, 0.0, HOUR_S, origins, 12), atol=1e-3, equal_nan=True)


def test_an_origin_alone_has_the_features_that_it_has_among_others():
    origins = np.array([50, 100, 190])
    together = features(SERIES, 0.0, HOUR_S, origins, 6)
    for index, origin in enumerate(origins):
        alone = features(SERIES[:origin], 0.0, HOUR_S, np.array([origin]), 6)
        assert np.allclose(alone[0], together[index], atol=1e-6, equal_nan=True)


def test_the_calendar_is_that_of_the_target():
    saturday_midnight_s = 2 * 86_400.0
    rows = features(SERIES, saturday_midnight_s - 24 * HOUR_S, HOUR_S, np.array([20]), 6)
    _, _, _, _, hour_of_day, weekday, weekend, within_hour = rows[0, :, -CALENDAR:].T
    assert hour_of_day.tolist() == [20.0, 21.0, 22.0, 23.0, 0.0, 1.0]
    assert weekday.tolist() == [4.0] * 4 + [5.0] * 2
    assert weekend.tolist() == [0.0] * 4 + [1.0] * 2
    assert not within_hour.any()


@pytest.mark.parametrize("cell_s", [60.0, 300.0, 420.0, 900.0, 7200.0])
def test_cells_of_any_length_have_the_same_columns(cell_s):
    series = np.random.default_rng(1).normal(size=100)
    hourly = features(SERIES, 0.0, HOUR_S, np.array([50]), 3)
    assert features(series, 0.0, cell_s, np.array([40]), 3).shape == hourly.shape

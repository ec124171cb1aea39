"""Gaps are filled with what is usual at their time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdix.models.forecasting.contract import Workload
from perdix.models.forecasting.seasons import filled
from perdix.models.forecasting.tail import Tail

HOUR_S = 3600.0
DAYS = 100.0 + 50.0 * np.sin(2.0 * np.pi * np.arange(96) / 24.0)


def tail_of(per_s: np.ndarray) -> Tail:
    return Tail.of(Workload(0.0, HOUR_S, per_s), HOUR_S)


def test_what_has_no_gap_is_left_alone():
    assert np.allclose(filled(tail_of(DAYS), 86_400.0, "it"), DAYS)


def test_a_long_gap_gets_what_is_usual_at_its_time():
    gappy = DAYS.copy()
    gappy[40:50] = np.nan
    assert np.allclose(filled(tail_of(gappy), 86_400.0, "it"), DAYS)


def test_it_is_moved_to_the_level_at_its_ends():
    risen = DAYS + np.where(np.arange(96) >= 72, 30.0, 0.0)
    gappy = risen.copy()
    gappy[78:84] = np.nan
    there = filled(tail_of(gappy), 86_400.0, "it")
    assert np.abs(there - risen).max() < 1e-9 + 30.0 / 4.0 * 1.5


@given(st.lists(st.floats(0.0, 1e6) | st.just(float("nan")), min_size=48, max_size=120))
def test_measured_values_stay_and_nothing_is_missing_or_negative(values):
    per_s = np.array(values)
    finite = np.flatnonzero(np.isfinite(per_s))
    if len(finite) < 2 or (finite[-1] - finite[0] + 1) > 2 * len(finite):
        return
    there = filled(tail_of(per_s), HOUR_S, "it")
    measured = per_s[finite[0] : finite[-1] + 1]
    known = np.isfinite(measured)
    assert np.allclose(there[known], measured[known], rtol=1e-9, atol=1e-6)
    assert np.isfinite(there).all()
    assert (there >= 0.0).all()


def test_too_little_is_refused_in_words():
    with pytest.raises(ValueError, match=r"it needs 120 h of workload; 96\.0 h are known"):
        filled(tail_of(DAYS), 5 * 86_400.0, "it")
    sparse = np.where(np.arange(96) % 3 == 0, DAYS, np.nan)
    with pytest.raises(ValueError, match="values in half of the time"):
        filled(tail_of(sparse), 86_400.0, "it")


def test_only_the_newest_part_is_kept():
    assert len(filled(tail_of(DAYS), 86_400.0, "it", keep_s=30 * HOUR_S)) == 30

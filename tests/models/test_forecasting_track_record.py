"""The track record carries along what follows from it: it must be what the record itself says."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdix.models.forecasting.contract import Workload
from perdix.models.forecasting.tail import Tail
from perdix.models.forecasting.track_record import ORIGINS_KEPT, TrackRecord

MEMBERS, LEADS, LEAD_S = 3, 4, 30.0


def kept(minutes: int, seed: int, late: int) -> TrackRecord:
    """Return a record of this many origins a minute apart, whose truth came every ``late`` minutes, with gaps."""
    rng = np.random.default_rng(seed)
    per_s = rng.lognormal(5.0, 1.0, 60 * (minutes + 1))
    per_s[rng.random(len(per_s)) < 0.1] = np.nan
    record, seen_s = TrackRecord.empty(MEMBERS, LEADS, LEAD_S), 0.0
    for minute in range(1, minutes + 1):
        if minute % late == 0:
            tail = Tail.of(Workload(0.0, 1.0, per_s[: 60 * minute]), 1.0, 7_200.0)
            record, seen_s = record.settled(tail, seen_s), tail.end_s
        said = rng.lognormal(5.0, 1.0, (MEMBERS, LEADS))
        if rng.random() < 0.3:
            said[rng.integers(MEMBERS)] = np.nan
        record = record.issued(60.0 * minute, said)
    return record


@settings(max_examples=20)
@given(minutes=st.integers(1, 40), seed=st.integers(0, 1_000), late=st.integers(1, 5))
def test_what_is_carried_along_is_what_the_record_says(minutes, seed, late):
    carried = kept(minutes, seed, late)
    anew = replace(carried)
    assert set(carried.__dict__) > set(anew.__dict__)
    assert np.array_equal(carried.missed, anew.missed, equal_nan=True)
    assert all(map(np.array_equal, carried.units, anew.units))


def test_a_record_that_was_stored_and_read_weighs_its_members_as_before():
    record = kept(60, seed=4, late=1)
    read = TrackRecord.from_state(record.to_state())
    assert read.forecasts.dtype == record.forecasts.dtype == np.float32
    assert np.array_equal(read.forecasts, record.forecasts, equal_nan=True)
    assert np.array_equal(read.weights, record.weights)
    assert all(map(np.array_equal, read.units, record.units))


def test_the_oldest_origins_are_forgotten_with_all_that_was_worked_out_of_them():
    record = kept(ORIGINS_KEPT + 5, seed=2, late=3)
    assert len(record) == len(record.missed) == len(record.units[0]) == ORIGINS_KEPT
    assert record.origins_s[0] == pytest.approx(60.0 * 6)
    assert np.array_equal(record.missed, replace(record).missed, equal_nan=True)

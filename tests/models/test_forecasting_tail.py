from __future__ import annotations

import base64
import json
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdix.models.forecasting.contract import Workload
from perdix.models.forecasting.tail import MOST_BYTES, Tail


def seconds(*rates: float, start_s: float = 0.0, step_s: float = 1.0) -> Workload:
    return Workload(start_s, step_s, np.array(rates, dtype=float))


def test_cells_are_means_and_the_last_one_may_be_cut_short():
    tail = Tail.of(seconds(1, 3, 5, 7, 9), 2.0)
    assert tail.per_s.tolist() == [2.0, 6.0, 9.0]
    assert tail.end_s == 5.0
    assert tail.append(seconds(11, start_s=5.0), 100.0).per_s.tolist() == [2.0, 6.0, 10.0]


def test_a_coarser_step_than_the_cell_makes_longer_cells():
    assert Tail.of(seconds(1, 2, step_s=60.0), 10.0).cell_s == 60.0


def test_a_gap_becomes_nan_cells_and_a_long_one_a_new_tail():
    tail = Tail.of(seconds(1, 1), 1.0)
    assert np.array_equal(
        tail.append(seconds(4, start_s=4.0), 100.0).per_s, [1.0, 1.0, np.nan, np.nan, 4.0], equal_nan=True
    )
    fresh = tail.append(seconds(4, start_s=400.0), 100.0)
    assert (fresh.start_s, fresh.per_s.tolist()) == (400.0, [4.0])


def test_a_cell_of_which_less_than_half_was_measured_is_nan():
    nan = float("nan")
    assert np.array_equal(Tail.of(seconds(1, nan, nan, nan, 5, 7), 3.0).per_s, [np.nan, 6.0], equal_nan=True)


def test_the_oldest_cells_are_dropped():
    tail = Tail.of(seconds(*range(100)), 1.0, keep_s=10.0)
    assert tail.end_s == 100.0
    assert tail.start_s + len(tail.per_s) * tail.cell_s == 100.0
    assert 10 <= len(tail.per_s) <= 11


def test_bins_end_at_the_newest_measurement():
    tail = Tail.of(seconds(*range(10), float("nan")), 1.0)
    assert tail.bins(4.0, np.inf).tolist() == [3.5, 7.5]
    assert tail.bins(4.0, 4.0).tolist() == [7.5]


def test_until_before_it_began_it_holds_nothing_and_takes_what_came_just_before():
    tail = Tail.of(seconds(1, 2, 3, start_s=100.0), 1.0).until(50.0)
    assert not len(tail.per_s)
    assert tail.append(seconds(7, 8, start_s=48.0), 100.0).newest_per_s == 8.0


def test_until_is_what_was_known_then():
    tail = Tail.of(seconds(*range(10)), 2.0)
    then = tail.until(7.0)
    assert (then.end_s, then.per_s.tolist()) == (6.0, [0.5, 2.5, 4.5])


def test_it_is_cut_anew_into_cells_of_another_length():
    tail = Tail.of(seconds(6, float("nan"), 3, 9, step_s=4.0), 4.0).until(16.0).append(seconds(1, start_s=16.0), 100.0)
    assert tail.in_cells(4.0, 100.0) is tail
    fine = tail.in_cells(2.0, 100.0)
    assert (fine.start_s, fine.cell_s, fine.end_s) == (0.0, 2.0, 17.0)
    assert np.array_equal(fine.per_s, [6, 6, np.nan, np.nan, 3, 3, 9, 9, 1], equal_nan=True)
    newest = tail.in_cells(2.0, 4.0)
    assert (newest.start_s, newest.per_s.tolist(), newest.end_s) == (12.0, [9.0, 9.0, 1.0], 17.0)


def test_nothing_finite_is_refused():
    with pytest.raises(ValueError, match="none with a value"):
        Tail.of(seconds(float("nan")), 1.0)


@given(
    rates=st.lists(st.floats(0, 1e6), min_size=2, max_size=60),
    cuts=st.lists(st.integers(0, 60), max_size=6),
    cell_s=st.sampled_from([1.0, 2.0, 7.0]),
)
def test_however_it_is_fed_the_amount_is_kept(rates, cuts, cell_s):
    whole = Tail.of(seconds(*rates), cell_s)
    tail = Tail.of(seconds(rates[0]), cell_s)
    seen = 1
    for end in sorted({cut for cut in cuts if 0 < cut < len(rates)} | {len(rates)}):
        begin = seen // 2
        tail = tail.append(seconds(*rates[begin:end], start_s=float(begin)), np.inf)
        seen = end
    known = np.isfinite(tail.per_s)
    assert np.allclose(tail.per_s[known], whole.per_s[known])
    amount = float(np.nansum(whole.per_s * np.diff(whole.edges_s())))
    assert amount == pytest.approx(sum(rates), rel=1e-9, abs=1e-6)


def test_a_state_keeps_gaps_through_json():
    tail = Tail.of(seconds(1.5, float("nan"), 3.25), 1.0)
    copy = Tail.from_state(json.loads(json.dumps(tail.to_state(), allow_nan=False)))
    assert np.array_equal(copy.per_s, tail.per_s, equal_nan=True)
    assert (copy.start_s, copy.cell_s, copy.end_s) == (tail.start_s, tail.cell_s, tail.end_s)


def test_a_state_of_eight_days_by_ten_seconds_is_well_below_a_megabyte():
    rates = 20_000.0 + np.random.default_rng(0).normal(0.0, 800.0, 69_121)
    rates[100:200] = np.nan
    tail = Tail.of(Workload(0.0, 10.0, rates), 10.0)
    text = json.dumps(tail.to_state(), allow_nan=False)
    assert len(text) < 600_000
    assert np.array_equal(Tail.from_state(json.loads(text)).per_s, tail.per_s, equal_nan=True)


def test_rates_that_were_stored_as_numbers_are_read():
    stored = {"start_s": 0.0, "cell_s": 1.0, "end_s": 3.0, "per_s": [1.0, None, 3.0]}
    assert np.array_equal(Tail.from_state(stored).per_s, [1.0, np.nan, 3.0], equal_nan=True)


def test_a_little_text_that_would_inflate_to_gigabytes_is_refused():
    bomb = base64.b64encode(zlib.compress(bytes(MOST_BYTES + 8))).decode()
    assert len(bomb) < 100_000
    with pytest.raises(ValueError, match="more than 8,000,000"):
        Tail.from_state({"start_s": 0.0, "cell_s": 1.0, "end_s": 3.0, "per_s": bomb})


@pytest.mark.parametrize("per_s", ["", "AAAA", "%", "eJwDAAAAAAE=", "eJxjZGJmYQUAACgAEA=="])
def test_rates_that_are_damaged_are_refused(per_s):
    with pytest.raises(ValueError, match=r"damaged|cut off|holds 0 values|base64|reshape"):
        Tail.from_state({"start_s": 0.0, "cell_s": 1.0, "end_s": 3.0, "per_s": per_s})

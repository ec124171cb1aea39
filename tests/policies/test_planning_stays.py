"""How long workers that were given back are not needed again."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdix.policies.planning.stays import USUAL_S, Stays, steady_s
from perdix.settings.durations import MINUTE_S


def test_workers_that_were_soon_needed_again_are_given_back_with_less_hope():
    stays, now_s = Stays(), 0.0
    for _ in range(6):
        for scale_out, minutes in ((4, 10), (2, 5)):
            now_s += minutes * MINUTE_S
            stays = stays.looked(now_s, scale_out)
    assert stays.expected_s(now_s) < 0.4 * USUAL_S


def test_a_stay_that_goes_on_is_known_to_last_so_long():
    stays = Stays().looked(0.0, 4).looked(60.0, 2)
    assert stays.expected_s(60.0 + 3 * 3600.0) == 3 * 3600.0


def test_several_steps_down_are_one_stay():
    stays = Stays().looked(0.0, 4).looked(60.0, 3).looked(600.0, 2)
    assert stays.since_s == 60.0


@pytest.mark.parametrize(
    ("minutes", "lasted"),
    [
        ([900.0] * 30 + [300.0] * 20, 20),
        ([300.0] * 30 + [310.0, 290.0, 330.0, 300.0], 34),  # within what minutes differ by
        ([200.0, 300.0, 420.0, 600.0, 840.0], 0),
        ([900.0] * 30 + [300.0, math.nan, 300.0, 300.0, math.nan], 3),  # what was not measured proves nothing
        ([1e300] * 5, 5),
        ([700.0, 0.0, 0.0, 0.0], 0),
        ([0.0, 0.0, 0.0, 700.0], 0),
        ([math.nan] * 10, 0),
        ([], 0),
    ],
)
def test_a_load_has_been_steady_since_it_was_last_another(minutes, lasted):
    assert steady_s(np.array(minutes)) == 60.0 * lasted


@given(st.lists(st.one_of(st.just(math.nan), st.floats(0.0, 1e300)), max_size=30))
def test_no_load_is_steady_for_longer_than_it_was_measured(minutes):
    assert 0.0 <= steady_s(np.array(minutes, dtype=float)) <= 60.0 * np.isfinite(minutes).sum()

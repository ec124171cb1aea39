"""Rates as short text: what comes back is what was rounded, and damage is told."""

import base64

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from perdix.models.forecasting.track_record import TrackRecord, packed, rounded, unpacked

floats = st.floats(-(2.0**90), 2.0**90, width=32) | st.sampled_from([np.nan, np.inf, -np.inf, 0.0, -0.0])


@given(arrays(np.float64, array_shapes(max_dims=3, max_side=6), elements=floats))
def test_what_is_unpacked_is_what_was_rounded_and_rounding_again_changes_nothing(values) -> None:
    kept = rounded(values)
    np.testing.assert_array_equal(unpacked(packed(values), values.shape), kept)
    np.testing.assert_array_equal(rounded(kept), kept)


@given(arrays(np.float64, 20, elements=st.floats(1e-6, 1e12)))
def test_a_rate_is_kept_to_a_hundredth_of_a_percent(values) -> None:
    np.testing.assert_allclose(rounded(values), values, rtol=1e-4)


def test_no_origins_are_no_text() -> None:
    assert packed(np.empty((0, 3))) == ""
    assert unpacked("", (0, 3)).shape == (0, 3)


@pytest.mark.parametrize("damage", ["", "!", "AAAA", packed(np.ones(4))[:-4], packed(np.ones(5))])
def test_damage_is_told(damage: str) -> None:
    with pytest.raises(ValueError, match=r"array|base64|padding|characters"):
        unpacked(damage, (4,))


def test_a_record_of_forecasts_takes_a_quarter_of_its_32_bit_numbers() -> None:
    rng = np.random.default_rng(1)
    levels = 1e5 * (1.0 + 0.3 * np.sin(np.arange(240) / 40.0))
    slopes = 0.02 * np.arange(15) * rng.standard_normal((240, 6, 1))
    assert len(packed(levels[:, None, None] * (1.0 + slopes))) < 240 * 6 * 15 * 4 * 0.35


def test_a_track_record_as_it_was_written_before_is_still_read() -> None:
    record = TrackRecord.empty(2, 3, 60.0)
    for k in range(4):
        record = record.issued(1e9 + 60.0 * k, np.full((2, 3), 7.0 + k))
    kept = {name: getattr(record, name) for name in ("forecasts", "combined", "actual", "peaks")}
    plain = {name: base64.b64encode(values.astype("<f4").tobytes()).decode() for name, values in kept.items()}
    state = {name: value for name, value in record.to_state().items() if name != "packed"}
    for again in (TrackRecord.from_state({**state, **plain}), TrackRecord.from_state(record.to_state())):
        for name, values in kept.items():
            np.testing.assert_array_equal(getattr(again, name), values)

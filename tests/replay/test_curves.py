"""What is drawn has as few points as a screen can show, and every peak of what was recorded."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from perdix.replay.curves import averages, band, elapsed_h, extremes, latency_cdf, over_seeds
from tests.replay.played import course

values = arrays(np.float64, st.integers(1, 3_000), elements=st.floats(-1e6, 1e6))
gappy = arrays(np.float64, st.integers(1, 3_000), elements=st.floats(-1e6, 1e6) | st.just(np.nan))


@given(gappy, st.integers(2, 200))
def test_no_extreme_is_lost_however_few_points_are_drawn(recorded: np.ndarray, most: int) -> None:
    times = np.arange(len(recorded), dtype=np.float64)
    at, drawn = extremes(times, recorded, most)
    assert len(drawn) <= 2 * most
    assert np.all(np.diff(at) >= 0)
    np.testing.assert_array_equal(drawn, recorded[at.astype(int)])
    if np.isfinite(recorded).any():
        assert np.nanmax(drawn) == np.nanmax(recorded)
        assert np.nanmin(drawn) == np.nanmin(recorded)


def test_a_second_of_a_spike_in_a_week_is_seen() -> None:
    week = np.ones(7 * 86_400)
    week[432_101] = 900.0
    at, drawn = extremes(np.arange(len(week), dtype=np.float64), week)
    assert drawn.max() == 900.0
    assert at[drawn.argmax()] == 432_101


def test_a_gap_stays_a_gap() -> None:
    silent = np.ones(10_000)
    silent[2_000:4_000] = np.nan
    _, drawn = extremes(np.arange(10_000, dtype=np.float64), silent, 100)
    assert np.isnan(drawn).sum() == pytest.approx(40, abs=2)


@given(values, st.integers(1, 200))
def test_a_band_covers_what_it_stands_for(low: np.ndarray, most: int) -> None:
    high = low + np.abs(low)
    starts, least, greatest = band(np.arange(len(low), dtype=np.float64), low, high, most)
    assert len(starts) == len(least) == len(greatest) <= most
    assert least.min() == low.min()
    assert greatest.max() == high.max()


@given(values, st.integers(1, 200))
def test_averages_keep_the_sum(recorded: np.ndarray, most: int) -> None:
    starts, means = averages(np.arange(len(recorded), dtype=np.float64), recorded, most)
    assert len(starts) == len(means) <= most
    lengths = np.diff(np.append(starts, len(recorded)))
    assert (means * lengths).sum() == pytest.approx(recorded.sum(), rel=1e-9, abs=1e-3)


def test_courses_of_unequal_length_are_compared_as_long_as_all_last() -> None:
    mean, low, high = over_seeds([course(100, workers=2.0), course(90, workers=6.0)], "workers")
    assert len(mean) == len(low) == len(high) == 90
    assert (mean[0], low[0], high[0]) == (4.0, 2.0, 6.0)


def test_time_begins_at_zero() -> None:
    hours = elapsed_h(course(7_200))
    assert hours[0] == 0.0
    assert hours[3_600] == 1.0


class TestLatencyCdf:
    def test_every_record_counts_once(self) -> None:
        """Half the seconds are slow, but nine of ten records pass in the quick ones."""
        latency_ms = np.repeat([600.0, 9_000.0], 50)
        throughput = np.repeat([9_000.0, 1_000.0], 50)
        latencies_ms, share = latency_cdf([course(100, latency_p95_ms=latency_ms, throughput_per_s=throughput)])
        assert share[latencies_ms == 600.0] == pytest.approx(0.9)
        assert (latencies_ms[-1], share[-1]) == (9_000.0, 1.0)

    def test_seconds_without_output_have_no_latency(self) -> None:
        latency_ms = np.full(100, 600.0)
        latency_ms[:50] = np.nan
        latencies_ms, share = latency_cdf([course(100, latency_p95_ms=latency_ms)])
        assert list(latencies_ms) == [600.0]
        assert list(share) == [1.0]

    def test_a_run_that_never_puts_anything_out_has_no_distribution(self) -> None:
        latencies_ms, share = latency_cdf([course(100, throughput_per_s=np.zeros(100))])
        assert len(latencies_ms) == len(share) == 0

    @given(
        arrays(np.float64, st.integers(1, 2_000), elements=st.floats(1.0, 1e7)),
        st.integers(10, 300),
    )
    def test_shares_rise_to_one_and_are_those_of_the_records(self, latency_ms: np.ndarray, most: int) -> None:
        made = course(len(latency_ms), latency_p95_ms=latency_ms)
        latencies_ms, share = latency_cdf([made], most)
        assert len(latencies_ms) <= most + 1
        assert np.all(np.diff(latencies_ms) > 0)
        exact = [(latency_ms <= limit_ms).mean() for limit_ms in latencies_ms]
        np.testing.assert_allclose(share, exact, atol=1e-9)
        assert latencies_ms[-1] == latency_ms.max()

"""What is recorded of the live load, and how it is replayed at another rate."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdix.profiling.recording import Recording


def flickering(seconds: int = 600, per_s: float = 10_000.0, noise: float = 0.1) -> np.ndarray:
    return per_s * (1.0 + noise * np.random.default_rng(3).normal(size=seconds))


def test_a_replay_has_the_rate_that_is_asked_for_and_flickers_as_the_recording() -> None:
    recording = Recording(flickering(noise=0.1))
    replayed = recording.at(50_000.0, 0, 600)
    assert replayed.mean() == pytest.approx(50_000.0)
    assert replayed.std() / replayed.mean() == pytest.approx(0.1, rel=0.15)


def test_the_slow_course_of_the_load_is_not_replayed() -> None:
    slow = 10_000.0 + 8_000.0 * np.sin(2 * np.pi * np.arange(600) / 600)
    replayed = Recording(slow).at(1_000.0, 0, 600)
    assert slow.std() > 0.5 * slow.mean()
    assert replayed.std() < 0.02 * replayed.mean()


def test_it_is_endless_and_any_cut_is_the_same() -> None:
    recording = Recording(flickering(100))
    whole = recording.at(5_000.0, 70, 200)
    assert np.array_equal(whole[:100], whole[100:])
    assert np.array_equal(np.concatenate([recording.at(5_000.0, 70, 90), recording.at(5_000.0, 160, 110)]), whole)


def test_gaps_are_left_out_and_a_true_zero_counts() -> None:
    """The published program turns a rate of 0 into a missing one: a job that idles every other second looked busy."""
    gaps = flickering(60)
    gaps[10:20] = np.nan
    assert len(Recording(gaps).flicker()) == 50
    assert Recording(gaps).flicker().mean() == pytest.approx(1.0)
    assert (Recording(np.tile([0.0, 200.0], 50)).flicker() == 0.0).sum() == 50


@pytest.mark.parametrize(
    ("rates", "says"),
    [
        (np.full(9, 5.0), "9 seconds of workload were recorded; record ten at least"),
        (np.full(20, np.nan), "0 seconds of workload were recorded"),
        (np.zeros(20), "nothing arrived while the workload was recorded; record while the job has work"),
    ],
)
def test_a_recording_that_says_nothing_is_refused_with_the_mend(rates: np.ndarray, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Recording(rates)


@given(st.lists(st.floats(0, 1e6), min_size=10, max_size=80).filter(lambda rates: sum(rates) > 1.0))
def test_any_recording_is_replayed_at_any_rate(rates: list[float]) -> None:
    recording = Recording(np.array(rates))
    replayed = recording.at(1_000.0, 0, len(recording.flicker()))
    assert np.isfinite(replayed).all()
    assert (replayed >= 0.0).all()
    assert replayed.mean() == pytest.approx(1_000.0)

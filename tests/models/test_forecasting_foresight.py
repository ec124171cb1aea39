"""How far ahead a load can be foreseen at all: noise not, what rises and falls over hours for long."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from perdix.models.forecasting.foresight import FURTHEST, LEAST_MINUTES, foresight
from perdix.settings.durations import MINUTE_S


def white(seed, minutes=360, spread=0.3):
    return 1_000.0 * (1.0 + spread * np.random.default_rng(seed).standard_normal(minutes))


def autoregressive(seed, lasts_min, minutes=720, spread=0.2):
    rng, fade, value, found = np.random.default_rng(seed), np.exp(-1.0 / lasts_min), 0.0, []
    for _ in range(minutes):
        value = fade * value + np.sqrt(1.0 - fade**2) * rng.standard_normal()
        found.append(1_000.0 * (1.0 + spread * value))
    return np.array(found)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("minutes", [30, 120, 720])
def test_white_noise_cannot_be_foreseen(seed, minutes):
    assert foresight(white(seed, minutes)).ahead_s <= MINUTE_S


@pytest.mark.parametrize("minutes", [40, 400])
def test_minutes_that_are_seconds_of_two_each_say_no_more_of_those_that_follow(minutes):
    """What is measured as a minute may be half of one and half of the next: two in a row have a half in common."""
    noise = white(5, minutes + 1)
    assert foresight(0.5 * (noise[:-1] + noise[1:])).correlation < 0.4


@pytest.mark.parametrize("period_min", [60, 120, 1440])
@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_what_rises_and_falls_over_hours_can_be_foreseen(period_min, noise):
    minutes = np.arange(240.0)
    load = 1_000.0 * (1.2 + np.sin(2.0 * np.pi * minutes / period_min))
    found = foresight(load * (1.0 + noise * np.random.default_rng(0).standard_normal(240)))
    assert found.ahead_s >= 480.0
    assert found.correlation > 0.85


def test_noise_that_lasts_is_foreseen_for_about_as_long():
    short, long = (
        np.median([foresight(autoregressive(seed, lasts)).ahead_s for seed in range(9)]) for lasts in (2, 15)
    )
    assert short <= 240.0
    assert long >= 600.0


def test_a_load_that_hardly_varies_needs_no_foresight():
    assert foresight(white(0, spread=0.005)).ahead_s == FURTHEST * MINUTE_S


def test_a_ramp_shows_within_a_quarter_of_an_hour():
    assert foresight(np.linspace(1_000.0, 2_000.0, 15)).ahead_s > 0.0


def test_nothing_is_said_of_a_few_minutes():
    assert foresight(white(0, LEAST_MINUTES - 1)) is None
    assert foresight(np.full(100, np.nan)) is None
    assert foresight(np.zeros(0)) is None


@given(arrays.arrays(np.float64, st.integers(0, 90), elements=st.one_of(st.just(np.nan), st.floats(0.0, 1e12))))
def test_whatever_was_measured_the_answer_is_a_time(minutes):
    found = foresight(minutes)
    assert found is None or (
        0.0 <= found.ahead_s <= FURTHEST * MINUTE_S and -1.0 - 1e-9 <= found.correlation <= 1.0 + 1e-9
    )


@pytest.mark.parametrize("minutes", range(LEAST_MINUTES, 60, 5))
def test_a_ramp_is_foreseen_for_as_long_as_can_be_looked(minutes):
    """A job that has just started sees a ramp of a few minutes: it must not be taken for noise."""
    found = foresight(np.linspace(1_000.0, 2_000.0, minutes))
    assert found.ahead_s == found.furthest_s > 0.0

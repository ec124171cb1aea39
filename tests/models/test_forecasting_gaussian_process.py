"""Kriging knows day and week, needs no calendar, and takes gaps, constants and short histories as they come."""

from __future__ import annotations

import json
import time
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdix.models.forecasting.contract import Workload
from perdix.models.forecasting.gaussian_process import GaussianProcess, LogGaussianProcess, PlainGaussianProcess
from perdix.models.forecasting.tail import Tail

HOUR_S, DAY_S = 3600.0, 86_400.0
HALF_DAY_S = 12 * HOUR_S
EDGES_S = HOUR_S * np.arange(13.0)
BOTH = pytest.mark.parametrize("family", [PlainGaussianProcess, LogGaussianProcess])


def daily(days: int, noise: float = 10.0, seed: int = 0) -> Workload:
    hours = np.arange(24 * days)
    rates = 1000.0 + 400.0 * np.sin(2.0 * np.pi * hours / 24.0) * np.where(hours // 24 % 7 >= 5, 0.5, 1.0)
    return Workload(0.0, HOUR_S, rates + np.random.default_rng(seed).normal(0.0, noise, len(hours)))


@cache
def fitted(family: type[GaussianProcess], days: int) -> GaussianProcess:
    """To some of the same days, once for all tests: a fit takes a quarter of a second."""
    return family.fit(daily(days), horizon_s=HALF_DAY_S)


def tail_for(member: GaussianProcess, history: Workload) -> Tail:
    return Tail.of(history, member.cell_s, member.keep_s)


@BOTH
def test_it_beats_last_value_and_the_same_time_yesterday(family):
    whole, origin = daily(16), 24 * 15 - 6
    member = family.fit(whole.part(0, origin), horizon_s=HALF_DAY_S)
    forecast = member.project(tail_for(member, whole.part(0, origin)), EDGES_S)
    truth = whole.per_s[origin : origin + 12]
    error = np.abs(forecast - truth).mean()
    assert error < 0.2 * np.abs(whole.per_s[origin - 1] - truth).mean()
    assert error < 1.1 * np.abs(whole.per_s[origin - 24 : origin - 12] - truth).mean()


@BOTH
def test_the_forecast_depends_on_distances_in_time_only(family):
    history = daily(5)
    member = fitted(family, 5)
    moved = Workload(history.start_s + 12_345.0, history.step_s, history.per_s)
    here, there = (member.project(tail_for(member, history_of), EDGES_S) for history_of in (history, moved))
    assert np.allclose(here, there)


@BOTH
def test_a_state_of_numbers_brings_it_back(family):
    history = daily(5)
    member = fitted(family, 5)
    state = json.loads(json.dumps(member.to_state()))
    again = family.with_parameters(state["cell_s"], state["keep_s"], state["parameters"])
    tail = tail_for(member, history)
    assert np.array_equal(member.project(tail, EDGES_S), again.project(tail, EDGES_S))
    assert len(json.dumps(state)) < 2000


@BOTH
@settings(max_examples=settings.default.max_examples // 8, deadline=None)
@given(scale=st.floats(1e-3, 1e6))
def test_the_unit_does_not_matter(family, scale):
    history = daily(4)
    scaled = Workload(0.0, HOUR_S, scale * history.per_s)
    one, other = fitted(family, 4), family.fit(scaled, horizon_s=HALF_DAY_S)
    expected = scale * one.project(tail_for(one, history), EDGES_S)
    assert np.allclose(other.project(tail_for(other, scaled), EDGES_S), expected, rtol=0.02)


@BOTH
def test_gaps_in_history_and_tail_are_bridged(family):
    whole = daily(5)
    gappy = whole.per_s.copy()
    gappy[30:40] = gappy[70] = gappy[90:93] = np.nan
    member = family.fit(Workload(0.0, HOUR_S, gappy), horizon_s=HALF_DAY_S)
    forecast = member.project(tail_for(member, Workload(0.0, HOUR_S, gappy)), EDGES_S)
    reference = fitted(family, 5)
    assert np.abs(forecast - reference.project(tail_for(reference, whole), EDGES_S)).mean() < 50.0


@BOTH
def test_minutes_are_forecast_from_days_of_minutes_in_little_time(family):
    minutes = np.arange(3 * 1440)
    rates = 500.0 + 300.0 * np.sin(2.0 * np.pi * minutes / 1440.0)
    history = Workload(0.0, 60.0, rates + np.random.default_rng(1).normal(0.0, 5.0, len(rates)))
    member = family.fit(history)
    tail = tail_for(member, history)
    seconds = member.project(tail, np.arange(901.0))
    truth = 500.0 + 300.0 * np.sin(2.0 * np.pi * (3 * 1440 + np.arange(900) / 60.0) / 1440.0)
    assert np.abs(seconds - truth).mean() < 10.0
    begun = time.process_time()
    for _ in range(20):
        member.project(tail, 60.0 * np.arange(16.0))
    assert (time.process_time() - begun) / 20 < 0.02  # 1 to 2 ms where nothing else runs


@BOTH
def test_beyond_what_was_fitted_the_last_value_is_held(family):
    history = daily(4)
    member = fitted(family, 4)
    far = member.project(tail_for(member, history), HOUR_S * np.arange(40.0))
    assert np.isfinite(far).all()
    assert np.ptp(far[26:]) == 0.0


@BOTH
@pytest.mark.parametrize(
    ("per_s", "words"),
    [
        (np.full(24 * 5, 7.0), "does not vary"),
        (np.zeros(24 * 5), "does not vary"),
        (daily(1).per_s, "needs 48 h of workload"),
        (np.where(np.arange(24 * 6) % 4 == 0, 5.0 + np.arange(24 * 6), np.nan), "values in half"),
        (np.full(24 * 5, np.nan), "none with a value"),
    ],
)
def test_what_cannot_be_fitted_is_refused_in_words(family, per_s, words):
    with pytest.raises(ValueError, match=words):
        family.fit(Workload(0.0, HOUR_S, per_s), horizon_s=HALF_DAY_S)


@BOTH
def test_a_tail_that_was_hardly_measured_is_refused(family):
    history = daily(4)
    member = fitted(family, 4)
    with pytest.raises(ValueError, match="needs 12 h of workload"):
        member.project(tail_for(member, history.part(0, 5)), EDGES_S)


def test_a_quiet_base_with_bursts_stays_above_nothing_on_the_logarithmic_scale():
    bursts = np.where(np.random.default_rng(4).random(24 * 8) < 0.15, 5000.0, 20.0)
    history = Workload(0.0, HOUR_S, bursts + np.random.default_rng(5).random(24 * 8))
    member = LogGaussianProcess.fit(history, horizon_s=HALF_DAY_S)
    assert (member.project(tail_for(member, history), EDGES_S) >= 0.0).all()

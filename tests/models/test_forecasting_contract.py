"""Checks that every family of forecasters must pass."""

from __future__ import annotations

import json
from contextlib import nullcontext, suppress

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from models.forecasting.contract import Workload
from models.forecasting.families import FAMILIES, fallback, family_named, forecaster_from_state
from models.forecasting.seasonal_naive import SeasonalNaive
from models.forecasting.tail_forecaster import TailForecaster

START_S = 1_700_000_000.0


class ShortSeason(SeasonalNaive):
    """The same family with a season that a test can afford."""

    season_s = 1200.0
    keep_s = 2400.0


CHECKED = {**FAMILIES, SeasonalNaive.family: ShortSeason}


def wave(seconds: int, step_s: float = 5.0, seed: int = 0) -> Workload:
    at_s = np.arange(0.0, seconds, step_s)
    rng = np.random.default_rng(seed)
    rates = 20_000.0 + 8_000.0 * np.sin(2 * np.pi * at_s / 1200.0) + rng.normal(0.0, 200.0, len(at_s))
    return Workload(START_S, step_s, rates)


def part(workload: Workload, begin_s: float, end_s: float) -> Workload:
    first, last = int(begin_s / workload.step_s), int(end_s / workload.step_s)
    return Workload(workload.start_s + first * workload.step_s, workload.step_s, workload.per_s[first:last])


@pytest.fixture(scope="module")
def fitted() -> dict[str, TailForecaster]:
    return {name: family.fit(wave(4800), seed=7) for name, family in CHECKED.items()}


each_family = pytest.mark.parametrize("name", list(CHECKED))


@each_family
def test_the_forecast_has_the_shape_that_was_asked_for(fitted, name):
    for horizon_s, step_s, steps in [(900, 1.0, 900), (900.5, 1.0, 901), (60, 7.0, 9), (1, 60.0, 1)]:
        forecast = fitted[name].forecast(horizon_s, step_s)
        assert forecast.origin_s == START_S + 4800
        assert forecast.family == name
        assert forecast.step_s == step_s
        assert forecast.mean.shape == (steps,)
        assert set(forecast.quantiles) >= {0.5, 0.9, 0.95}
        for values in (forecast.mean, *forecast.quantiles.values()):
            assert values.shape == (steps,)
            assert np.isfinite(values).all()
            assert (values >= 0.0).all()


@each_family
def test_quantiles_never_cross(fitted, name):
    quantiles = fitted[name].forecast(1800).quantiles
    assert (quantiles[0.5] <= quantiles[0.9]).all()
    assert (quantiles[0.9] <= quantiles[0.95]).all()
    assert (quantiles[0.9] < quantiles[0.95]).any()


@each_family
def test_a_horizon_or_step_that_is_not_positive_is_refused(fitted, name):
    for horizon_s, step_s in [(0, 1.0), (-1, 1.0), (900, 0.0), (float("nan"), 1.0)]:
        with pytest.raises(ValueError, match="above zero"):
            fitted[name].forecast(horizon_s, step_s)


@each_family
def test_the_same_history_and_seed_give_the_same_state(name):
    first, second = (CHECKED[name].fit(wave(4800), seed=3).to_state() for _ in range(2))
    assert json.dumps(first) == json.dumps(second)


@each_family
def test_a_state_survives_json_and_forecasts_alike(fitted, name):
    text = json.dumps(fitted[name].to_state(), allow_nan=False)
    assert len(text) < 100_000
    restored = CHECKED[name].from_state(json.loads(text))
    new = part(wave(6000, seed=1), 4800, 4983)
    for original, copy in [(fitted[name], restored), (fitted[name].update(new), restored.update(new))]:
        expected, found = original.forecast(900), copy.forecast(900)
        assert np.array_equal(expected.mean, found.mean)
        assert all(np.array_equal(expected.quantiles[p], found.quantiles[p]) for p in expected.quantiles)


@each_family
def test_a_state_of_another_family_or_a_damaged_one_is_refused(fitted, name):
    state = fitted[name].to_state()
    with pytest.raises(ValueError, match="train again"):
        CHECKED[name].from_state({**state, "family": "oracle"})
    with pytest.raises(ValueError, match="train again"):
        CHECKED[name].from_state({**state, "format": 99})
    for damage in ({"tail": None}, {"spread": {}}, {"tail": {"start_s": 0.0}}):
        with pytest.raises(ValueError, match="damaged"):
            CHECKED[name].from_state({**state, **damage})


@each_family
def test_update_leaves_the_original_alone_and_moves_the_origin(fitted, name):
    before = fitted[name].forecast(300).mean
    updated = fitted[name].update(part(wave(6000), 4800, 4860))
    assert updated.forecast(300).origin_s == START_S + 4860
    assert np.array_equal(fitted[name].forecast(300).mean, before)


@each_family
def test_what_was_already_seen_is_ignored(fitted, name):
    longer = wave(6000)
    clean = fitted[name].update(part(longer, 4800, 4920))
    spoilt = longer.per_s.copy()
    spoilt[: int(4800 / longer.step_s)] *= 5.0
    overlapping = fitted[name].update(part(Workload(START_S, longer.step_s, spoilt), 4200, 4920))
    assert np.allclose(clean.forecast(900).mean, overlapping.forecast(900).mean, rtol=1e-9)
    assert fitted[name].update(part(longer, 3000, 4800)) is fitted[name]


@each_family
def test_updating_in_pieces_equals_updating_at_once(fitted, name):
    new = part(wave(6000), 4800, 5100)
    once = fitted[name].update(new)
    pieces = fitted[name]
    for begin_s in range(0, 300, 25):  # does not divide a cell of 10 s or 60 s
        pieces = pieces.update(part(new, begin_s, begin_s + 25))
    assert np.allclose(once.forecast(900).mean, pieces.forecast(900).mean, rtol=1e-9)


@each_family
def test_a_gap_inside_is_bridged_and_one_at_the_end_is_forecast_across(fitted, name):
    longer = wave(6000)
    holed = longer.per_s.copy()
    holed[970:980] = np.nan  # 4850 s to 4900 s
    forecast = fitted[name].update(part(Workload(START_S, longer.step_s, holed), 4800, 5000)).forecast(900)
    whole = fitted[name].update(part(longer, 4800, 5000)).forecast(900)
    assert np.isfinite(forecast.mean).all()
    assert np.allclose(forecast.mean[:60], whole.mean[:60], rtol=0.15)
    holed[970:] = np.nan
    blind = fitted[name].update(part(Workload(START_S, longer.step_s, holed), 4800, 5000))
    assert blind.forecast(60).origin_s == START_S + 5000
    assert np.isfinite(blind.forecast(900).mean).all()
    late = blind.update(part(longer, 4840, 5000))  # the missing values arrive after all
    assert np.allclose(late.forecast(900).mean, whole.mean, rtol=1e-9)


@each_family
def test_a_long_absence_is_not_joined_to_what_came_before(fitted, name):
    back = Workload(START_S + 90_000, 5.0, np.full(60, 500.0))
    returned = fitted[name].update(back)
    if name == SeasonalNaive.family:
        with pytest.raises(ValueError, match="season before was not measured"):
            returned.forecast(900)
        return
    assert np.allclose(returned.forecast(900).mean, 500.0, rtol=1e-6)


@each_family
def test_only_missing_values_for_long_enough_leave_nothing_to_forecast_from(fitted, name):
    blind = fitted[name].update(Workload(START_S + 4800, 60.0, np.full(200, np.nan)))
    with pytest.raises(ValueError, match="no measured workload"):
        blind.forecast(900)


@each_family
@pytest.mark.parametrize("level", [0.0, 1234.5])
def test_a_constant_stays_constant(name, level):
    forecaster = CHECKED[name].fit(Workload(START_S, 10.0, np.full(480, level)))
    forecast = forecaster.update(Workload(START_S + 4800, 10.0, np.full(6, level))).forecast(900)
    assert np.allclose(forecast.mean, level, rtol=1e-9, atol=1e-9)
    assert np.allclose(forecast.quantiles[0.95], level, rtol=1e-6, atol=1e-6)


@each_family
def test_an_empty_or_missing_history_is_refused_in_words(name):
    for rates in (np.empty(0), np.full(600, np.nan)):
        with pytest.raises(ValueError, match=r"history|needs"):
            CHECKED[name].fit(Workload(START_S, 10.0, rates))


@each_family
def test_a_single_value_is_enough_or_refused_in_words(name):
    try:
        forecaster = CHECKED[name].fit(Workload(START_S, 10.0, np.array([70.0])))
    except ValueError as error:
        assert name in str(error)  # noqa: PT017 -- either outcome is right, and both are checked
    else:
        assert np.allclose(forecaster.forecast(900).mean, 70.0)


@each_family
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rates=st.lists(st.one_of(st.floats(0.0, 1e7), st.just(float("nan"))), min_size=1, max_size=80),
    step_s=st.sampled_from([1.0, 3.0, 10.0, 15.0, 60.0]),
    shift_s=st.floats(-600.0, 600.0),
)
def test_any_update_leaves_a_finite_non_negative_forecast(fitted, name, rates, step_s, shift_s):
    observed = Workload(START_S + 4800 + shift_s, step_s, np.array(rates))
    updated = fitted[name].update(observed)
    if not np.isfinite(updated.tail.per_s).any():
        with pytest.raises(ValueError, match="no measured workload"):
            updated.forecast(900)
        return
    forecast = None
    with nullcontext() if name != SeasonalNaive.family else suppress(ValueError):  # it may lack its season
        forecast = updated.forecast(900)
    if forecast is None:
        return
    for values in (forecast.mean, *forecast.quantiles.values()):
        assert np.isfinite(values).all()
        assert (values >= 0.0).all()


@each_family
def test_the_same_parameters_can_stand_on_another_history(fitted, name):
    moved = fitted[name].on(Workload(START_S - 10_000, 5.0, wave(3000).per_s))
    assert moved.forecast(60).origin_s == START_S - 7_000
    assert moved.parameters() == fitted[name].parameters()


def test_states_of_all_families_are_told_apart(fitted):
    for name in set(CHECKED) - {SeasonalNaive.family}:
        restored = forecaster_from_state(fitted[name].to_state())
        assert type(restored) is FAMILIES[name]
    with pytest.raises(ValueError, match="known: last-value"):
        forecaster_from_state({"family": "oracle"})
    with pytest.raises(ValueError, match="'oracle'; known: last-value"):
        family_named("oracle")
    with pytest.raises(ValueError, match="'damped'; did you mean 'damped-trend'\\? known: last-value"):
        family_named("damped")


def test_the_fallback_is_a_line_through_the_last_minute():
    rates = np.concatenate([np.full(300, 9e9), 100.0 + 2.0 * np.arange(60.0)])
    forecast = fallback(Workload(START_S, 1.0, rates)).forecast(900)
    assert np.allclose(forecast.mean, 220.0 + 2.0 * np.arange(900.0))
    falling = fallback(Workload(START_S, 1.0, rates[:299:-1])).forecast(900)
    assert falling.mean[0] == pytest.approx(98.0)
    assert (falling.mean[51:] == 0.0).all()

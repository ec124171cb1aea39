"""Checks that every family of forecasters must pass, alone and all together."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdix.models.forecasting.contract import Forecast, Workload
from perdix.models.forecasting.families import ENSEMBLE, FAMILIES, families_named
from perdix.models.forecasting.forecaster import Forecaster, fallback
from perdix.models.forecasting.tail import Tail
from tests.models.every_family import NAMES, START_S, behind, restored, weeks

pytestmark = pytest.mark.usefixtures("light_fits")
DAY_S = 86_400.0
HORIZON = 900.0
each_family = pytest.mark.parametrize("name", NAMES)


def minutes_of_waves(steps: int, step_s: float = 5.0, seed: int = 0) -> Workload:
    """A wave of 20 minutes with noise."""
    at_s = step_s * np.arange(steps)
    rng = np.random.default_rng(seed)
    return Workload(START_S, step_s, 20_000 + 8_000 * np.sin(2 * np.pi * at_s / 1200) + rng.normal(0, 200, steps))


def fitted(name: str, history: Workload, horizon_s: float = HORIZON, seed: int = 0) -> Forecaster:
    return Forecaster.fit(history, behind(name, horizon_s), horizon_s=horizon_s, seed=seed)


@dataclass(frozen=True)
class Case:
    """A family fitted to the first part of a workload that it can be fitted to, and the rest of that workload."""

    forecaster: Forecaster
    whole: Workload
    seen: int

    @property
    def end_s(self) -> float:
        return self.whole.start_s + self.seen * self.whole.step_s

    @property
    def horizon_s(self) -> float:
        return self.forecaster.horizon_s

    def following(self, begin: int, end: int) -> Workload:
        """Steps after what was seen."""
        return self.whole.part(self.seen + begin, self.seen + end)

    def forecast(self, forecaster: Forecaster | None = None) -> Forecast:
        return (forecaster or self.forecaster).forecast(step_s=self.whole.step_s)

    def said(self, forecaster: Forecaster) -> np.ndarray:
        """What each member says, not yet weighted."""
        return forecaster.projections(self.whole.step_s * np.arange(61.0))


class Cases(dict[str, Case]):
    """Case by name; hypothesis would print every array."""

    def __repr__(self) -> str:
        return f"cases of {list(self)}"


@pytest.fixture(scope="module")
def cases() -> Cases:
    made = Cases()
    for name in NAMES:
        for whole, seen, horizon_s in [
            (minutes_of_waves(1400), 960, HORIZON),
            (weeks(19), 1344, 60 * HORIZON),
        ]:
            try:
                forecaster = fitted(name, whole.part(0, seen), horizon_s=horizon_s, seed=7)
            except ValueError:
                continue  # a season needs days
            made[name] = Case(forecaster, whole, seen)
            break
    return made


def test_every_family_is_checked(cases):
    assert set(cases) == set(NAMES)
    assert {name for case in cases.values() for name in case.forecaster.names} == set(FAMILIES)


@each_family
def test_the_forecast_has_the_shape_that_was_asked_for(cases, name):
    case = cases[name]
    for horizon_s, step_s, steps in [(900, 1.0, 900), (900.5, 1.0, 901), (60, 7.0, 9), (1, 60.0, 1)]:
        forecast = case.forecaster.forecast(horizon_s, step_s)
        assert forecast.origin_s == case.end_s
        assert forecast.family == name
        assert forecast.step_s == step_s
        assert set(forecast.quantiles) >= {0.5, 0.9, 0.95}
        assert set(forecast.maxima) >= {0.5, 0.9, 0.95}
        for values in (forecast.mean, *forecast.quantiles.values(), *forecast.maxima.values()):
            assert values.shape == (steps,)
            assert np.isfinite(values).all()
            assert (values >= 0.0).all()
    assert case.forecast().horizon_s == case.horizon_s


@each_family
def test_quantiles_never_cross_and_maxima_never_fall(cases, name):
    forecast = cases[name].forecaster.forecast(2 * cases[name].horizon_s, cases[name].whole.step_s)
    for bounds in (forecast.quantiles, forecast.maxima):
        assert (bounds[0.5] <= bounds[0.9]).all()
        assert (bounds[0.9] <= bounds[0.95]).all()
    assert (forecast.quantiles[0.9] < forecast.quantiles[0.95]).any()
    assert all((np.diff(levels) >= 0.0).all() for levels in forecast.maxima.values())
    assert forecast.maximum_per_s(600, 0.9) <= forecast.maximum_per_s(900, 0.9) <= forecast.maximum_per_s(900, 0.95)


@each_family
def test_a_horizon_or_step_that_is_not_positive_is_refused(cases, name):
    for horizon_s, step_s in [(0, 1.0), (-1, 1.0), (900, 0.0), (float("nan"), 1.0)]:
        with pytest.raises(ValueError, match="above zero"):
            cases[name].forecaster.forecast(horizon_s, step_s)


@each_family
def test_the_same_history_and_seed_give_the_same_state(cases, name):
    case = cases[name]
    again = fitted(name, case.whole.part(0, case.seen), horizon_s=case.horizon_s, seed=7)
    assert json.dumps(again.to_state()) == json.dumps(case.forecaster.to_state())


@each_family
def test_a_state_survives_json_and_forecasts_alike(cases, name):
    case = cases[name]
    text = json.dumps(case.forecaster.to_state(), allow_nan=False)
    assert len(text) <= 1_000_000
    loaded = restored(json.loads(text), case.horizon_s)
    new = case.following(0, 37)
    for original, copy in [(case.forecaster, loaded), (case.forecaster.update(new), loaded.update(new))]:
        expected, found = case.forecast(original), case.forecast(copy)
        assert np.array_equal(expected.mean, found.mean)
        for probability in expected.quantiles:
            assert np.array_equal(expected.quantiles[probability], found.quantiles[probability])
            assert np.array_equal(expected.maxima[probability], found.maxima[probability])


@each_family
def test_update_leaves_the_original_alone_and_moves_the_origin(cases, name):
    case = cases[name]
    before = case.forecast().mean
    updated = case.forecaster.update(case.following(0, 12))
    assert case.forecast(updated).origin_s == case.end_s + 12 * case.whole.step_s
    assert np.array_equal(case.forecast().mean, before)


@each_family
def test_what_was_already_seen_is_ignored(cases, name):
    case = cases[name]
    clean = case.forecaster.update(case.following(0, 24))
    spoilt = case.whole.per_s.copy()
    spoilt[: case.seen] *= 5.0
    twice = Workload(case.whole.start_s, case.whole.step_s, spoilt).part(case.seen - 120, case.seen + 24)
    assert np.allclose(case.said(clean), case.said(case.forecaster.update(twice)), rtol=1e-9)
    assert case.forecaster.update(case.following(-360, 0)) is case.forecaster
    assert clean.update(case.following(0, 24)) is clean


@each_family
def test_updating_in_pieces_equals_updating_at_once(cases, name):
    case = cases[name]
    once = case.forecaster.update(case.following(0, 60))
    pieces = case.forecaster
    for begin in range(0, 60, 5):  # 25 s does not divide a cell of 10 s or 60 s
        pieces = pieces.update(case.following(begin, begin + 5))
    assert np.allclose(case.said(once), case.said(pieces), rtol=1e-9)


@each_family
def test_a_gap_inside_is_bridged_and_one_at_the_end_is_forecast_across(cases, name):
    case = cases[name]
    holed = case.whole.per_s.copy()
    holed[case.seen + 10 : case.seen + 14] = np.nan
    gappy = Workload(case.whole.start_s, case.whole.step_s, holed)
    whole = case.forecast(case.forecaster.update(case.following(0, 40)))
    bridged = case.forecast(case.forecaster.update(gappy.part(case.seen, case.seen + 40)))
    assert np.allclose(bridged.mean, whole.mean, rtol=0.25)
    holed[case.seen + 36 :] = np.nan
    blind = case.forecaster.update(
        Workload(case.whole.start_s, case.whole.step_s, holed).part(case.seen, case.seen + 40)
    )
    assert case.forecast(blind).origin_s == case.end_s + 40 * case.whole.step_s
    assert np.isfinite(case.forecast(blind).mean).all()
    late = blind.update(case.following(8, 40))  # the missing values arrive after all
    once = case.forecaster.update(gappy.part(case.seen, case.seen + 36)).update(case.following(36, 40))
    assert np.allclose(case.said(late), case.said(once), rtol=1e-9)


@each_family
def test_after_a_long_absence_the_forecast_stands_on_what_came_since(cases, name):
    case = cases[name]
    back = Workload(case.end_s + 20 * DAY_S, case.whole.step_s, np.full(160, 500.0))
    returned = case.forecaster.update(back)
    try:
        forecast = case.forecast(returned)
    except ValueError as error:
        assert "measured" in str(error)  # noqa: PT017 -- a season before may be missing; either outcome is right
        return
    assert forecast.mean.max() <= 5000.0  # ten times what came since, a quarter of what was before
    if case.whole.step_s < 900.0:  # nobody here expects a day
        assert np.allclose(forecast.mean[:12], 500.0, rtol=0.2)  # theta's drift is that of before


@each_family
def test_only_missing_values_for_long_enough_leave_nothing_to_forecast_from(cases, name):
    case = cases[name]
    blind = case.forecaster.update(Workload(case.end_s, case.whole.step_s, np.full(30 * 96, np.nan)))
    with pytest.raises(ValueError, match="no workload measured lately"):
        case.forecast(blind)


@each_family
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rates=st.lists(st.one_of(st.floats(0.0, 1e7), st.just(float("nan"))), min_size=1, max_size=80),
    shorter=st.sampled_from([0.2, 0.6, 1.0, 3.0]),
    shift=st.floats(-120.0, 120.0),
)
def test_any_update_leaves_a_finite_non_negative_forecast_or_says_why_not(cases, name, rates, shorter, shift):
    case = cases[name]
    step_s = case.whole.step_s
    updated = case.forecaster.update(Workload(case.end_s + shift * step_s, shorter * step_s, np.array(rates)))
    try:
        forecast = case.forecast(updated)
    except ValueError as error:
        assert "no workload measured lately" in str(error)  # noqa: PT017 -- either outcome is right
        return
    for values in (forecast.mean, *forecast.quantiles.values(), *forecast.maxima.values()):
        assert np.isfinite(values).all()
        assert (values >= 0.0).all()


@each_family
def test_the_same_parameters_can_stand_on_another_history(cases, name):
    case = cases[name]
    elsewhere = Workload(START_S - 70 * DAY_S, case.whole.step_s, case.whole.part(0, case.seen).per_s)
    moved = case.forecaster.on(elsewhere)
    assert case.forecast(moved).origin_s == elsewhere.end_s
    assert moved.members == case.forecaster.members
    assert not len(moved.record)
    assert np.allclose(case.said(moved), case.said(case.forecaster), rtol=1e-6)  # ten weeks earlier: the same calendar


@each_family
@pytest.mark.parametrize("times", [0.5, 3.0])
def test_they_can_stand_on_a_history_by_another_step_and_be_stored_there(cases, name, times):
    case = cases[name]
    step_s = times * case.whole.step_s
    count = int(case.seen / times)
    at = np.minimum((np.arange(count) * times).astype(int), case.seen - 1)
    moved = case.forecaster.on(Workload(START_S, step_s, case.whole.per_s[at]))
    loaded = restored(json.loads(json.dumps(moved.to_state())), case.horizon_s)
    assert np.array_equal(case.forecast(loaded).mean, case.forecast(moved).mean)
    assert np.allclose(case.forecast(moved).mean[:4], case.forecast().mean[:4], rtol=0.3)


@each_family
@pytest.mark.parametrize("level", [0.0, 1234.5])
def test_a_constant_stays_constant_or_is_left_to_others(cases, name, level):
    step_s, seen = cases[name].whole.step_s, cases[name].seen
    flat = Workload(START_S, step_s, np.full(seen, level))
    try:
        forecaster = fitted(name, flat, horizon_s=cases[name].horizon_s)
    except ValueError as error:
        assert "does not vary" in str(error)  # noqa: PT017 -- either outcome is right
        return
    forecast = forecaster.update(Workload(flat.end_s, step_s, np.full(6, level))).forecast(step_s=step_s)
    assert np.allclose(forecast.mean, level, rtol=1e-6, atol=1e-6)
    for values in (forecast.quantiles[0.95], forecast.maxima[0.95]):
        assert np.allclose(values, level, rtol=1e-4, atol=1e-4)


@each_family
def test_an_empty_or_missing_history_is_refused_in_words(name):
    for rates in (np.empty(0), np.full(600, np.nan)):
        with pytest.raises(ValueError, match=r"history|needs|shared model"):
            fitted(name, Workload(START_S, 10.0, rates))


@each_family
def test_a_single_value_is_enough_or_refused_in_words(name):
    try:
        forecaster = fitted(name, Workload(START_S, 10.0, np.array([70.0])))
    except ValueError as error:
        assert name in str(error)  # noqa: PT017 -- either outcome is right, and both are checked
    else:
        assert np.allclose(forecaster.forecast(900).mean, 70.0)


@each_family
def test_the_unit_does_not_matter(cases, name):
    case = cases[name]
    scaled = Workload(case.whole.start_s, case.whole.step_s, case.whole.per_s / 1024.0)
    forecaster = fitted(name, scaled.part(0, case.seen), horizon_s=case.horizon_s, seed=7)
    assert np.allclose(1024.0 * case.forecast(forecaster).mean, case.forecast().mean, rtol=1e-3)


@pytest.mark.parametrize("name", list(FAMILIES))
def test_members_hold_no_data_and_can_be_rebuilt_from_their_parameters(cases, name):
    case = cases[name]
    (member,) = case.forecaster.members
    parameters = json.loads(json.dumps(member.parameters(), allow_nan=False))
    rebuilt = behind(name, case.horizon_s)[name].with_parameters(member.cell_s, member.keep_s, parameters)
    tail, edges_s = case.forecaster.tails[member.cell_s], case.whole.step_s * np.arange(16.0)
    assert np.array_equal(rebuilt.project(tail, edges_s), member.project(tail, edges_s))
    assert rebuilt.to_state() == member.to_state()


@pytest.mark.parametrize("name", list(FAMILIES))
def test_a_projection_is_a_pure_function_of_the_tail(cases, name):
    case = cases[name]
    (member,) = case.forecaster.members
    tail = case.forecaster.tails[member.cell_s]
    before = tail.per_s.copy()
    edges_s = case.whole.step_s * np.arange(16.0)
    first, second = member.project(tail, edges_s), member.project(tail, edges_s)
    assert first.shape == (15,)
    assert np.array_equal(first, second)
    assert np.array_equal(tail.per_s, before, equal_nan=True)


@pytest.mark.parametrize("name", list(FAMILIES))
def test_no_more_is_needed_than_the_tail_that_was_asked_for(cases, name):
    case = cases[name]
    (member,) = case.forecaster.members
    long = Tail.of(case.whole.part(0, case.seen), member.cell_s)
    edges_s = case.whole.step_s * np.arange(16.0)
    assert np.allclose(member.project(long.cut(member.keep_s), edges_s), member.project(long, edges_s), rtol=1e-6)


def test_names_that_do_not_exist_are_refused_with_the_nearest():
    with pytest.raises(ValueError, match="'oracle'; known: last-value"):
        families_named("oracle")
    with pytest.raises(ValueError, match="'damped'; did you mean 'damped-trend'\\? known: last-value"):
        families_named("damped")
    assert set(families_named(ENSEMBLE)) < set(FAMILIES)


@pytest.mark.parametrize("noise", [0.02, 0.10, 0.30])
def test_the_fallback_makes_no_trend_of_noise(noise: float):
    """A line through one noisy minute: at 10 % noise it is off by half of the load 15 minutes on."""
    off = []
    for seed in range(20):
        rates = 1_000.0 * (1.0 + noise * np.random.default_rng(seed).normal(size=300))
        mean = fallback(Workload(START_S, 1.0, np.maximum(rates, 0.0))).forecast(HORIZON).mean
        off.append(abs(mean[-60:].mean() / 1_000.0 - 1.0))
    assert np.mean(off) < noise


def test_the_fallback_follows_a_rise_for_minutes_and_not_for_ever():
    rates = 1_000.0 + np.arange(600.0)  # the line through the last minute ends at 2,500
    minutes = fallback(Workload(START_S, 1.0, rates)).forecast(HORIZON).mean.reshape(15, 60).mean(axis=1)
    assert np.allclose(minutes[:3], 1_600.0 + 60.0 * np.arange(3) + 30.0, rtol=0.02)
    assert 1_800.0 < minutes[-1] < 2_100.0


def test_the_fallback_never_falls_below_zero():
    falling = fallback(Workload(START_S, 1.0, np.linspace(5_000.0, 500.0, 300))).forecast(HORIZON)
    assert falling.mean.min() >= 0.0
    assert falling.mean[120] < 400.0

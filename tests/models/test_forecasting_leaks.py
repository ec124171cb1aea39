"""No forecast knows what came after its origin: the future is poisoned, and everything said before stays to the bit.

Covers fits, new fits on the way, scalers and seasonal profiles inside members, weights, quantiles, maxima, records and
the walk of the selection, for every family and for all together.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from perdix.models.forecasting.backtest import Backtest, Walk, backtest
from perdix.models.forecasting.calibration import Calibration
from perdix.models.forecasting.contract import Workload
from perdix.models.forecasting.families import ENSEMBLE, DampedTrend, LastValue, Linear
from perdix.models.forecasting.forecaster import Forecaster
from perdix.models.forecasting.origins import Stops, stops_of
from perdix.models.forecasting.seasonal_naive import WeeklyNaive
from perdix.models.forecasting.selection import train_forecasters
from perdix.models.forecasting.weighting import weights_of
from tests.models.every_family import NAMES, START_S, STEP_S, all_of_them, weeks

pytestmark = pytest.mark.usefixtures("light_fits")
QUICK = {family.family: family for family in (LastValue, Linear, DampedTrend)}
SAID = ("forecast", "upper", "upper_p95", "highest")
HORIZON_S = 12 * STEP_S
ORIGINS = 10
CLEAN = 7  # origins whose forecasts were made before the poison; members are fitted before the first and the sixth
POISONS = {
    "scrambled": lambda future: np.random.default_rng(5).permutation(future),
    "a hundred times as much": lambda future: 100.0 * future,
    "shifted and mirrored": lambda future: 3e5 - future[::-1],
    "missing": lambda future: np.full(len(future), np.nan),
    "infinite": lambda future: np.full(len(future), np.inf),
    "negative": lambda future: -future,
}


def origins_s(history: Workload) -> np.ndarray:
    return history.end_s - HORIZON_S - 30 * STEP_S * np.arange(ORIGINS)[::-1]


def seconds() -> Workload:
    """An hour and a half by 5 s, where a bin of 10 s or 60 s may lie on both sides of an origin."""
    at_s = 5.0 * np.arange(1080)
    noise = np.random.default_rng(1).normal(0, 100, len(at_s))
    return Workload(START_S, 5.0, 20_000 + 8_000 * np.sin(2 * np.pi * at_s / 2400) + noise)


def poisoned(history: Workload, from_s: float, kind: str) -> Workload:
    """The same workload until ``from_s``; whatever the poison says from there on."""
    first = round((from_s - history.start_s) / history.step_s)
    return Workload(
        history.start_s,
        history.step_s,
        np.concatenate([history.per_s[:first], POISONS[kind](history.per_s[first:])]),
    )


@cache
def walked(kind: str | None) -> Walk:
    """All families over the origins, fitted anew on the way."""
    history = weeks(18)
    at_s = origins_s(history)
    given = history if kind is None else poisoned(history, at_s[CLEAN - 1], kind)
    return backtest(all_of_them(HORIZON_S), given, stops=Stops.at(at_s), refit_every=5, horizon_s=HORIZON_S)


def rows(judged: Backtest, what: str, part: slice) -> np.ndarray:
    return getattr(judged, what)[part]


@pytest.mark.parametrize("kind", ["scrambled", "missing"])
@pytest.mark.parametrize("name", NAMES)
def test_no_forecast_changes_with_what_came_after_its_origin(name, kind):
    clean, spoilt = walked(None).backtests[name], walked(kind).backtests[name]
    before, after = slice(0, CLEAN), slice(CLEAN, None)
    for what in SAID:
        assert np.isfinite(rows(clean, what, before)).all()
        assert np.array_equal(rows(clean, what, before), rows(spoilt, what, before))
    if name == WeeklyNaive.family:
        return  # what came after is repeated a week later
    assert not np.array_equal(rows(clean, "forecast", after), rows(spoilt, "forecast", after), equal_nan=True)


@pytest.mark.parametrize("kind", ["a hundred times as much", "missing"])
def test_no_forecast_knows_the_rest_of_the_bin_it_was_made_in(kind):
    history = seconds()
    at_s = START_S + 3605.0 + 115.0 * np.arange(7)  # 5 s or 25 s into a bin
    quick = {name: family for name, family in all_of_them(900.0).items() if name != "auto-arima"}  # bins as fast-arima
    clean, spoilt = (
        backtest(quick, given, stops=Stops.at(at_s), refit_every=4).backtests
        for given in (history, poisoned(history, at_s[5], kind))
    )
    assert {LastValue.family, "fast-arima", ENSEMBLE} <= set(clean)
    for name, judged in clean.items():
        for what in SAID:
            assert np.array_equal(rows(judged, what, slice(0, 6)), rows(spoilt[name], what, slice(0, 6)))


@pytest.mark.parametrize("kind", list(POISONS))
def test_weights_and_margins_at_an_origin_rest_on_what_had_come_true_by_then(kind):
    history = weeks()
    at_s = origins_s(history)
    made = []
    for given in (history, poisoned(history, at_s[CLEAN - 1], kind)):
        first = round((at_s[0] - given.start_s) / STEP_S)
        driven = Forecaster.unproven(given.part(0, first), QUICK, horizon_s=HORIZON_S)
        for origin_s in at_s[1:CLEAN]:
            end = round((origin_s - given.start_s) / STEP_S)
            driven = driven.update(given.part(first, end))
            first = end
        made.append(driven)
    clean, spoilt = made
    assert np.array_equal(weights_of(clean.record), weights_of(spoilt.record))
    assert np.isfinite(clean.record.actual).any()
    ours, theirs = (Calibration(forecaster.record, forecaster.finest) for forecaster in made)
    forecast = clean.forecast(step_s=STEP_S)
    middles_s = STEP_S * (np.arange(12) + 0.5)
    said = clean.projections(STEP_S * np.arange(13.0))
    for say in ("quantiles", "maxima"):
        for probability, values in getattr(ours, say)(forecast.mean, middles_s, said).items():
            assert np.array_equal(values, getattr(theirs, say)(forecast.mean, middles_s, said)[probability])


def test_a_record_holds_no_truth_of_what_is_not_over():
    record_of = walked(None).forecaster.record
    now_s = walked(None).forecaster.end_s
    ends_s = record_of.origins_s[:, None] + record_of.edges_s[None, 1:]
    assert np.isnan(record_of.actual[ends_s > now_s + 1e-6]).all()
    assert np.isfinite(record_of.actual[ends_s <= now_s]).all()


@pytest.mark.parametrize("kind", [kind for kind in POISONS if kind not in {"missing", "infinite", "negative"}])
def test_the_walk_of_the_selection_is_the_same_until_the_poison(kind):
    """What is missing moves the stops (they seek a measured truth); those that stay are tested above."""
    history = weeks()
    stops = stops_of(history, HORIZON_S)
    from_s = stops.scored_s[len(stops.scored_s) * 2 // 3]
    clean = train_forecasters(history, QUICK, horizon_s=HORIZON_S)
    spoilt = train_forecasters(poisoned(history, from_s, kind), QUICK, horizon_s=HORIZON_S)
    before = clean.stops.scored_s <= from_s
    assert 0 < before.sum() < len(before)
    for name in [*QUICK, ENSEMBLE]:
        ours, theirs = clean.candidates[name].backtest, spoilt.candidates[name].backtest
        for what in SAID:
            assert np.array_equal(getattr(ours, what)[before], getattr(theirs, what)[before])
    ours, theirs = clean.candidates[ENSEMBLE].forecaster.record, spoilt.candidates[ENSEMBLE].forecaster.record
    known = ours.origins_s <= from_s
    assert known.any()
    assert np.array_equal(ours.forecasts[known], theirs.forecasts[known])
    assert np.array_equal(ours.combined[known], theirs.combined[known])


@pytest.mark.parametrize("kind", list(POISONS))
def test_a_record_filled_while_fitting_says_what_would_have_been_said_then(kind):
    history = weeks()
    clean = Forecaster.fit(history, QUICK, horizon_s=HORIZON_S).record
    from_s = clean.origins_s[2 * len(clean) // 3]
    spoilt = Forecaster.fit(poisoned(history, from_s, kind), QUICK, horizon_s=HORIZON_S).record
    known = clean.origins_s <= from_s
    assert 0 < known.sum() < len(known)
    both = spoilt.origins_s <= from_s
    assert np.array_equal(clean.origins_s[known], spoilt.origins_s[both])
    assert np.array_equal(clean.forecasts[known], spoilt.forecasts[both])
    assert np.array_equal(clean.combined[known], spoilt.combined[both])


class Peeking(LastValue):
    """A family that looks past the part of the history that it was given."""

    family = "peeking"

    @classmethod
    def fit(cls, history, *, horizon_s=900.0, seed=0):
        made = super().fit(history, horizon_s=horizon_s, seed=seed)
        whole = history.per_s if history.per_s.base is None else history.per_s.base
        object.__setattr__(made, "last", float(whole[-1]))
        return made

    def project(self, tail, edges_s):
        return np.full(len(edges_s) - 1, self.last)


def test_a_family_that_peeks_is_caught():
    history = weeks()
    at_s = origins_s(history)
    families = {**QUICK, "peeking": Peeking}
    clean = backtest(families, history, stops=Stops.at(at_s), horizon_s=HORIZON_S).backtests
    given = poisoned(history, at_s[CLEAN - 1], "a hundred times as much")
    spoilt = backtest(families, given, stops=Stops.at(at_s), horizon_s=HORIZON_S).backtests
    assert not np.array_equal(clean["peeking"].forecast[:CLEAN], spoilt["peeking"].forecast[:CLEAN], equal_nan=True)
    assert not np.array_equal(clean[ENSEMBLE].forecast[:CLEAN], spoilt[ENSEMBLE].forecast[:CLEAN], equal_nan=True)
    assert np.array_equal(clean["linear"].forecast[:CLEAN], spoilt["linear"].forecast[:CLEAN])

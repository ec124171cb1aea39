"""A drift of the load: who is trained on what, and who is judged where."""

from __future__ import annotations

import numpy as np
import pytest

from perdix.models.forecasting.backtest import backtest_fitted
from perdix.models.forecasting.contract import Workload
from perdix.models.forecasting.families import ENSEMBLE, DampedTrend, LastValue, Linear, families_named
from perdix.models.forecasting.origins import Stops
from perdix.models.forecasting.retraining import judgeable_s, retrain_forecasters
from perdix.models.forecasting.selection import challenge_champion, train_forecasters

SLOW = {"fast-arima", "local-arima", "minute-arima"}  # the others of an ensemble learn these waves as well
FAMILIES = {name: family for name, family in families_named(ENSEMBLE).items() if name not in SLOW}
QUICK = {family.family: family for family in (LastValue, Linear, DampedTrend)}  # where what they say does not matter
STEP_S = 10.0
DAY_S = 86_400.0
CHANGE_S = 1_760_000_000.0  # from a wave of four hours to one of twenty minutes, after a day


def load(minutes_since: float) -> Workload:
    """A day of slow waves, then quick ones, with noise of 3 %."""
    start_s = CHANGE_S - DAY_S
    at_s = np.arange(start_s, CHANGE_S + 60 * minutes_since, STEP_S)
    period_s = np.where(at_s < CHANGE_S, 14_400.0, 1_200.0)
    per_s = 10_000 * (0.6 - 0.4 * np.cos(2 * np.pi * (at_s - CHANGE_S) / period_s))
    return Workload(start_s, STEP_S, per_s * (1 + 0.03 * np.random.default_rng(5).standard_normal(len(at_s))))


@pytest.fixture(scope="module")
def champion():
    return train_forecasters(load(0), FAMILIES).champion


@pytest.fixture(scope="module")
def retrained():
    """Forty minutes after the drift."""
    return retrain_forecasters(load(40), CHANGE_S, FAMILIES)


def wape_of_the_next_hour(forecaster, minutes_since: float) -> float:
    """Updated every five minutes, judged from every five minutes of the hour after the training."""
    now_s = CHANGE_S + 60 * minutes_since
    origins_s = now_s + 300.0 * np.arange(-9, 10)
    future = load(minutes_since + 60)
    return backtest_fitted(forecaster, future, stops=Stops.at(origins_s, origins_s >= now_s)).wape()


def test_the_gate_judges_on_windows_since_the_drift_and_says_so(champion, retrained):
    assert (retrained.stops.scored_s >= CHANGE_S).all()
    assert retrained.stops.scored.sum() >= 8
    verdict = challenge_champion(retrained, champion.to_state(), load(40))
    assert verdict.promoted
    assert "windows since the drift began at 2025-10-09 08:53Z" in verdict.sentence


def test_a_champion_of_the_old_load_loses_however_many_old_windows_there_are(champion, retrained):
    """On the usual windows, spread over half a day, a forecaster that knows only the new load would lose."""
    usual = train_forecasters(load(40), FAMILIES)
    assert (usual.stops.scored_s < CHANGE_S).mean() > 0.7
    assert wape_of_the_next_hour(champion, 40) > 0.5
    assert wape_of_the_next_hour(retrained.champion, 40) < 0.25 * wape_of_the_next_hour(champion, 40)


def test_what_came_since_the_drift_is_enough_to_learn_from(retrained):
    assert "fitted to what came since the drift" in retrained.sentence


def test_a_drift_that_leaves_the_old_models_good_keeps_all_of_the_history():
    """A level five times as high: the shape is known, and nothing that came since is known better."""
    known = load(0)
    taller = np.concatenate([known.per_s, 5 * known.per_s[: 40 * 6]])
    trained = retrain_forecasters(Workload(known.start_s, STEP_S, taller), CHANGE_S, families_named(ENSEMBLE))
    assert "fitted to all of the history" in trained.sentence


def test_a_training_that_comes_too_early_keeps_the_champion_and_says_when_to_come_again(champion):
    """Never on the old windows: there a challenger that learned nothing of the drift would look well."""
    history = load(20)
    trained = retrain_forecasters(history, CHANGE_S, QUICK)
    assert trained.winner is None
    verdict = challenge_champion(trained, champion.to_state(), history)
    assert not verdict.promoted
    assert "20 minutes of workload since are too few" in verdict.sentence
    assert "train again after 2025-10-09 09:" in verdict.sentence


def test_as_soon_as_it_says_it_can_be_judged_it_can():
    minutes = (judgeable_s(CHANGE_S) - CHANGE_S) / 60
    assert 38 <= minutes <= 42
    assert retrain_forecasters(load(minutes), CHANGE_S, QUICK).winner is not None


def test_a_drift_whose_time_was_not_measured_says_so():
    history = load(90)
    per_s = history.per_s.copy()
    per_s[-80 * 6 :] = np.nan
    trained = retrain_forecasters(Workload(history.start_s, STEP_S, per_s), CHANGE_S, QUICK)
    assert trained.winner is None
    assert "too little of the workload since was measured" in trained.sentence


@pytest.mark.parametrize("since_s", [None, CHANGE_S - 2 * DAY_S, CHANGE_S - 0.9 * DAY_S])
def test_without_a_drift_or_long_after_it_training_is_the_usual_one(since_s):
    history = load(0)
    trained, usual = retrain_forecasters(history, since_s, QUICK), train_forecasters(history, QUICK)
    assert trained.since_s is None
    assert trained.sentence == usual.sentence
    assert np.array_equal(trained.stops.origins_s, usual.stops.origins_s)

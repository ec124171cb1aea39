from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from perdix.models.forecasting.backtest import Backtest
from perdix.models.forecasting.contract import Workload
from perdix.models.forecasting.families import ENSEMBLE, FAMILIES, DampedTrend, LastValue, Linear
from perdix.models.forecasting.selection import Candidate, challenge, challenge_champion, train_forecasters, winner_of

QUICK = {family.family: family for family in (LastValue, Linear, DampedTrend)}


class Broken(Linear):
    """A family that cannot be fitted."""

    family = "broken"

    @classmethod
    def fit(cls, history, *, horizon_s=900.0, seed=0):
        raise ValueError("out of luck")


class Late(Linear):
    """A family that needs most of what there is."""

    family = "late"

    @classmethod
    def fit(cls, history, *, horizon_s=900.0, seed=0):
        if len(history) < 1000:
            raise ValueError("too young for me")
        return super().fit(history, horizon_s=horizon_s, seed=seed)


def ramp(hours: float = 3.0) -> Workload:
    at_s = np.arange(0.0, 3600 * hours, 10.0)
    return Workload(0.0, 10.0, 20_000 + 15_000 * np.sin(2 * np.pi * at_s / 7200))


def noisy(workload: Workload) -> Workload:
    rng = np.random.default_rng(2)
    return Workload(workload.start_s, workload.step_s, workload.per_s * (1 + 0.05 * rng.standard_normal(len(workload))))


def noise(hours: float = 3.0) -> Workload:
    rng = np.random.default_rng(1)
    return Workload(0.0, 10.0, 20_000 + 100 * rng.normal(size=int(360 * hours)).cumsum())


def judged(scale: float, origins: int = 10, family: str = "linear", highest: float | None = None) -> Backtest:
    truth = np.full((origins, 90), 100.0)
    safe = truth * (scale if highest is None else highest)
    return Backtest(family, 10.0, 900.0 * np.arange(origins), truth, truth * scale, truth, truth, safe)


def test_a_trending_workload_gets_a_family_with_a_trend_and_a_reason():
    trained = train_forecasters(ramp(), QUICK)
    assert trained.winner in {"linear", "damped-trend", ENSEMBLE}
    assert trained.champion is trained.candidates[trained.winner].forecaster
    assert trained.winner in trained.sentence
    best = trained.candidates[trained.winner].backtest
    assert best.wape() < 0.98 * trained.candidates["last-value"].backtest.wape()
    assert trained.champion.forecast(60).origin_s == ramp().end_s  # fitted to all of it, not to a half


class Lucky(LastValue):
    """A family that is much better than all others on this workload."""

    family = "lucky"

    def project(self, tail, edges_s):
        return 20_000 + 15_000 * np.sin(2 * np.pi * (tail.measured_end_s + edges_s[1:]) / 7200)


def test_all_together_stand_unless_a_family_alone_is_far_better():
    trained = train_forecasters(noisy(ramp()), {**QUICK, "lucky": Lucky})
    assert trained.winner == ENSEMBLE
    best = min(candidate.backtest.score for candidate in trained.candidates.values())
    assert trained.candidates[ENSEMBLE].backtest.score < 2.0 * best


def test_every_family_and_all_together_are_candidates_on_the_same_windows():
    trained = train_forecasters(ramp(), QUICK)
    assert list(trained.candidates) == [*QUICK, ENSEMBLE]
    backtests = [candidate.backtest for candidate in trained.candidates.values()]
    for backtest in backtests:
        assert np.array_equal(backtest.origins_s, trained.stops.scored_s)
        assert np.array_equal(backtest.actual, backtests[0].actual, equal_nan=True)
        assert backtest.state_bytes > 0
        assert min(backtest.fit_s, backtest.update_s, backtest.forecast_s) > 0.0
    assert [candidate.forecaster.family for candidate in trained.candidates.values()] == [*QUICK, ENSEMBLE]
    assert list(train_forecasters(ramp(), {"linear": Linear}).candidates) == ["linear"]


def test_who_goes_on_has_a_record_of_the_newest_stretch():
    trained = train_forecasters(ramp(), QUICK)
    for candidate in trained.candidates.values():
        record = candidate.forecaster.record
        assert record.origins_s[-1] == ramp().end_s
        assert np.isfinite(record.actual).sum() > 100
        assert record.forecasts.shape[1] == len(candidate.forecaster.members)


def test_a_random_walk_keeps_the_naive_one():
    trained = train_forecasters(noise(), QUICK)
    assert trained.winner == "last-value"


def test_a_family_that_fails_keeps_its_reason_and_the_others_go_on():
    trained = train_forecasters(ramp(), {**QUICK, "broken": Broken})
    assert trained.candidates["broken"].forecaster is None
    assert trained.candidates["broken"].reason == "could not be fitted: out of luck"
    assert trained.winner is not None
    assert trained.candidates[ENSEMBLE].forecaster.failures == {"broken": "out of luck"}


def test_a_family_that_was_too_young_to_be_judged_goes_on_but_cannot_win():
    trained = train_forecasters(ramp(), {**QUICK, "late": Late})
    late = trained.candidates["late"]
    assert late.backtest is None
    assert late.reason.endswith("too young for me")
    assert trained.winner != "late"
    assert "late" in trained.candidates[ENSEMBLE].forecaster.names


def test_a_short_history_has_candidates_but_no_winner():
    trained = train_forecasters(ramp(0.3), QUICK)
    assert trained.winner is None
    assert "18 minutes of workload are too few to judge a forecast of 15 minutes; ingest 38 or more" in trained.sentence
    assert trained.champion is None
    assert trained.candidates["linear"].forecaster is not None
    assert train_forecasters(ramp(38.4 / 60), QUICK).winner is not None


def test_a_long_history_of_gaps_says_so():
    rates = ramp().per_s.copy()
    rates[400:] = np.nan
    trained = train_forecasters(Workload(0.0, 10.0, rates), QUICK)
    assert trained.winner is None
    assert "6% of the newer workload was measured" in trained.sentence


def test_an_empty_history_has_neither():
    trained = train_forecasters(Workload(0.0, 10.0, np.empty(0)), FAMILIES)
    assert trained.winner is None
    assert all(candidate.forecaster is None and candidate.reason for candidate in trained.candidates.values())


def test_training_is_deterministic():
    first, second = (train_forecasters(noise(), QUICK, seed=3) for _ in range(2))
    assert first.winner == second.winner
    assert first.champion.to_state() == second.champion.to_state()


def test_longer_horizons_at_coarser_steps_are_the_same_call():
    hours = np.arange(24 * 21.0)
    days = Workload(0.0, 3600.0, 10_000 + 4_000 * np.sin(2 * np.pi * hours / 24) + 10 * hours)
    trained = train_forecasters(days, QUICK, horizon_s=12 * 3600.0)
    assert trained.winner is not None
    assert len(trained.champion.forecast(step_s=3600.0).mean) == 12


@pytest.mark.parametrize(
    ("linear", "together", "naive", "winner"),
    [
        (1.20, 1.21, 1.50, ENSEMBLE),
        (1.11, 1.21, 1.50, ENSEMBLE),  # better, but perhaps by luck
        (1.10, 1.21, 1.50, "linear"),  # halves it
        (1.10, 1.11, 1.11, "last-value"),
        (1.30, 1.30, 1.10, "last-value"),
        (1.10, None, 1.50, "linear"),
        (None, 1.20, 1.50, ENSEMBLE),
        (None, 1.20, None, ENSEMBLE),
        (None, None, None, None),
    ],
)
def test_the_rule(linear, together, naive, winner):
    fallback = train_forecasters(ramp(0.3), {"linear": Linear}).candidates["linear"].forecaster
    scales = {"linear": linear, ENSEMBLE: together, "last-value": naive}
    candidates = {
        name: Candidate(name, fallback, judged(scale, family=name) if scale else None, "" if scale else "none")
        for name, scale in scales.items()
    }
    found, sentence = winner_of(candidates)
    assert found == winner
    assert sentence
    silent = np.full((10, 90), np.nan)
    if winner == "linear":
        backtest = replace(candidates["linear"].backtest, forecast=silent)
        assert winner_of({**candidates, "linear": replace(candidates["linear"], backtest=backtest)})[0] != "linear"


def test_a_peak_missed_costs_nine_times_a_margin():
    low, high = judged(1.0, highest=0.8), judged(1.0, highest=1.2)
    assert low.score == pytest.approx(0.18)
    assert high.score == pytest.approx(0.02)
    assert challenge(low, high).promoted
    assert challenge(judged(0.95, highest=0.6), judged(1.10, highest=1.10)).promoted  # worse path, safe maximum


def test_a_challenger_must_be_better_by_the_margin():
    assert challenge(judged(1.10), judged(1.05)).promoted
    assert not challenge(judged(1.10), judged(1.099)).promoted
    assert not challenge(judged(1.10), judged(1.20)).promoted
    assert not challenge(judged(1.0), judged(1.0)).promoted
    assert "WAPE 5.0% over 900 s) against" in challenge(judged(1.10), judged(1.05)).sentence


def test_the_first_champion_needs_evidence_only():
    assert challenge(None, judged(1.5)).promoted
    verdict = challenge(None, judged(1.0, origins=3))
    assert not verdict.promoted
    assert "3 of the 8" in verdict.sentence


def test_a_champion_that_falls_silent_is_replaced():
    current = judged(1.0)
    silent = current.forecast.copy()
    silent[4] = np.nan
    verdict = challenge(replace(current, forecast=silent), judged(1.1, family="damped-trend"))
    assert verdict.promoted
    assert "linear could not forecast from 1 of 10 origins" in verdict.sentence


def test_other_windows_cannot_be_compared():
    with pytest.raises(ValueError, match="different windows"):
        challenge(judged(1.1, origins=9), judged(1.0, origins=10))
    with pytest.raises(ValueError, match="different windows"):
        challenge(replace(judged(1.1), actual=np.full((10, 90), 99.0)), judged(1.0))


def test_a_stored_champion_is_judged_on_the_windows_of_the_training():
    history = ramp()
    trained = train_forecasters(history, QUICK)
    naive = trained.candidates["last-value"].forecaster.to_state()
    verdict = challenge_champion(trained, naive, history)
    assert verdict.promoted
    assert "against last-value" in verdict.sentence
    assert "had seen these windows" in verdict.sentence
    assert not challenge_champion(trained, trained.champion.to_state(), history).promoted


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ({"format": 1}, "of format 2 was expected, not 1"),
        ({"format": 2, "members": []}, "damaged"),
        ({}, "of format 2 was expected, not None"),
    ],
)
def test_a_champion_that_cannot_be_read_counts_as_absent(state, why):
    history = ramp()
    verdict = challenge_champion(train_forecasters(history, QUICK), state, history)
    assert verdict.promoted
    assert "is the first champion; the champion could not be read" in verdict.sentence
    assert why in verdict.sentence


def test_without_a_winner_the_champion_stays():
    trained = train_forecasters(ramp(0.3), QUICK)
    verdict = challenge_champion(trained, trained.candidates["linear"].forecaster.to_state(), ramp(0.3))
    assert not verdict.promoted
    assert "too few" in verdict.sentence


def a_job_with_nights(days: int = 2) -> Workload:
    """Work from seven to seven, and nothing at all in the other twelve hours."""
    at_s = np.arange(0.0, 86_400.0 * days, 60.0)
    hour = at_s % 86_400.0 / 3_600.0
    by_day = 1_000.0 * (1.0 + 0.5 * np.sin((hour - 7.0) / 12.0 * np.pi))
    noise = 1.0 + 0.05 * np.random.default_rng(1).standard_normal(len(at_s))
    return Workload(0.0, 60.0, np.where((hour >= 7.0) & (hour < 19.0), by_day * noise, 0.0))


def test_a_job_that_idles_at_night_gets_a_champion():
    trained = train_forecasters(a_job_with_nights(), QUICK)
    best = trained.judged
    assert best is not None, trained.sentence
    assert np.isfinite(best.score)
    assert (best.actual == 0.0).all(axis=1).any()
    assert challenge_champion(trained, None, a_job_with_nights()).promoted


def test_one_outage_in_a_judged_window_costs_no_champion():
    load = noise(12.0)
    before = train_forecasters(load, QUICK)
    origin = round((before.stops.scored_s[10] - load.start_s) / load.step_s)
    rates = load.per_s.copy()
    rates[origin : origin + 90] = 0.0
    assert train_forecasters(Workload(load.start_s, load.step_s, rates), QUICK).winner is not None


def test_windows_in_which_nothing_arrived_are_left_out_of_the_maximum_unless_there_are_no_others():
    busy = judged(1.2)
    idle = replace(busy, actual=np.vstack([busy.actual[:-2], np.zeros((2, 90))]))
    assert idle.maximum_loss == pytest.approx(busy.maximum_loss)
    assert idle.wape() > busy.wape()
    assert replace(busy, actual=np.zeros_like(busy.actual)).maximum_loss == np.inf


def test_who_could_not_be_scored_because_nothing_arrived_is_named():
    one = judged(1.2)
    silent = replace(one, actual=np.zeros_like(one.actual))
    winner, sentence = winner_of({"linear": Candidate("linear", object(), silent)})
    assert winner is None
    assert "linear: nothing arrived in any of the 10 windows" in sentence

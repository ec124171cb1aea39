from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from models.forecasting.backtest import Backtest, backtest, spaced_origins
from models.forecasting.contract import Workload
from models.forecasting.families import FAMILIES, DampedTrend, LastValue, Linear
from models.forecasting.selection import challenge, train_forecasters

QUICK = {family.family: family for family in (LastValue, Linear, DampedTrend)}


class Broken(Linear):
    """A family that cannot be fitted."""

    @classmethod
    def fit(cls, history, *, seed=0):
        raise ValueError("out of luck")


def ramp(hours: float = 3.0) -> Workload:
    at_s = np.arange(0.0, 3600 * hours, 10.0)
    return Workload(0.0, 10.0, 20_000 + 15_000 * np.sin(2 * np.pi * at_s / 7200))


def noise(hours: float = 3.0) -> Workload:
    rng = np.random.default_rng(1)
    return Workload(0.0, 10.0, 20_000 + 100 * rng.normal(size=int(360 * hours)).cumsum())


def judged(scale: float, origins: int = 10, family: str = "linear") -> Backtest:
    truth = np.full((origins, 90), 100.0)
    return Backtest(family, 10.0, 900.0 * np.arange(origins), truth, truth * scale, truth)


def test_a_trending_workload_gets_a_family_with_a_trend_and_a_reason():
    trained = train_forecasters(ramp(), QUICK)
    assert trained.winner in {"linear", "damped-trend"}
    assert trained.champion is trained.candidates[trained.winner].forecaster
    assert trained.winner in trained.sentence
    best = trained.candidates[trained.winner].backtest
    assert best.wape() < 0.98 * trained.candidates["last-value"].backtest.wape()
    assert trained.champion.forecast(60).origin_s == ramp().end_s  # fitted to all of it, not to a half


def test_a_random_walk_keeps_the_naive_one():
    trained = train_forecasters(noise(), QUICK)
    assert trained.winner == "last-value"


def test_a_family_that_fails_keeps_its_reason_and_the_others_go_on():
    trained = train_forecasters(ramp(), {**QUICK, "broken": Broken})
    assert trained.candidates["broken"].forecaster is None
    assert "out of luck" in trained.candidates["broken"].reason
    assert trained.winner is not None


def test_a_short_history_has_candidates_but_no_winner():
    trained = train_forecasters(ramp(0.3), FAMILIES)
    assert trained.winner is None
    assert "18 minutes of workload are too few to judge a forecast of 15 minutes; ingest 33 or more" in trained.sentence
    assert trained.champion is None
    assert trained.candidates["linear"].forecaster is not None


def test_an_empty_history_has_neither():
    trained = train_forecasters(Workload(0.0, 10.0, np.empty(0)), FAMILIES)
    assert trained.winner is None
    assert all(candidate.forecaster is None and candidate.reason for candidate in trained.candidates.values())


def test_a_challenger_must_be_better_by_the_margin():
    assert challenge(judged(1.10), judged(1.05)).promote
    assert not challenge(judged(1.10), judged(1.099)).promote
    assert not challenge(judged(1.10), judged(1.20)).promote
    assert not challenge(judged(1.0), judged(1.0)).promote
    assert "5.0% against" in challenge(judged(1.10), judged(1.05)).sentence


def test_the_first_champion_needs_evidence_only():
    assert challenge(None, judged(1.5)).promote
    verdict = challenge(None, judged(1.0, origins=3))
    assert not verdict.promote
    assert "3 of the 8" in verdict.sentence


def test_other_windows_cannot_be_compared():
    with pytest.raises(ValueError, match="different windows"):
        challenge(judged(1.1, origins=9), judged(1.0, origins=10))
    with pytest.raises(ValueError, match="different windows"):
        challenge(replace(judged(1.1), actual=np.full((10, 90), 99.0)), judged(1.0))


def test_champion_and_challenger_from_one_history():
    history = ramp()
    origins_s = spaced_origins(history, 10, 3600.0)
    current, challenger = (backtest(family, history, origins_s=origins_s) for family in (LastValue, DampedTrend))
    assert challenge(current, challenger).promote
    assert not challenge(challenger, current).promote

"""Which family a job's samples are given to, and whether it takes the champion's place."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest

from perdix.models.performance.cross_validation import Errors, folds_for, held_out_rates
from perdix.models.performance.families import FAMILIES, FOREST, LINE, MONOTONE, SUPPORT_VECTORS, XGBOOST, Family
from perdix.models.performance.fitted import FittedPerformance
from perdix.models.performance.samples import Sample, rates_of, sizes_of
from perdix.models.performance.selection import (
    PerformanceCandidate,
    TrainedPerformance,
    challenge,
    chosen,
    select_performance,
)
from tests.models.sampled import sampled


def small(family: Family) -> Family:
    """Return a family with a tenth of the trees and no grid: the same course in a tenth of the time."""
    return replace(family, published={**family.published, "n_estimators": 10, "learning_rate": 0.3}, grid={})


BOOSTED = small(XGBOOST)
FAST = (BOOSTED, small(MONOTONE), LINE)


@lru_cache
def every_sample() -> TrainedPerformance:
    return trained(sampled())


def trained(samples: list[Sample], families: tuple[Family, ...] = FAST, seed: int = 0) -> TrainedPerformance:
    return select_performance(samples, seed, families=families, repeats=2)


# ---- errors on samples left out ----------------------------------------------------------------------------------


def test_errors_are_means_over_repeats_with_their_spread() -> None:
    errors = Errors.of(np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), np.array([1.0, 2.0, 3.0]))
    assert (errors.rmse_per_s, errors.rmse_spread_per_s) == (1.5, 1.5)
    assert (errors.mae_per_s, errors.mae_spread_per_s) == (1.5, 1.5)
    assert errors.relative_rmse == 0.75
    assert str(errors) == "RMSE 1.5 ± 1.5 records/s"


@pytest.mark.parametrize(("samples", "folds"), [(4, 4), (9, 9), (10, 10), (40, 10)])
def test_there_are_ten_folds_or_as_many_as_samples(samples: int, folds: int) -> None:
    assert folds_for(samples) == folds


def test_what_is_predicted_of_a_sample_does_not_know_it() -> None:
    sizes, rates = sizes_of(sampled()), rates_of(sampled())
    before = held_out_rates(BOOSTED, BOOSTED.published, sizes, rates, repeats=[3])
    moved = rates.copy()
    moved[5] += 50_000.0
    after = held_out_rates(BOOSTED, BOOSTED.published, sizes, moved, repeats=[3])
    assert before.shape == (1, len(rates))
    assert after[0, 5] == before[0, 5]
    assert (after != before).any(), "others do know it"


def test_repeats_split_differently_and_the_same_repeat_alike() -> None:
    sizes, rates = sizes_of(sampled()), rates_of(sampled())
    found = held_out_rates(BOOSTED, BOOSTED.published, sizes, rates, repeats=[1, 2, 1])
    assert (found[0] == found[2]).all()
    assert (found[0] != found[1]).any()


# ---- selection ---------------------------------------------------------------------------------------------------


def test_every_family_is_judged_and_the_sentence_says_on_what() -> None:
    found = trained(sampled(4))
    assert [fitted.family for fitted in found.candidates] == [family.family for family in FAST]
    assert all(fitted.errors is not None and fitted.fit_s > 0.0 for fitted in found.candidates)
    assert "6 samples, 6 folds, one sample each, 2 repeats" in found.sentence
    assert all(held_out.shape == (6,) for held_out in found.held_out.values())
    assert found.winner in found.fitted


def test_figures_carry_their_units() -> None:
    metrics = every_sample().candidates[0].metrics()
    assert set(metrics) == {
        "relative_rmse", "rmse_per_s", "rmse_spread_per_s", "mae_per_s", "mae_spread_per_s", "fit_s",
    }  # fmt: skip
    assert all(value is not None for value in metrics.values())


def test_a_grid_is_searched_and_the_published_setting_wins_ties() -> None:
    found = trained(sampled(), (SUPPORT_VECTORS, BOOSTED))
    support = found.candidates[0]
    assert support.parameters["scaled_rates"] is True, "unscaled, it predicts nearly the same rate for every size"
    flat = trained(
        [replace(sample, per_s=1_000.0) for sample in sampled(4)], (replace(BOOSTED, grid={"max_depth": (3, 2)}),)
    )
    assert flat.best.parameters == BOOSTED.published


def test_a_smooth_family_is_compared_and_never_chosen() -> None:
    line = [Sample(c, 512.0, 1_000.0 * c) for c in np.linspace(0.5, 4.0, 8)]
    found = trained(line)
    errors = {fitted.family: fitted.rmse_per_s for fitted in found.candidates}
    assert errors["linear"] < 1e-6 < errors["xgboost"]
    assert found.winner != "linear"
    assert not next(fitted for fitted in found.candidates if fitted.family == "linear").may_lead


def candidate(family: str, rmse_per_s: float, spread_per_s: float = 10.0, **more: bool) -> PerformanceCandidate:
    return PerformanceCandidate(family, {}, Errors(rmse_per_s, spread_per_s, 0.0, 0.0, 1_000.0), **more)


@pytest.mark.parametrize(
    ("forest", "other", "expected"),
    [
        (candidate("random-forest", 100.0), candidate("xgboost", 120.0), "random-forest"),
        (candidate("random-forest", 105.0), candidate("xgboost", 100.0), "random-forest"),  # within the spread
        (candidate("random-forest", 110.1), candidate("xgboost", 100.0), "xgboost"),
        (candidate("random-forest", 500.0), candidate("linear", 1.0, may_lead=False), "random-forest"),
        (PerformanceCandidate("random-forest", {}, error="broken"), candidate("xgboost", 100.0), "xgboost"),
        (PerformanceCandidate("random-forest", {}, error="broken"), candidate("linear", 1.0, may_lead=False), None),
    ],
)
def test_the_published_forest_is_left_only_for_more_than_the_spread(
    forest: PerformanceCandidate, other: PerformanceCandidate, expected: str | None
) -> None:
    assert chosen([forest, other]) == chosen([other, forest]) == expected


def test_the_same_samples_and_seed_give_the_same_training() -> None:
    one, other = trained(sampled(), seed=5), trained(list(reversed(sampled())), seed=5)
    assert (one.winner, one.digest, one.model.to_state()) == (other.winner, other.digest, other.model.to_state())
    assert one.best.errors == other.best.errors


def test_where_only_compared_families_can_be_fitted_there_is_no_model() -> None:
    with pytest.raises(ValueError, match="no performance model could be fitted to 15 samples: linear: only compared"):
        trained(sampled(), (LINE,))


def test_samples_that_cannot_be_learned_from_say_so() -> None:
    with pytest.raises(ValueError, match="3 samples are too few"):
        trained(sampled()[:3])


@pytest.mark.slow
def test_every_published_family_trains_and_the_unscaled_support_vectors_are_the_worst() -> None:
    found = select_performance(sampled(4, noise=0.02), repeats=1)
    assert [fitted.family for fitted in found.candidates] == [family.family for family in FAMILIES]
    assert not [fitted.error for fitted in found.candidates if fitted.error]
    sizes, rates = sizes_of(found.samples), rates_of(found.samples)
    published = Errors.of(held_out_rates(SUPPORT_VECTORS, SUPPORT_VECTORS.published, sizes, rates, repeats=[0]), rates)
    assert published.rmse_per_s > max(fitted.rmse_per_s for fitted in found.candidates)


# ---- the gate ----------------------------------------------------------------------------------------------------


def test_the_first_model_is_promoted() -> None:
    verdict = challenge(None, every_sample())
    assert verdict.promoted
    assert "is the first champion" in verdict.sentence


def test_the_same_samples_and_family_change_nothing() -> None:
    found = every_sample()
    assert not challenge(found.model, found).promoted


def test_a_champion_of_an_operator_that_has_changed_is_replaced() -> None:
    champion = every_sample().model
    slower = trained([replace(sample, per_s=0.5 * sample.per_s) for sample in sampled()])
    verdict = challenge(champion, slower)
    assert verdict.promoted
    assert verdict.challenger_error < verdict.champion_error
    assert "0 that it had learned" in verdict.sentence


def test_more_samples_of_the_same_operator_beat_fewer() -> None:
    champion = trained(sampled()[::3]).model
    assert challenge(champion, every_sample()).promoted


def test_a_champion_is_not_favoured_for_the_samples_that_it_knows_by_heart() -> None:
    every = sampled(noise=0.05)
    found = trained(every)
    by_heart = FittedPerformance.fit(BOOSTED, {**BOOSTED.published, "n_estimators": 100}, every)
    known = by_heart.predict(*sizes_of(found.samples).T).per_s
    off = float(np.sqrt(((known - rates_of(found.samples)) ** 2).mean()))
    other = replace(found, winner="monotone-boosting")
    verdict = challenge(by_heart, other)
    assert verdict.champion_error > 5.0 * off


def test_a_champion_that_is_better_on_the_same_samples_is_kept() -> None:
    champion = FittedPerformance.fit(FOREST, FOREST.published, sampled(30))
    noisy = trained(sampled(7, noise=0.3, seed=2))
    verdict = challenge(champion, noisy)
    assert not verdict.promoted
    assert "the champion (random-forest)" in verdict.sentence

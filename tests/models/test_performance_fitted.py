"""What holds for every family of performance models: predictions, what is said of them, and their state."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from perdix.models.performance.families import (
    ADABOOST,
    BOOSTING,
    CURVES,
    FAMILIES,
    FOREST,
    LINE,
    MONOTONE,
    SUPPORT_VECTORS,
    XGBOOST,
    Family,
    family_of,
)
from perdix.models.performance.fitted import FittedPerformance
from perdix.models.performance.samples import Sample, rates_of
from perdix.settings.home import PROJECT
from tests.models.sampled import sampled, true_per_s

every_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.family)


def fitted(family: Family, samples: list[Sample] | None = None, seed: int = 0) -> FittedPerformance:
    return FittedPerformance.fit(family, family.published, samples or sampled(), seed)


# ---- settings ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "published"),
    [  # QEScalor, 3.1; names as scikit-learn has them today
        (FOREST, {"n_estimators": 100, "bootstrap": True, "criterion": "squared_error", "max_features": 1.0,
                  "min_samples_leaf": 1, "min_samples_split": 2}),
        (ADABOOST, {"estimator": None, "learning_rate": 1.0, "loss": "linear", "n_estimators": 50}),
        (BOOSTING, {"n_estimators": 100, "max_features": None, "min_samples_leaf": 1}),
        (XGBOOST, {"booster": "gbtree", "learning_rate": 0.1, "max_depth": 3, "n_estimators": 100}),
        (SUPPORT_VECTORS, {"kernel": "rbf", "gamma": "scale", "C": 1.0}),
    ],
    ids=lambda family: getattr(family, "family", ""),
)  # fmt: skip
def test_the_published_settings_are_the_ones_that_are_tried_first(family: Family, published: dict[str, object]) -> None:
    first = family.tried()[0]
    estimator = family.estimator(first, 0)[-1]
    assert {name: estimator.get_params()[name] for name in published} == published
    assert first == family.published


@every_family
def test_no_setting_is_tried_twice_and_inputs_are_scaled_to_0_and_1(family: Family) -> None:
    tried = [json.dumps(tried_out, sort_keys=True) for tried_out in family.tried()]
    assert len(set(tried)) == len(tried)
    scaler = family.estimator(family.published, 0)[0].fit([[0.4, 128.0], [4.0, 1_024.0]])
    assert scaler.transform([[0.4, 1_024.0]]).tolist() == [[0.0, 1.0]]


def test_a_family_that_there_is_not_names_those_that_there_are() -> None:
    with pytest.raises(ValueError, match=r"'tabnet'; known: random-forest, adaboost"):
        family_of("tabnet")


# ---- predictions -------------------------------------------------------------------------------------------------


@every_family
def test_pairs_are_broadcast_and_say_what_was_not_sampled(family: Family) -> None:
    found = fitted(family).predict([1.0, 2.0, 8.0], 1_024.0)
    assert found.per_s.shape == found.extrapolated.shape == (3,)
    assert (np.isfinite(found.per_s) & (found.per_s >= 0.0)).all()
    assert found.extrapolated.tolist() == [False, False, True]
    assert found.extrapolated.dtype == bool


@every_family
def test_a_size_that_is_no_number_has_no_prediction_and_spoils_no_other(family: Family) -> None:
    model = fitted(family)
    found = model.predict([math.nan, 2.0, 2.0], [512.0, math.inf, 1_024.0])
    assert np.isnan(found.per_s).tolist() == [True, True, False]
    assert found.extrapolated.tolist() == [True, True, False]
    assert found.per_s[2] == model.predict(2.0, 1_024.0).per_s[0]


@pytest.mark.parametrize("family", [family for family in FAMILIES if family.bounded], ids=lambda family: family.family)
def test_bounded_families_come_near_what_they_were_taught_and_stand_still_beyond(family: Family) -> None:
    model = fitted(family)
    cores = np.array([0.6, 1.4, 2.6, 3.8])
    off = model.predict(cores, 1_024.0).per_s / true_per_s(cores, 1_024.0) - 1.0
    assert np.abs(off).max() < 0.35
    assert model.predict(64.0, 1_024.0).per_s[0] <= 1.001 * rates_of(model.samples).max()


def test_rising_curves_multiply_what_little_memory_costs_and_what_few_cores_can_do() -> None:
    model = fitted(CURVES)  # sampled along two lines only
    cores, memory = np.meshgrid(sorted({sample.cpu_cores for sample in model.samples}), [320.0, 512.0, 704.0, 1_024.0])
    between = model.predict(cores, memory).per_s
    np.testing.assert_allclose(between, true_per_s(cores, memory).ravel(), rtol=0.02)
    assert fitted(FOREST).predict(0.8, 320.0).per_s[0] > 1.2 * true_per_s(0.8, 320.0)


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=4, max_size=20, unique=True),
    st.randoms(use_true_random=False),
)
def test_rising_curves_stay_within_the_rates_that_they_know(sizes: list[tuple[int, int]], random: Random) -> None:
    samples = [Sample(float(c), 64.0 * m, random.choice([0.0, 10.0, 1e4, random.uniform(0, 1e5)])) for c, m in sizes]
    model = fitted(CURVES, samples)
    asked = np.array([(c, 64.0 * m) for c in range(1, 6) for m in range(1, 6)])
    found = model.predict(asked[:, 0], asked[:, 1]).per_s
    assert ((found >= 0.0) & (found <= max(sample.per_s for sample in samples))).all()


def test_the_line_is_exact_on_a_line_and_never_below_0() -> None:
    model = fitted(LINE, [Sample(c, m, 1_000.0 * c + m - 400.0) for c in (1.0, 2.0, 3.0) for m in (100.0, 200.0)])
    assert model.predict(2.5, 150.0).per_s[0] == pytest.approx(2_250.0)
    assert model.predict(0.1, 100.0).per_s[0] == 0.0


def test_scaled_rates_mend_what_c_1_does_to_support_vectors() -> None:
    published = fitted(SUPPORT_VECTORS)
    scaled = FittedPerformance.fit(SUPPORT_VECTORS, {**SUPPORT_VECTORS.published, "scaled_rates": True}, sampled())
    cores, truth = [0.8, 2.0, 3.6], true_per_s([0.8, 2.0, 3.6], 1_024.0)
    assert np.ptp(published.predict(cores, 1_024.0).per_s) < 50.0, "nearly the same rate for every size"
    assert np.abs(scaled.predict(cores, 1_024.0).per_s / truth - 1.0).max() < 0.2


@pytest.mark.parametrize("family", [MONOTONE, CURVES], ids=lambda family: family.family)
@settings(max_examples=12, deadline=None)
@given(st.lists(st.floats(0.0, 1e5), min_size=15, max_size=15), st.integers(0, 3))
@example([*[0.0] * 14, 2.3e-197], 0)
def test_more_resources_never_have_less_performance_where_the_family_says_so(
    family: Family, rates: list[float], seed: int
) -> None:
    samples = [replace(sample, per_s=rate) for sample, rate in zip(sampled(), rates, strict=True)]
    model = fitted(family, samples, seed)
    cores, memory = np.meshgrid(np.linspace(0.1, 5.0, 12), np.linspace(64.0, 1_200.0, 12), indexing="ij")
    found = model.predict(cores, memory).per_s.reshape(12, 12)
    slack = 1e-5 * max(rates)
    assert (np.diff(found, axis=0) >= -slack).all()
    assert (np.diff(found, axis=1) >= -slack).all()


# ---- state -------------------------------------------------------------------------------------------------------


@every_family
def test_a_model_from_its_state_predicts_the_very_same(family: Family) -> None:
    model = fitted(family, sampled(noise=0.05), seed=7)
    again = FittedPerformance.from_state(json.loads(json.dumps(model.to_state())))
    assert again == model
    asked = np.linspace(0.2, 6.0, 15)
    np.testing.assert_array_equal(again.predict(asked, 700.0).per_s, model.predict(asked, 700.0).per_s)


def test_another_process_grows_the_same_trees() -> None:
    model = fitted(FOREST, sampled(noise=0.05), seed=7)
    code = (
        "import json, sys; from perdix.models.performance.fitted import FittedPerformance;"
        "model = FittedPerformance.from_state(json.load(sys.stdin));"
        "print(json.dumps(model.predict([1.1, 2.2], 900.0).per_s.tolist()))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], input=json.dumps(model.to_state()), cwd=PROJECT, capture_output=True, text=True,
        check=True, timeout=60,
    )  # fmt: skip
    assert json.loads(answer.stdout) == model.predict([1.1, 2.2], 900.0).per_s.tolist()


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ({"format": "of another program"}, "format is 'of another program'; train the job anew"),
        ({"seed": 8}, "damaged"),
        ({"samples": []}, "damaged"),
        ({"sha256": "0" * 64}, "instead of 000000000000"),
    ],
)
def test_a_state_that_is_not_what_was_written_says_so(damage: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match="performance state") as error:
        FittedPerformance.from_state({**fitted(FOREST).to_state(), **damage})
    assert said in str(error.value)


@pytest.mark.parametrize("lost", ["family", "parameters", "samples", "seed", "sha256"])
def test_a_state_that_is_not_whole_says_what_it_lacks(lost: str) -> None:
    state = fitted(FOREST).to_state()
    del state[lost]
    with pytest.raises(ValueError, match=f"lacks something.*{lost}"):
        FittedPerformance.from_state(state)


def test_something_else_is_no_state() -> None:
    with pytest.raises(ValueError, match="format is None"):
        FittedPerformance.from_state(["a list"])  # type: ignore[arg-type]


def test_what_is_asked_again_is_answered_alike_and_cannot_be_changed() -> None:
    model = fitted(FOREST)
    first = model.predict([1.0, 2.0], 1_024.0)
    assert model.predict([1.0, 2.0], [1_024.0, 1_024.0]) is first
    with pytest.raises(ValueError, match="read-only"):
        first.per_s[0] = 0.0

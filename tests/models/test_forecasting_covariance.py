"""A covariance is that of something real (no variance is negative), and its fit finds what made a series."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdix.models.forecasting.covariance import NAMES, Covariance, fitted

CELLS_S = st.sampled_from([60.0, 300.0, 900.0, 3600.0])


def lags_between(count: int) -> np.ndarray:
    return np.abs(np.subtract.outer(np.arange(count), np.arange(count))).astype(float)


def drawn(covariance: Covariance, count: int, seed: int) -> np.ndarray:
    matrix = covariance.at(lags_between(count)) + 1e-8 * np.eye(count)
    return np.linalg.cholesky(matrix) @ np.random.default_rng(seed).normal(size=count)


@given(CELLS_S, st.lists(st.floats(-1.0, 1.0), min_size=len(NAMES), max_size=len(NAMES)))
@settings(max_examples=30)
def test_no_combination_of_cells_has_a_negative_variance(cell_s, moved):
    covariance = Covariance(Covariance.expected(cell_s).logarithms + np.array(moved), cell_s)
    matrix = covariance.at(lags_between(60))
    assert np.linalg.eigvalsh(matrix).min() > -1e-9 * matrix[0, 0]


@given(CELLS_S, st.lists(st.integers(1, 9), min_size=1, max_size=8))
@settings(max_examples=30)
def test_means_over_bins_vary_as_the_means_of_their_cells_do(cell_s, lengths):
    ends = np.cumsum(lengths)
    starts = ends - lengths
    covariance = Covariance.expected(cell_s)
    cells = covariance.at(lags_between(int(ends[-1])))
    averaging = np.zeros((len(lengths), int(ends[-1])))
    for row, start, end in zip(averaging, starts, ends, strict=True):
        row[start:end] = 1.0 / (end - start)
    assert np.allclose(covariance.between(starts, ends), averaging @ cells @ averaging.T, atol=1e-6)


def test_the_same_time_of_another_day_is_closer_than_other_times():
    covariance = Covariance.expected(3600.0)
    yesterday, half_a_day_ago = covariance.at(np.array([24.0, 12.0]))
    assert yesterday > half_a_day_ago


def test_what_is_slow_means_the_same_in_cells_of_any_length():
    hours, quarters = Covariance.expected(7200.0), Covariance.expected(1800.0)
    lags = np.arange(1.0, 100.0)
    assert np.allclose(hours.at(lags), quarters.at(4.0 * lags))


def test_the_fit_finds_how_noisy_a_series_is():
    quiet, noisy = (
        fitted(start, drawn(true, 300, seed=1), NAMES, robust=False, steps=25).parameters["noise"]
        for start in [Covariance.expected(3600.0)]
        for noise in (0.03, 0.8)
        for true in [Covariance.of({**start.parameters, "noise": noise}, 3600.0)]
    )
    assert quiet < 0.2
    assert noisy == pytest.approx(0.8, rel=0.25)


def test_outliers_move_a_robust_fit_less():
    start = Covariance.expected(3600.0)
    series = drawn(start, 300, seed=2)
    spiky = series.copy()
    spiky[::40] += 4.0

    def change(*, robust: bool) -> float:
        clean, dirty = (fitted(start, z, NAMES, robust=robust, steps=25) for z in (series, spiky))
        return abs(dirty.logarithms[NAMES.index("noise")] - clean.logarithms[NAMES.index("noise")])

    assert change(robust=True) < change(robust=False)


def test_parameters_that_are_not_asked_for_stay():
    start = Covariance.expected(900.0)
    found = fitted(start, drawn(start, 100, seed=3), ("noise",), robust=False, steps=5)
    assert {name for name in NAMES if found.parameters[name] != start.parameters[name]} <= {"noise"}


def test_parameters_survive_and_damaged_ones_are_refused():
    start = Covariance.expected(60.0)
    assert np.allclose(Covariance.of(start.parameters, 60.0).logarithms, start.logarithms)
    with pytest.raises(ValueError, match="above zero"):
        Covariance.of({**start.parameters, "noise": -1.0}, 60.0)
    with pytest.raises(KeyError):
        Covariance.of({}, 60.0)

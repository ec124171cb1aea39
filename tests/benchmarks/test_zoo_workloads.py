"""Workloads of the zoo are what their names say, whatever the seed."""

import numpy as np
import pytest

from benchmarks.zoo.jobs import KINDS, TRACE
from benchmarks.zoo.traces import NoTracesError, available, drawn
from benchmarks.zoo.workloads import SHAPES
from perdix.telemetry.window import Values

DAY_S, SEEDS = 86_400, range(12)


def shapes(kind: str, seconds: int = DAY_S) -> list[Values]:
    return [SHAPES[kind](np.random.default_rng([seed, 1]), seconds) for seed in SEEDS]


def minutes(values: Values) -> Values:
    return values[: len(values) // 60 * 60].reshape(-1, 60).mean(axis=1)


def lag_1(values: Values) -> float:
    return float(np.corrcoef(values[:-1], values[1:])[0, 1])


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("seconds", [3_600, 20_000, DAY_S])
def test_every_shape_is_a_load_of_the_asked_length(kind: str, seconds: int) -> None:
    for values in shapes(kind, seconds):
        assert values.shape == (seconds,)
        assert np.isfinite(values).all()
        assert (values >= 0).all()
        assert values.max() > 0


def test_the_same_generator_draws_the_same_shape() -> None:
    for kind in SHAPES:
        first, again = (SHAPES[kind](np.random.default_rng(7), 7_200) for _ in range(2))
        np.testing.assert_array_equal(first, again)


def test_minutes_of_white_noise_have_nothing_to_do_with_each_other() -> None:
    assert max(abs(lag_1(minutes(values))) for values in shapes("white-noise")) < 0.2


def test_noise_is_of_5_to_30_percent_and_autocorrelated() -> None:
    for values in shapes("noise"):
        assert 0.04 < values.std() / values.mean() < 0.36
        assert lag_1(minutes(values)) > 0.5


def test_a_flash_crowd_comes_within_a_minute() -> None:
    for values in shapes("flash-crowd"):
        assert (values[60:] / values[:-60]).max() > 7.0
        assert np.median(values) < 0.25 * values.max()


def test_idle_jobs_have_bursts_and_near_idle_ones_do_not() -> None:
    assert np.median([minutes(values).max() / np.median(values) for values in shapes("idle")]) > 4.0
    assert max(values.max() / np.median(values) for values in shapes("near-idle")) < 2.5


def test_growth_ends_higher_and_on_off_is_either() -> None:
    for values in shapes("growth"):
        assert values[-3_600:].mean() > 1.7 * values[:3_600].mean()
    for values in shapes("on-off"):
        assert len(np.unique(values)) <= 2
        assert (values > 0.5).any()


def test_a_regime_changes_near_the_middle() -> None:
    assert (
        len({round(float(values[:30_000].mean() / values[-30_000:].mean()), 3) for values in shapes("regime-change")})
        > 9
    )


@pytest.mark.shared
def test_shapes_of_real_traces(shared_data) -> None:
    names = set()
    for seed in SEEDS:
        values, name = drawn(np.random.default_rng(seed), DAY_S, shared_data)
        names.add(name)
        assert values.shape == (DAY_S,)
        assert (values >= 0).all()
        assert values.max() > values.min()
    assert len(names) > 3


def test_without_traces_none_is_drawn(tmp_path) -> None:
    assert available(tmp_path / "nowhere") == ()
    with pytest.raises(NoTracesError, match="no traces in"):
        drawn(np.random.default_rng(1), 3_600, tmp_path)
    assert TRACE in KINDS

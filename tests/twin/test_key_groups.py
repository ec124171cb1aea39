"""Keys dealt as Flink deals them: hashed to key groups, of which each subtask gets a contiguous range."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdix.twin import physics
from perdix.twin.job import JobTwin
from perdix.twin.parameters import Keys, TwinParameters

Build = Callable[..., TwinParameters]
EXACT = {"median_s": 1.0, "spread": 0.0}


def dealt(parameters: Build, *, maximum: int = 6, **keys) -> TwinParameters:
    """Equally fast workers that restart at once: only the keys make a difference."""
    workers = {"capacity_per_s": 1_000, "maximum": maximum, "speed_spread": 0.0, "contention": 0.0}
    return parameters(
        workers={**workers, "capacity_noise": 0.0},
        keys={"wobble": 0.0, "count": 5_000, "zipf": 0.8, **keys},
        restart={"warm_up_s": 0, "out": EXACT, "in": EXACT},
    )


def shares(twin: JobTwin) -> np.ndarray:
    processed = twin.history.column("worker_processed")[-1][: twin.scale_out]
    return processed / processed.sum()


def visit(twin: JobTwin, scale_out: int) -> np.ndarray:
    twin.rescale(scale_out, f"visit-{twin.now_s}")
    twin.step(5)
    assert (twin.scale_out, twin.settled) == (scale_out, True)
    return shares(twin)


@given(groups=st.integers(1, 400), scale_out=st.integers(1, 200))
def test_each_key_group_belongs_to_the_subtask_that_flink_asks_for_it(groups: int, scale_out: int) -> None:
    """``KeyGroupRangeAssignment`` has two sides: ranges of a subtask, and the subtask of a key group, ``k p / G``."""
    loads = np.arange(1.0, groups + 1.0) / np.arange(1.0, groups + 1.0).sum()
    expected = np.zeros(scale_out)
    for group, load in enumerate(loads):
        expected[group * scale_out // groups] += load
    np.testing.assert_allclose(physics.key_group_shares(loads, scale_out, 1.0), expected, atol=1e-12)


def test_a_hundred_subtasks_take_what_sixty_four_take() -> None:
    """Of 128 equal key groups somebody has two either way."""
    even = np.full(128, 1 / 128)
    hottest = {p: physics.key_group_shares(even, p, 1.0).max() for p in (63, 64, 100, 127, 128)}
    assert hottest[64] == hottest[100] == hottest[127] == pytest.approx(2 / 128)
    assert hottest[63] > hottest[64] > hottest[128]


def test_what_does_not_follow_the_keys_is_even() -> None:
    hot = np.array([1.0, 0.0, 0.0, 0.0])
    np.testing.assert_allclose(physics.key_group_shares(hot, 4, 0.4), [0.55, 0.15, 0.15, 0.15])


def test_the_loads_of_key_groups_sum_to_one_and_lean_to_the_frequent_keys() -> None:
    hottest = []
    for zipf in (0.0, 0.5, 1.0, 1.5):
        loads = physics.key_group_loads(128, 10_000, zipf, np.random.default_rng(1))
        assert loads.shape == (128,)
        assert loads.sum() == pytest.approx(1.0)
        hottest.append(loads.max())
    assert hottest == sorted(hottest)
    assert hottest[0] < 2 / 128
    assert hottest[-1] > 0.3


def test_the_same_share_comes_back_whenever_the_same_parallelism_runs(parameters: Build) -> None:
    twin = JobTwin(dealt(parameters), 3)
    here, there = visit(twin, 5), visit(twin, 3)
    np.testing.assert_allclose(visit(twin, 5), here, rtol=1e-12)
    np.testing.assert_allclose(visit(twin, 3), there, rtol=1e-12)
    assert here.std() > 0.01, "uneven all the same"
    assert twin.true_capacity(3) == pytest.approx(twin.current_capacity()), "nothing is left to luck"


def test_the_loads_belong_to_the_keys_of_a_seed(parameters: Build) -> None:
    first, again, other = (visit(JobTwin(dealt(parameters), seed), 4) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, other)


def test_zipf_alone_means_a_hundred_and_twenty_eight_groups() -> None:
    assert Keys(count=100, zipf=1.0).dealt_groups == 128
    assert Keys(count=100, groups=64).dealt_groups == 64
    assert Keys(count=100).dealt_groups is None
    assert Keys().dealt_groups is None


def test_a_few_groups_hold_a_job_up_that_many_do_not(parameters: Build) -> None:
    few, many = (JobTwin(dealt(parameters, zipf=0.0, groups=groups, count=100_000), 1) for groups in (7, 4_096))
    assert few.true_capacity(6) < 0.6 * many.true_capacity(6)
    assert many.true_capacity(6) > 0.95 * 6_000

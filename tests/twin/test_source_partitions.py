"""Source partitions: each worker reads whole ones, so that more workers are not always quicker."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from perdix.twin import physics
from perdix.twin.emission import Scraping, emit
from perdix.twin.job import JobTwin
from perdix.twin.parameters import TwinParameters

Build = Callable[..., TwinParameters]


def reading(parameters: Build, partitions: int | None, maximum: int = 16, **changes) -> TwinParameters:
    """Equally fast workers with even keys: only the partitions make a difference."""
    base = {
        "workers": {"capacity_per_s": 1_000, "maximum": maximum, "contention": 0.0, "speed_spread": 0.0},
        "keys": {"skew_spread": 0.0, "wobble": 0.0},
        "cpu": {"idle": 0.1, "noise": 0.0},
        "source": {"partitions": partitions},
        "workload": {"shape": "constant", "peak_per_s": 3_000.0, "noise": 0.0, "slow_noise": 0.0},
    }
    for key, value in changes.items():
        base[key] = {**base.get(key, {}), **value}
    return parameters(**base)


@given(partitions=st.integers(1, 300), scale_out=st.integers(1, 300))
def test_the_busiest_reader_has_the_partitions_rounded_up(partitions: int, scale_out: int) -> None:
    shares = physics.partition_shares(partitions, scale_out)
    read = np.rint(shares * partitions)
    np.testing.assert_allclose(shares * partitions, read, atol=1e-9)
    assert read.sum() == partitions
    assert read.max() == -(-partitions // scale_out)
    assert read.max() - read.min() <= 1


def test_seven_to_eleven_readers_of_twelve_partitions_take_what_six_take(parameters: Build) -> None:
    twin = JobTwin(reading(parameters, 12))
    takes = {n: round(twin.true_capacity(n)) for n in range(1, 17)}
    assert [takes[n] for n in range(6, 13)] == [6_000] * 6 + [12_000]
    assert [takes[n] for n in range(1, 7)] == [1_000, 2_000, 3_000, 4_000, 4_000, 6_000]
    assert [takes[n] for n in range(13, 17)] == [12_000] * 4, "beyond them readers are idle"


def test_readers_without_a_partition_are_idle(parameters: Build) -> None:
    twin = JobTwin(reading(parameters, 4), scale_out=6)
    twin.step(120)
    processed, cpu = (twin.history.column(name)[-1][:6] for name in ("worker_processed", "worker_cpu"))
    np.testing.assert_allclose(processed, [750.0] * 4 + [0.0] * 2)
    np.testing.assert_allclose(cpu[:4], 0.1 + 0.9 * 0.75, rtol=1e-6)
    np.testing.assert_allclose(cpu[4:], 0.1)


def test_what_workers_process_is_what_the_job_does(parameters: Build) -> None:
    """Saturated, the readers with most partitions are at CPU 1 and all others below."""
    twin = JobTwin(reading(parameters, 12, workload={"peak_per_s": 9_000.0}), scale_out=8)
    twin.step(120)
    processed, cpu = (twin.history.column(name)[-1][:8] for name in ("worker_processed", "worker_cpu"))
    assert processed.sum() == pytest.approx(twin.history.column("processed")[-1])
    np.testing.assert_allclose(cpu[:4], 1.0, atol=0.1)
    assert (cpu[4:] < 0.7).all()


@given(
    weights=arrays(float, (2, 6), elements=st.floats(0.01, 1.0)),
    speeds=arrays(float, 6, elements=st.floats(0.5, 2.0)),
)
def test_the_stage_that_is_full_first_holds_up_the_job(weights: np.ndarray, speeds: np.ndarray) -> None:
    keyed, read = weights / weights.sum(axis=1, keepdims=True)
    capacities = 1_000.0 * speeds
    bound = physics.binding(capacities, keyed, read)
    least = min(float(physics.bottleneck_per_s(capacities, shares)) for shares in (keyed, read))
    assert float(physics.bottleneck_per_s(capacities, bound)) == pytest.approx(least)
    assert bound.sum() == pytest.approx(1.0)


def test_of_many_draws_each_has_its_own_stage_that_binds() -> None:
    keyed = np.array([[0.5, 0.5, 0.0], [0.9, 0.1, 0.0]])
    bound = physics.binding(np.ones(3), keyed, np.array([0.6, 0.2, 0.2]))
    np.testing.assert_array_equal(bound, [[0.6, 0.2, 0.2], [0.9, 0.1, 0.0]])


def test_plenty_of_partitions_change_nothing(parameters: Build) -> None:
    """To the last digit: the keys bind, and nothing else is drawn."""
    skewed = {"keys": {"skew_spread": 0.2}, "workers": {"speed_spread": 0.1, "capacity_noise": 0.05}}
    columns = []
    for partitions in (None, 100_000):
        twin = JobTwin(reading(parameters, partitions, **skewed), 7, scale_out=5)
        twin.step(300)
        twin.rescale(9, "out")
        twin.step(300)
        columns.append([twin.history.column(name) for name in ("lag", "worker_cpu", "latency_p95_ms")])
    for before, after in zip(*columns, strict=True):
        np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize(("partitions", "waiting"), [(4, 4), (None, 6)])
def test_each_subtask_waits_for_its_own_partitions(parameters: Build, partitions: int | None, waiting: int) -> None:
    twin = JobTwin(reading(parameters, partitions, workload={"peak_per_s": 9_000.0}), scale_out=6)
    twin.step(120)
    pending = {
        stream.worker: stream.values[-1]
        for stream in emit(twin, Scraping(15.0), names="flink")
        if "pending" in stream.metric
    }
    lag = twin.history.column("lag")[-1]
    assert sum(pending.values()) == pytest.approx(lag, rel=0.05)
    assert [value > 0 for _, value in sorted(pending.items())] == [True] * waiting + [False] * (6 - waiting)

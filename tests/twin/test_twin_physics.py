import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdix.twin import physics


@given(
    before=st.integers(0, 10_000),
    steps=st.lists(st.tuples(st.integers(0, 1_000), st.integers(0, 1_000)), min_size=1, max_size=200),
)
def test_backlog_is_the_step_by_step_recursion_exactly(before, steps):
    arrived, capacity = np.array(steps, dtype=float).T
    expected, waiting = [], float(before)
    for a, c in zip(arrived, capacity, strict=True):
        waiting = max(0.0, waiting + a - c)
        expected.append(waiting)
    assert physics.backlog(float(before), arrived, capacity).tolist() == expected


def test_efficiency_is_the_universal_scalability_law():
    assert physics.efficiency(1, 0.5, 0.5) == 1.0
    assert physics.efficiency(12, 0.02, 0.0) == pytest.approx(1 / 1.22)
    assert physics.efficiency(3, 0.1, 0.01) == pytest.approx(1 / (1 + 0.2 + 0.06))


@given(st.integers(1, 40), st.floats(0.0, 0.6), st.integers(0, 10_000))
def test_shares_sum_to_one_and_the_bottleneck_never_exceeds_the_sum(scale_out, spread, seed):
    rng = np.random.default_rng(seed)
    shares = physics.key_shares(scale_out, spread, rng, draws=5)
    capacities = physics.worker_speeds(scale_out, 0.2, rng)
    assert shares.sum(axis=1) == pytest.approx(np.ones(5))
    assert (physics.bottleneck_per_s(capacities, shares) <= capacities.sum() * (1 + 1e-12)).all()


def test_bottleneck_is_the_worker_with_most_keys_for_its_speed():
    assert physics.bottleneck_per_s(np.array([100.0, 100.0]), np.array([0.5, 0.5])) == pytest.approx(200.0)
    assert physics.bottleneck_per_s(np.array([100.0, 100.0]), np.array([0.8, 0.2])) == pytest.approx(125.0)
    assert physics.bottleneck_per_s(np.array([400.0, 100.0]), np.array([0.8, 0.2])) == pytest.approx(500.0)


def test_speeds_have_mean_one():
    speeds = physics.worker_speeds(200_000, 0.3, np.random.default_rng(0))
    assert speeds.mean() == pytest.approx(1.0, abs=0.005)


def test_queueing_grows_with_utilisation_and_stays_finite():
    factor = physics.queueing_factor(np.linspace(0.0, 1.0, 101), 0.1)
    assert factor[0] == 1.0
    assert (np.diff(factor) >= 0).all()
    assert factor[-1] == pytest.approx(1 + 0.1 * 0.98 / 0.02)


def test_waited_first_come_first_served():
    times_s = np.arange(1.0, 11.0)
    arrived_total = 10.0 * times_s  # 10 records/s
    nothing_waits = physics.waited_s(times_s, arrived_total, np.array([6.0]), np.array([50.0]), np.array([10.0]))
    assert nothing_waits == pytest.approx([0.0])
    three_seconds_late = physics.waited_s(times_s, arrived_total, np.array([9.0]), np.array([50.0]), np.array([10.0]))
    assert three_seconds_late == pytest.approx([3.0])


def test_warm_up_is_a_line_to_full_speed():
    assert physics.warm_up(np.array([0.0, 5.0, 10.0, 99.0]), 10, 0.5).tolist() == [0.5, 0.75, 1.0, 1.0]
    assert physics.warm_up(np.array([0.0]), 0, 0.5).tolist() == [1.0]


@given(st.integers(1, 40), st.integers(1, 500), st.floats(0.01, 1.0), st.integers(0, 10_000))
def test_counted_keys_share_all_the_work(scale_out, keys, keyed, seed):
    shares = physics.counted_key_shares(scale_out, keys, keyed, np.random.default_rng(seed), draws=5)
    assert shares.shape == (5, scale_out)
    assert shares.sum(axis=1) == pytest.approx(np.ones(5))
    assert (shares >= 0).all()
    assert (shares >= (1 - keyed) / scale_out - 1e-12).all()  # what does not follow the keys is even


@pytest.mark.parametrize(("scale_out", "keyed"), [(2, 1.0), (12, 1.0), (12, 0.4)])
def test_the_skew_of_counted_keys_grows_with_the_scale_out(scale_out, keyed):
    shares = physics.counted_key_shares(scale_out, 100, keyed, np.random.default_rng(1), draws=20_000)
    relative = shares.std() * scale_out
    assert relative == pytest.approx(keyed * np.sqrt((scale_out - 1) / 100), rel=0.02)


def test_a_worker_without_keys_holds_nobody_up():
    assert physics.bottleneck_per_s(np.array([100.0, 100.0]), np.array([0.0, 1.0])) == pytest.approx(100.0)


@given(st.integers(2, 30), st.floats(-1.0, 1.0), st.integers(0, 1_000))
def test_shares_lean_to_the_quick_by_the_slope(scale_out, slope, seed):
    rng = np.random.default_rng(seed)
    speeds = physics.worker_speeds(scale_out, 0.3, rng)
    even = np.full((3, scale_out), 1.0 / scale_out)
    leaning = physics.towards_quick(even, speeds, slope)
    assert leaning.sum(axis=1) == pytest.approx(np.ones(3))
    ratio = np.log(leaning[0] / leaning[0, 0])
    assert ratio == pytest.approx(slope * np.log(speeds / speeds[0]), abs=1e-9)


def test_filling_takes_longest_when_least_arrives_until_the_time_out():
    rates = np.array([0.0, 10.0, 100.0, 1_000.0, 10_000.0])
    assert physics.fill_ms(rates, 500.0, 6_000.0).tolist() == [6_000.0, 6_000.0, 5_000.0, 500.0, 50.0]
    assert (physics.fill_ms(rates, 0.0, 6_000.0) == 0).all()


@given(st.floats(0.0, 1.0))
def test_bent_cpu_still_rises_and_ends_at_one(weight):
    busy = physics.bent(np.linspace(0.0, 1.0, 101), weight)
    assert busy[0] == 0.0
    assert busy[-1] == 1.0
    assert (np.diff(busy) >= 0).all()
    assert (busy >= np.linspace(0.0, 1.0, 101) - 1e-12).all()

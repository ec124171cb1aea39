"""Workers: proportional skew, missing pods, and the second opinion."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdix.control.state.schema import to_text
from perdix.models.capacity.workers import KEPT_IN_STATE, Workers

IDLE = 0.09


def measured(shares, slope=60_000.0, low=0.2, high=0.8, n=80, seed=0, noise=100.0):
    """CPU and throughput of workers whose loads stay proportional while the job's load ranges."""
    load = np.linspace(low, high, n)[:, None]
    cpu = IDLE + (load - IDLE) * np.asarray(shares)[None, :]
    throughput = slope * (cpu - IDLE) + np.random.default_rng(seed).normal(0, noise, cpu.shape)
    return cpu, throughput


def names(count):
    return tuple(f"w{index}" for index in range(count))


def test_even_workers_add_up():
    workers = Workers.of(names(4), *measured([1, 1, 1, 1]))
    assert workers.total(4).per_s == pytest.approx(4 * 60_000 * 0.91, rel=0.01)


def test_a_worker_cannot_take_more_than_its_share_of_the_hottest():
    shares = [1.0, 0.6]
    total = Workers.of(names(2), *measured(shares)).total(2)
    truth = 60_000 * 0.91 * sum(shares)
    assert total.per_s == pytest.approx(truth, rel=0.02)
    assert total.per_s < 0.9 * 2 * 60_000 * 0.91


@pytest.mark.parametrize(("cpu", "expected"), [((0.9, 0.6), 2 / 3), ((0.3, 0.2), 2 / 3)])
def test_expected_cpu_is_proportional_at_every_load(cpu, expected):
    """The vectors of the paper's rule: the published program says 0.70 and 0.90."""
    rows = np.tile(cpu, (10, 1))
    shares = Workers.of(names(2), rows, 50_000 * (rows - IDLE)).cpu_shares()
    assert shares["w1"] == pytest.approx(expected)
    assert shares["w0"] == 1.0


def test_a_missing_pod_counts_as_the_mean_worker_and_is_named():
    cpu, throughput = measured([1, 0.9, 0.95, 1])
    all_there = Workers.of(names(4), cpu, throughput).total(4)
    cpu[:, 2] = np.nan
    one_gone = Workers.of(names(4), cpu, throughput).total(4)
    assert one_gone.warnings == ("1 of 4 workers not reporting: counted as the mean worker",)
    assert one_gone.per_s == pytest.approx(all_there.per_s, rel=0.03)
    assert one_gone.sd_per_s > all_there.sd_per_s
    assert all_there.warnings == ()


def test_more_pods_than_workers_are_named_too():
    total = Workers.of(names(3), *measured([1, 1, 1])).total(2)
    assert total.per_s == pytest.approx(2 * 60_000 * 0.91, rel=0.02)
    assert "3 workers report at scale-out 2" in total.warnings[0]


def test_task_managers_without_a_task_have_no_part_in_the_total():
    """On a real Flink three of six stood by: each share was halved, and no larger size seemed to take more."""
    cpu, throughput = measured([1, 1, 1])
    idle, nothing = np.full((len(cpu), 3), 0.11), np.full((len(cpu), 3), np.nan)
    workers = Workers.of(names(6), np.hstack([cpu, idle]), np.hstack([throughput, nothing]), at_most=3)
    alone = Workers.of(names(3), cpu, throughput)
    assert workers.total(3).hottest_share == pytest.approx(1 / 3, rel=0.02)
    assert workers.total(3) == alone.total(3)


def test_a_worker_that_reported_only_under_load_is_not_taken_for_the_hottest():
    cpu, throughput = measured([1.0, 0.7], n=100)
    cpu[:60, 1] = np.nan
    shares = Workers.of(names(2), cpu, throughput).cpu_shares()
    assert shares["w0"] == 1.0
    assert shares["w1"] < 0.8


def test_steady_saturated_workers_stay_near_what_they_do():
    """12 workers whose CPU hardly varied: own slopes are noise, the common idle share holds them."""
    rng = np.random.default_rng(3)
    shares = np.linspace(0.68, 1.0, 12)
    cpu = np.clip(0.97 * shares + rng.normal(0, 0.02, (60, 12)), 0, 1)
    slopes = rng.uniform(40_000, 69_000, 12)
    throughput = slopes * (0.97 * shares - IDLE) + rng.normal(0, 2_000, (60, 12))
    total = Workers.of(names(12), cpu, throughput, weight=0.25).total(12)
    assert total.per_s == pytest.approx(throughput.sum(axis=1).mean() / 0.97, rel=0.03)


@given(st.integers(1, 79))
def test_windows_merge_to_the_whole(cut):
    cpu, throughput = measured([1.0, 0.8, 0.6])
    whole = Workers.of(names(3), cpu, throughput)
    parts = Workers.of(names(3), cpu[:cut], throughput[:cut]).merge(Workers.of(names(3), cpu[cut:], throughput[cut:]))
    assert parts.total(3).per_s == pytest.approx(whole.total(3).per_s, rel=1e-9)
    assert parts.total(3).sd_per_s == pytest.approx(whole.total(3).sd_per_s, rel=1e-6)


def test_forgotten_workers_disappear():
    workers = Workers.of(names(2), *measured([1, 1]))
    assert len(workers.decayed(1e-9)) == 0
    assert len(workers.decayed(0.5)) == 2
    with pytest.raises(ValueError, match=r"outside 0\.\.1"):
        workers.decayed(1.5)


def test_nothing_known_is_said():
    with pytest.raises(ValueError, match="no worker has paired"):
        Workers().total(3)
    assert len(Workers.of(names(2), np.full((5, 2), np.nan), np.ones((5, 2)))) == 0


def test_state_survives_json_exactly():
    workers = Workers.of(names(3), *measured([1.0, 0.8, 0.6]))
    assert Workers.from_state(json.loads(json.dumps(workers.to_state()))) == workers


def test_workers_stay_in_their_order_in_a_store_that_sorts_keys():
    """Sums of the same numbers in another order differ in their last digits."""
    workers = Workers.of(("w2", "w0", "w1"), *measured([1.0, 0.8, 0.6]))
    assert Workers.from_state(json.loads(to_text(workers.to_state()))).names == ("w2", "w0", "w1")


def test_a_state_of_before_by_name_is_read_on():
    workers = Workers.of(names(3), *measured([1.0, 0.8, 0.6]))
    before = {name: numbers for name, *numbers in workers.to_state()}
    assert Workers.from_state(before) == workers


def test_a_large_job_keeps_a_spread_of_workers():
    count = 600
    workers = Workers.of(names(count), *measured(np.linspace(0.5, 1.0, count), n=10))
    state = workers.to_state()
    assert len(state) == KEPT_IN_STATE
    assert len(json.dumps(state)) < 50_000
    assert Workers.from_state(state).total(count).per_s == pytest.approx(workers.total(count).per_s, rel=0.01)


def test_refuses_a_foreign_state_by_worker():
    with pytest.raises(ValueError, match="worker 'w0': eight numbers"):
        Workers.from_state({"w0": [1.0]})

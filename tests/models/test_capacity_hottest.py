"""The hottest worker decides, and a worker that is nearly idle tells hardly anything."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdix.models.capacity.contract import REACH_SDS
from perdix.models.capacity.hottest import STRANGERS, hottest_capacity
from perdix.models.capacity.line import IdleShare, Line

CAPACITY = 50_000.0


def worker(utilisation, idle, minutes=60, noise=0.01, capacity=CAPACITY, seed=0):
    """CPU and records of a worker whose share of its own capacity that is used is given for each minute."""
    busy = np.broadcast_to(utilisation, minutes)
    cpu = idle + (1.0 - idle) * busy + np.random.default_rng(seed).normal(0.0, noise, minutes)
    return Line.of(np.clip(cpu, 0.001, 1.0), capacity * busy, cpu)


def believed(*lines, idle=STRANGERS, shares=None):
    rates = np.array([line.throughput_mean for line in lines])
    hottest = np.full(len(lines), max(line.cpu_mean for line in lines))
    table = np.array([dataclasses.astuple(line) for line in lines]).T
    return hottest_capacity(table, rates / rates.sum() if shares is None else shares, hottest, idle)


def interval(found):
    return found.per_s * math.exp(-REACH_SDS * found.log_sd), found.per_s * math.exp(REACH_SDS * found.log_sd)


@pytest.mark.parametrize("idle", [0.03, 0.08, 0.15, 0.25])
def test_a_load_that_ranges_tells_the_idle_share_and_the_capacity(idle):
    found = believed(worker(np.linspace(0.1, 0.7, 60), idle))
    assert found.per_s == pytest.approx(CAPACITY, rel=0.04)
    assert found.idle.cpu == pytest.approx(idle, abs=0.02)
    assert found.log_sd < 0.1


@pytest.mark.parametrize("idle", [0.05, 0.10, 0.15, 0.20, 0.25, 0.28, 0.30])
@pytest.mark.parametrize("utilisation", [0.012, 0.02, 0.05])
def test_a_nearly_idle_worker_is_not_believed_to_be_weak(idle, utilisation):
    """At 1 to 5 % of what a worker can do, the capacity was believed to be a tenth of what it is, and surely so."""
    found = believed(worker(utilisation, idle))
    low, high = interval(found)
    assert low < CAPACITY < high
    assert found.log_sd > 0.4, "such a load is almost no evidence"


@pytest.mark.parametrize("seed", range(8))
def test_hours_in_which_next_to_nothing_comes_are_no_weakness(seed):
    """Zoo 99001-14: of a job that is on and off a pause said that it takes a third, with an error of 18 %."""
    utilisation = np.zeros(45)
    utilisation[-1] = 0.02
    found = believed(worker(utilisation, 0.25, 45, noise=0.004, seed=seed), idle=IdleShare(0.234, 0.015))
    low, high = interval(found)
    assert low < CAPACITY < high
    assert found.log_sd > 0.3


def test_a_burst_tells_what_hours_of_idling_do_not():
    utilisation = np.full(120, 0.015)
    quiet = believed(worker(utilisation, 0.12, 120))
    utilisation[60:70] = 0.2
    burst = believed(worker(utilisation, 0.12, 120))
    assert burst.log_sd < 0.6 * quiet.log_sd
    assert burst.per_s == pytest.approx(CAPACITY, rel=0.25)


def test_what_earlier_stays_taught_of_the_idle_share_makes_a_steady_load_tell():
    steady = worker(0.25, 0.20)
    stranger, known = believed(steady), believed(steady, idle=IdleShare(0.20, 0.01))
    assert known.log_sd < 0.6 * stranger.log_sd
    assert known.per_s == pytest.approx(CAPACITY, rel=0.08)


def test_the_hottest_worker_decides():
    """Two workers of the same speed, one of which gets twice the keys: full when that one is."""
    load = np.linspace(0.1, 0.35, 60)
    found = believed(worker(2 * load, 0.1), worker(load, 0.1, seed=1))
    assert found.per_s == pytest.approx(1.5 * CAPACITY, rel=0.05)


def test_no_throughput_that_scatters_on_full_workers_is_taken_for_an_idle_share():
    """Full workers whose records scatter: their slopes are far too flat, all of them alike."""
    rng = np.random.default_rng(4)
    lines = [Line.of(rng.uniform(0.95, 0.99, 60), CAPACITY * rng.uniform(0.93, 1.03, 60)) for _ in range(12)]
    found = believed(*lines)
    assert found.idle.cpu < 0.25
    assert found.per_s == pytest.approx(12 * CAPACITY * 0.98 / 0.97, rel=0.04)


rows = st.lists(st.tuples(st.floats(0.001, 1.0), st.floats(1e-3, 1e9)), min_size=1, max_size=12)


@given(st.lists(rows, min_size=1, max_size=4), st.floats(0.0, 0.5), st.floats(0.01, 0.2))
def test_whatever_was_measured_the_answer_is_a_capacity(workers, cpu, sd):
    lines = [Line.of(*np.array(columns).T) for columns in workers]
    found = believed(*lines, idle=IdleShare(cpu, sd))
    assert 0.0 < found.per_s < math.inf
    assert 0.0 < found.log_sd < math.inf
    assert 0.0 <= found.idle.cpu <= 0.9

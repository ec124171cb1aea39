"""What arrives is worked, or it waits: where workload, throughput and lag tell otherwise, one of them is wrong."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdix.telemetry.agreement import Agreement, surroundings

STEP_S = 5.0
N = 48
NAN = float("nan")


def judged(workload, throughput, lag, step_s=STEP_S, still=None, checkpoint_s=10.0):
    columns = (np.broadcast_to(np.asarray(values, float), N).copy() for values in (workload, throughput, lag))
    none = np.zeros(N, dtype=bool)
    interrupted = none if still is None else still
    return Agreement(step_s, *columns, interrupted=interrupted, checkpoint_interval_s=checkpoint_s).contradicting()


def from_row(row, before, after):
    return np.where(np.arange(N) < row, before, after)


def waiting(workload, throughput, step_s=STEP_S, first=0.0):
    """The lag that such rates leave."""
    return first + np.cumsum(step_s * (np.broadcast_to(workload, N) - np.broadcast_to(throughput, N)))


@pytest.mark.parametrize("wrong", [0.0, 0.1, 0.5, 2.0])
def test_a_workload_that_moves_alone_is_found_within_half_a_minute(wrong):
    found = judged(from_row(30, 15_000.0, wrong * 15_000.0), 15_000.0, 0.0)
    assert not found[:30].any()
    assert found[36:].all()


@pytest.mark.parametrize("wrong", [0.5, 2.0, 10.0])
def test_a_throughput_that_moves_alone_is_found(wrong):
    assert judged(15_000.0, from_row(30, 15_000.0, wrong * 15_000.0), 300.0)[36:].all()


def test_a_backlog_that_is_worked_off_explains_more_throughput_than_workload():
    throughput = from_row(20, 10_000.0, 18_000.0)
    assert not judged(10_000.0, throughput, waiting(10_000.0, throughput, first=2e6)).any()


@pytest.mark.parametrize(("told", "found"), [(0.2, True), (0.5, True), (0.8, False), (1.0, False), (1.5, False)])
def test_behind_a_backlog_a_workload_that_is_told_far_too_small_is_found(told, found):
    """16,000/s arrive and 36,000/s are worked: a fall of the lag that explains most of it hides half a workload."""
    columns = (np.broadcast_to(np.asarray(value, float), N).copy() for value in (told * 16_000.0, 36_000.0))
    lag, none = waiting(16_000.0, 36_000.0, first=2e7), np.zeros(N, dtype=bool)
    hidden = Agreement(STEP_S, *columns, lag, interrupted=none, checkpoint_interval_s=10.0).understated()
    assert hidden[24:].all() if found else not hidden.any()


@pytest.mark.parametrize("checkpoint_s", [10.0, 30.0])
def test_a_workload_that_is_told_as_half_behind_a_backlog_is_found_within_half_a_minute_or_half_a_span(checkpoint_s):
    """What is true of the span's older half hid it: 6 workers became 3 half a minute after the metric went wrong."""
    lag = waiting(33_000.0, 51_000.0, first=2e7)
    columns = from_row(30, 33_000.0, 16_500.0), np.full(N, 51_000.0)
    none = np.zeros(N, dtype=bool)
    found = Agreement(STEP_S, *columns, lag, interrupted=none, checkpoint_interval_s=checkpoint_s).understated()
    assert not found[:30].any()
    assert found[30 + round(max(30.0, 1.5 * checkpoint_s) / STEP_S) :].all()


def test_a_backlog_whose_lag_is_told_late_understates_nothing():
    lag = waiting(10_000.0, 36_000.0, first=2e7)
    late = np.concatenate([np.full(6, lag[0]), lag[:-6]])
    none = np.zeros(N, dtype=bool)
    columns = np.full(N, 10_000.0), np.full(N, 36_000.0)
    found = Agreement(STEP_S, *columns, late, interrupted=none, checkpoint_interval_s=10.0).understated()
    assert not found[24:].any()


def test_a_job_that_falls_behind_explains_more_workload_than_throughput():
    workload = from_row(20, 10_000.0, 25_000.0)
    assert not judged(workload, 10_000.0, waiting(workload, 10_000.0)).any()


def test_a_load_that_really_falls_agrees_again_when_what_lags_has_followed():
    workload, throughput = from_row(12, 40_000.0, 4_000.0), from_row(24, 40_000.0, 4_000.0)
    found = judged(workload, throughput, 0.0)
    assert found[15:24].any()
    assert not found[36:].any()


def test_metrics_that_lag_by_one_scrape_do_not_contradict_each_other():
    rng = np.random.default_rng(3)
    workload = 20_000.0 * (1.0 + 0.5 * np.sin(np.arange(N) / 8.0)) * np.exp(rng.normal(0.0, 0.1, N))
    assert not judged(workload, np.roll(workload, 1), 500.0).any()


def test_offsets_that_are_committed_every_ten_seconds_are_no_contradiction():
    sawtooth = 15_000.0 * (np.arange(N) % 2) * STEP_S
    assert not judged(15_000.0, 15_000.0, sawtooth).any()
    assert judged(15_000.0, 30_000.0, sawtooth)[36:].all()


def test_without_a_lag_nothing_is_contradicted():
    assert not judged(15_000.0, 45_000.0, NAN).any()


@pytest.mark.parametrize(
    ("throughput", "found"), [(30_000.0, True), (22_500.0, True), (16_000.0, False), (5_000.0, True)]
)
def test_without_a_lag_nobody_can_say_why_throughput_is_not_the_workload(throughput, found):
    columns = (np.full(N, value) for value in (15_000.0, throughput, NAN))
    apart = Agreement(STEP_S, *columns, interrupted=np.zeros(N, dtype=bool), checkpoint_interval_s=10.0).unexplained()
    assert apart[12:].all() if found else not apart.any()


def test_what_hides_behind_a_backlog_that_was_just_worked_off_is_found():
    """Told twice, throughput is what the lag's fall of the minute before would explain."""
    lag = np.where(np.arange(N) < 36, 12_000.0 * STEP_S * (36 - np.arange(N)), 0.0)
    columns = np.full(N, 12_000.0), np.full(N, 24_000.0), lag
    agreement = Agreement(STEP_S, *columns, interrupted=np.zeros(N, dtype=bool), checkpoint_interval_s=10.0)
    assert not agreement.contradicting()[:42].any(), "the lag may have moved earlier"
    apart = agreement.unexplained()
    assert not apart[13:36].any()
    assert apart[43:].all()


def test_what_hides_behind_the_backlog_of_a_restart_is_found_as_soon_as_half_a_span_is_whole():
    """Of a storm (seed 129004): the lag fell within a minute, throughput was doubled, and 7 workers became 1."""
    lag = np.where(np.arange(N) < 30, 400_000.0, np.where(np.arange(N) < 33, 130_000.0, 0.0))
    columns = np.full(N, 14_500.0), np.full(N, 29_000.0), lag
    interrupted = (np.arange(N) >= 28) & (np.arange(N) < 33)
    agreement = Agreement(STEP_S, *columns, interrupted=interrupted, checkpoint_interval_s=10.0)
    judged_again = np.flatnonzero(~agreement.unjudged() & (np.arange(N) > 33))[0]
    assert not agreement.contradicting()[33:44].any(), "the lag may have moved earlier"
    assert agreement.unexplained()[judged_again:].all()


def test_a_backlog_that_is_worked_off_after_a_restart_says_why_at_once():
    restarted = (np.arange(N) >= 28) & (np.arange(N) < 31)
    throughput = np.where(np.arange(N) < 28, 10_000.0, np.where(restarted, 0.0, 18_000.0))
    columns = np.full(N, 10_000.0), throughput, waiting(10_000.0, throughput, first=2e6)
    assert not Agreement(STEP_S, *columns, interrupted=restarted, checkpoint_interval_s=10.0).unexplained().any()


def test_where_the_lag_is_measured_it_says_why():
    throughput = from_row(20, 10_000.0, 18_000.0)
    columns = np.full(N, 10_000.0), throughput, waiting(10_000.0, throughput, first=2e6)
    none = np.zeros(N, dtype=bool)
    assert not Agreement(STEP_S, *columns, interrupted=none, checkpoint_interval_s=10.0).unexplained().any()


@pytest.mark.parametrize("seed", range(5))
def test_samples_that_are_missing_here_and_there_hide_no_contradiction(seed):
    """A sixth of each metric, so that both are known for two thirds of the steps: enough for a decision."""
    arrives, worked = from_row(30, 20_000.0, 0.0), np.full(N, 36_000.0)
    lag = waiting(20_000.0, worked, first=5e6)
    rng = np.random.default_rng(seed)
    for values in (arrives, worked):
        values[rng.choice(np.arange(30, N - 1), 3, replace=False)] = NAN
    none = np.zeros(N, dtype=bool)
    agreement = Agreement(STEP_S, arrives, worked, lag, interrupted=none, checkpoint_interval_s=10.0)
    for judge in (agreement.contradicting, agreement.unexplained):
        found = judge()
        assert found[-3:].all(), judge


def test_a_minute_with_a_standstill_is_not_judged_because_the_job_reads_again_what_it_had_read():
    still = (np.arange(N) >= 10) & (np.arange(N) < 14)
    working = np.where(still, 0.0, from_row(14, 10_000.0, 30_000.0))
    lag = waiting(10_000.0, working) + from_row(14, 0.0, 2e6)
    assert judged(10_000.0, np.where(still, NAN, working), lag).any()
    assert not judged(10_000.0, np.where(still, NAN, working), lag, still=still).any()


def test_a_few_records_are_chance():
    rng = np.random.default_rng(5)
    assert not judged(rng.poisson(0.5 * STEP_S, N) / STEP_S, rng.poisson(0.5 * STEP_S, N) / STEP_S, 0.0).any()


@pytest.mark.parametrize("step_s", [1.0, 5.0, 15.0, 30.0, 60.0])
def test_it_is_found_at_any_scrape_interval(step_s):
    assert judged(1_500.0, 15_000.0, 0.0, step_s=step_s)[-2:].all() or step_s == 1.0
    assert judged(15_000.0, 15_000.0, 0.0, step_s=step_s).sum() == 0


@settings(max_examples=50)
@given(st.integers(0, 2**31), st.floats(0.2, 5.0), st.floats(0.0, 600.0))
def test_whatever_a_job_does_that_loses_no_record_is_no_contradiction(seed, capacity, waited_s):
    rng = np.random.default_rng(seed)
    workload = 10_000.0 * np.exp(np.cumsum(rng.normal(0.0, 0.1, N)))
    lag, lags, done = waited_s * 10_000.0, [], []
    for arrived in workload:
        worked = min(arrived + lag / STEP_S, capacity * 10_000.0)
        lag += STEP_S * (arrived - worked)
        done.append(worked)
        lags.append(lag)
    assert not judged(workload, done, lags).any()


def test_what_a_judgement_rested_on_is_not_learned_either():
    mask = np.arange(N) == 30
    assert np.flatnonzero(surroundings(mask, STEP_S, 10.0)).tolist() == list(range(19, 31))

"""A run's figures from its metrics alone."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdix.telemetry.window import Window
from testbed.measured import played, quantiles_ms, rescales_of, workers_of

NONE = math.nan
START_S = 1_700_000_000.0


def window(scale_out, lag=None, latency=None, workload=100.0, down=()):
    """Return a run of one-second steps; in the seconds ``down`` the job tells nothing but its uptime of 0."""
    n = len(scale_out)
    up = np.ones(n, dtype=bool)
    up[list(down)] = False
    told = np.where(up, np.asarray(scale_out, dtype=float), NONE)
    throughput = np.where(up[:, None], np.full((n, 2), workload / 2), NONE)
    return Window(
        "orders",
        1.0,
        START_S + np.arange(n, dtype=float),
        ("a", "b"),
        {
            "scale_out": told,
            "workload_per_s": np.full(n, workload),
            "consumer_lag_records": np.zeros(n) if lag is None else np.asarray(lag, dtype=float),
            "latency_p95_ms": np.full(n, 100.0) if latency is None else np.asarray(latency, dtype=float),
            "uptime_s": np.where(up, np.arange(n) + 1.0, 0.0),
        },
        {"throughput_per_s": throughput, "cpu_load": np.where(up[:, None], 0.5, NONE)},
    )


def test_workers_are_held_while_the_job_restarts():
    run = window([2] * 5 + [4] * 5, down=[3, 4])
    assert workers_of(run).tolist() == [2] * 5 + [4] * 5


def test_a_rescale_is_told_with_its_downtime_and_when_the_job_had_caught_up():
    lag = [0] * 20 + [5_000] * 10 + [0] * 30
    [rescale] = rescales_of(window([2] * 20 + [4] * 40, lag=lag, down=[18, 19, 20]))
    assert (rescale.from_scale_out, rescale.scale_out) == (2, 4)
    assert rescale.at_s == START_S + 21, "the first second in which the new scale-out is told"
    assert rescale.downtime_s == 3
    assert rescale.recovery_s == 30 - 18


def test_a_job_that_does_not_catch_up_before_the_next_rescale_has_no_recovery_time():
    rescales = rescales_of(window([2] * 20 + [4] * 20 + [6] * 20, lag=[0] * 20 + [9_000] * 40))
    assert [rescale.recovery_s for rescale in rescales] == [None, None]


def test_workers_that_come_one_by_one_are_one_rescale():
    [rescale] = rescales_of(window([3] * 20 + [5, 6] + [8] * 40))
    assert (rescale.from_scale_out, rescale.scale_out) == (3, 8)
    assert rescale.at_s == START_S + 22


def test_a_flicker_is_no_rescale():
    assert rescales_of(window([3] * 20 + [2] + [3] * 40)) == []


def test_two_rescales_are_told_apart():
    found = rescales_of(window([3] * 20 + [5, 8] + [8] * 30 + [7, 6] + [6] * 30))
    assert [(rescale.from_scale_out, rescale.scale_out) for rescale in found] == [(3, 8), (8, 6)]


def test_a_job_that_is_never_rescaled_has_no_rescales():
    assert rescales_of(window([3] * 50)) == []


def test_worker_seconds_and_the_share_above_the_objective():
    run = window([2] * 30 + [4] * 30, latency=[100] * 45 + [6_000] * 15)
    outcome = played(run, contender="static", trace="sine", repeat=1, objective_ms=5_000).outcome
    assert outcome.worker_s == 2 * 30 + 4 * 30
    assert outcome.average_workers == 3
    assert outcome.rescales == 1
    assert outcome.share_above_objective == pytest.approx(0.25)
    assert (outcome.latency_ms.p50, outcome.latency_ms.p95) == (100, 6_000)


def test_seconds_in_which_nothing_comes_out_although_records_wait_are_above_the_objective():
    run = window([2] * 60, lag=[500] * 60, down=range(10, 25))
    outcome = played(run, contender="static", trace="sine", repeat=1, objective_ms=5_000).outcome
    assert outcome.share_above_objective == pytest.approx(15 / 60)


def test_a_recovery_is_held_against_the_newest_prediction_before_it():
    run = window([2] * 60 + [4] * 60)
    at = {START_S + 10: 99.0, START_S + 50: 20.0, START_S + 70: 7.0}
    [recovery] = played(run, contender="x", trace="t", repeat=1, objective_ms=1, predicted_s=at).outcome.recoveries
    assert recovery.predicted_s == 20.0


def test_quantiles_lie_on_lines_within_their_buckets():
    below = {100.0: 50.0, 200.0: 100.0, math.inf: 100.0}
    assert quantiles_ms(below, [0.25, 0.5, 0.75]) == [50.0, 100.0, 150.0]


def test_a_quantile_beyond_the_last_bound_is_told_as_that_bound():
    assert quantiles_ms({100.0: 1.0, math.inf: 10.0}, [0.95]) == [100.0]


def test_without_records_there_are_no_quantiles():
    assert math.isnan(quantiles_ms({100.0: 0.0}, [0.5])[0])
    assert math.isnan(quantiles_ms({}, [0.5])[0])


@given(st.lists(st.floats(1, 1e5), min_size=1, max_size=200))
def test_a_quantile_is_within_its_bucket_of_the_true_one(values):
    bounds = [10.0, 100.0, 1_000.0, 10_000.0, 100_000.0]
    below = {bound: float(sum(value <= bound for value in values)) for bound in bounds}
    told = quantiles_ms(below, [0.5])[0]
    truth = float(np.quantile(values, 0.5, method="inverted_cdf"))
    upper = min(bound for bound in bounds if bound >= truth)
    lower = max([0.0, *[bound for bound in bounds if bound < truth]])
    assert lower <= told <= upper

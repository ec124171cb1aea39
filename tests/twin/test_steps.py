"""A twin in steps of several seconds: for months, and hardly another job; and a history that forgets its workers."""

from __future__ import annotations

import numpy as np
import pytest

from perdix.telemetry.metrics import LAG
from perdix.twin.emission import Scraping, emit
from perdix.twin.history import ROOM
from perdix.twin.job import JobTwin
from perdix.twin.parameters import load_twin

START_S = 1_760_000_400
HOURS = 6
SCRAPING = Scraping(interval_s=30.0)


def run(step_s: int, scale_out: int = 11, seed: int = 3) -> JobTwin:
    """Return wordcount after six hours with a rescale and a failure."""
    twin = JobTwin(load_twin("wordcount"), seed, start_s=START_S, scale_out=scale_out, step_s=step_s)
    twin.step(3_600)
    twin.rescale(scale_out + 1, "more")
    twin.step(3_600)
    twin.fail(2)
    twin.step((HOURS - 2) * 3_600)
    return twin


def test_no_record_is_lost_and_time_passes_as_fast() -> None:
    coarse = run(10)
    totals = coarse.totals
    assert totals.arrived + totals.replayed == totals.processed + totals.lag
    assert coarse.now_s == run(1).now_s == START_S + HOURS * 3_600
    assert len(coarse.history) == HOURS * 360


@pytest.mark.parametrize("step_s", [2, 5, 10])
def test_it_is_hardly_another_job(step_s: int) -> None:
    exact, coarse = run(1), run(step_s)
    assert coarse.totals.arrived == exact.totals.arrived, "the very same records arrive"
    for name, within in (("processed", 0.001), ("capacity", 0.01), ("cpu_load", 0.01)):
        means = [float(np.nanmean(twin.history.column(name))) for twin in (exact, coarse)]
        assert means[1] == pytest.approx(means[0], rel=within), name
    for outage, other in zip(exact.outages, coarse.outages, strict=True):
        assert 0 <= (other.end_s - other.start_s) - (outage.end_s - outage.start_s) < step_s, (
            "rounded up to whole steps"
        )


def test_recoveries_take_as_long_to_within_a_step_on_average() -> None:
    """What a longer standstill adds, a checkpoint at the end of a step takes away again."""
    found = []
    for step_s in (1, 10):
        twins = [run(step_s, seed=seed) for seed in range(12)]
        found.append([float(np.mean([twin.recovery_time_s(twin.outages[k]) for twin in twins])) for k in (0, 1)])
    (rescale, failure), (rescale_coarse, failure_coarse) = found
    assert abs(rescale_coarse - rescale) <= 10
    assert abs(failure_coarse - failure) <= 10


def test_what_is_scraped_of_it_is_alike() -> None:
    series = [{(stream.metric, stream.worker): stream for stream in emit(run(step_s), SCRAPING)} for step_s in (1, 10)]
    assert series[0].keys() == series[1].keys()
    for key in series[0]:
        if key[0] != LAG.name:  # most of it comes of two standstills
            means = [float(np.nanmean(streams[key].values)) for streams in series]
            assert means[1] == pytest.approx(means[0], rel=0.05), key
        assert abs(len(series[0][key]) - len(series[1][key])) <= 4


def test_what_workers_did_may_be_forgotten_and_what_the_job_did_is_kept() -> None:
    whole, short = run(1), run(1)
    short.history.forget_workers_before(short.now_s - 7_200)
    assert len(short.history) == len(whole.history)
    np.testing.assert_array_equal(short.history.column("lag"), whole.history.column("lag"))
    kept = short.history.column("worker_cpu")
    assert 7_200 <= len(kept) < 7_200 + ROOM
    np.testing.assert_array_equal(kept, whole.history.column("worker_cpu")[-len(kept) :])
    with pytest.raises(IndexError, match="row 0 of 'worker_cpu' is forgotten; those from 14400 on are kept"):
        short.history.rows("worker_cpu", 0, 5)
    recent = [emit(twin, Scraping(interval_s=5.0), from_s=twin.now_s - 3_600.0) for twin in (whole, short)]
    for streams, other in zip(*recent, strict=True):
        np.testing.assert_array_equal(streams.values, other.values)


def test_it_goes_on_after_forgetting() -> None:
    whole, short = run(1), run(1)
    for _ in range(30):
        for twin in (whole, short):
            twin.step(600)
        short.history.forget_workers_before(short.now_s - 7_200)
    last = len(short.history.column("worker_processed"))
    assert last < 7_200 + ROOM + 600
    np.testing.assert_array_equal(
        short.history.column("worker_processed"), whole.history.column("worker_processed")[-last:]
    )
    short.history.discard_before(short.now_s - 100)
    assert [len(short.history.column(name)) for name in ("lag", "worker_cpu")] == [100, 100]

"""Times without metrics: a Prometheus that is down, and exporters that restart with counters at 0."""

from collections.abc import Callable

import numpy as np
import pytest

from perdix.telemetry.series import Series
from perdix.twin.emission import Scraping, Silence, emit
from perdix.twin.job import JobTwin
from perdix.twin.parameters import TwinParameters

START_S = 1_700_000_000
COUNTED = "flink_taskmanager_job_task_operator_numRecordsIn"
FIRST, SECOND = "orders-taskmanager-00", "orders-taskmanager-01"


@pytest.fixture
def twin(parameters: Callable[..., TwinParameters]) -> JobTwin:
    twin = JobTwin(parameters(), 3, start_s=START_S)
    twin.step(3_600)
    return twin


def one(series: list[Series], metric: str, worker: str | None = None) -> Series:
    (found,) = [s for s in series if s.metric == metric and s.worker == worker]
    return found


def between(series: Series, from_s: float, to_s: float) -> np.ndarray:
    return series.values[(series.times_ms >= 1_000 * from_s) & (series.times_ms < 1_000 * to_s)]


def test_nothing_is_scraped_while_it_is_silent(twin: JobTwin) -> None:
    silence = Silence(START_S + 600, START_S + 900)
    usual, gappy = emit(twin, Scraping(15.0)), emit(twin, Scraping(15.0, silences=(silence,)))
    assert len(usual) == len(gappy)
    for before, after in zip(usual, gappy, strict=True):
        kept = (before.times_ms < 1_000 * silence.from_s) | (before.times_ms >= 1_000 * silence.to_s)
        assert (~kept).sum() == 300 // 15
        np.testing.assert_array_equal(after.times_ms, before.times_ms[kept])
        np.testing.assert_array_equal(after.values, before.values[kept])


def test_one_exporter_may_be_silent_alone(twin: JobTwin) -> None:
    silence = Silence(START_S + 600, START_S + 900, FIRST)
    series = emit(twin, Scraping(15.0, silences=(silence,)))
    assert not len(between(one(series, "cpu_load", FIRST), silence.from_s, silence.to_s))
    assert len(between(one(series, "cpu_load", SECOND), silence.from_s, silence.to_s)) == 20
    assert len(between(one(series, "workload_per_s"), silence.from_s, silence.to_s)) == 20


def test_an_exporter_that_restarted_counts_from_zero(twin: JobTwin) -> None:
    silence = Silence(START_S + 600, START_S + 660, FIRST, restarted=True)
    usual, restarted = (
        {worker: one(emit(twin, scraping, names="flink"), COUNTED, worker) for worker in (FIRST, SECOND)}
        for scraping in (Scraping(15.0), Scraping(15.0, silences=(silence,)))
    )
    after = between(restarted[FIRST], silence.to_s, START_S + 3_600)
    expected = between(usual[FIRST], silence.to_s, START_S + 3_600)
    assert after[0] < 0.1 * expected[0], "as good as nothing was counted yet"
    np.testing.assert_allclose(np.diff(after), np.diff(expected))
    np.testing.assert_array_equal(restarted[SECOND].values, usual[SECOND].values)


def test_a_job_that_restarts_later_counts_from_zero_only_once(twin: JobTwin) -> None:
    twin.rescale(3, "later")
    twin.step(600)
    silence = Silence(START_S + 600, START_S + 660, FIRST, restarted=True)
    usual, restarted = (
        one(emit(twin, scraping, names="flink"), COUNTED, FIRST)
        for scraping in (Scraping(15.0), Scraping(15.0, silences=(silence,)))
    )
    later_s = START_S + 3_900
    np.testing.assert_array_equal(between(restarted, later_s, later_s + 300), between(usual, later_s, later_s + 300))


def test_the_range_that_is_asked_for_makes_no_difference(twin: JobTwin) -> None:
    silences = (Silence(START_S + 600, START_S + 660, restarted=True), Silence(START_S + 900, START_S + 1_500))
    scraping = Scraping(15.0, jitter_s=0.2, loss=0.05, silences=silences)
    whole = emit(twin, scraping, names="flink")
    part = emit(twin, scraping, names="flink", from_s=START_S + 1_400, to_s=START_S + 2_000)
    for series in part:
        (same,) = [s for s in whole if (s.metric, s.worker, s.labels) == (series.metric, series.worker, series.labels)]
        np.testing.assert_array_equal(series.values, between(same, START_S + 1_400, START_S + 2_000))


def test_a_silence_ends_after_it_begins() -> None:
    with pytest.raises(ValueError, match="must end after it begins"):
        Silence(10.0, 10.0)

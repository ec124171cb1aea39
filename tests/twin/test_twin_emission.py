import numpy as np
import pytest

from perdix.telemetry.metrics import CANONICAL, Scope
from perdix.telemetry.queries import load_series_map
from perdix.twin.emission import Scraping, emit, scrape
from perdix.twin.exposition import expose
from perdix.twin.job import JobTwin

START_S = 1_700_000_000


def rescaled(parameters, step_s=1):
    twin = JobTwin(parameters, 3, start_s=START_S, step_s=step_s)
    twin.step(1_000)
    twin.rescale(4, "a")
    twin.step(2_600)
    return twin


@pytest.fixture
def twin(parameters):
    return rescaled(parameters())


def one(series, metric, worker=None):
    (found,) = [s for s in series if s.metric == metric and s.worker == worker]
    return found


def test_canonical_names_scopes_and_physical_bounds(twin):
    series = emit(twin, Scraping(15.0))
    assert {s.metric for s in series} == set(CANONICAL) - {"memory_ratio"}, "which only a twin with a heap tells"
    for entry in series:
        metric = CANONICAL[entry.metric]
        assert (entry.worker is None) == (metric.scope is Scope.JOB)
        known = entry.values[~np.isnan(entry.values)]
        assert (known >= metric.low).all()
        assert (known <= metric.high).all()
        assert (np.diff(entry.times_ms) > 0).all()


def test_every_scrape_is_there_without_loss(twin):
    entry = one(emit(twin, Scraping(15.0)), "consumer_lag_records")
    assert len(entry) == 3_600 // 15
    assert set(np.diff(entry.times_ms)) == {15_000}


def test_a_scrape_shows_the_second_that_was_completed_last(twin):
    entry = one(emit(twin, Scraping(1.0)), "consumer_lag_records")
    np.testing.assert_array_equal(entry.values, twin.history.column("lag"))
    assert entry.times_ms[0] == 1000 * (START_S + 1)


def test_loss_and_jitter_have_the_asked_size(twin):
    scraping = Scraping(1.0, jitter_s=0.1, loss=0.2)
    series = emit(twin, scraping)
    lag = one(series, "consumer_lag_records")
    assert len(lag) == pytest.approx(0.8 * 3_600, rel=0.03)
    late_ms = lag.times_ms % 1000
    assert late_ms.mean() == pytest.approx(100 * np.sqrt(2 / np.pi), rel=0.1)
    assert late_ms.max() < 900
    # all series of one exporter are lost together; another exporter has its own luck
    np.testing.assert_array_equal(lag.times_ms, one(series, "workload_per_s").times_ms)
    other = one(series, "cpu_load", "orders-taskmanager-00")
    assert set(lag.times_ms // 1000) != set(other.times_ms // 1000)


@pytest.mark.parametrize("step_s", [1, 10])
@pytest.mark.parametrize("scraping", [Scraping(5.0, jitter_s=0.5, loss=0.3), Scraping(5.0)])
def test_workers_that_are_read_together_show_what_each_shows_alone(parameters, scraping, step_s):
    """Each worker is scraped at times of its own, and comes and goes with the rescale."""
    twin = rescaled(parameters(), step_s)
    exposed, range_s = expose(twin, "canonical", 5.0), {"from_s": START_S + 700.5, "to_s": START_S + 1_200}
    found = scrape(twin, exposed, scraping, **range_s)
    assert {series.metric for series in found} == set(CANONICAL) - {"memory_ratio"}
    together = iter(found)
    for entry in exposed:
        for alone in scrape(twin, [entry], scraping, **range_s):
            found = next(together)
            assert (found.metric, found.worker, found.labels) == (alone.metric, alone.worker, alone.labels)
            np.testing.assert_array_equal(found.times_ms, alone.times_ms)
            np.testing.assert_array_equal(found.values, alone.values)
            rows = (found.times_ms // 1000 - START_S) // step_s - 1  # and as the column is read by itself
            np.testing.assert_allclose(found.values, entry.read(twin.history, rows), rtol=1e-9)
    assert next(together, None) is None


def test_any_range_is_part_of_the_whole(twin):
    scraping = Scraping(5.0, jitter_s=0.5, loss=0.1)
    whole = emit(twin, scraping, names="flink")
    for from_s, to_s in (
        (START_S + 900, START_S + 1_100),
        (START_S + 1_003.5, START_S + 1_004),
        (START_S, START_S + 7),
    ):
        part = emit(twin, scraping, names="flink", from_s=from_s, to_s=to_s)
        expected = {}
        for entry in whole:
            inside = (entry.times_ms >= 1000 * from_s) & (entry.times_ms < 1000 * to_s)
            if inside.any():
                expected[entry.metric, entry.worker] = (entry.times_ms[inside], entry.values[inside])
        assert {(p.metric, p.worker) for p in part} == set(expected)
        for p in part:
            np.testing.assert_array_equal(p.times_ms, expected[p.metric, p.worker][0])
            np.testing.assert_array_equal(p.values, expected[p.metric, p.worker][1])


def test_standstill_leaves_one_staleness_marker_and_then_nothing(twin):
    outage = twin.outages[0]
    entry = one(emit(twin, Scraping(1.0)), "throughput_per_s", "orders-taskmanager-00")
    marked = entry.times_ms[np.isnan(entry.values)] / 1000
    assert marked.tolist() == [outage.start_s + 1]
    gap_s = np.diff(entry.times_ms).max() / 1000
    assert gap_s == outage.end_s - outage.start_s


def test_counters_start_again_at_zero_after_a_restart(twin):
    counter = one(
        emit(twin, Scraping(1.0), names="flink"),
        "flink_taskmanager_job_task_operator_numRecordsIn",
        "orders-taskmanager-00",
    )
    assert counter.kind == "counter"
    known = counter.values[~np.isnan(counter.values)]
    assert (known == np.floor(known)).all()
    assert (np.diff(known) < 0).sum() == 1


def test_a_worker_that_is_not_deployed_shows_nothing(twin):
    entry = one(emit(twin, Scraping(1.0)), "cpu_load", "orders-taskmanager-03")
    assert entry.times_ms[0] / 1000 == twin.outages[0].end_s + 1
    assert not [s for s in emit(twin) if s.worker == "orders-taskmanager-04"]


def test_raw_names_are_those_that_the_flink_mapping_knows(twin):
    series = emit(twin, Scraping(15.0), names="flink")
    mapping = load_series_map()
    mapped = {}
    for entry in series:
        if canonical := mapping.canonical(entry.metric, entry.labels):
            assert canonical.worker == (entry.worker if CANONICAL[canonical.metric].scope is Scope.WORKER else None)
            assert canonical.kind == entry.kind
            mapped.setdefault(canonical.metric, []).append(canonical.scale * entry.values)
    counted = {"scale_out", "memory_ratio"}  # the workers that report, and a ratio of two series
    assert set(mapped) == set(CANONICAL) - counted
    uptime_s = START_S + 3_600 - twin.outages[0].end_s
    assert uptime_s - 15 < mapped["uptime_s"][0][-1] <= uptime_s  # in seconds, as of the last scrape


def test_cpu_is_the_mean_of_a_minute(twin):
    entry = one(emit(twin, Scraping(1.0)), "cpu_load", "orders-taskmanager-00")
    raw = twin.history.column("worker_cpu")[:, 0]
    assert entry.values[999] == pytest.approx(raw[940:1_000].mean())
    assert entry.values[5] == pytest.approx(raw[:6].mean())


@pytest.mark.parametrize("wrong", [{"interval_s": 0.0}, {"jitter_s": -1.0}, {"loss": 1.0}])
def test_scraping_refuses_what_cannot_be(wrong):
    with pytest.raises(ValueError, match="expected interval_s"):
        Scraping(**wrong)


def test_busy_is_what_a_worker_processes_of_what_it_could(parameters):
    twin = JobTwin(parameters(), 3, start_s=START_S)
    twin.step(900)
    busy = [s for s in emit(twin, Scraping(15.0)) if s.metric == "busy_ratio"]
    assert len(busy) == twin.scale_out
    hottest = max(float(s.values[-40:].mean()) for s in busy)
    processed = twin.history.column("processed")[-600:].mean()
    assert processed / hottest == pytest.approx(twin.current_capacity(), rel=0.02)


def test_nobody_is_busy_while_the_job_stands_still(twin):
    outage = twin.outages[0]
    entry = one(emit(twin, Scraping(1.0)), "busy_ratio", "orders-taskmanager-00")
    assert np.diff(entry.times_ms).max() / 1000 == outage.end_s - outage.start_s

"""What one read shows of each worker, beside the means over all of them."""

import numpy as np
import pytest

from perdix.control.observe import observe
from perdix.control.sources import Reading
from perdix.settings.stream_job import StreamJob
from perdix.telemetry.window import Window

JOB = StreamJob(name="orders")
NAN = float("nan")


class Given:
    """A source that shows the same window whenever it is asked."""

    def __init__(self, steps: int = 12, **worker_metrics: list[list[float]]) -> None:
        times = 15.0 * np.arange(1, steps + 1)
        shape = (steps, 3)
        tables = {name: np.broadcast_to(np.array(rows), shape).copy() for name, rows in worker_metrics.items()}
        of_job = {"workload_per_s": np.full(steps, 900.0), "scale_out": np.full(steps, 3.0), "uptime_s": times + 100.0}
        self.window = Window("orders", 15.0, times, ("a", "b", "c"), of_job, tables, float(times[-1]))

    def read(self, job: StreamJob, now_s: float, since_s: float) -> Reading:
        return Reading(self.window)


def seen(source: Given):
    return observe(JOB, source, 180.0, 0.0, 60.0)


def test_each_worker_that_reports_is_seen_for_itself():
    found = seen(Given(cpu_load=[[0.5, 0.6, 0.7]], busy_ratio=[[0.4, 0.5, 0.6]], throughput_per_s=[[300.0] * 3]))
    assert found.quality.ok
    assert found.worker_cpu == pytest.approx((0.5, 0.6, 0.7))
    assert found.worker_busy == pytest.approx((0.4, 0.5, 0.6))
    assert (found.throughput_per_s, found.uptime_s) == (900.0, 280.0)


def test_a_worker_that_is_gone_is_not_among_those_that_run():
    source = Given(cpu_load=[[0.5, 0.6, 0.7]], busy_ratio=[[0.4, 0.5, 0.6]])
    source.window.worker_metrics["busy_ratio"][-2:, 2] = NAN
    assert seen(source).worker_busy == pytest.approx((0.4, 0.5))


def test_one_step_that_is_still_owed_is_not_an_absence():
    source = Given(busy_ratio=[[0.4, 0.5, 0.6]])
    source.window.worker_metrics["busy_ratio"][-1] = NAN
    assert seen(source).worker_busy == pytest.approx((0.4, 0.5, 0.6))


def test_where_nobody_measures_how_busy_the_workers_are_nothing_is_missed():
    found = seen(Given(cpu_load=[[0.5, 0.6, 0.7]], throughput_per_s=[[300.0] * 3]))
    assert (found.quality.ok, found.worker_busy) == (True, ())


def caught_up(uptime_s: list[float]):
    """A job, scraped every 30 s, that read a minute of records again between two scrapes, and works them off."""
    times = 30.0 * np.arange(1, 13)
    worked = np.array([900.0] * 7 + [1_800.0] * 2 + [900.0] * 3)
    lag = np.array([0.0] * 7 + [27_000.0, 0.0] + [0.0] * 3)
    of_job = {"workload_per_s": np.full(12, 900.0), "scale_out": np.full(12, 3.0), "consumer_lag_records": lag}
    of_job["uptime_s"] = np.array(uptime_s)
    tables = {"throughput_per_s": np.repeat(worked[:, None] / 3, 3, axis=1), "cpu_load": np.full((12, 3), 0.5)}
    source = Given()
    source.window = Window("orders", 30.0, times, ("a", "b", "c"), of_job, tables, 360.0)
    return observe(JOB, source, 360.0, 0.0, 60.0).window


def test_a_restart_that_fits_between_two_scrapes_is_no_contradiction():
    restarted = caught_up([*(1_000.0 + 30.0 * np.arange(7)), *(10.0 + 30.0 * np.arange(5))])
    assert np.isfinite(restarted.job_metric("workload_per_s")).all()
    missed = caught_up([*(1_000.0 + 30.0 * np.arange(7)), np.nan, *(40.0 + 30.0 * np.arange(4))])
    assert np.isfinite(missed.job_metric("workload_per_s")).all(), "the next uptime says as much"
    ran_on = caught_up(list(1_000.0 + 30.0 * np.arange(12)))
    assert not np.isfinite(ran_on.job_metric("workload_per_s")).all(), "nobody works what neither came nor waited"

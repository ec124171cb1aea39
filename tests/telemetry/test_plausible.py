"""What a job's metrics can be is known from its bounds and its history; the rest is rejected, counted and told."""

from __future__ import annotations

import numpy as np
import pytest

from perdix.settings.stream_job import MOST_WORKERS, Bounds
from perdix.telemetry.alignment import align
from perdix.telemetry.plausible import plausible_ranges, screened
from perdix.telemetry.quality import assess
from perdix.telemetry.series import Series
from perdix.telemetry.window import Window

TIMES_S = 15.0 * np.arange(1, 13)
RANGES = plausible_ranges(Bounds(minimum=1, maximum=8), running=6, highest_per_s=15_000.0)


def window(**changes: float) -> Window:
    """A job of six workers in which the newest step of some metrics is something else."""
    job = {"workload_per_s": 15_000.0, "scale_out": 6.0, "consumer_lag_records": 100.0, "uptime_s": 900.0}
    worker = {"throughput_per_s": 2_500.0, "cpu_load": 0.5}
    job_metrics = {name: np.full(12, value) for name, value in job.items()}
    worker_metrics = {name: np.full((12, 6), value) for name, value in worker.items()}
    for name, value in changes.items():
        {**job_metrics, **worker_metrics}[name][-1] = value
    workers = tuple(f"w-{i}" for i in range(6))
    return Window("orders", 15.0, TIMES_S, workers, job_metrics, worker_metrics, TIMES_S[-1])


def test_what_can_be_is_left_as_it_is() -> None:
    read = window(workload_per_s=900_000.0, cpu_load=1.2, scale_out=80.0)
    assert screened(read, RANGES) is read


@pytest.mark.parametrize(
    ("metric", "value", "limits"),
    [
        ("scale_out", 1e6, "outside 0 to 80"),
        ("scale_out", -1.0, "below 0"),
        ("workload_per_s", 1e15, "outside 0 to 8e+07 (if its query counts bytes, let it count records)"),
        ("throughput_per_s", 1e15, "outside 0 to 1.5e+07 (if its query counts bytes, let it count records)"),
        ("cpu_load", 28.4, "outside 0 to 1.5"),
        ("consumer_lag_records", 1e15, "outside 0 to 2.0736e+14 (if its query counts bytes, let it count records)"),
        ("uptime_s", 1e13, "outside 0 to 3.15576e+09"),
    ],
)
def test_what_cannot_be_is_missing_and_told_with_the_range(metric: str, value: float, limits: str) -> None:
    found = screened(window(**{metric: value}), RANGES)
    assert np.isnan(found.job_metrics.get(metric, found.worker_metrics.get(metric))[-1]).all()
    assert [(item.metric, set(item.values)) for item in found.rejected] == [(metric, {value})]
    assert found.rejected[0].sentence() == f"{metric} {value:g} is {limits}"


def test_a_surge_is_no_error_and_a_job_that_was_hardly_seen_may_do_anything_that_workers_can() -> None:
    busy = plausible_ranges(Bounds(maximum=8), highest_per_s=1e6)
    assert busy["workload_per_s"].high == 1e9
    new = plausible_ranges(Bounds(maximum=8))
    assert new["workload_per_s"].high == 8e7


def test_workers_are_measured_against_the_bounds_and_what_the_target_says_but_never_beyond_any_job() -> None:
    assert plausible_ranges(Bounds(maximum=8), running=40)["scale_out"].high == 400
    assert plausible_ranges(Bounds(maximum=9_000))["scale_out"].high == MOST_WORKERS


def test_what_no_unit_allows_is_told_already_where_samples_are_put_on_the_grid() -> None:
    at_ms = (1_000 * TIMES_S).astype(np.int64)
    percent = Series("cpu_load", "w-0", at_ms, np.full(12, 28.4))
    gaps = Series("throughput_per_s", "w-0", at_ms, np.where(TIMES_S > 60, np.nan, 100.0))
    found = align("orders", [percent, gaps], 0.0, 180.0, 15.0)
    assert [(item.metric, len(item.values)) for item in found.rejected] == [("cpu_load", 12)], (
        "NaN is missing, not wrong"
    )
    assert found.counts.masked == 20


def test_a_metric_of_which_everything_was_rejected_says_so_in_place_of_being_absent() -> None:
    read = window()
    read.worker_metrics["cpu_load"][:] = 28.4
    quality = assess(screened(read, RANGES), TIMES_S[-1], 15.0)
    assert quality.blind
    assert quality.problems == ("cpu_load has no usable sample: cpu_load 28.4 is outside 0 to 1.5",)

"""What a job's page in Dagster shows: numbers as far as they are known, and a picture where there are metrics."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from perdix.assets.job_metadata import job_picture, metadata_of
from perdix.control.course import JobCourse
from perdix.control.explain import Explanation
from perdix.models.forecasting.contract import Forecast
from perdix.settings.stream_job import Bounds, StreamJob
from perdix.telemetry.window import Window

NOW_S = 1_772_000_000.0
JOB = StreamJob(name="orders", bounds=Bounds(minimum=1, maximum=8))


def course(**changes: Any) -> JobCourse:
    times_s = NOW_S - 10.0 * np.arange(360.0)[::-1]
    metrics = {
        "workload_per_s": 1_000.0 + 100.0 * np.sin(times_s / 600.0),
        "scale_out": np.where(times_s < NOW_S - 1_800.0, 2.0, 3.0),
        "latency_p95_ms": np.where(times_s < NOW_S - 2_700.0, 9_000.0, 100.0),
    }
    window = Window("orders", 10.0, times_s, job_metrics=metrics, newest_sample_s=NOW_S)
    return replace(JobCourse(JOB, NOW_S, window, "", Explanation("orders", None, None)), **changes)


def pixels(png: bytes | None) -> np.ndarray:
    assert png is not None
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))


def test_numbers_are_those_of_the_hours_shown() -> None:
    told = metadata_of(course())
    assert told["late_percent"] == pytest.approx(25.0, abs=0.5)
    assert 900.0 < told["load_per_s"] < 1_100.0
    assert "picture" in told
    assert "workers" not in told, "nothing was decided"


def test_where_nothing_was_measured_the_page_says_why_and_shows_no_number() -> None:
    told = metadata_of(course(window=None, unread="prom:9090 does not answer"))
    assert told["no picture"].value == "prom:9090 does not answer"
    assert not {"picture", "late_percent", "load_per_s"} & set(told)


def test_the_forecast_is_drawn_beyond_the_newest_measurement() -> None:
    forecast = Forecast(NOW_S, 60.0, np.full(15, 1_500.0), {0.9: np.full(15, 1_700.0)})
    without, beside = (pixels(job_picture(course(forecasts=made))) for made in ((), (forecast,)))
    assert without.shape == beside.shape
    assert (without != beside).any()


def test_the_title_ends_within_the_picture_also_that_of_a_long_name() -> None:
    for name in ("checkout-sessions-europe", "o" * 63):
        drawn = pixels(job_picture(course(job=JOB.model_copy(update={"name": name}))))
        assert (drawn[:20, -4:] == 255).all()


def test_a_metric_that_is_missing_leaves_its_panel_empty() -> None:
    window = course().window
    assert window is not None
    for gone in window.job_metrics:
        kept = {name: values for name, values in window.job_metrics.items() if name != gone}
        less = Window("orders", 10.0, window.times_s, job_metrics=kept, newest_sample_s=NOW_S)
        assert pixels(job_picture(course(window=less))).std() > 0, gone

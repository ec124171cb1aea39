"""What a replay reads of a twin is what aligning its series comes to, to the last digit."""

from collections.abc import Callable

import numpy as np
import pytest

from perdix.telemetry.alignment import align
from perdix.telemetry.window import Window
from perdix.twin.emission import Scraping, Silence, emit
from perdix.twin.job import JobTwin
from perdix.twin.parameters import TwinParameters
from perdix.twin.scraped import scraped

START_S = 1_700_000_000
SILENT = (
    Silence(START_S + 300, START_S + 420, "orders-taskmanager-01", restarted=True),
    Silence(START_S + 700, START_S + 1_300),
)
CLOCKS = {
    "scraped at the same times": Scraping(15.0),
    "each at times of its own": Scraping(10.0, jitter_s=0.4, loss=0.05),
    "with silences": Scraping(5.0, jitter_s=0.2, loss=0.01, silences=SILENT),
    "hardly ever": Scraping(30.0, loss=0.9),
}


def rescaled(parameters: TwinParameters, step_s: int = 1) -> JobTwin:
    twin = JobTwin(parameters, 3, start_s=START_S, step_s=step_s)
    for minutes, workers in ((10, 2), (10, 6), (10, 4)):
        twin.step(60 * minutes)
        twin.rescale(workers, f"to {workers}")
    twin.fail(1)
    twin.step(300)
    return twin


def same(window: Window, other: Window) -> None:
    assert window.workers == other.workers
    assert (window.newest_sample_s, window.counts, window.ahead) == (other.newest_sample_s, other.counts, other.ahead)
    for of_one, of_other in ((window.job_metrics, other.job_metrics), (window.worker_metrics, other.worker_metrics)):
        assert list(of_one) == list(of_other)
        for name, values in of_one.items():
            assert np.array_equal(values, of_other[name], equal_nan=True), name


@pytest.mark.parametrize("scraping", CLOCKS.values(), ids=CLOCKS)
@pytest.mark.parametrize("step_s", [1, 5])
def test_every_window_is_the_same(parameters: Callable[..., TwinParameters], scraping: Scraping, step_s: int) -> None:
    twin, interval_s = rescaled(parameters(), step_s), scraping.interval_s
    for now_s in np.arange(START_S, twin.now_s + 120.0, 37.0).tolist():
        since_s = now_s - 240.0
        series = emit(twin, scraping, from_s=since_s - 2.0 * interval_s, to_s=now_s + 1e-3)
        same(scraped(twin, scraping, "orders", since_s, now_s), align("orders", series, since_s, now_s, interval_s))


def test_workers_are_sorted_by_name_although_the_hundredth_has_another_digit(
    parameters: Callable[..., TwinParameters],
) -> None:
    many = parameters()
    many = many.model_copy(update={"workers": many.workers.model_copy(update={"maximum": 104})})
    twin = JobTwin(many, 3, start_s=START_S, scale_out=103)
    twin.step(300)
    now_s = float(twin.now_s)
    series = emit(twin, Scraping(15.0), from_s=now_s - 230.0, to_s=now_s + 1e-3)
    same(scraped(twin, Scraping(15.0), "j", now_s - 200, now_s), align("j", series, now_s - 200, now_s, 15.0))

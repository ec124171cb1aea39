"""Which rows of a window the capacity is learnt from: of this scale-out, new, and of no warm-up."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from perdix.models.capacity.pairing import trailing_mean
from perdix.models.capacity.scale_outs import ScaleOuts
from tests.models.capacity_stays import STEP_S, history, stay, window


def test_warm_up_is_not_learnt_from():
    cold = ScaleOuts().update(window(0, 3, uptime_s=30.0), 3)
    assert not cold.known
    assert ScaleOuts().update(window(0, 3, uptime_s=600.0), 3).known


@pytest.mark.parametrize("missed", [16, 19, 23])
def test_a_warm_up_whose_uptime_was_missed_once_is_not_learnt_from(missed):
    """A scrape is lost now and then; what stands between two uptimes is known from either."""
    seen, uptime_s = window(0, 3, minutes=4), np.full(24, np.nan)
    uptime_s[-8:] = STEP_S * np.arange(8.0)
    uptime_s[missed] = np.nan
    model = ScaleOuts().update(_with_uptime(seen, uptime_s), 3)
    assert not model.known
    uptime_s[-8:] += 600.0
    assert ScaleOuts().update(_with_uptime(seen, uptime_s), 3).known


def test_what_came_after_the_last_known_uptime_is_learnt_from_once_that_is_known():
    """The job may have restarted since then."""
    seen, uptime_s = window(0, 3, minutes=4), 600.0 + STEP_S * np.arange(24.0)
    gap = np.where(np.arange(24) < 20, uptime_s, np.nan)
    model = ScaleOuts().update(_with_uptime(seen, gap), 3)
    assert model.newest_s == seen.times_s[19]
    later = model.update(_with_uptime(seen, uptime_s), 3)
    at_once = ScaleOuts().update(_with_uptime(seen, uptime_s), 3)
    assert later.workers.weight == pytest.approx(at_once.workers.weight, rel=0.01)


def _with_uptime(seen, uptime_s):
    assert len(seen) == len(uptime_s)
    return replace(seen, job_metrics={**seen.job_metrics, "uptime_s": uptime_s})


def test_a_rescale_without_uptime_waits_two_minutes():
    model = stay(ScaleOuts(), 3)
    moved = model.update(window(2000.0, 5, minutes=1), 5)
    assert len(moved.workers) == 0
    assert moved.capacity(3).seen
    settled = moved.update(window(2000.0, 5, minutes=4), 5)
    assert len(settled.workers) == 5


@pytest.mark.parametrize("measured", [False, True])
def test_a_rescale_without_uptime_waits_two_minutes_however_long_the_window_is(measured):
    """The loop looks four minutes back: into the time before the rescale."""
    model, seen = stay(ScaleOuts(), 3), window(1_660.0, 5, minutes=4)
    if measured:
        seen = replace(seen, job_metrics={"scale_out": np.where(seen.times_s < 1_860.0, 3.0, 5.0)})
    moved = model.update(seen, 5)
    assert len(moved.workers) == 0
    since_s = 1_860.0 if measured else 1_790.0  # the workers may be there since the last update
    assert (model.newest_s, moved.arrived_s) == (1_790.0, since_s)
    assert len(moved.update(window(since_s - 110.0, 5, minutes=4), 5).workers) == 5


def test_rows_of_another_scale_out_are_left_out():
    seen = window(0, 3)
    for scale_out, known in ((5.0, False), (3.0, True)):
        metrics = {**seen.job_metrics, "scale_out": np.full(len(seen), scale_out)}
        assert ScaleOuts().update(replace(seen, job_metrics=metrics), 3).known is known


def test_trailing_mean_matches_pandas():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(50, 3))
    values[rng.random((50, 3)) < 0.3] = np.nan
    expected = pd.DataFrame(values).rolling(6, min_periods=3).mean().to_numpy()
    np.testing.assert_allclose(trailing_mean(values, 6), expected)


def test_a_history_costs_memory_by_its_rows_and_not_by_all_the_names_that_pods_ever_had():
    """14 days of a job that is rescaled 20 times a day, with new names each time, took 8 GB."""
    frame = history([3, 4] * 40, lambda _: 50_000.0, minutes=30)
    tracemalloc.start()
    model = ScaleOuts.from_features(frame)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert model.memory.keys() == {3, 4}
    assert peak < 4 * frame.memory_usage(deep=True).sum()

"""What is believed of the present load."""

import numpy as np
import pytest

from perdix.control.believe import TRUTH_CELL_S, level_per_s
from perdix.control.job_memory import JobMemory
from perdix.models.forecasting.contract import Workload
from perdix.models.forecasting.tail import Tail

START_S = 1_700_000_000.0


def level_of(newest_minute: np.ndarray, before_per_s: float = 100.0) -> float | None:
    rates = np.concatenate((np.full(300, before_per_s), newest_minute))
    return level_per_s(JobMemory(workload=Tail.of(Workload(START_S, 1.0, rates), TRUTH_CELL_S)))


@pytest.mark.parametrize("jumped_s", [20, 30, 40])
def test_what_came_before_a_jump_says_nothing_of_the_present_load(jumped_s):
    """Zoo 68001-13: half a minute of a load that is on looked like half of it: 1 -> 5 -> 15 -> 6 workers."""
    assert level_of(np.where(np.arange(60) < 60 - jumped_s, 0.0, 240.0), 0.0) == pytest.approx(240.0)


@pytest.mark.parametrize(
    "minute",
    [
        np.full(60, 100.0),
        np.linspace(90.0, 110.0, 60),
        np.where(np.arange(60) < 30, 240.0, 0.0),
        np.where(np.abs(np.arange(60) - 30) < 10, 400.0, 100.0),
        np.random.default_rng(3).normal(100.0, 30.0, 60),
    ],
    ids=["flat", "rising", "fell", "a burst that is over", "noise"],
)
def test_else_it_is_the_mean_of_the_newest_minute(minute):
    assert level_of(minute) == pytest.approx(minute.mean())


def test_a_load_that_was_not_measured_is_not_known():
    assert level_of(np.full(60, np.nan)) is None
    assert level_per_s(JobMemory()) is None
    after_a_gap = np.where(np.arange(60) < 30, np.nan, 240.0)
    assert level_of(after_a_gap) in (None, pytest.approx(240.0))

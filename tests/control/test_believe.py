"""What is believed of the present load, and what is remembered of it."""

import numpy as np
import pytest

from perdix.control.believe import TRUTH_CELL_S, Beliefs, foreseen, update
from perdix.control.job_memory import JobMemory, changed, history_of, recall
from perdix.control.observe import Observation
from perdix.control.state.store import StateStore
from perdix.models.forecasting.contract import Forecast, Workload
from perdix.models.forecasting.tail import Tail
from perdix.telemetry import metrics
from perdix.telemetry.quality import Quality
from perdix.telemetry.window import Window

START_S = 1_700_000_000.0


def level_of(newest_minute: np.ndarray, before_per_s: float = 100.0) -> float | None:
    rates = np.concatenate((np.full(300, before_per_s), newest_minute))
    return JobMemory(workload=Tail.of(Workload(START_S, 1.0, rates), TRUTH_CELL_S)).level_per_s


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
    assert JobMemory().level_per_s is None
    after_a_gap = np.where(np.arange(60) < 30, np.nan, 240.0)
    assert level_of(after_a_gap) in (None, pytest.approx(240.0))


def after(memory: JobMemory, rates: np.ndarray, step_s: float, start_s: float = START_S) -> JobMemory:
    times_s = start_s + step_s * np.arange(1.0, len(rates) + 1.0)
    window = Window("orders", step_s, times_s, job_metrics={metrics.WORKLOAD.name: rates})
    return update(memory, Observation(window, Quality(ok=True, blind=False, problems=())), None)


@pytest.mark.parametrize("step_s", [15.0, 60.0, 90.0, 120.0, 300.0])
def test_minutes_are_minutes_whatever_the_scrape_interval(step_s):
    """With 300 s each cell was one of them, so that twelve hours were read as 144 minutes."""
    rates, memory = 100.0 + np.arange(round(7_200 / step_s)), JobMemory()
    for end in range(2, len(rates) + 1, 2):
        memory = after(memory, rates[end - 2 : end], step_s, START_S + (end - 2) * step_s)
    assert memory.minutes is not None
    assert memory.minutes.cell_s == 60.0
    seconds = np.repeat(rates, round(step_s))
    assert history_of(memory.minutes).per_s == pytest.approx(seconds.reshape(-1, 60).mean(axis=1))


@pytest.mark.parametrize(("cell_s", "lasts_s"), [(120.0, 1_380.0), (300.0, 3_540.0)])
def test_stored_cells_that_are_longer_than_a_minute_are_cut_anew(store: StateStore, cell_s, lasts_s):
    rates, end_s = 100.0 + np.arange(12.0), START_S + lasts_s  # the last cell is cut short
    rates[3] = np.nan
    stored = JobMemory(minutes=Tail(START_S, cell_s, rates, end_s))
    store.learned.learn("orders", end_s, changed("orders", stored, {}))
    found = recall(store, "orders")
    assert found.notes == ()
    assert found.memory.minutes is not None
    assert (found.memory.minutes.cell_s, found.memory.minutes.end_s) == (60.0, end_s)
    minutes = after(found.memory, np.array([200.0]), cell_s, end_s).minutes
    assert minutes is not None
    before = np.repeat(rates, round(cell_s / 60.0))[: round(lasts_s / 60.0)]
    assert minutes.per_s == pytest.approx(np.append(before, np.full(round(cell_s / 60.0), 200.0)), nan_ok=True)


@pytest.mark.parametrize(("tick_s", "judged"), [(15.0, 60), (20.0, 60), (60.0, 60), (300.0, 12)])
def test_at_most_one_forecast_a_minute_is_judged(tick_s, judged):
    memory, asked = after(JobMemory(), np.full(120, 100.0), 15.0), 0
    for number in range(round(3_600 / tick_s)):
        made = Forecast(START_S + 1_800.0 + number * tick_s, 10.0, np.full(90, 100.0))
        before, memory = memory, foreseen(memory, Beliefs(None, None, foreseen=made), tick_s)
        asked += len(memory.trust.made) - len(before.trust.made)
    assert asked == judged

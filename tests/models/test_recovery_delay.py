"""By how much a stop delays those who wait."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdix.models.forecasting.contract import Forecast
from perdix.models.recovery.prediction import mean_delay_s, waiting_record_s


def simulated_s(load_per_s: float, capacity_per_s: float, downtime_s: int, over_s: int) -> float:
    """Return the mean delay of a queue, counted second by second (Little: what waits, divided by what arrives)."""
    backlog, waited = 0.0, 0.0
    for second in range(over_s):
        done = 0.0 if second < downtime_s else capacity_per_s
        before, backlog = backlog, max(0.0, backlog + load_per_s - done)
        waited += (before + backlog) / 2
    return waited / (load_per_s * over_s)


@pytest.mark.parametrize(("load", "downtime_s"), [(500.0, 30), (800.0, 15), (650.0, 60)])
def test_it_is_what_a_queue_does(load: float, downtime_s: int) -> None:
    recovery_s = downtime_s * 1_000.0 / (1_000.0 - load)
    found = mean_delay_s(downtime_s, recovery_s, over_s=600)
    assert found == pytest.approx(simulated_s(load, 1_000.0, downtime_s, 600), rel=0.02)


@given(st.floats(0, 1e4), st.floats(0, 1e4), st.floats(1, 1e4))
def test_it_grows_with_both_times_and_is_shared(downtime_s: float, recovery_s: float, over_s: float) -> None:
    delay_s = mean_delay_s(downtime_s, recovery_s, over_s=over_s)
    assert delay_s <= mean_delay_s(downtime_s + 1, recovery_s + 1, over_s=over_s)
    assert np.isclose(mean_delay_s(downtime_s, recovery_s, over_s=2 * over_s), delay_s / 2)


def test_who_never_recovers_is_delayed_without_end() -> None:
    assert mean_delay_s(30.0, math.inf, over_s=600.0) == math.inf
    assert mean_delay_s(0.0, math.inf, over_s=600.0) == 0.0


@pytest.mark.parametrize(
    "times", [(-1.0, 5.0, 600.0), (math.nan, 5.0, 600.0), (math.inf, 5.0, 600.0), (1.0, -1.0, 600.0)]
)
def test_what_is_no_time_is_refused(times: tuple[float, float, float]) -> None:
    downtime_s, recovery_s, over_s = times
    with pytest.raises(ValueError, match="must not be negative or NaN"):
        mean_delay_s(downtime_s, recovery_s, over_s=over_s)


@pytest.mark.parametrize("over_s", [0.0, -1.0, math.nan, math.inf])
def test_it_must_be_shared_by_some_time(over_s: float) -> None:
    with pytest.raises(ValueError, match="time above 0"):
        mean_delay_s(1.0, 2.0, over_s=over_s)


class TestWhatWaits:
    def flat(self, rate: float, steps: int = 900) -> Forecast:
        return Forecast(origin_s=0.0, step_s=1.0, mean=np.full(steps, rate))

    def test_a_stop_makes_a_triangle(self) -> None:
        """30 s at 800/s, and 10 s done again, wait and are worked off at 200/s: within 160 s of the restart."""
        found = waiting_record_s(self.flat(800.0), 1_000.0, 30.0, 8_000.0, over_s=1_800.0)
        assert found == pytest.approx(30 * (8_000 + 32_000) / 2 + 160 * 32_000 / 2, rel=0.01)

    def test_it_goes_on_beyond_the_forecast_as_that_ends(self) -> None:
        short, long = self.flat(1_100.0, 60), self.flat(1_100.0, 1_800)
        found = [waiting_record_s(delay, 1_000.0, 0.0, 0.0, over_s=1_800.0) for delay in (short, long)]
        assert found[0] == found[1] == pytest.approx(100.0 * 1_800.0**2 / 2, rel=0.001)

    @given(
        st.lists(st.floats(0, 2_000), min_size=1, max_size=40),
        st.floats(1, 2_000),
        st.floats(0, 100),
        st.floats(0, 1e5),
    )
    def test_it_is_the_queue_step_by_step(
        self, rates: list[float], capacity: float, downtime_s: float, backlog: float
    ) -> None:
        step_s, waits, total = 5.0, backlog, 0.0
        for step in range(60):
            rate = rates[min(step, len(rates) - 1)]
            works_s = min(max((step + 1) * step_s - downtime_s, 0.0), step_s)
            waits = max(0.0, waits + rate * step_s - capacity * works_s)
            total += waits * step_s
        forecast = Forecast(origin_s=0.0, step_s=step_s, mean=np.array(rates))
        found = waiting_record_s(forecast, capacity, downtime_s, backlog, over_s=300.0)
        assert found == pytest.approx(total, rel=1e-6, abs=1e-3)

    def test_a_forecast_of_nothing_is_refused(self) -> None:
        with pytest.raises(ValueError, match="no steps"):
            waiting_record_s(self.flat(1.0, 0), 1.0, 0.0, 0.0, over_s=60.0)

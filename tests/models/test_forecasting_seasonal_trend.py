"""What repeats is put back at its time, and the rest goes on from where it is."""

from __future__ import annotations

import json

import numpy as np
import pytest

from perdix.models.forecasting.contract import Workload
from perdix.models.forecasting.seasonal_trend import SeasonalTrend
from perdix.models.forecasting.tail import Tail

HOUR_S = 3600.0
HALF_DAY_S = 12 * HOUR_S
EDGES_S = HOUR_S * np.arange(13.0)
BEGIN_S = 1_700_000_000.0 // 3600 * 3600


def workload(days: int, level: float = 0.0) -> Workload:
    hours = np.arange(24 * days)
    weekly = np.where(hours // 24 % 7 >= 5, 0.6, 1.0)
    rates = 1000.0 + level + 400.0 * np.sin(2.0 * np.pi * hours / 24.0) * weekly
    return Workload(BEGIN_S, HOUR_S, rates + np.random.default_rng(0).normal(0.0, 5.0, len(hours)))


def forecast_of(member: SeasonalTrend, history: Workload) -> np.ndarray:
    return member.project(Tail.of(history, member.cell_s, member.keep_s), EDGES_S)


@pytest.mark.parametrize("origin", [24 * 8 - 5, 24 * 18 - 5])
def test_it_beats_last_value_by_far(origin):
    whole = workload(20)
    member = SeasonalTrend.fit(whole.part(0, origin), horizon_s=HALF_DAY_S)
    truth = whole.per_s[origin : origin + 12]
    error = np.abs(forecast_of(member, whole.part(0, origin)) - truth).mean()
    assert error < 0.3 * np.abs(whole.per_s[origin - 1] - truth).mean()


def test_two_weeks_of_history_teach_a_week_and_less_a_day():
    lengths = [len(SeasonalTrend.fit(workload(days), horizon_s=HALF_DAY_S).season) for days in (13, 14)]
    assert lengths == [24, 7 * 24]


def test_what_repeats_stays_at_its_time_while_the_tail_moves_on():
    whole = workload(20)
    member = SeasonalTrend.fit(whole.part(0, 24 * 16), horizon_s=HALF_DAY_S)
    later = 24 * 18 + 7
    truth = whole.per_s[later : later + 12]
    assert np.abs(forecast_of(member, whole.part(0, later)) - truth).mean() < 60.0


def test_the_rest_goes_on_at_its_new_level():
    member = SeasonalTrend.fit(workload(16), horizon_s=HALF_DAY_S)
    lifted = workload(16, level=500.0)
    assert np.mean(forecast_of(member, lifted) - forecast_of(member, workload(16))) == pytest.approx(500.0, rel=0.02)


def test_minutes_are_served_by_hours_that_repeat():
    minutes = np.arange(3 * 1440)
    rates = 500.0 + 300.0 * np.sin(2.0 * np.pi * minutes / 1440.0)
    history = Workload(BEGIN_S, 60.0, rates + np.random.default_rng(1).normal(0.0, 3.0, len(rates)))
    member = SeasonalTrend.fit(history)
    assert member.bin_s == HOUR_S
    ahead = member.project(Tail.of(history, member.cell_s, member.keep_s), np.arange(901.0))
    assert np.abs(ahead - 500.0).mean() < 30.0


@pytest.mark.parametrize(
    ("step_s", "horizon_s", "bin_s"),
    [(60.0, 7_200.0, HOUR_S), (10.0, 1_000.0, HOUR_S), (60.0, 70_000.0, 4_800.0), (60.0, 900.0, HOUR_S)],
)
def test_what_repeats_is_a_day_whatever_the_horizon(step_s, horizon_s, bin_s):
    """With bins of 64 minutes a "day" was half an hour too short, and what repeats moved by that with each day."""
    times_s = step_s * (np.arange(6 * 86_400 // step_s) + 0.5)
    rates = 500.0 + 300.0 * np.sin(2.0 * np.pi * times_s / 86_400.0)
    whole = Workload(BEGIN_S, step_s, rates + np.random.default_rng(1).normal(0.0, 3.0, len(rates)))
    history = whole.part(0, round(3 * 86_400 / step_s))
    member = SeasonalTrend.fit(history, horizon_s=horizon_s)
    assert member.bin_s == pytest.approx(bin_s)
    assert member.bin_s * len(member.season) == pytest.approx(86_400.0)
    origin = round(5.2 * 86_400 / step_s)
    ahead = np.linspace(0.0, min(horizon_s, 7_200.0), 16)
    found = member.project(Tail.of(whole.part(0, origin), member.cell_s, member.keep_s), ahead)
    truth = 500.0 + 300.0 * np.sin(2.0 * np.pi * (origin * step_s + 0.5 * (ahead[1:] + ahead[:-1])) / 86_400.0)
    assert np.abs(found - truth).max() < 25.0


def test_a_state_of_numbers_brings_it_back():
    history = workload(15)
    member = SeasonalTrend.fit(history, horizon_s=HALF_DAY_S)
    state = json.loads(json.dumps(member.to_state()))
    again = SeasonalTrend.with_parameters(state["cell_s"], state["keep_s"], state["parameters"])
    assert np.allclose(forecast_of(again, history), forecast_of(member, history), rtol=1e-5)
    with pytest.raises(ValueError, match="no row of numbers"):
        SeasonalTrend.with_parameters(3600.0, 7200.0, {**state["parameters"], "season": []})


@pytest.mark.parametrize(
    ("per_s", "words"),
    [
        (np.full(24 * 5, 7.0), "does not vary"),
        (workload(1).per_s, "needs 48 h of workload"),
        (np.full(24 * 5, np.nan), "none with a value"),
    ],
)
def test_what_cannot_be_fitted_is_refused_in_words(per_s, words):
    with pytest.raises(ValueError, match=words):
        SeasonalTrend.fit(Workload(BEGIN_S, HOUR_S, per_s), horizon_s=HALF_DAY_S)

"""Changes that were forecast are acted on as far as such changes came true."""

import json

import numpy as np
import pytest

from perdix.models.forecasting.contract import Forecast, Workload
from perdix.models.forecasting.tail import Tail
from perdix.models.forecasting.trust import HOUR, Trust


def forecast(origin_s, change_per_s, level=100.0):
    """A line from the present load, 900 s ahead."""
    mean = np.maximum(level + change_per_s * np.arange(1.0, 901.0) / 900.0, 0.0)
    return Forecast(origin_s, 1.0, mean, {0.5: mean, 0.9: 1.2 * mean}, maxima={0.9: np.maximum.accumulate(1.2 * mean)})


def lived(change_per_s, came_per_s, hours=3):
    """Trust after hours in which each forecast said one change, and another came."""
    trust, minutes = Trust(), 60 * hours
    load = np.full(minutes, 100.0)
    for minute in range(minutes - 20):
        if minute % 20 == 0:
            load[minute : minute + 20] = 100.0
            load[minute + 4 : minute + 16] = 100.0 + came_per_s
            trust = trust.issued(forecast(60.0 * minute, change_per_s), 100.0)
    return trust.settled(Tail.of(Workload(0.0, 60.0, load), 60.0))


def test_a_forecaster_is_believed_before_anything_came_true():
    assert Trust().share == 1.0


def test_who_foresees_well_is_believed_in_full():
    assert lived(50.0, 50.0).share == 1.0


def test_who_foresees_what_never_comes_is_not_followed():
    assert lived(300.0, 0.0).share < 0.05
    assert lived(300.0, -50.0).share == 0.0


def test_what_is_not_believed_is_drawn_to_the_present_load():
    believed, doubted = Trust(), lived(300.0, 0.0)
    made, minutes = forecast(0.0, 80.0), np.full(60, 100.0)
    assert believed.tempered(made, 100.0, minutes) is made
    flat = doubted.tempered(made, 100.0, minutes)
    assert flat.maximum_per_s() < 110.0
    assert np.all(flat.quantiles[0.9] >= flat.quantiles[0.5])
    assert np.all(np.diff(flat.maxima[0.9]) >= 0.0)
    assert flat.maximum_per_s(quantile=0.9) >= flat.maximum_per_s()


def test_no_height_without_precedent_is_acted_on():
    """A line through the last minute of a burst once foresaw eight times the load, and 23 workers where 3 sufficed."""
    made = forecast(0.0, 900.0)
    assert Trust().tempered(made, 100.0, np.full(60, 100.0)).maximum_per_s() == pytest.approx(200.0)
    seen = np.full(60, 100.0)
    seen[5] = 500.0
    assert Trust().tempered(made, 100.0, seen).maximum_per_s() == pytest.approx(750.0)


@pytest.mark.parametrize("level", [0.0, 1e300])
def test_an_odd_present_load_leaves_a_forecast_usable(level):
    made = Trust().tempered(forecast(0.0, 80.0), level, np.array([np.nan, 100.0]))
    assert np.isfinite(made.mean).all()


def test_state_survives_json_exactly():
    trust = lived(30.0, 10.0).issued(forecast(9e4, 5.0), 100.0)
    assert Trust.from_state(json.loads(json.dumps(trust.to_state()))) == trust


def test_what_waits_for_its_truth_does_not_grow():
    trust, load = Trust(), Workload(0.0, 60.0, np.full(600, 100.0))
    for minute in range(300):
        trust = trust.issued(forecast(60.0 * minute, 5.0), 100.0)
        trust = trust.settled(Tail.of(load.part(0, minute + 1), 60.0))
    assert len(trust.made) <= 16


@pytest.mark.parametrize(("tick_s", "apart_s"), [(15.0, 60.0), (45.0, 90.0), (60.0, 60.0), (300.0, 300.0)])
def test_a_forecast_counts_half_after_two_hours_whatever_the_tick_interval(tick_s, apart_s):
    """At ticks of 15 s it did after half an hour, at ticks of five minutes after ten hours."""
    right = Trust().ticking(tick_s)
    load = np.full(60, 100.0)
    right = right.issued(forecast(0.0, 50.0), 100.0).settled(Tail.of(Workload(0.0, 60.0, load), 60.0))
    later, load = right, np.full(300, 100.0)
    for number in range(1, round(7_200 / apart_s) + 1):
        later = later.issued(forecast(apart_s * number, 0.0), 100.0)
    later = Trust.from_state(json.loads(json.dumps(later.to_state())))
    later = later.settled(Tail.of(Workload(0.0, 60.0, load), 60.0))
    assert later.said == pytest.approx(0.5 * right.said)
    assert ("apart_s" in later.to_state()) is (apart_s != 60.0)


# -- an hour ahead -----------------------------------------------------------------------------------------------------


def lived_hours(hours, foresees, came=lambda minute: 100.0 + 50.0 * np.sin(2 * np.pi * minute / 120.0)):
    """Trust for the hour after hours of a load, of which ``foresees(minute, ahead)`` said each change."""
    trust, load = Trust(of=HOUR), came(np.arange(60.0 * hours))
    for minute in range(60 * hours):
        ahead = 5.0 * np.arange(12) + 2.5
        made = Forecast(60.0 * minute, 300.0, load[minute] + foresees(minute, ahead))
        if trust.due(made.origin_s):
            trust = trust.issued(made, load[minute])
        trust = trust.settled(Tail.of(Workload(0.0, 60.0, load[: minute + 1]), 60.0))
    return trust


def knows(minute, ahead):
    return 50.0 * (np.sin(2 * np.pi * (minute + ahead) / 120.0) - np.sin(2 * np.pi * minute / 120.0))


def test_nobody_is_believed_for_an_hour_before_an_hour_of_it_came_true():
    assert lived_hours(1, knows).share == 0.0
    assert lived_hours(2, knows).share == pytest.approx(1.0)


def test_who_says_that_all_stays_is_not_believed_for_an_hour():
    assert lived_hours(6, lambda minute, ahead: 0.0 * ahead).share == 0.0


def test_who_says_the_contrary_is_not_believed_for_an_hour():
    assert lived_hours(6, lambda minute, ahead: -knows(minute, ahead)).share == 0.0


def test_one_forecast_in_five_minutes_is_judged():
    trust = lived_hours(3, knows)
    assert len(trust.made) <= 12
    assert 20 <= trust.judged <= 30
    assert Trust.from_state(json.loads(json.dumps(trust.to_state())), HOUR) == trust


@pytest.mark.parametrize("origin_s", [-86_400.0, 1e300])
def test_a_clock_that_steps_does_not_end_it(origin_s):
    trust = lived_hours(3, knows)
    assert trust.due(origin_s)
    moved = trust.issued(Forecast(origin_s, 300.0, np.full(12, 120.0)), 100.0)
    load = Workload(0.0, 60.0, np.full(60 * 9, 100.0))
    assert len(moved.settled(Tail.of(load, 60.0)).made) <= 1

"""Known events in a forecast: the steps that they cover, how far they are believed, and what they taught."""

import time
from datetime import UTC, datetime

import numpy as np
import pytest

from perdix.models.forecasting.contract import Forecast, Workload
from perdix.models.forecasting.known_events import KnownEvents, Reckoned
from perdix.models.forecasting.tail import Tail
from perdix.settings.known_events import Calendar, KnownEvent

NOW_S = 1_760_000_000.0
USUAL = 1_000.0


def forecast(origin_s: float = NOW_S, per_s: float = USUAL, step_s: float = 10.0) -> Forecast:
    mean = np.full(round(900 / step_s), per_s)
    quantiles = {0.5: mean, 0.8: 1.1 * mean, 0.9: 1.2 * mean, 0.95: 1.3 * mean}
    return Forecast(origin_s, step_s, mean, quantiles, "line", 1, maxima={0.9: 1.25 * mean})


def calendar(**events: tuple[float | list[float], float, float]) -> Calendar:
    """Events by name: when (seconds from now), how long, and how much."""
    made = {}
    for name, (after_s, lasts, factor) in events.items():
        afters = after_s if isinstance(after_s, list) else [after_s]
        at = tuple(datetime.fromtimestamp(NOW_S + after, UTC) for after in afters)
        made[name.replace("_", "-")] = KnownEvent(at=at, lasts=lasts, factor=factor)
    return Calendar(made)


def reckon(known: KnownEvents, made: Forecast, events: Calendar) -> Reckoned:
    return known.reckoned(made, events)


def seen(per_s: float, from_s: float, seconds: float) -> Tail:
    return Tail.of(Workload(from_s, 10.0, np.full(round(seconds / 10), per_s)), 10.0)


def lived(known: KnownEvents, events: Calendar, times: float, start_s: float, usual: float = USUAL) -> KnownEvents:
    """What is known after an event of ten minutes was awaited, and ``times`` the usual load came."""
    known = reckon(known, forecast(start_s - 40, usual), events).known
    return known.settled(seen(times * usual, start_s, 900))


def test_the_steps_that_an_event_covers_are_forecast_as_many_times_as_high_as_it_says() -> None:
    found = reckon(KnownEvents(), forecast(), calendar(sale=(300, 300, 3.0)))
    covered = (np.arange(90) >= 30) & (np.arange(90) < 60)
    np.testing.assert_allclose(found.forecast.mean, np.where(covered, 3_000.0, 1_000.0))
    np.testing.assert_allclose(found.forecast.quantiles[0.9], np.where(covered, 3_600.0, 1_200.0))
    np.testing.assert_allclose(found.forecast.maxima[0.9], np.where(np.arange(90) < 30, 1_250.0, 3_750.0))
    assert [(event.name, event.share, event.changes) for event in found.expected] == [("sale", 1.0, True)]


def test_a_step_that_is_covered_in_part_changes_by_that_part() -> None:
    found = reckon(KnownEvents(), forecast(step_s=60.0), calendar(sale=(330, 60, 3.0)))
    np.testing.assert_allclose(found.forecast.mean[4:8], [1_000.0, 2_000.0, 2_000.0, 1_000.0])


def test_less_load_may_be_known_of_too() -> None:
    found = reckon(KnownEvents(), forecast(), calendar(closed=(300, 300, 0.25)))
    assert (found.forecast.mean.min(), found.forecast.mean.max()) == (250.0, 1_000.0)
    assert found.forecast.quantiles[0.95].min() == pytest.approx(325.0)
    assert (np.diff(found.forecast.maxima[0.9]) >= 0).all()


def test_where_events_overlap_the_greatest_counts() -> None:
    events = calendar(a=(300, 300, 2.0), b=(400, 300, 3.0), less=(300, 600, 0.5))
    found = reckon(KnownEvents(), forecast(), events)
    assert found.forecast.mean.max() == 3_000.0
    np.testing.assert_allclose(found.forecast.mean[[30, 39, 40, 69, 70, 89]], [2e3, 2e3, 3e3, 3e3, 500.0, 500.0])


@pytest.mark.parametrize("events", [calendar(), calendar(gone=(-3_600, 7_200, 3.0)), calendar(later=(901, 60, 3.0))])
def test_a_forecast_that_no_event_concerns_is_the_same_one(events: Calendar) -> None:
    made = forecast()
    assert reckon(KnownEvents(), made, events).forecast is made


@pytest.mark.parametrize("per_s", [0.0, 1e15])
def test_extreme_loads_stay_finite(per_s: float) -> None:
    found = reckon(KnownEvents(), forecast(per_s=per_s), calendar(sale=(300, 300, 1_000.0))).forecast
    assert np.isfinite(found.mean).all()
    assert np.isfinite(found.maxima[0.9]).all()
    assert found.mean.max() == 1_000.0 * per_s


def test_until_it_is_known_whether_it_came_an_event_that_began_still_counts() -> None:
    events = calendar(sale=(40, 1_800, 3.0))
    known = reckon(KnownEvents(), forecast(), events).known
    begun = reckon(known, forecast(NOW_S + 60), events)
    assert begun.forecast.mean.max() == 3_000.0, "the forecaster has not seen it yet"
    high = forecast(NOW_S + 60, 3_500.0)
    assert reckon(known, high, events).forecast is high, "the forecaster sees it itself"
    over = known.settled(seen(USUAL, NOW_S, 1_000))
    late = forecast(NOW_S + 1_000)
    assert reckon(over, late, events).forecast is late, "it did not come"


def test_an_event_that_begins_where_nothing_is_forecast_is_planned_for_too() -> None:
    """A load that pauses as its event begins: the mean was raised, and the quantiles that are planned by stayed 0."""
    events = calendar(sale=(30, 600, 3.0))
    known = reckon(KnownEvents(), forecast(), events).known
    found = reckon(known, forecast(NOW_S + 60, 0.0), events).forecast
    assert found.mean[:50].min() == 3_000.0
    assert min(found.quantiles[0.9][:50].min(), found.maxima[0.9].min()) == 3_000.0


def test_an_event_that_began_before_anything_was_known_of_it_changes_nothing() -> None:
    made = forecast()
    assert reckon(KnownEvents(), made, calendar(sale=(-60, 1_800, 3.0))).forecast is made


def test_an_event_that_never_comes_is_believed_less_each_time_and_at_last_not_at_all() -> None:
    events = calendar(rumour=([3_600.0 * k for k in range(1, 9)], 600, 3.0))
    known, shares = KnownEvents(), []
    for k in range(1, 9):
        known = lived(known, events, 1.0, NOW_S + 3_600 * k)
        shares.append(known.share("rumour"))
    assert shares[0] == pytest.approx(0.5)
    assert shares == sorted(shares, reverse=True)
    assert shares[5] < 0.1
    again = calendar(rumour=(300, 600, 3.0))
    found = reckon(known, forecast(), again)
    assert found.forecast.mean.max() == USUAL
    assert [(event.name, event.changes) for event in found.expected] == [("rumour", False)]


def test_an_event_that_comes_stays_believed_and_one_that_comes_again_is_believed_again() -> None:
    events = calendar(sale=([3_600.0 * k for k in range(1, 20)], 600, 3.0))
    known = KnownEvents()
    for k in range(1, 4):
        known = lived(known, events, 3.0, NOW_S + 3_600 * k)
    assert known.share("sale") == pytest.approx(1.0)
    for k in range(4, 10):
        known = lived(known, events, 1.0, NOW_S + 3_600 * k)
    assert known.share("sale") < 0.15
    for k in range(10, 14):
        known = lived(known, events, 5.0, NOW_S + 3_600 * k)
    assert 0.7 < known.share("sale") <= 1.0


def test_half_of_the_change_is_half_of_the_share() -> None:
    known = KnownEvents()
    events = calendar(sale=([3_600.0 * k for k in range(1, 20)], 600, 3.0))
    for k in range(1, 20):
        known = lived(known, events, 2.0, NOW_S + 3_600 * k)
    assert known.share("sale") == pytest.approx(0.5, abs=0.01)
    less = calendar(closed=(3_600, 600, 0.5))
    assert lived(KnownEvents(), less, 0.5, NOW_S + 3_600).share("closed") == pytest.approx(1.0)


def test_nothing_is_learned_where_nothing_can_be_told() -> None:
    one = calendar(sale=(40, 600, 3.0))
    known = reckon(KnownEvents(), forecast(), one).known
    unseen = known.settled(Tail.of(Workload(NOW_S, 10.0, np.array([1.0] + [np.nan] * 99)), 10.0))
    assert unseen.share("sale") == 1.0
    assert not unseen.awaited
    idle = reckon(KnownEvents(), forecast(per_s=0.0), one).known.settled(seen(0.0, NOW_S, 900))
    assert idle.share("sale") == 1.0
    both = calendar(a=(40, 600, 3.0), b=(100, 300, 4.0))
    mixed = reckon(KnownEvents(), forecast(), both).known.settled(seen(USUAL, NOW_S, 900))
    assert (mixed.share("a"), mixed.share("b")) == (1.0, 1.0), "which of them it was cannot be told"


def test_an_event_that_was_taken_out_of_the_calendar_is_forgotten() -> None:
    known = reckon(KnownEvents(), forecast(), calendar(sale=(300, 300, 3.0))).known
    assert known.awaited
    known = reckon(known, forecast(), calendar(other=(500, 300, 3.0))).known
    assert [event.name for event in known.awaited] == ["other"]


def test_what_is_known_is_kept_as_json() -> None:
    known = lived(KnownEvents(), calendar(sale=([3_600, 7_200], 600, 3.0)), 1.0, NOW_S + 3_600)
    known = reckon(known, forecast(NOW_S + 7_000), calendar(sale=(7_200, 600, 3.0))).known
    assert KnownEvents.from_state(known.to_state()) == known
    nothing = {"shares": {}, "awaited": []}
    for broken in ({}, {**nothing, "shares": {"sale": [float("nan"), 1]}}, {**nothing, "awaited": [["sale", 1]]}):
        with pytest.raises((ValueError, LookupError)):
            KnownEvents.from_state(broken)


def test_ten_thousand_events_at_once_cost_little_and_leave_little_behind() -> None:
    events = {
        f"event-{k}": KnownEvent(
            at=(datetime.fromtimestamp(NOW_S + 300 + k / 100, UTC),), lasts=300.0 + k % 7, factor=2.0 + k / 10_000
        )
        for k in range(10_000)
    }
    began_s = time.process_time()
    found = reckon(KnownEvents(), forecast(), Calendar(events))
    assert time.process_time() - began_s < 5.0
    assert found.forecast.mean.max() == pytest.approx(3_000.0, rel=0.01)
    assert len(found.known.awaited) <= 64

"""Drift on the whole horizon: what may be expected differs from load to load, and no noisy load asks for ever."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdix.models.drift import DriftState
from perdix.models.forecasting.auto_arima import AutoArima
from perdix.models.forecasting.contract import Workload
from perdix.models.forecasting.damped_trend import DampedTrend, Linear
from perdix.models.forecasting.families import FAMILIES
from perdix.models.forecasting.forecaster import Forecaster
from perdix.models.forecasting.member import Member
from perdix.models.forecasting.seasonal_naive import LastValue
from perdix.models.forecasting.track_record import TrackRecord
from perdix.models.horizon_drift import (
    CEILING,
    GOOD,
    LEAST_FORECASTS,
    LEAST_ORIGINS,
    POOR_FORECASTS,
    TOLERANCE,
    WORSE,
    HorizonDrift,
    usual_share,
)
from perdix.models.realised import Missed
from perdix.settings.stored import restored
from perdix.telemetry.window import Values

TRACES = Path(__file__).parents[2] / "../shared/data/workloads"
STEP_S, MINUTE, LEADS = 10.0, 6, 15
DAY_MINUTES = 1_440
SIMPLE = {family.family: family for family in (LastValue, Linear, DampedTrend)}
SUMS = st.tuples(st.floats(0.0, 1e6), st.floats(0.0, 1e6), st.floats(0.0, 1e6))


def missed(minute: int, share: float, wape: float = 0.3) -> Missed:
    return Missed(60.0 * minute, wape * 1_000.0, wape * 1_000.0 / share, 1_000.0)


def after(state: HorizonDrift, share: float, count: int, first: int = 0, wape: float = 0.3) -> HorizonDrift:
    for minute in range(first, first + count):
        state = state.observe(missed(minute, share, wape))
    return state


class TestWhatMayBeExpected:
    def test_a_champion_is_held_against_its_own_backtest(self) -> None:
        known = HorizonDrift(expected=0.4)
        assert known.allowed == pytest.approx(TOLERANCE * 0.4)
        assert after(known, 0.59, 60).poor == 0
        assert after(known, 0.61, 60).due

    def test_no_champion_may_be_much_worse_than_last_value(self) -> None:
        for expected in (None, 1.0, 3.0):
            assert after(HorizonDrift(expected), CEILING - 0.01, 60).poor == 0
            assert after(HorizonDrift(expected), CEILING + 0.01, 60).due

    def test_a_small_error_is_good_whatever_last_value_does(self) -> None:
        assert after(HorizonDrift(0.1), 5.0, 60, wape=GOOD - 0.01).poor == 0

    def test_it_takes_a_quarter_of_an_hour_and_ten_poor_forecasts(self) -> None:
        states = [HorizonDrift(0.1)]
        for minute in range(60):
            states.append(states[-1].observe(missed(minute, 1.0)))
        assert next(k for k, state in enumerate(states) if state.due) == LEAST_FORECASTS + POOR_FORECASTS - 1

    def test_one_bad_quarter_of_an_hour_between_good_ones_is_smoothed_away(self) -> None:
        state = after(HorizonDrift(1.0), 0.8, 60)
        assert not after(state, 1.4, 5, first=60).poor
        assert after(state, 3.0, 15, first=60).poor

    def test_an_idle_night_in_which_nothing_was_forecast_is_no_drift(self) -> None:
        """The sums of what was before fade alike, so that the last share before it stayed for the whole night."""
        evening = after(HorizonDrift(0.5), 1.0, 20)
        assert 0 < evening.poor < POOR_FORECASTS
        night = [evening]
        for minute in range(20, 620):
            night.append(night[-1].observe(Missed(60.0 * minute, 0.0, 0.0, 0.0, 900.0)))
        assert not any(state.poor for state in night[1:])
        assert night[-1].poor_since_s is None
        wrong = night[-1]
        for minute in range(620, 620 + POOR_FORECASTS):
            wrong = wrong.observe(Missed(60.0 * minute, 1_000.0, 0.0, 0.0, 900.0))
        assert wrong.due

    def test_what_was_seen_twice_counts_once(self) -> None:
        state = after(HorizonDrift(), 1.0, 30)
        assert state.observe(missed(29, 9.0)) == state


class TestPatience:
    def test_what_was_reported_is_not_reported_again_for_a_day(self) -> None:
        state = after(HorizonDrift(0.5), 1.0, 40).after_report()
        assert state.allowed == pytest.approx(WORSE * 1.0)
        assert not after(state, 1.5, DAY_MINUTES - 1, first=40).due
        assert after(state, 1.5, DAY_MINUTES + POOR_FORECASTS, first=40).due

    def test_ten_forecasts_within_two_minutes_are_two(self) -> None:
        state = HorizonDrift(0.1)
        for at_s in range(0, 600, 10):
            state = state.observe(Missed(float(at_s), 300.0, 300.0, 1_000.0))
        assert (state.forecasts, state.due) == (12, False)

    def test_but_what_has_become_twice_as_bad_is(self) -> None:
        state = after(HorizonDrift(0.5), 1.0, 40).after_report()
        assert after(state, 2.5, 60, first=40).due

    def test_a_new_champion_is_judged_by_its_own_backtest_and_from_its_own_forecasts(self) -> None:
        drifting = replace(DriftState(), horizon=after(HorizonDrift(0.5), 1.0, 40))
        assert drifting.promoted(0.7).horizon == HorizonDrift(0.7)


@given(st.lists(SUMS, max_size=80), st.lists(SUMS, max_size=40), st.one_of(st.none(), st.floats(0.0, 5.0)))
def test_a_restart_changes_nothing(before: list, then: list, expected: float | None) -> None:
    state = HorizonDrift(expected)
    for minute, sums in enumerate(before):
        state = state.observe(Missed(60.0 * minute, *sums))
    if state.due:
        state = state.after_report()
    kept = restored(HorizonDrift, json.loads(json.dumps(asdict(state), allow_nan=False)))
    assert kept == state
    for minute, sums in enumerate(then, start=len(before)):
        state, kept = (drift.observe(Missed(60.0 * minute, *sums)) for drift in (state, kept))
    assert kept == state


class TestTheBacktestsShare:
    def test_a_perfect_forecast_has_none_of_last_values_error(self) -> None:
        assert usual_share(record(np.arange(200.0), np.zeros((60, LEADS)))) == pytest.approx(0.0)

    def test_last_value_itself_has_all_of_it(self) -> None:
        minutes = np.cumsum(np.random.default_rng(1).standard_normal(200)) + 100.0
        by_origin = [minutes[k] - minutes[k + 1 : k + 1 + LEADS] for k in range(60)]
        assert usual_share(record(minutes, np.array(by_origin))) == pytest.approx(1.0, abs=1e-9)

    def test_the_future_of_an_origin_is_not_its_last_value(self) -> None:
        """What comes after an origin's horizon changes nothing of what that origin adds."""
        minutes = np.cumsum(np.random.default_rng(2).standard_normal(200)) + 100.0
        whole = record(minutes, np.ones((60, LEADS)))
        minutes[80:] = 1e6
        assert usual_share(record(minutes, np.ones((60, LEADS)))) == usual_share(whole)

    def test_a_few_origins_are_no_backtest(self) -> None:
        few = LEAST_ORIGINS  # the first has no minute before it
        assert usual_share(record(np.arange(200.0), np.zeros((few, LEADS)))) is None
        assert usual_share(TrackRecord.empty(1, LEADS, 60.0)) is None
        assert usual_share(record(np.full(200, np.nan), np.zeros((60, LEADS)))) is None


def record(minutes: Values, errors: Values) -> TrackRecord:
    """A record with an origin a minute from minute 1 on: what came, and how far off it was said to be."""
    origins = len(errors)
    actual = np.array([minutes[k + 1 : k + 1 + LEADS] for k in range(origins)])
    said = actual + errors
    return TrackRecord(60.0, 60.0 * np.arange(1.0, origins + 1.0), said[:, None], said, actual, actual)


# ---- simulated days ---------------------------------------------------------------------------------------------


def noise(minutes: int, deviation: float, correlated_s: float, seed: int = 3) -> Values:
    """Autoregressive noise, relative to 1."""
    rng, kept = np.random.default_rng(seed), np.exp(-STEP_S / correlated_s)
    steps, level = rng.standard_normal(minutes * MINUTE) * np.sqrt(1.0 - kept**2), 0.0
    values = np.empty(len(steps))
    for k, step in enumerate(steps):
        level = values[k] = kept * level + step
    return np.maximum(1.0 + deviation * values, 0.0)


def requests(champion: Forecaster, live: Values) -> list[int]:
    """Let a champion forecast ``live`` minute by minute; return the minutes at which a retrain is asked for."""
    return [minute for minute, _ in drifts(champion, live)]


def drifts(champion: Forecaster, live: Values) -> list[tuple[int, float | None]]:
    """As :func:`requests`, each with the minute since when forecasts have been poor."""
    state = DriftState.untried().promoted(usual_share(champion.record))
    minutes = live.reshape(-1, MINUTE).mean(axis=1)
    said: list[Values] = []
    asked = []
    for minute in range(len(minutes)):
        begin_s = champion.end_s
        champion = champion.update(Workload(begin_s, STEP_S, live[minute * MINUTE : (minute + 1) * MINUTE]))
        said.append(champion.record.combined[-1])
        origin = minute - LEADS
        error = abs(said[-2][0] - minutes[minute]) / minutes[minute] if minute else None
        horizon = []
        if origin >= 0:
            actual, last = minutes[origin + 1 : minute + 1], minutes[origin]
            by_forecast, by_last_value = np.abs(said[origin] - actual).sum(), np.abs(last - actual).sum()
            horizon = [Missed(60.0 * origin, float(by_forecast), float(by_last_value), float(actual.sum()), 900.0)]
        state = state.observe(error, horizon, origin_s=60.0 * minute)
        if state.retrain_due:
            asked.append((minute, None if state.began_s is None else state.began_s / 60.0))
    return asked


def trained(load: Values, families: Mapping[str, type[Member]] = SIMPLE) -> Forecaster:
    return Forecaster.fit(Workload(0.0, STEP_S, load), families)


def sine(minutes: int, period_s: float) -> Values:
    return 10_000.0 * (1.0 + 0.6 * np.sin(2 * np.pi * STEP_S * np.arange(minutes * MINUTE) / period_s))


@pytest.mark.parametrize(("deviation", "correlated_s"), [(0.2, 10.0), (0.3, 3_600.0)])
def test_a_stationary_noisy_load_asks_once_a_day_at_most(deviation: float, correlated_s: float) -> None:
    load = 10_000.0 * noise(4 * 60 + DAY_MINUTES, deviation, correlated_s)
    asked = requests(trained(load[: 4 * 60 * MINUTE]), load[4 * 60 * MINUTE :])
    assert len(asked) <= 1


@pytest.mark.parametrize("families", [SIMPLE, {"damped-trend": DampedTrend}], ids=["several", "one"])
def test_a_change_of_regime_asks_within_half_an_hour_and_once(families: dict[str, type[Member]]) -> None:
    load = np.concatenate([sine(13 * 60, 7_200.0), sine(6 * 60, 1_200.0)]) * noise(19 * 60, 0.02, 30.0)
    asked = drifts(trained(load[: 12 * 60 * MINUTE], families), load[12 * 60 * MINUTE :])
    assert [60 < minute <= 92 for minute, _ in asked] == [True]
    ((_, began),) = asked
    assert began is not None
    assert 50 <= began <= 75, "within a horizon of the change, as nobody can tell better by forecasts that span it"


@pytest.mark.shared
@pytest.mark.usefixtures("light_fits")
@pytest.mark.skipif(not TRACES.exists(), reason="the data pack is not beside the project")
def test_trained_on_a_sine_and_fed_traffic_it_asks_within_half_an_hour_and_once() -> None:
    """The first minute of the forecasts stays good to the end: by it alone, nobody would ever be asked."""
    sine_trace, traffic = (trace(name) for name in ("sine_60000_6h", "tm_6h_100K_max"))
    champion = Forecaster.fit(Workload(0.0, STEP_S, sine_trace[: 5 * 60 * MINUTE]), {"auto-arima": AutoArima})
    asked = requests(champion, np.concatenate([sine_trace[5 * 60 * MINUTE :], traffic]))
    assert 60 < asked[0] <= 92
    assert len(asked) <= 2, "once more when it has become twice as bad, and nothing was done"


def trace(name: str) -> Values:
    per_s = np.loadtxt(TRACES / f"{name}.csv", delimiter=",", skiprows=1)[:, 1]
    return per_s[: len(per_s) // 10 * 10].reshape(-1, 10).mean(axis=1)


def test_where_everything_became_noisier_nobody_is_asked_in_vain() -> None:
    """Last value became as much worse as the champion: no training helps."""
    load = 10_000.0 * np.concatenate([noise(12 * 60, 0.03, 300.0), noise(6 * 60, 0.15, 300.0, seed=4)])
    champion = Forecaster.fit(Workload(0.0, STEP_S, load[: 12 * 60 * MINUTE]), {"last-value": FAMILIES["last-value"]})
    assert requests(champion, load[12 * 60 * MINUTE :]) == []

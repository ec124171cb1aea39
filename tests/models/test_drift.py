from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdix.models.drift import CLOSED_TICKS, COOLDOWN_S, POOR_TICKS, DriftState
from perdix.models.realised import Missed
from perdix.settings.stored import restored

COOLDOWN_TICKS = int(COOLDOWN_S / 60.0)
ERRORS = st.one_of(
    st.none(), st.floats(0.0, 2.0), st.just(math.inf), st.just(math.nan), st.sampled_from([0.05, 0.1, 0.25, 0.5])
)


def after(errors, state: DriftState | None = None, first: int = 0) -> list[DriftState]:
    states = [state or DriftState()]
    for minute, error in enumerate(errors, start=first):
        states.append(states[-1].observe(error, origin_s=60.0 * minute))
    return states[1:]


def test_the_papers_thresholds():
    assert not after([0.2499])[-1].use_fallback
    assert after([0.25])[-1].use_fallback
    assert after([0.0999])[-1].poor_ticks == 0
    assert after([0.10])[-1].poor_ticks == 1


def test_fifteen_poor_ticks_in_a_row_request_once():
    states = after([0.15] * (POOR_TICKS + 20))
    assert [index for index, state in enumerate(states) if state.retrain_due] == [POOR_TICKS - 1]
    assert not any(state.use_fallback for state in states)
    assert not any(state.retrain_due for state in after(([0.15] * (POOR_TICKS - 1) + [0.05]) * 20))


def test_a_request_says_since_when_the_first_minute_was_poor():
    state = DriftState()
    for tick, error in enumerate([0.2, 0.05] + [0.9] * POOR_TICKS):
        state = state.observe(error, origin_s=60.0 * tick)
    assert state.retrain_due
    assert state.began_s == 120.0, "the first forecast after the last good one"
    assert restored(DriftState, json.loads(json.dumps(state.to_state()))).began_s == 120.0


def horizons(wape: float, minutes: range) -> list[Missed]:
    """Forecasts as good as last value, which is all that the champion's backtest had promised."""
    return [Missed(60.0 * minute, 1_000.0 * wape, 1_000.0 * wape, 1_000.0, 900.0) for minute in minutes]


@pytest.mark.parametrize(("wape", "asked"), [(0.8, True), (0.2, False)])
def test_a_champion_that_learnt_the_drift_from_too_little_is_asked_for_again(wape: float, asked: bool):
    """Some forty minutes after a change a champion may be no better than last value, and an hour later well be."""
    drifting = after([0.5] * POOR_TICKS)[-1]
    assert drifting.retrain_due
    state, due = drifting.promoted(usual=1.0), []
    for minute in range(COOLDOWN_TICKS + 30):
        came_true = horizons(wape, range(minute, minute + 1))
        state = state.observe(0.05 if minute % 3 else 0.2, came_true, origin_s=60.0 * (POOR_TICKS + minute))
        due.append(state.retrain_due)
    assert sum(due) == asked, "once: only another champion would be a reason to ask again"
    if asked:
        assert due.index(True) == COOLDOWN_TICKS - 1
        assert state.began_s == drifting.began_s, "the same drift"


def test_a_drift_that_lasts_is_tried_again_ever_more_rarely():
    states = after([0.5] * 1000)
    due = [index for index, state in enumerate(states) if state.retrain_due]
    assert due[:3] == [POOR_TICKS - 1, POOR_TICKS - 1 + COOLDOWN_TICKS, POOR_TICKS - 1 + 5 * COOLDOWN_TICKS]
    assert [states[index].attempt for index in due[:3]] == [1, 2, 3]
    assert {states[index].drift for index in due} == {1}


@pytest.mark.parametrize("tick_s", [10, 15, 60, 300])
def test_a_day_is_a_day_at_every_tick(tick_s: int):
    state, due_s = DriftState(), []
    for at_s in range(0, 2 * 86_400, tick_s):
        state = state.observe(0.3, origin_s=float(at_s))
        if state.retrain_due:
            due_s.append(at_s)
    assert due_s[0] >= 10 * 60, "a quarter of an hour, where it is looked at often enough"
    waited_h = np.diff(due_s) / 3_600
    assert waited_h == pytest.approx([1.0, 4.0, 16.0, 24.0], abs=0.02)


def test_a_fallback_is_used_at_once_however_short_the_ticks():
    state = DriftState().observe(0.05, origin_s=0.0).observe(0.9, origin_s=10.0)
    assert state.use_fallback
    assert not state.observe(0.05, origin_s=20.0).use_fallback


def test_a_request_made_before_the_clock_was_set_back_is_waited_after_no_longer():
    state = after([0.5] * POOR_TICKS, first=10_000)[-1]
    assert state.retrain_due
    assert after([0.5], state, first=20)[-1].retrain_due


def test_after_it_was_good_again_the_next_drift_is_another():
    states = after([0.5] * 20 + [0.01] * CLOSED_TICKS + [0.5] * 20)
    assert [(state.drift, state.attempt) for state in states if state.retrain_due] == [(1, 1), (2, 1)]


def test_one_good_tick_does_not_reopen_the_flood():
    states = after(([0.5] * POOR_TICKS + [0.01]) * 20)
    assert sum(state.retrain_due for state in states) <= 3


def test_the_fallback_ends_at_once_when_good_and_after_three_when_usable():
    assert not after([0.9, 0.05])[-1].use_fallback
    assert [state.use_fallback for state in after([0.9, 0.2, 0.2, 0.2])] == [True, True, True, False]
    assert after([0.9, 0.2, 0.2, 0.3, 0.2, 0.2])[-1].use_fallback


def test_an_untried_model_must_show_itself_first():
    assert DriftState.untried().use_fallback
    assert not DriftState.untried().observe(0.04, origin_s=0.0).use_fallback
    assert DriftState.untried().observe(None, origin_s=0.0).use_fallback


def test_a_new_champion_starts_clean_but_not_the_cooldown():
    drifting = after([0.5] * 20)[-1]
    promoted = drifting.promoted()
    assert (promoted.poor_ticks, promoted.attempt) == (0, 1)
    states = after([0.5] * 30, promoted, first=20)
    assert not any(state.retrain_due for state in states)


def test_a_negative_error_is_refused():
    with pytest.raises(ValueError, match="negative"):
        DriftState().observe(-0.1, origin_s=0.0)


@given(st.lists(ERRORS, max_size=400))
def test_requests_are_never_a_storm(errors):
    states = after(errors)
    due = [index for index, state in enumerate(states) if state.retrain_due]
    gap = min(POOR_TICKS + CLOSED_TICKS, COOLDOWN_TICKS)
    assert all(later - earlier >= gap for earlier, later in itertools.pairwise(due))
    keys = [(states[index].drift, states[index].attempt) for index in due]
    assert len(set(keys)) == len(keys)
    for index in due:
        known = [error for error in errors[: index + 1] if error is not None and not math.isnan(error)]
        assert all(error >= 0.10 for error in known[-POOR_TICKS:])


@given(st.lists(ERRORS, max_size=200))
def test_the_fallback_follows_the_last_known_error(errors):
    for error, state in zip(errors, after(errors), strict=True):
        if error is not None and error >= 0.25:
            assert state.use_fallback
        if error is not None and error < 0.10:
            assert not state.use_fallback


@given(st.lists(ERRORS, max_size=100), st.lists(ERRORS, max_size=50))
def test_a_restart_changes_nothing(before, then):
    state = after(before)[-1] if before else DriftState()
    kept = restored(DriftState, json.loads(json.dumps(state.to_state())))
    assert after(then, kept, len(before)) == after(then, state, len(before))


def test_a_state_of_another_release_is_read():
    assert restored(DriftState, {"attempt": 2, "colour": "red"}) == DriftState(attempt=2)

"""Drift in the loop of a process that keeps nothing; for a whole deployment see tests/pipelines/test_drift_line.py."""

from __future__ import annotations

import numpy as np

from perdix.control.memories import Memories
from perdix.control.state.store import StateStore
from perdix.control.tick_io import TickReport
from tests.control.rig import LOW, START_S, Rig, champion

SIMPLE = ("last-value", "linear", "damped-trend")
BEFORE_S, CHANGE_S, ALL_S = 1_800, 5_400, 16_000
TRAINED_S = 12 * 3_600


def sine(seconds: np.ndarray, period_s: float) -> np.ndarray:
    return 2 * LOW * (1.0 + 0.6 * np.sin(2 * np.pi * seconds / period_s))


def arrivals() -> np.ndarray:
    seconds = np.arange(float(ALL_S))
    return np.where(seconds < CHANGE_S, sine(seconds, 7_200.0), sine(seconds - CHANGE_S, 1_200.0))


def drifting(store: StateStore) -> Rig:
    past = sine(np.arange(float(BEFORE_S - TRAINED_S), BEFORE_S), 7_200.0)
    rig = Rig.of(store, arrivals(), warm_s=BEFORE_S, champions=champion(past, START_S + BEFORE_S, family=SIMPLE))
    rig.memories = Memories()
    return rig


def asked_at(rig: Rig, reports: list[TickReport]) -> list[int]:
    """Minutes from the change of regime on."""
    first = (BEFORE_S - CHANGE_S) // 60 + 1
    return [first + number for number, report in enumerate(reports) if report.retrain is not None]


def test_a_process_that_restarts_at_every_tick_asks_no_more_often(store: StateStore) -> None:
    rig = drifting(store)
    rig.memories, rig.restarting = None, True
    reports = rig.minutes((CHANGE_S - BEFORE_S) // 60 + 45)
    assert [10 < minute <= 35 for minute in asked_at(rig, reports)] == [True]
    (request,) = store.journal.open_retrains()
    assert "over the whole horizon" in request.reason
    assert "times last value's error" in request.reason
    assert request.since_s is not None
    assert -450 <= request.since_s - (START_S + CHANGE_S) <= 900

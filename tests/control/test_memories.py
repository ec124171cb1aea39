"""What the loop remembers between ticks: the same as what is stored, but for the newest part of a long record."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from perdix.control.clock import moment
from perdix.control.job_memory import AVOIDED, CHAMPION, KINDS, STORED_EVERY_S, Adopted, JobMemory, recall
from perdix.control.lease import StaleLease, acquire
from perdix.control.memories import Memories
from perdix.control.state.store import StateStore
from perdix.control.tenure import Tenure
from perdix.control.tick import tick
from perdix.models.forecasting.errors import wape
from perdix.twin.living import SimulatedClock
from tests.control.rig import LOW, Rig, champion

WARM_S = 5_400


def wave(hours: float = 8.0, period_s: float = 3_000.0) -> np.ndarray:
    return 2 * LOW + LOW * np.sin(2 * np.pi * np.arange(round(3600 * hours)) / period_s)


@pytest.fixture
def rig(store: StateStore) -> Rig:
    made = Rig.of(store, wave(), warm_s=WARM_S)
    made.champions = champion(wave()[:WARM_S], made.now_s)
    made.memories = Memories()
    return made


def live(rig: Rig) -> JobMemory:
    assert rig.memories is not None
    return rig.memories.recall(rig.store, "orders").memory


def adopted(memory: JobMemory) -> Adopted:
    assert memory.champion is not None
    return memory.champion


def test_the_record_grows_a_minute_at_a_time(rig: Rig) -> None:
    rig.minutes(30)
    origins_s = adopted(live(rig)).forecaster.record.origins_s
    assert np.diff(origins_s[-29:]) == pytest.approx(60.0)
    assert origins_s[-1] == adopted(live(rig)).forecaster.end_s


def test_after_a_restart_at_most_twenty_minutes_of_the_record_are_missing(rig: Rig) -> None:
    rig.minutes(10 + int(STORED_EVERY_S / 60))
    for _ in range(int(STORED_EVERY_S / 60)):  # whatever minute the process ends in
        rig.minutes(1)
        stored = adopted(recall(rig.store, "orders").memory).forecaster
        kept = adopted(live(rig)).forecaster
        missing = sorted(set(kept.record.origins_s) - set(stored.record.origins_s))
        assert len(missing) <= STORED_EVERY_S / 60
        assert all(origin_s > kept.end_s - STORED_EVERY_S - 60.0 for origin_s in missing)
        assert stored.end_s == pytest.approx(kept.end_s)
        assert len(stored.record) > 0.7 * len(kept.record)


def test_a_restart_changes_next_to_nothing_of_what_is_forecast(rig: Rig) -> None:
    rig.minutes(45)
    going_on = adopted(live(rig)).forecaster.forecast()
    rig.memories = Memories()
    anew = adopted(live(rig)).forecaster.forecast()
    assert anew.origin_s == going_on.origin_s
    assert wape(going_on.mean, anew.mean) < 0.03


def test_with_and_without_a_memory_the_same_is_decided() -> None:
    decided = []
    for memories in (None, Memories()):
        rig = Rig.of(StateStore("sqlite://"), wave(), warm_s=WARM_S)
        rig.champions, rig.memories = champion(wave()[:WARM_S], rig.now_s), memories
        rig.restarting = memories is None
        decided.append([report.decision.scale_out for report in rig.minutes(40) if report.decision is not None])
    assert decided[0] == decided[1]


def test_a_memory_is_read_from_the_store_once(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.minutes(2)
    asked = []
    monkeypatch.setattr("perdix.control.memories.recall", lambda store, job: asked.append(job) or recall(store, job))
    rig.minutes(3)
    assert asked == []


def test_what_another_controller_wrote_counts(rig: Rig) -> None:
    rig.minutes(3)
    other = replace(rig, memories=Memories())
    other.minutes(2)  # the twin is the same: time passes for both
    rig.twin.step(60)
    rig.tick()
    seen = live(rig)
    assert seen.workload is not None
    assert np.isfinite(seen.workload.per_s).all(), "the minutes of the other controller are known"
    assert len(seen.pending) == len(rig.store.learned.pending_forecasts("orders"))


def test_what_an_operator_forgot_is_forgotten(rig: Rig) -> None:
    rig.minutes(3)
    assert rig.store.learned.forget("orders", CHAMPION) == 1
    assert live(rig).champion is None
    rig.minutes(1)
    assert adopted(live(rig)).version == 1, "it is adopted anew"


def test_a_tick_that_fails_leaves_no_memory_of_what_was_not_stored(rig: Rig) -> None:
    rig.minutes(3)
    newest_s = live(rig).newest_s
    rig.tick()
    clock = SimulatedClock(rig.now_s)
    lost = acquire(rig.store, "job:orders", "one", moment(clock), 1.0)
    assert lost is not None
    clock.advance(2.0)
    acquire(rig.store, "job:orders", "another", moment(clock), 55.0)
    rig.twin.step(60)
    with pytest.raises(StaleLease):
        tick(rig.job, rig.io, rig.now_s, Tenure(rig.store, lost, clock))
    assert live(rig).newest_s == pytest.approx(newest_s)


def test_stamps_are_of_the_kinds_that_are_asked_for(store: StateStore) -> None:
    store.learned.learn("orders", 5.0, {AVOIDED: {"sizes": []}})
    store.learned.learn("orders", 7.0, {CHAMPION: {}})
    assert store.learned.stamps("orders", *KINDS) == {"avoided": 5.0, "forecaster": 7.0}
    assert store.learned.stamps("orders", AVOIDED) == {"avoided": 5.0}


def test_jobs_that_are_gone_are_forgotten(rig: Rig) -> None:
    rig.minutes(1)
    rig.memories.keep_only(["another"])
    assert not rig.memories._kept
    rig.minutes(1)
    assert live(rig).newest_s == rig.now_s

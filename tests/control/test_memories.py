"""What the loop remembers between ticks: exactly what is stored."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from perdix.control.clock import moment
from perdix.control.explain import explain
from perdix.control.explain_text import render
from perdix.control.job_memory import (
    AVOIDED,
    CHAMPION,
    FALLBACK,
    KINDS,
    NEWEST,
    STORED_EVERY_S,
    Adopted,
    JobMemory,
    changed,
    recall,
)
from perdix.control.lease import StaleLease, acquire
from perdix.control.memories import Memories
from perdix.control.state.learned import Kind
from perdix.control.state.schema import learned, to_text
from perdix.control.state.store import StateStore
from perdix.control.tenure import Tenure
from perdix.control.tick import tick
from perdix.models.capacity.workers import Against
from perdix.models.forecasting.forecaster import Forecaster
from perdix.settings.stream_job import PolicySettings
from perdix.twin.living import SimulatedClock
from tests.control.rig import LOW, Rig, champion, masked

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


def test_after_a_restart_nothing_of_a_record_and_no_minute_is_missing(rig: Rig) -> None:
    rig.minutes(10)
    for _ in range(int(STORED_EVERY_S / 60)):  # whatever minute the process ends in
        rig.minutes(1)
        stored, kept = recall(rig.store, "orders").memory, live(rig)
        assert stored.minutes is not None
        assert kept.minutes is not None
        assert stored.minutes.per_s.tolist() == kept.minutes.per_s.tolist()
        assert_same_record(adopted(stored).forecaster, adopted(kept).forecaster)


def test_a_fallback_goes_on_after_a_restart(store: StateStore) -> None:
    rig = Rig.of(store, wave())
    rig.memories = Memories()
    rig.minutes(25)
    stored, kept = recall(store, "orders").memory.fallback, live(rig).fallback
    assert stored is not None
    assert kept is not None
    assert_same_record(stored, kept)


def assert_same_record(forecaster: Forecaster, other: Forecaster) -> None:
    assert forecaster.end_s == other.end_s
    assert forecaster.record.origins_s.tolist() == other.record.origins_s.tolist()
    assert forecaster.forecast().mean.tolist() == other.forecast().mean.tolist()


def test_what_an_earlier_tick_doubted_says_nothing_of_one_that_saw_nothing(rig: Rig) -> None:
    rig.minutes(3)
    assert rig.memories is not None
    kept = rig.memories.recall(rig.store, "orders")
    doubted = replace(kept.memory.capacity, doubted=Against(1e4, 2e4, 1.0, 1e4, 2.0, 2.0, 4))
    rig.memories.keep("orders", replace(kept, memory=replace(kept.memory, capacity=doubted)))
    rig.source.error = "no answer"
    (report,) = rig.minutes(1)
    assert report.sentence == "Blind: no answer."


def test_what_an_earlier_version_stored_is_brought_up_by_the_workload(rig: Rig) -> None:
    """It stored no parts: its minutes ended with the newest that was stored, and left a gap of up to 20 minutes."""
    rig.minutes(16)
    kept = live(rig).minutes
    forgotten(rig, NEWEST, FALLBACK)
    found = recall(rig.store, "orders").memory
    assert kept is not None
    assert found.minutes is not None
    assert found.minutes.per_s == pytest.approx(kept.per_s, rel=1e-9)
    assert adopted(found).forecaster.end_s == rig.now_s


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


def forgotten(rig: Rig, *kinds: Kind) -> None:
    with rig.store.learned.transactions.writing() as connection:
        connection.execute(learned.delete().where(learned.c.kind.in_([kind.name for kind in kinds])))


def test_what_an_operator_forgot_is_forgotten(rig: Rig) -> None:
    rig.minutes(3)
    forgotten(rig, CHAMPION)
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


# ---- a process that goes on, and one that restarts before each tick --------------------------------------------------


def steps(hours: float = 2.0, period_s: int = 1_500) -> np.ndarray:
    return np.where(np.arange(round(3600 * hours)) // period_s % 2 == 0, 10_000.0, 48_000.0)


def noise(hours: float = 2.0) -> np.ndarray:
    minutes = np.random.default_rng(1).normal(25_000.0, 8_000.0, round(60 * hours))
    return np.repeat(np.maximum(minutes, 0.0), 60)


def course(load: np.ndarray, policy: PolicySettings, *, restarting: bool, proven: bool, rough: bool) -> list[str]:
    """Return all that 30 ticks decided and explained, and what is remembered in the end."""
    warm_s = 1_800
    rig = Rig.of(StateStore("sqlite://"), load, scale_out=6, warm_s=warm_s, policy=policy)
    if proven:
        rig.champions = champion(load[:warm_s], rig.now_s, family=["damped-trend", "last-value"])
    kept, seen = Memories(), []
    for minute in range(30):
        rig.memories = Memories() if restarting else kept
        if rough:
            rig.source.change = partial(masked, share=0.3, seed=minute) if minute < 8 else None
            rig.source.error = "no answer" if 12 <= minute < 15 else None
            if minute == 18:
                rig.twin.fail()
        rig.twin.step(60)
        report = rig.tick()
        seen.append(f"{report.decision} {report.notes}")
        seen.append(render(explain(rig.store, "orders"), verbose=True))
    memory = recall(rig.store, "orders").memory if restarting else kept.recall(rig.store, "orders").memory
    seen.extend(f"{kind.name}: {to_text(document)}" for kind, document in changed("orders", memory, {}).items())
    return seen


@pytest.mark.parametrize(
    ("policy", "options", "load", "proven", "rough"),
    [
        ("perdix", {}, steps(), False, False),
        ("perdix", {}, wave(2.0), True, True),
        ("daedalus", {}, wave(2.0, 5_400.0), False, True),
        ("daedalus", {}, noise(), True, False),
        ("hpa", {"target_cpu": 0.8}, noise(), False, True),
        ("flink-autoscaler", {"preset": "tuned"}, steps(), True, True),
        ("ds2-global", {}, wave(2.0), False, False),
        ("phoebe", {}, steps(), True, False),
        ("visp", {"forecast": True}, wave(2.0), True, False),
    ],
)
def test_who_restarts_before_each_tick_decides_and_explains_exactly_alike(
    policy: str, options: dict, load: np.ndarray, proven: bool, rough: bool
) -> None:
    settings = PolicySettings(name=policy, options=options)
    going_on, restarted = (course(load, settings, restarting=r, proven=proven, rough=rough) for r in (False, True))
    for expected, found in zip(going_on, restarted, strict=True):
        assert found == expected

"""An hour ahead: planned with where it came true on this very job, and nowhere else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from perdix.control.job_memory import JobMemory, changed, recall
from perdix.control.memories import Memories
from perdix.control.state.store import StateStore
from perdix.models.forecasting.trust import HOUR, Trust
from perdix.settings.stream_job import PolicySettings
from tests.control.rig import LOW, START_S, Rig, champion

PERIOD_S = 7_200
WARM_S = 1_800
TRAINED_S = 50 * 3_600
PLANS = PolicySettings(name="perdix")


def swings(seconds: np.ndarray) -> np.ndarray:
    return 2 * LOW * (1.0 + 0.6 * np.sin(2 * np.pi * seconds / PERIOD_S))


def rig_of(store: StateStore, family: str, load: np.ndarray, policy: PolicySettings = PLANS) -> Rig:
    past = swings(np.arange(float(WARM_S - TRAINED_S), WARM_S))
    learned = champion(past, START_S + WARM_S, family=family)
    rig = Rig.of(store, load, warm_s=WARM_S, champions=learned, policy=policy, mode="advise")
    rig.memories = Memories()
    return rig


def planned_minutes(rig: Rig, minutes: int) -> list[float]:
    """How far the plan of each minute reaches."""
    decided = [report.decision for report in rig.minutes(minutes)]
    return [
        (decision.plan[-1].after_s + 60.0) / 60.0 if decision is not None and decision.plan else 0.0
        for decision in decided
    ]


def test_a_load_that_comes_as_it_was_foreseen_is_planned_for_an_hour(store: StateStore) -> None:
    rig = rig_of(store, "seasonal-naive", swings(np.arange(20_000.0)))
    reach = planned_minutes(rig, 150)
    assert max(reach[:110]) <= 16.0, "an hour must have come true for an hour"
    assert min(reach[125:]) > 50.0
    decision = rig.reports[-1].decision
    assert decision is not None
    assert " 60 minutes" in decision.sentence
    assert any("came" in note and "60 minutes" in note for note in rig.reports[-1].notes)


def test_a_load_that_came_otherwise_is_planned_for_a_quarter_of_an_hour(store: StateStore) -> None:
    other = 2 * LOW * (1.0 + 0.6 * np.sin(2 * np.pi * np.arange(20_000.0) / 2_900.0))
    assert max(planned_minutes(rig_of(store, "seasonal-naive", other), 150)) <= 16.0


def test_a_policy_that_plans_no_further_is_told_nothing(store: StateStore) -> None:
    rig = rig_of(store, "seasonal-naive", swings(np.arange(20_000.0)), PolicySettings(name="daedalus"))
    rig.minutes(80)
    assert recall(store, "orders").memory.further_trust.made == ()


def test_it_is_remembered_by_another_process(store: StateStore) -> None:
    rig = rig_of(store, "seasonal-naive", swings(np.arange(20_000.0)))
    rig.minutes(75)
    trust = recall(store, "orders").memory.further_trust
    assert trust.of == HOUR
    assert trust.judged >= 1.0
    assert 10 <= len(trust.made) <= 14


def test_what_was_judged_is_stored_although_nothing_waits_any_more(store: StateStore) -> None:
    judged = replace(JobMemory(), further_trust=Trust(said=1.0, came=0.5, judged=12.0, of=HOUR))
    found = {kind.name: document for kind, document in changed("orders", judged, {}).items()}
    assert Trust.from_state(found["further_trust"], HOUR) == judged.further_trust


def test_state_that_knows_nothing_of_it_is_read(store: StateStore) -> None:
    assert recall(store, "orders").memory.further_trust == JobMemory().further_trust
    assert "further_trust" not in {kind.name for kind in changed("orders", JobMemory(), {})}

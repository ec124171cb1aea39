"""What sampling taught of a worker's sizes, in the loop: taken in, kept, and read back."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
import pytest

from perdix.control.adoption import adopt
from perdix.control.champions import ChampionRow, FleetChampions, GivenChampions
from perdix.control.job_memory import PERFORMANCE as DOCUMENT
from perdix.control.job_memory import JobMemory, changed, recall
from perdix.control.state.store import StateStore
from perdix.models.performance.families import XGBOOST
from perdix.models.performance.fitted import FittedPerformance
from perdix.models.registry import PERFORMANCE
from tests.control.rig import START_S
from tests.models.sampled import sampled

TAUGHT = FittedPerformance.fit(XGBOOST, XGBOOST.published, sampled())


def champions(model: FittedPerformance = TAUGHT, version: int = 3, **state: Any) -> GivenChampions:
    text = orjson.dumps({**model.to_state(), **state}).decode()
    row = ChampionRow(model.family, text, version)
    return GivenChampions({PERFORMANCE: FleetChampions(PERFORMANCE, version, {"orders": row})})


def test_a_performance_model_is_taken_in_with_its_version() -> None:
    memory, notes = adopt(JobMemory(), champions(), "orders")
    assert notes == ()
    assert (memory.performance, memory.performance_from.version) == (TAUGHT, 3)
    assert memory.performance is not None
    found = memory.performance.predict([2.0, 8.0], 1_024.0)
    np.testing.assert_array_equal(found.per_s, TAUGHT.predict([2.0, 8.0], 1_024.0).per_s)
    assert found.extrapolated.tolist() == [False, True]


def test_the_same_version_is_not_taken_in_again_and_a_newer_one_is() -> None:
    memory, _ = adopt(JobMemory(), champions(), "orders")
    again, _ = adopt(memory, champions(), "orders")
    assert again.performance is memory.performance, "its trees are not grown anew at every tick"
    other, _ = adopt(memory, champions(FittedPerformance.fit(XGBOOST, XGBOOST.published, sampled(6))), "orders")
    assert other.performance != memory.performance, "of another registry, whose third it is"
    newer, _ = adopt(memory, champions(FittedPerformance.fit(XGBOOST, XGBOOST.published, sampled(6)), 4), "orders")
    assert newer.performance_from.version == 4
    assert newer.performance != memory.performance


@pytest.mark.parametrize("damage", [{"format": "of another program"}, {"samples": None}, {"seed": 9}])
def test_a_row_that_cannot_be_used_leaves_what_is_in_use(damage: dict[str, Any]) -> None:
    memory, _ = adopt(JobMemory(), champions(), "orders")
    after, notes = adopt(memory, champions(version=4, **damage), "orders")
    assert after == memory
    (note,) = notes
    assert note.startswith("perdix-performance version 4 cannot be used for this job: ")
    assert note.endswith("; what was in use stays")


def test_a_job_without_a_row_keeps_what_it_has() -> None:
    memory, _ = adopt(JobMemory(), champions(), "orders")
    assert adopt(memory, GivenChampions(), "orders") == (memory, ())


def test_it_is_remembered_over_a_restart(store: StateStore) -> None:
    memory, _ = adopt(JobMemory(), champions(), "orders")
    store.learned.learn("orders", START_S, changed("orders", memory, {}))
    found = recall(store, "orders")
    assert found.notes == ()
    assert (found.memory.performance, found.memory.performance_from.version) == (TAUGHT, 3)
    assert DOCUMENT not in changed("orders", found.memory, found.documents), "the same is not stored anew"


def test_one_that_cannot_be_read_is_noted_and_taken_from_the_champion_again(store: StateStore) -> None:
    store.learned.learn("orders", START_S, {DOCUMENT: {"version": 3, "state": {"format": "?"}}})
    found = recall(store, "orders")
    assert "'performance' is stored but cannot be used" in found.notes[0]
    assert (found.memory.performance, found.memory.performance_from.version) == (None, 0)
    assert adopt(found.memory, champions(), "orders")[0].performance == TAUGHT


def test_a_job_that_was_never_sampled_has_no_such_document() -> None:
    assert DOCUMENT not in changed("orders", JobMemory(), {})

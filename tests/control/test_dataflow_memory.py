"""What a policy that sizes operators remembers is kept per job, and is that policy's alone."""

import math

import pytest

from perdix.control.operators.memory import APART_S, OPERATORS, recall, remember
from perdix.control.state.store import StateStore

MEMORY = {"decisions": 2, "raised": {"count": 1.25}}


def test_the_same_policy_finds_what_it_kept(store: StateStore) -> None:
    remember(store, "orders", "ds2", 1_000.0, MEMORY)
    assert recall(store, "orders", "ds2", 1_100.0) == MEMORY
    remember(store, "orders", "ds2", 1_060.0, {"decisions": 3})
    assert recall(store, "orders", "ds2", 1_100.0) == {"decisions": 3}


@pytest.mark.parametrize(("job", "policy"), [("orders", "dhalion"), ("orders", "ds2:curve=learned"), ("ads", "ds2")])
def test_another_policy_other_options_and_another_job_begin_afresh(store: StateStore, job: str, policy: str) -> None:
    remember(store, "orders", "ds2", 1_000.0, MEMORY)
    assert recall(store, job, policy, 1_100.0) == {}


def test_after_an_hour_it_begins_afresh(store: StateStore) -> None:
    """Nobody looked meanwhile: an hour of calm that a policy waits for was not seen."""
    remember(store, "orders", "ds2", 1_000.0, MEMORY)
    assert recall(store, "orders", "ds2", 1_000.0 + APART_S) == MEMORY
    assert recall(store, "orders", "ds2", 1_001.0 + APART_S) == {}


def test_what_no_policy_can_have_kept_is_passed_over(store: StateStore) -> None:
    store.learned.learn("orders", 1_000.0, {OPERATORS: {"policy": "ds2", "memory": "gone"}})
    assert recall(store, "orders", "ds2", 1_100.0) == {}


def test_a_number_that_is_not_finite_is_not_kept(store: StateStore) -> None:
    remember(store, "orders", "ds2", 1_000.0, MEMORY)
    with pytest.raises(ValueError, match="raised"):
        remember(store, "orders", "ds2", 1_060.0, {"raised": {"count": math.nan}})
    assert recall(store, "orders", "ds2", 1_100.0) == MEMORY

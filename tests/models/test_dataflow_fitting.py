"""Fitting a parallelism to key groups, partitions and slots."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdix.models.dataflow.graph import Operator
from perdix.models.dataflow.slots import Mode, aligned, fitted_to_slots

KEYED = Operator("v", ("u",), maximum=128, key_groups=128)


@pytest.mark.parametrize(
    ("operator", "current", "target", "mode", "most", "becomes"),
    [
        pytest.param(KEYED, 16, 24, "BALANCED", None, 26, id="balanced"),
        pytest.param(KEYED, 16, 24, "EVENLY_SPREAD", None, 32, id="even"),
        pytest.param(KEYED, 16, 24, "OFF", None, 24, id="off"),
        pytest.param(KEYED, 10, 10, "EVENLY_SPREAD", None, 10, id="no-change"),
        pytest.param(KEYED, 24, 20, "EVENLY_SPREAD", None, 20, id="scaling-in-not-beyond-what-runs"),
        pytest.param(KEYED, 40, 20, "EVENLY_SPREAD", None, 32, id="scaling-in"),
        pytest.param(KEYED, 16, 70, "EVENLY_SPREAD", 100, 70, id="none-below-the-bound"),
        pytest.param(Operator("s", key_groups=12), 5, 7, "EVENLY_SPREAD", 8, 7, id="partitions-none-found"),
        pytest.param(Operator("s", key_groups=12), 5, 7, "EVENLY_SPREAD", None, 12, id="partitions"),
        pytest.param(Operator("s", maximum=128), 5, 7, "EVENLY_SPREAD", None, 7, id="partitions-not-known"),
        pytest.param(Operator("v", ("u",), maximum=128), 5, 7, "EVENLY_SPREAD", None, 7, id="not-keyed"),
    ],
)
def test_alignment(operator: Operator, current: int, target: int, mode: Mode, most: int | None, becomes: int) -> None:
    assert aligned(target, current, operator, mode, most) == becomes


@given(st.integers(1, 200), st.integers(1, 128), st.integers(1, 128), st.sampled_from(["BALANCED", "EVENLY_SPREAD"]))
def test_alignment_never_takes_less_nor_turns_around(groups: int, current: int, target: int, mode: Mode) -> None:
    found = aligned(target, current, Operator("v", ("u",), key_groups=groups), mode)
    assert found >= target
    assert (found - current) * (target - current) >= 0


def test_what_fits_is_left_alone() -> None:
    wanted = {"s": 1, "a": 4, "b": 8}
    for slots, shared in ((None, True), (8, True), (13, False)):
        found = fitted_to_slots(wanted, {"a": 3.5, "b": 7.7}, slots, shared=shared)
        assert (found.parallelism, found.reason) == (wanted, None)


def test_with_shared_slots_the_largest_is_cut_and_the_others_need_no_more_than_it_lets_through() -> None:
    found = fitted_to_slots({"s": 1, "a": 10, "b": 20}, {"a": 10.0, "b": 20.0}, 12, shared=True)
    assert found.parallelism == {"s": 1, "a": 6, "b": 12}
    assert (
        found.reason == "20 slots are wanted, 12 are there: b is the narrowest place and lets 60 % of its load through"
    )


def test_slots_that_are_not_shared_are_dealt_in_proportion() -> None:
    found = fitted_to_slots({"s": 1, "a": 10, "b": 20}, {"a": 10.0, "b": 20.0}, 16, shared=False)
    assert found.parallelism == {"s": 1, "a": 5, "b": 10}
    assert "50 % of its load" in (found.reason or "")


def test_too_few_slots_are_told() -> None:
    found = fitted_to_slots({"s": 2, "a": 3, "b": 3}, {"a": 3.0, "b": 3.0}, 3, shared=False)
    assert found.parallelism == {"s": 2, "a": 1, "b": 1}
    assert "3 slots are too few: 4 are needed" in (found.reason or "")
    with pytest.raises(ValueError, match="give 1 or more"):
        fitted_to_slots({"a": 3}, {"a": 3.0}, 0, shared=True)


@given(
    st.dictionaries(st.sampled_from("abcdefg"), st.floats(0.1, 40.0), min_size=1),
    st.integers(7, 60),
    st.booleans(),
)
def test_no_other_dealing_lets_more_through(needs: dict[str, float], slots: int, shared: bool) -> None:
    wanted = {name: int(-(-need // 1)) for name, need in needs.items()}
    found = fitted_to_slots(wanted, needs, slots, shared=shared).parallelism
    takes = max(found.values()) if shared else sum(found.values())
    assert takes <= slots
    assert all(1 <= found[name] <= wanted[name] for name in wanted)
    share = min(found[name] / needs[name] for name in needs)
    if found == wanted:
        return
    # to let more through, every operator at that share needs one more: there is no room for those
    better = {name: int(share * need * (1 + 1e-9)) + 1 for name, need in needs.items()}
    assert (max(better.values()) if shared else sum(better.values())) > slots or share >= 1


@pytest.mark.parametrize("shared", [True, False])
def test_a_need_without_end_gets_the_slots_that_are_left(shared: bool) -> None:
    fitted = fitted_to_slots({"a": 1_000_000, "b": 4}, {"a": math.inf, "b": 4.0}, 10, shared=shared)
    assert fitted.parallelism == ({"a": 10, "b": 1} if shared else {"a": 9, "b": 1})
    assert "a is the narrowest place" in fitted.reason

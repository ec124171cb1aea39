"""The baseline: instances by the queue alone, hosts on demand."""

from dataclasses import replace

import pytest

from perdix.policies.hosts.contract import Instance, LeaseHost, ReleaseHost, Seen, StartInstance, StopInstance
from perdix.policies.hosts.threshold import Threshold
from tests.policies.hosts_situation import WELL, actions, broken_rules, host, instances, operator, situation

A, B = operator("A"), operator("B")
ONE = StartInstance("A", "host-1")


def waiting(items: float | None) -> dict[str, Seen]:
    return {"A": replace(WELL, queue_items=items)}


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        (50.0, []),
        (51.0, [ONE]),
        (250.0, [ONE]),
        (251.0, [ONE, ONE]),
        (1.0, []),
        (0.0, [StopInstance("A-1")]),
        (None, []),
    ],
)
def test_one_more_above_50_two_above_250_one_less_below_1(items: float | None, expected: list[object]) -> None:
    now = situation([A], [host("host-1")], instances(A={"host-1": 2}), seen=waiting(items))
    assert actions(Threshold().decide(now)) == expected


def test_an_instance_that_starts_counts() -> None:
    starting = {**instances(A={"host-1": 1}), "A-2": Instance("A-2", "A", "host-1", ready=False)}
    now = situation([A], [host("host-1")], starting, seen=waiting(300.0))
    assert actions(Threshold().decide(now)) == [ONE]
    assert actions(Threshold().decide(replace(now, seen=waiting(100.0)))) == []
    assert actions(Threshold().decide(replace(now, seen=waiting(0.0)))) == []


def test_as_many_run_as_must_and_no_more_than_may() -> None:
    bounded = replace(A, least=2, most=3)
    for running, items, expected in (
        (0, 0.0, [ONE, ONE]),
        (1, 0.0, [ONE]),
        (2, 0.0, []),
        (2, 300.0, [ONE]),
        (3, 300.0, []),
        (3, 0.0, [StopInstance("A-1")]),
    ):
        placed = instances(A={"host-1": running})
        now = situation([bounded], [host("host-1")], placed, seen=waiting(items))
        assert actions(Threshold().decide(now)) == expected, (running, items)


def test_the_last_instance_stays() -> None:
    now = situation([A], [host("host-1")], instances(A={"host-1": 1}))
    assert actions(Threshold().decide(now)) == []


def test_a_host_is_leased_when_all_are_full_and_given_back_as_soon_as_it_is_empty() -> None:
    full = situation([A], [host("host-1")], instances(A={"host-1": 8}), seen=waiting(60.0))
    assert actions(Threshold().decide(full)) == [LeaseHost("host-2"), StartInstance("A", "host-2")]
    empty = situation([A], [host("host-1"), host("host-2", 599.0)], instances(A={"host-1": 1}))
    assert actions(Threshold().decide(empty)) == [ReleaseHost("host-2")]


def test_the_one_on_the_emptiest_host_goes_first_so_that_hosts_become_empty() -> None:
    placed = instances(A={"host-1": 3, "host-2": 1}, B={"host-1": 1})
    now = situation([A, B], [host("host-1"), host("host-2")], placed, seen={"B": replace(WELL, queue_items=9.0)})
    assert actions(Threshold().decide(now)) == [StopInstance("A-4")]


def test_the_last_host_stays_and_a_blind_look_gives_none_back() -> None:
    assert actions(Threshold().decide(situation([A], [host("host-1")], {}))) == [ONE]
    blind = situation([A], [host("host-1"), host("host-2")], instances(A={"host-1": 1}), seen={"A": Seen()})
    decision = Threshold().decide(blind)
    assert decision.steps == ()
    assert decision.sentence == "Every queue is between the thresholds."
    assert broken_rules(blind, decision) == []

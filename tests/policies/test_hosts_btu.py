"""The billing-aware policy: where instances go, when hosts are leased, and when they are given back."""

import math
from dataclasses import replace
from typing import Any

import pytest

from perdix.policies.hosts.btu import Btu, BtuOptions
from perdix.policies.hosts.build import HOSTS_POLICIES, build_hosts_policy
from perdix.policies.hosts.contract import (
    Instance,
    LeaseAgain,
    LeaseHost,
    Migrate,
    ReleaseHost,
    Seen,
    StartInstance,
    StopInstance,
)
from perdix.policies.hosts.spare import capped
from perdix.settings.yaml_files import SettingsError
from tests.policies.hosts_situation import (
    BUSY,
    LATE,
    NOW_S,
    WELL,
    actions,
    broken_rules,
    host,
    instances,
    operator,
    situation,
)

A, B, C = operator("A"), operator("B"), operator("C")
DUE_S = 80.0  # within the margin of 90 s: a look, and half a minute to carry it out


def decided(now: Any, **options: Any) -> list[Any]:
    decision = Btu(BtuOptions(**options)).decide(now)
    assert broken_rules(now, decision) == []
    assert decision.sentence.endswith(".")
    return actions(decision)


def test_while_nothing_is_needed_and_no_unit_ends_nothing_happens() -> None:
    now = situation([A], [host("host-1")], instances(A={"host-1": 2}))
    decision = Btu().decide(now)
    assert decision.steps == ()
    assert decision.sentence == "Nothing is needed; the next unit that ends is that of host-1, in 400 s."


def test_a_late_type_gets_an_instance_where_it_fits_best() -> None:
    now = situation(
        [A, B],
        [host("host-1"), host("host-2", images=frozenset({"A"}))],
        instances(A={"host-1": 1}, B={"host-2": 3}),
        seen={"A": LATE},
    )
    decision = Btu().decide(now)
    assert actions(decision) == [StartInstance("A", "host-2")]
    assert decision.sentence == "A gets an instance on host-2 (0.9 s of 0.6 s, 120 items wait)."


def test_a_type_of_which_nothing_runs_is_started_whatever_is_measured() -> None:
    now = situation([A, B], [], {}, seen={"A": Seen(), "B": Seen()})
    assert decided(now) == [LeaseHost("host-1"), StartInstance("A", "host-1"), StartInstance("B", "host-1")]


def test_an_instance_that_starts_counts() -> None:
    starting = {**instances(A={"host-1": 1}), "A-2": Instance("A-2", "A", "host-1", ready=False)}
    assert decided(situation([A], [host("host-1")], starting, seen={"A": LATE})) == []


def test_a_host_that_starts_is_used_before_another_is_leased() -> None:
    big, late = operator("A", cores=4.0), {"A": LATE, "B": LATE}
    starting = host("host-2", ready=False)
    now = situation([big, B], [host("host-1"), starting], instances(A={"host-1": 1}, B={"host-1": 0}), seen=late)
    assert decided(now) == [StartInstance("B", "host-2"), LeaseHost("host-3"), StartInstance("A", "host-3")]


def test_one_leased_host_takes_all_that_is_wanted_at_the_same_look() -> None:
    full = instances(A={"host-1": 4}, B={"host-1": 4})
    now = situation([A, B], [host("host-1")], full, seen={"A": LATE, "B": replace(LATE, queue_items=90.0)})
    assert decided(now) == [LeaseHost("host-2"), StartInstance("A", "host-2"), StartInstance("B", "host-2")]


def test_room_is_made_by_the_type_with_the_highest_utility() -> None:
    full = instances(A={"host-1": 1}, B={"host-1": 3}, C={"host-1": 4})
    now = situation([A, B, C], [host("host-1")], full, seen={"A": LATE, "B": BUSY})
    assert decided(now) == [StopInstance("C-1"), StartInstance("A", "host-1")]


def test_a_host_can_be_leased_in_place_of_room_that_is_made() -> None:
    full = instances(A={"host-1": 1}, B={"host-1": 3}, C={"host-1": 4})
    now = situation([A, B, C], [host("host-1")], full, seen={"A": LATE, "B": BUSY})
    assert decided(now, make_room=False) == [LeaseHost("host-2"), StartInstance("A", "host-2")]


def test_no_room_is_made_where_the_one_that_goes_leaves_too_little() -> None:
    big = operator("A", cores=2.0)
    full = instances(A={"host-1": 1}, B={"host-1": 2}, C={"host-1": 2})
    now = situation([big, B, C], [host("host-1")], full, seen={"A": LATE})
    assert decided(now) == [LeaseHost("host-2"), StartInstance("A", "host-2")]


def test_no_more_hosts_are_leased_than_may_be() -> None:
    full = instances(A={"host-1": 8})
    now = situation([A], [host("host-1")], full, seen={"A": LATE}, most_hosts=1)
    decision = Btu().decide(now)
    assert decision.steps == ()
    assert decision.sentence == "no host has room for A, and all 1 that may be are leased."


def test_a_type_that_fits_on_no_host_is_told_and_leases_nothing() -> None:
    now = situation([operator("A", cores=6.6)], [], {})
    decision = Btu().decide(now)
    assert decision.steps == ()
    assert "A needs 6.6 cores and 500 MB, but a host has 4 cores and 7,168 MB: it fits on none" in decision.sentence


def test_a_bigger_host_that_is_there_is_used_all_the_same() -> None:
    roomy = host("host-1", cores=16.0)
    now = situation([operator("A", cores=6.6)], [roomy], {})
    assert decided(now) == [StartInstance("A", "host-1")]


def test_at_the_end_of_its_unit_a_host_is_emptied_and_given_back() -> None:
    placed = instances(A={"host-1": 4, "host-2": 1}, B={"host-1": 1, "host-2": 1})
    now = situation([A, B], [host("host-1"), host("host-2", DUE_S)], placed, seen={"A": WELL, "B": LATE})
    busy = replace(now, seen={"A": WELL, "B": replace(LATE, queue_items=2.0)})
    decision = Btu().decide(busy)
    # B is late: its utility is below zero, so it moves; A has nothing to do, so one of five may go.
    assert actions(decision) == [Migrate("B-2", "host-1"), StopInstance("A-5"), ReleaseHost("host-2")]
    assert decision.sentence == "host-2 is given back, its unit ends in 80 s: 1 of A dropped, 1 of B to host-1."


def test_a_host_is_left_alone_before_the_end_of_its_unit() -> None:
    now = situation([A], [host("host-1"), host("host-2", 91.0)], instances(A={"host-1": 3, "host-2": 1}))
    assert decided(now) == []
    empty = situation([A], [host("host-1"), host("host-2", 91.0)], instances(A={"host-1": 3}))
    assert decided(empty) == []


def test_a_host_that_cannot_be_emptied_is_leased_again_once() -> None:
    placed = instances(A={"host-1": 8, "host-2": 6})
    now = situation([A], [host("host-1"), host("host-2", DUE_S)], placed)
    decision = Btu().decide(now)
    assert actions(decision) == [LeaseAgain("host-2")]
    assert decision.sentence == "host-2 is leased again: its unit ends in 80 s, and no other host has room for A."
    later = replace(now, now_s=NOW_S + 30.0, memory=decision.memory)
    assert decided(later) == []
    next_unit = replace(now, now_s=NOW_S + 600.0, memory=decision.memory)
    ended = {name: replace(leased, paid_until_s=leased.paid_until_s + 600.0) for name, leased in now.hosts.items()}
    assert decided(replace(next_unit, hosts=ended)) == [LeaseAgain("host-2")]


def test_several_hosts_that_end_together_are_each_decided_about() -> None:
    placed = instances(A={"host-1": 3, "host-2": 2, "host-3": 1})
    now = situation([A], [host(f"host-{k}", DUE_S) for k in (1, 2, 3)], placed, seen={"A": LATE})
    calm = replace(now, seen={"A": replace(LATE, queue_items=2.0)})
    # What moves from host-3 goes to host-2, which has more room than host-1 and stays for it: host-1 can go, too.
    ends = [action for action in decided(calm) if isinstance(action, ReleaseHost | LeaseAgain)]
    assert ends == [ReleaseHost("host-3"), LeaseAgain("host-2"), ReleaseHost("host-1")]


def test_the_last_host_is_never_given_back() -> None:
    now = situation([A], [host("host-1", DUE_S)], {})
    assert decided(replace(now, instances=instances(A={"host-1": 2}))) == [LeaseAgain("host-1")]
    starting = host("host-2", ready=False)
    placed = {**instances(A={"host-1": 2}), "A-3": Instance("A-3", "A", "host-2", ready=False)}
    assert decided(situation([A], [host("host-1", DUE_S), starting], placed)) == [LeaseAgain("host-1")]


def test_the_last_instance_of_a_type_moves_and_never_goes() -> None:
    placed = instances(A={"host-2": 1}, B={"host-1": 1})
    now = situation([A, B], [host("host-1"), host("host-2", DUE_S)], placed)
    assert decided(now) == [Migrate("A-1", "host-1"), ReleaseHost("host-2")]


@pytest.mark.parametrize("unknown", [Seen(), Seen((0.4,), None), Seen((), 0.0), Seen((math.nan,), 0.0)])
def test_without_measurements_nothing_goes_and_no_host_is_given_back(unknown: Seen) -> None:
    placed = instances(A={"host-1": 1, "host-2": 1}, B={"host-1": 1})
    now = situation([A, B], [host("host-1"), host("host-2", DUE_S)], placed, seen={"A": unknown})
    assert decided(now) == [LeaseAgain("host-2")]
    full = situation(
        [A, B], [host("host-1")], instances(A={"host-1": 7}, B={"host-1": 1}), seen={"A": unknown, "B": LATE}
    )
    assert decided(full) == [LeaseHost("host-2"), StartInstance("B", "host-2")]


def test_an_empty_host_is_kept_while_nothing_at_all_is_measured() -> None:
    now = situation([A], [host("host-1"), host("host-2", DUE_S)], instances(A={"host-1": 1}), seen={"A": Seen()})
    assert decided(now) == [LeaseAgain("host-2")]
    assert decided(replace(now, seen={"A": WELL})) == [ReleaseHost("host-2")]


def test_nothing_is_put_on_a_host_that_is_about_to_end_while_there_is_room_elsewhere() -> None:
    cached = host("host-2", DUE_S, images=frozenset({"A"}))
    now = situation([A, B], [host("host-1"), cached], instances(A={"host-1": 3}, B={"host-1": 1}), seen={"A": LATE})
    assert decided(now) == [StartInstance("A", "host-1"), ReleaseHost("host-2")]


def test_a_host_that_gets_an_instance_is_leased_again_rather_than_another_leased() -> None:
    full = instances(A={"host-1": 8, "host-2": 1})
    now = situation([A], [host("host-1"), host("host-2", DUE_S)], full, seen={"A": LATE})
    assert decided(now) == [StartInstance("A", "host-2"), LeaseAgain("host-2")]


def test_a_migration_whose_new_place_is_gone_is_planned_anew() -> None:
    placed = instances(A={"host-1": 1, "host-2": 1})
    leaving = host("host-2", 40.0, releasing=True)
    now = situation([A], [host("host-1"), leaving], placed, seen={"A": BUSY})
    assert decided(now) == [Migrate("A-2", "host-1"), ReleaseHost("host-2")]


def test_a_migration_under_way_is_not_planned_twice_and_counts_once() -> None:
    moving = {**instances(A={"host-1": 1, "host-2": 1}), "A-3": Instance("A-3", "A", "host-1", False, False, "A-2")}
    now = situation([A], [host("host-1"), host("host-2", 40.0, releasing=True)], moving, seen={"A": BUSY})
    assert decided(now) == []


def test_when_the_instances_of_a_host_that_was_given_back_find_no_place_it_is_leased_again() -> None:
    placed = instances(A={"host-1": 8, "host-2": 1})
    now = situation([A], [host("host-1"), host("host-2", 40.0, releasing=True)], placed, seen={"A": BUSY})
    assert decided(now) == [LeaseAgain("host-2")]


def test_hosts_are_not_given_the_name_of_one_that_was_there() -> None:
    first = Btu().decide(situation([A], [], {}))
    assert actions(first)[0] == LeaseHost("host-1")
    assert actions(Btu().decide(situation([A], [], {}, memory=first.memory)))[0] == LeaseHost("host-2")


def test_what_was_remembered_and_cannot_be_read_is_forgotten() -> None:
    now = situation([A], [], {}, memory={"leased": "many", "leased_again": {"host-1": "soon"}})
    assert decided(now)[0] == LeaseHost("host-1")


@pytest.mark.parametrize(
    ("runs", "share", "may"),
    [(1, 0.2, 0), (2, 0.2, 1), (4, 0.2, 1), (5, 0.2, 1), (9, 0.2, 1), (10, 0.2, 2), (3, 1.0, 2), (3, 0.0, 0)],
)
def test_a_fifth_of_a_type_may_go_at_once_but_one_always_may(runs: int, share: float, may: int) -> None:
    assert capped(runs, share) == may


def test_the_cap_counts_over_all_hosts_that_end_at_a_look() -> None:
    placed = instances(A={"host-1": 2, "host-2": 1, "host-3": 1})
    now = situation([A], [host("host-1"), host("host-2", DUE_S), host("host-3", DUE_S)], placed)
    found = decided(now)
    assert sum(isinstance(action, StopInstance) for action in found) == 1
    assert sum(isinstance(action, Migrate) for action in found) == 1


def test_every_policy_is_built_by_its_name() -> None:
    assert {name: build_hosts_policy(name).name for name in HOSTS_POLICIES} == {name: name for name in HOSTS_POLICIES}
    with pytest.raises(SettingsError, match="did you mean 'btu'"):
        build_hosts_policy("bt")
    with pytest.raises(SettingsError, match="did you mean 'queue_threshold'"):
        build_hosts_policy("btu", {"queue_treshold": 3})


@pytest.mark.parametrize("name", HOSTS_POLICIES)
@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"unit_s": 0.0}, "Held: the billing unit is 0."),
        ({"check_interval_s": math.nan}, "Held: the time between looks is nan."),
        ({"host_cores": 0.0}, "Held: the cores of a host is 0."),
        ({"hosts": {"host-1": host("host-1", memory_mb=-1.0)}}, "Held: the memory of host-1 is -1."),
        ({"operators": {"A": operator("A", duration_s=0.0)}}, "Held: the objective of A is 0."),
        ({"operators": {"A": operator("A", cores=math.inf)}}, "Held: the cores that A needs are inf."),
    ],
)
def test_what_cannot_be_is_told_and_everything_stays(name: str, changes: dict[str, Any], says: str) -> None:
    now = replace(situation([A], [host("host-1", DUE_S)], instances(A={"host-1": 1}), seen={"A": LATE}), **changes)
    decision = build_hosts_policy(name).decide(now)
    assert (decision.steps, decision.sentence) == ((), says)


@pytest.mark.parametrize("name", HOSTS_POLICIES)
def test_a_migration_whose_old_instance_stops_counts_once(name: str) -> None:
    """The new one works, and the old one is not gone yet."""
    placed = {
        "A-0": Instance("A-0", "A", "host-1", stopping=True),
        "A-1": Instance("A-1", "A", "host-2", replaces="A-0"),
        "B-0": Instance("B-0", "B", "host-1"),
    }
    hosts = [host("host-1", 400.0), host("host-2", 400.0)]
    waiting = {"A": Seen((0.5, 0.5), 3.0), "B": Seen((0.5, 0.5), 3.0)}
    policy = build_hosts_policy(name)
    assert actions(policy.decide(situation([A, B], hosts, placed, seen=waiting))) == []
    due = situation([A, B], [hosts[0], host("host-2", DUE_S)], placed, seen=waiting)
    assert broken_rules(due, policy.decide(due)) == [], "A-1 works on the host whose unit ends"

"""What the published program of the billing-aware system gets wrong, one test each, and the paper's method without it.

The defects were found by reading; nothing of the program is used here.
"""

import copy
from dataclasses import replace

import pytest

from perdix.policies.hosts.billing_unit import end_of_unit_s, margin_s
from perdix.policies.hosts.btu import Btu
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
from perdix.policies.hosts.fleet import Fleet
from perdix.policies.hosts.host_selection import Need, Room, suitability
from perdix.policies.hosts.operator_selection import NEEDED, Standing, utilities
from perdix.policies.hosts.plan import Plan
from perdix.policies.hosts.release import simulate
from perdix.policies.hosts.scale_out_trigger import predicted_s, trigger
from tests.policies.hosts_situation import BUSY, LATE, WELL, actions, host, instances, operator, situation

A, B, C = operator("A"), operator("B"), operator("C")
DUE_S = 80.0


def test_the_trend_of_a_constant_duration_is_that_duration() -> None:
    """A regression without an intercept, at 6 after 0 to 4, says twice as much: it fires from half the objective on."""
    assert predicted_s((0.5,) * 5) == pytest.approx(0.5)
    assert not trigger((0.5,) * 5, 0.6, 1_000.0).needed


def test_the_trend_looks_ahead_and_not_back() -> None:
    """The paper counts durations from the newest; with N + 1 its line is then read before the oldest."""
    assert predicted_s((0.5, 0.51, 0.52, 0.53, 0.54)) == pytest.approx(0.55)


def test_memory_counts_for_the_balance_of_a_host() -> None:
    """Dividing whole numbers, the free share of memory is always 0."""
    need = Need(1.0, 1_000.0)
    balanced, lopsided = Room(4.0, 4_000.0, 3.0, 3_000.0), Room(4.0, 4_000.0, 3.0, 4_000.0)
    assert suitability(balanced, need) == 0.0
    assert suitability(lopsided, need) == pytest.approx(0.25 / 3)


def test_a_cached_image_helps_its_host_and_no_other() -> None:
    """The factor applies where the image is not cached, and the image is not known yet there, so to all alike."""
    need, bare = Need(1.0, 500.0, "A"), Room(4.0, 4_000.0, 3.0, 3_000.0)
    cached = replace(bare, images=frozenset({"A"}))
    assert suitability(cached, need) == pytest.approx(0.01 * suitability(bare, need))


def test_the_share_of_instances_begins_at_the_least_there_is() -> None:
    """The least number of instances starts at 0 there, so it is a share of the greatest."""
    found = utilities({name: Standing(n, 0.6, 0.6, 0, 5.0) for name, n in {"A": 2, "B": 4}.items()}, penalty=0.0)
    assert found == {"A": 0.0, "B": 1.0}


def test_without_scalings_or_a_spread_a_utility_is_still_a_number() -> None:
    """0 / 0 is compared with NaN there, which is never equal, and such types can never be chosen."""
    assert utilities({name: Standing(2, 0.3, 0.6, 0, 0.0) for name in "AB"}, penalty=0.0) == {"A": 100.5, "B": 100.5}


def test_the_best_type_makes_room_and_not_the_first_of_the_alphabet() -> None:
    """The first key of a map that is sorted by name is taken there."""
    big, full = operator("C", cores=1.0), instances(A={"host-1": 2}, B={"host-1": 4}, C={"host-1": 1})
    now = situation([A, B, big], [host("host-1", cores=4.0)], full, seen={"C": LATE, "A": BUSY, "B": WELL})
    small = replace(
        now, operators={**now.operators, "C": operator("C", cores=0.5)}, hosts={"host-1": host("host-1", cores=3.5)}
    )
    assert StopInstance("B-1") in actions(Btu().decide(small))


def test_scalings_of_a_type_are_its_own_whatever_it_is_called() -> None:
    """They are stored by type and counted by name there, and the whole counts what is done to hosts, too."""
    found = utilities({n: Standing(2, 0.3, 0.6, k, 5.0) for n, k in {"A": 1, "B": 3}.items()}, penalty=0.0)
    assert found == {"A": 0.25, "B": -0.25}


def test_after_a_scaling_down_that_made_room_no_host_is_leased() -> None:
    """The host that was found is dropped there, and one is started anyway."""
    full = instances(A={"host-1": 2}, B={"host-1": 6})
    now = situation([A, B], [host("host-1")], full, seen={"A": LATE})
    assert actions(Btu().decide(now)) == [StopInstance("B-1"), StartInstance("A", "host-1")]


def test_nothing_moves_to_the_host_that_is_to_be_emptied() -> None:
    """After scaling down, a migration there may be told to go to the host that it leaves."""
    placed = instances(A={"host-1": 8, "host-2": 1})
    now = situation([A], [host("host-1"), host("host-2", DUE_S)], placed, seen={"A": BUSY})
    late = replace(now, seen={"A": Seen((2.0,), 5.0)})
    assert actions(Btu().decide(late)) == [LeaseAgain("host-2")]


def test_giving_a_host_back_leases_none() -> None:
    """With nothing to scale down, even a migration starts a machine there."""
    placed = instances(A={"host-1": 8, "host-2": 2})
    now = situation([A], [host("host-1"), host("host-2", DUE_S)], placed, seen={"A": Seen((2.0,), 5.0)})
    assert not [action for action in actions(Btu().decide(now)) if isinstance(action, LeaseHost)]


def test_a_simulation_changes_nothing() -> None:
    """The test of a host runs the choice there, with its effects, and then again."""
    placed = instances(A={"host-1": 5, "host-2": 4})
    now = situation([A], [host("host-1"), host("host-2", DUE_S)], placed)
    plan = Plan(now, Fleet.of(now), due={"host-2"})
    before = copy.deepcopy((plan.rooms, plan.steps, plan.dropped, plan.stopped, plan.given))
    assert isinstance(simulate(plan, "host-2", {}), str)
    assert (plan.rooms, plan.steps, plan.dropped, plan.stopped, plan.given) == before


def test_what_moves_takes_room_on_one_host_only() -> None:
    """Without a break, one container is taken off the room of every host that could have it."""
    placed = instances(A={"host-1": 7, "host-2": 7, "host-3": 2})
    now = situation([A], [host("host-1"), host("host-2"), host("host-3", DUE_S)], placed, seen={"A": Seen((2.0,), 5.0)})
    moved = [action for action in actions(Btu().decide(now)) if isinstance(action, Migrate)]
    assert {instance.host_id for instance in moved} == {"host-1", "host-2"}


def test_every_host_whose_unit_ends_is_decided_about() -> None:
    """A break leaves the loop over all hosts there."""
    placed = instances(A={"host-1": 8, "host-2": 8, "host-3": 8})
    now = situation([A], [host(f"host-{k}", DUE_S) for k in (1, 2, 3)], placed)
    assert actions(Btu().decide(now)) == [LeaseAgain(f"host-{k}") for k in (1, 2, 3)]


def test_no_end_of_a_unit_passes_between_two_looks() -> None:
    """40 s before the end at a look each 60 s miss a third of the ends; see also test_hosts_properties."""
    assert margin_s(600.0, 60.0) > 60.0


def test_an_end_long_past_is_followed_by_the_end_of_the_unit_that_runs() -> None:
    """One unit is added there, however long nobody looked."""
    assert end_of_unit_s(1_000.0, 600.0, 3_000.0) == 3_400.0
    assert end_of_unit_s(1_000.0, 600.0, 1_000.0) == 1_600.0


def test_what_stops_takes_its_room_until_it_is_gone() -> None:
    """Stopping containers count as free room there."""
    full = {f"A-{k}": Instance(f"A-{k}", "A", "host-1", stopping=k > 6) for k in range(1, 9)}
    now = situation([A], [host("host-1")], full, seen={"A": LATE})
    assert actions(Btu().decide(now)) == [LeaseHost("host-2"), StartInstance("A", "host-2")]


def test_a_type_that_told_nothing_lately_does_not_look_idle() -> None:
    """Durations older than two minutes become 1 ms there."""
    assert utilities({"A": Standing(4, None, 0.6, 0, 0.0)})["A"] == NEEDED
    assert not trigger((), 0.6, 0.0).measured


def test_at_most_a_fifth_of_a_type_goes_at_once() -> None:
    """The cap of the paper is not there: only the last instance is kept."""
    placed = instances(A={"host-1": 5, "host-2": 5})
    now = situation([A], [host("host-1", cores=8.0), host("host-2", DUE_S)], placed)
    assert sum(isinstance(action, StopInstance) for action in actions(Btu().decide(now))) == 2


def test_the_same_look_gives_the_same_decision_in_whatever_order_it_is_listed() -> None:
    """Operators are shuffled there before each round."""
    placed = instances(A={"host-1": 2, "host-2": 2}, B={"host-1": 2, "host-2": 1}, C={"host-2": 1})
    late = {"A": LATE, "B": LATE, "C": LATE}
    now = situation([A, B, C], [host("host-1"), host("host-2", DUE_S)], placed, seen=late)
    turned = replace(
        now,
        operators=dict(reversed(now.operators.items())),
        hosts=dict(reversed(now.hosts.items())),
        instances=dict(reversed(now.instances.items())),
    )
    assert Btu().decide(turned) == Btu().decide(now)


def test_a_lease_is_never_prolonged_unseen() -> None:
    """For three minutes after a host was started, leases are prolonged there without a look at them."""
    young = host("host-2", DUE_S, leased_s=host("host-2").paid_until_s - 500.0)
    now = situation([A], [host("host-1"), young], instances(A={"host-1": 1}))
    assert actions(Btu().decide(now)) == [ReleaseHost("host-2")]

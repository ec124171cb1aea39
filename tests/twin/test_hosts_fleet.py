"""Hosts and containers: starts, images, room, migrations, leases, deaths."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdix.settings.prices import Billing
from perdix.twin.hosts.fleet import NOTHING, Fleet
from perdix.twin.hosts.leased import ImpossibleError
from perdix.twin.hosts.luck import Luck
from perdix.twin.hosts.parameters import Between, Topology, load_topology

UNIT_S = 600
OPERATORS = tuple(load_topology("manufacturing").operators)


def made(seed: int = 1, **containers: object) -> tuple[Fleet, Topology]:
    topology = load_topology("manufacturing")
    changed = topology.containers.model_copy(update=containers)
    topology = topology.model_copy(update={"containers": changed})
    fleet = Fleet(topology, Luck(topology, seed), UNIT_S)
    fleet.lease("h1", 0, started=True)
    return fleet, topology


def passing(fleet: Fleet, since_s: int, until_s: int) -> None:
    for second in range(since_s + 1, until_s + 1):
        fleet.pass_to(second)


def kinds(fleet: Fleet) -> list[str]:
    return [event.kind for event in fleet.events]


def test_a_host_takes_its_containers_once_it_has_started() -> None:
    fleet, topology = made()
    fleet.lease("h2", 0)
    name = fleet.start("oee", "h2", 0)
    ready_s = fleet.hosts["h2"].ready_s
    assert topology.hosts.start_up_s.low <= ready_s <= topology.hosts.start_up_s.high
    passing(fleet, 0, ready_s)
    assert fleet.containers[name].starts_s == ready_s
    passing(fleet, ready_s, ready_s + 30)
    assert fleet.containers[name].ready


def test_the_first_start_of_a_type_on_a_host_downloads_its_image() -> None:
    fleet, topology = made()
    image_s = topology.operators["oee"].image_mb / topology.containers.download_mb_per_s
    first = fleet.start("oee", "h1", 0)
    together = fleet.start("oee", "h1", 0)
    passing(fleet, 0, 100)
    second = fleet.start("oee", "h1", 100)
    passing(fleet, 100, 130)
    start = topology.containers.start_s
    for name, at_s, least_s in ((first, 0, image_s), (together, 0, image_s), (second, 100, 0.0)):
        took_s = (fleet.containers[name].ready_s or 0.0) - at_s
        assert least_s + start.low <= took_s <= least_s + start.high + 1, "it begins with the next second"


def test_a_container_waits_for_the_room_of_one_that_stops() -> None:
    fleet, topology = made()
    several = [fleet.start("parse", "h1", 0) for _ in range(6)]
    with pytest.raises(ImpossibleError, match=r"h1' has 0.04 cores .* parse needs 0.66"):
        fleet.start("parse", "h1", 0)
    passing(fleet, 0, 60)
    fleet.stop(several[0], 60)
    late = fleet.start("parse", "h1", 60)
    passing(fleet, 60, 60 + topology.containers.stop_s - 1)
    assert fleet.containers[late].starts_s is None
    passing(fleet, 60 + topology.containers.stop_s - 1, 100)
    assert fleet.containers[late].ready
    assert several[0] not in fleet.containers


def test_a_migration_stops_the_old_one_only_when_the_new_one_works() -> None:
    fleet, _ = made()
    fleet.lease("h2", 0, started=True)
    old = fleet.start("report", "h1", 0, ready=True)
    new = fleet.migrate(old, "h2", 0)
    assert fleet.containers[new].replaces == old
    with pytest.raises(ImpossibleError, match="being moved already"):
        fleet.migrate(old, "h2", 0)
    both = []
    for second in range(1, 60):
        fleet.pass_to(second)
        there = fleet.containers
        both.append(sum(there[name].ready for name in (old, new) if name in there))
    assert min(both) == 1, "one of both works at any time"
    assert old not in fleet.containers
    assert fleet.containers[new].replaces is None
    assert kinds(fleet)[-2:] == ["migrated", "stopped"]


def test_a_migration_whose_start_fails_leaves_the_old_one() -> None:
    fleet, _ = made(failing=1.0)
    fleet.lease("h2", 0, started=True)
    old = fleet.start("report", "h1", 0, ready=True)
    new = fleet.migrate(old, "h2", 0)
    fleet.release("h1", 0)
    passing(fleet, 0, UNIT_S + 1)
    assert new not in fleet.containers
    assert fleet.containers[old].ready
    assert "start-failed" in kinds(fleet)
    assert "release-lapsed" in kinds(fleet), "it could not be emptied by the end of its unit, so it goes on"
    assert not fleet.hosts["h1"].releasing


@pytest.mark.parametrize("dies", ["h1", "h2"])
def test_a_host_that_dies_in_a_migration_leaves_the_other_one(dies: str) -> None:
    fleet, _ = made()
    fleet.lease("h2", 0, started=True)
    old = fleet.start("report", "h1", 0, ready=True)
    new = fleet.migrate(old, "h2", 0)
    passing(fleet, 0, 3)
    fleet.die(dies, 3)
    passing(fleet, 3, 60)
    left = new if dies == "h1" else old
    assert list(fleet.containers) == [left]
    assert fleet.containers[left].ready
    assert fleet.containers[left].replaces is None
    assert [lease.host_id for lease in fleet.leases if lease.died] == [dies]
    with pytest.raises(ImpossibleError, match=f"no host '{dies}'"):
        fleet.start("report", dies, 60)


def test_a_released_host_goes_when_it_is_empty_and_takes_nothing_until_then() -> None:
    fleet, topology = made()
    fleet.lease("h2", 0, started=True)
    name = fleet.start("inform", "h2", 0, ready=True)
    fleet.release("h2", 100)
    with pytest.raises(ImpossibleError, match="being released"):
        fleet.start("inform", "h2", 100)
    fleet.stop(name, 100)
    passing(fleet, 100, 100 + topology.containers.stop_s)
    assert "h2" not in fleet.hosts
    assert fleet.leases[1].gone_s == 100 + topology.containers.stop_s
    with pytest.raises(ImpossibleError, match="was taken before"):
        fleet.lease("h2", 200)


def test_leasing_again_takes_a_release_back_and_a_host_of_which_nothing_is_said_goes_on() -> None:
    fleet, _ = made()
    fleet.start("inform", "h1", 0, ready=True)
    fleet.release("h1", 580)
    fleet.lease_again("h1", 590)
    assert not fleet.hosts["h1"].releasing
    assert fleet.hosts["h1"].paid_until_s(590, UNIT_S) == 2 * UNIT_S
    with pytest.raises(ImpossibleError, match="leased for its next unit already"):
        fleet.lease_again("h1", 591)
    passing(fleet, 590, 2 * UNIT_S + 1)
    assert kinds(fleet).count("went-on") == 1
    assert fleet.hosts["h1"].paid_until_s(2 * UNIT_S + 1, UNIT_S) == 3 * UNIT_S


def test_what_is_not_there_is_refused_with_the_names_that_are() -> None:
    fleet, _ = made()
    for act, words in (
        (lambda: fleet.start("sum", "h1", 0), "no operator 'sum'; known: parse"),
        (lambda: fleet.start("oee", "h9", 0), "no host 'h9'; leased: h1"),
        (lambda: fleet.stop("oee-1", 0), "no instance 'oee-1'"),
        (lambda: fleet.release("h9", 0), "no host 'h9'"),
        (lambda: fleet.lease("h1", 0), "was taken before"),
    ):
        with pytest.raises(ImpossibleError, match=words):
            act()


def ask(fleet: Fleet, act: str, which: int, now_s: int) -> None:
    """Ask for something of the ``which``-th host or container, whether it is there or not."""
    host = (list(fleet.hosts) or ["none"])[which % max(len(fleet.hosts), 1)]
    container = (list(fleet.containers) or ["none"])[which % max(len(fleet.containers), 1)]
    match act:
        case "lease":
            fleet.lease(f"h{len(fleet.leases) + 1}", now_s)
        case "again":
            fleet.lease_again(host, now_s)
        case "release":
            fleet.release(host, now_s)
        case "start":
            fleet.start(OPERATORS[which % 9], host, now_s)
        case "stop":
            fleet.stop(container, now_s)
        case "migrate":
            fleet.migrate(container, host, now_s)
        case "die":
            fleet.die(host, now_s)


ACTS = st.sampled_from(["lease", "again", "release", "start", "start", "start", "stop", "migrate", "die"])


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(ACTS, st.integers(0, 9), st.integers(0, 25)), max_size=40), st.integers(0, 5))
def test_room_is_never_exceeded_and_no_lease_is_lost_whatever_is_asked_for(
    acts: list[tuple[str, int, int]], seed: int
) -> None:
    fleet, _ = made(seed, start_s=Between(low=1, high=3), failing=0.2)
    now_s = 0
    for act, which, wait_s in acts:
        before = len(fleet.leases), dict(fleet.containers), dict(fleet.hosts)
        try:
            ask(fleet, act, which, now_s)
        except ImpossibleError:
            assert before == (len(fleet.leases), dict(fleet.containers), dict(fleet.hosts)), "nothing has changed"
        passing(fleet, now_s, now_s + wait_s)
        now_s += wait_s
        for name in fleet.hosts:
            assert min(fleet.room(name)) >= -NOTHING
            assert min(fleet.room(name, now=True)) >= -NOTHING
        assert all(container.host_id in fleet.hosts for container in fleet.containers.values())
        assert all(
            fleet.hosts[container.host_id].ready_s <= now_s
            for container in fleet.containers.values()
            if container.ready
        )
    leased = [(lease.gone_s if lease.gone_s is not None else now_s) - lease.leased_s for lease in fleet.leases]
    for span_s in leased:
        paid_s = Billing(unit_s=UNIT_S).paid_s(span_s)
        assert span_s <= paid_s < span_s + UNIT_S + (UNIT_S if span_s == 0 else 0)
    assert len(fleet.hosts) == sum(lease.gone_s is None for lease in fleet.leases)

"""The steps of one look as they are planned, and the room that is left after each of them."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from perdix.policies.contract import Reason
from perdix.policies.hosts import contract
from perdix.policies.hosts.fleet import Fleet, need_of
from perdix.policies.hosts.host_selection import CACHED_FACTOR, Need, Room, best_host, empty_room, fits
from perdix.policies.hosts.spare import Spare, ranked
from perdix.policies.remembering import count, part_of

LEASED = "leased"


class Plan:
    """Steps in the order in which they are carried out; every one takes its room at once.

    ``rooms``: host -> room after the steps so far, with the hosts that they lease.
    ``due``: hosts whose unit is about to end: nothing is put there that could be put elsewhere.
    ``given``: hosts that get an instance at this look, and so are not given back by it.
    ``leaving``: hosts that are given back by the steps so far.
    ``dropped``: operator -> instances that are stopped at this look and not replaced.
    """

    def __init__(
        self,
        situation: contract.HostsSituation,
        fleet: Fleet,
        *,
        due: Collection[str] = (),
        cached_factor: float = CACHED_FACTOR,
    ) -> None:
        self.situation, self.fleet, self.due, self.cached_factor = situation, fleet, frozenset(due), cached_factor
        self.rooms: dict[str, Room] = dict(fleet.rooms)
        self.given: set[str] = set()
        self.leaving: set[str] = set()
        self.dropped: Counter[str] = Counter()
        self.stopped: set[str] = set()
        self.steps: list[contract.Step] = []
        self.said: list[str] = []
        self._leased: list[str] = []
        self._number = part_of(situation.memory.get(LEASED), count) or 0

    def add(self, action: contract.Action, reason: Reason, why: str) -> None:
        """Append a step."""
        self.steps.append(contract.Step(action, reason, why))

    def start(self, operator: str, why: str, spares: Mapping[str, Spare] | None = None) -> bool:
        """Plan one more instance of a type; return whether there is a way.

        On a host that runs, else on one that starts already; else where scaling another type down makes room; else on a
        host whose unit is about to end, which must be leased again for it; else on a host that is leased for it.

        ``spares``: what may be taken away from other types for it.
        """
        need = need_of(self.situation.operators[operator])
        host = self._best(need, self._running(due=False)) or self._best(need, self._starting())
        if host is None:
            host = self._make_room(need, spares or {}, operator)
        if host is None:
            host = self._best(need, self._running(due=True)) or self._lease(operator, need)
        if host is None:
            return False
        self._put(operator, host, why)
        return True

    def stop(self, instance: contract.Instance, reason: Reason, why: str) -> None:
        """Plan to stop an instance for good. Its room is not free before it is gone."""
        self.stopped.add(instance.instance_id)
        self.dropped[instance.operator] += 1
        self.add(contract.StopInstance(instance.instance_id), reason, why)

    def targets(self, leaving: str, due: bool) -> list[str]:
        """Return the running hosts to which instances of the host ``leaving`` may move."""
        return [name for name in self._running(due=due) if name != leaving]

    def members(self, operator: str) -> list[contract.Instance]:
        """Return the instances of a type that are not planned to be stopped, and not under way to another host."""
        gone = self.stopped | self.fleet.moving
        return [instance for instance in self.fleet.members[operator] if instance.instance_id not in gone]

    def left(self, operator: str) -> int:
        """Return how many working instances of a type are left by the steps so far."""
        stopped = sum(
            1 for member in self.fleet.members[operator] if member.ready and member.instance_id in self.stopped
        )
        return self.fleet.working(operator) - stopped

    def memory(self) -> dict[str, Any]:
        """Return what to remember: how many hosts were leased, as no name is given twice."""
        return {LEASED: self._number} if self._number else {}

    def decision(self, policy: str, otherwise: str, memory: Mapping[str, Any]) -> contract.HostsDecision:
        """Return the decision: all steps, and what was said of them (``otherwise`` where nothing was)."""
        sentence = "; ".join(self.said) if self.said else otherwise
        return contract.HostsDecision(policy, tuple(self.steps), f"{sentence}.", {**memory, **self.memory()})

    def _running(self, due: bool) -> list[str]:
        usable = {n: host for n, host in self.situation.hosts.items() if not host.releasing and n not in self.leaving}
        return [name for name, host in usable.items() if host.ready and (name in self.due) is due]

    def _starting(self) -> list[str]:
        hosts = self.situation.hosts
        return [n for n, host in hosts.items() if not host.ready and not host.releasing] + self._leased

    def _best(self, need: Need, hosts: Iterable[str]) -> str | None:
        return best_host({name: self.rooms[name] for name in hosts}, need, self.cached_factor)

    def _make_room(self, need: Need, spares: Mapping[str, Spare], wanted: str) -> str | None:
        """Stop one instance of the first type whose going really makes room, and return its host."""
        running = set(self._running(due=False))
        for operator in ranked(spares):
            if self.dropped[operator] >= spares[operator].most or self.left(operator) < 2:
                continue
            freed = need_of(self.situation.operators[operator])
            spare = {member.host_id: member for member in reversed(self.members(operator)) if member.host_id in running}
            rooms = {name: self.rooms[name].freed_of(freed) for name in spare}
            host = best_host(rooms, need, self.cached_factor)
            if host is not None:
                self.rooms[host] = rooms[host]
                self.stop(spare[host], Reason.SCALE_IN, f"makes room for {wanted} on {host}: {spares[operator].why}")
                self.said.append(f"{operator} gives up an instance for {wanted}")
                return host
        return None

    def _lease(self, operator: str, need: Need) -> str | None:
        situation = self.situation
        whole = empty_room(situation.host_cores, situation.host_memory_mb)
        if not fits(whole, need):
            has = f"{situation.host_cores:g} cores and {situation.host_memory_mb:,.0f} MB"
            wants = f"{need.cpu_cores:g} cores and {need.memory_mb:,.0f} MB"
            self.said.append(f"{operator} needs {wants}, but a host has {has}: it fits on none")
            return None
        leased = len(situation.hosts) + len(self._leased)
        if situation.most_hosts is not None and leased >= situation.most_hosts:
            self.said.append(f"no host has room for {operator}, and all {situation.most_hosts} that may be are leased")
            return None
        host = self._new_name()
        self._leased.append(host)
        self.rooms[host] = whole
        self.add(contract.LeaseHost(host), Reason.SCALE_OUT, f"no host has room for {operator}")
        self.said.append(f"{host} is leased")
        return host

    def _new_name(self) -> str:
        self._number += 1
        while f"host-{self._number}" in self.situation.hosts:
            self._number += 1
        return f"host-{self._number}"

    def _put(self, operator: str, host: str, why: str) -> None:
        self.rooms[host] = self.rooms[host].without(need_of(self.situation.operators[operator]))
        self.given.add(host)
        self.add(contract.StartInstance(operator, host), Reason.SCALE_OUT, why)
        self.said.append(f"{operator} gets an instance on {host} ({why})")

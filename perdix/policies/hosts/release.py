"""Giving a host back at the end of its unit: simulated first, carried out whole or not at all.

Section "Optimize resource usage" and Figure 5 of Hochreiner et al. (PeerJ CS 2018).
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from perdix.policies.contract import Reason
from perdix.policies.hosts.contract import Instance, Migrate, ReleaseHost
from perdix.policies.hosts.fleet import need_of
from perdix.policies.hosts.host_selection import Room, best_host
from perdix.policies.hosts.plan import Plan
from perdix.policies.hosts.spare import Spare


@dataclass(frozen=True)
class Release:
    """How a host becomes empty: instances that go, instances that move and where to."""

    host_id: str
    dropped: tuple[Instance, ...]
    moved: tuple[tuple[Instance, str], ...]
    rooms: Mapping[str, Room]

    def in_words(self) -> str:
        """Return it in words."""
        gone = Counter(instance.operator for instance in self.dropped)
        moved = Counter(f"{instance.operator} to {host}" for instance, host in self.moved)
        parts = [f"{n} of {name} dropped" for name, n in sorted(gone.items())]
        parts += [f"{n} of {name}" for name, n in sorted(moved.items())]
        return ", ".join(parts) or "it is empty"


def simulate(plan: Plan, host_id: str, spares: Mapping[str, Spare]) -> Release | str:
    """Return how a host can be emptied, or why it cannot; the plan is not changed.

    ``spares``: what may be taken away from each type at this look, on all hosts together. The last working instance of
    a type never goes.
    """
    refused = _refused(plan, host_id)
    if refused is not None:
        return refused
    here = [member for name in plan.fleet.members for member in plan.members(name) if member.host_id == host_id]
    dropped: list[Instance] = []
    for name in plan.fleet.members:
        may = spares[name].most if name in spares else 0
        may = min(may - plan.dropped[name], plan.left(name) - 1)
        dropped += [instance for instance in here if instance.operator == name][: max(may, 0)]
    gone = {instance.instance_id for instance in dropped}
    rooms, moved = dict(plan.rooms), []
    operators = plan.situation.operators
    whole = plan.rooms[host_id]

    def size(instance: Instance) -> tuple[float, str]:
        of = operators[instance.operator]
        return -max(of.cpu_cores / whole.cores, of.memory_mb / whole.memory_mb), instance.instance_id

    for instance in sorted((instance for instance in here if instance.instance_id not in gone), key=size):
        need = need_of(operators[instance.operator])
        for due in (False, True):
            hosts = {name: rooms[name] for name in plan.targets(host_id, due)}
            target = best_host(hosts, need, plan.cached_factor)
            if target is not None:
                break
        if target is None:
            return f"no other host has room for {instance.operator}"
        rooms[target] = rooms[target].without(need)
        moved.append((instance, target))
    return Release(host_id, tuple(dropped), tuple(moved), rooms)


def carry_out(plan: Plan, release: Release, why: str, spares: Mapping[str, Spare]) -> None:
    """Add the steps of a release: what moves, what goes, and the host."""
    for instance, target in release.moved:
        plan.given.add(target)
        plan.add(Migrate(instance.instance_id, target), Reason.SCALE_IN, f"{release.host_id} is given back")
    for instance in release.dropped:
        plan.stop(instance, Reason.SCALE_IN, f"{why}, {spares[instance.operator].why}")
    plan.rooms = dict(release.rooms)
    plan.add(ReleaseHost(release.host_id), Reason.SCALE_IN, why)
    plan.leaving.add(release.host_id)


def _refused(plan: Plan, host_id: str) -> str | None:
    """Return why a host cannot even be tried."""
    if not plan.situation.hosts[host_id].ready:
        return "it only starts"
    if host_id in plan.given:
        return "it gets an instance now"
    others = plan.targets(host_id, due=False) + plan.targets(host_id, due=True)
    if not others:
        return "it is the last host"
    arriving = [
        instance for instance in plan.situation.instances.values() if instance.host_id == host_id and not instance.ready
    ]
    if any(not instance.stopping for instance in arriving):
        return f"{arriving[0].operator} only starts on it"
    return None

"""What runs where: the instances that count, and the room that hosts really have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from perdix.policies.hosts.contract import HostsSituation, Instance, OperatorType
from perdix.policies.hosts.host_selection import Need, Room, empty_room


@dataclass(frozen=True)
class Fleet:
    """The instances and the rooms of one look."""

    # Operator -> instances that count, by name: neither stopping, nor the second of a migration while the first still
    # counts, nor on a host that is gone
    members: Mapping[str, tuple[Instance, ...]]
    moving: frozenset[str]  # instances that are being replaced by one elsewhere
    rooms: Mapping[str, Room]  # host -> room. All that is listed takes its part, also what starts and what stops

    @classmethod
    def of(cls, situation: HostsSituation) -> Fleet:
        """Return the fleet of a situation."""
        listed = {
            name: instance
            for name, instance in situation.instances.items()
            if instance.host_id in situation.hosts and instance.operator in situation.operators
        }
        members: dict[str, list[Instance]] = {name: [] for name in situation.operators}
        for container in sorted(listed.values(), key=lambda instance: instance.instance_id):
            first = listed.get(container.replaces or "")
            if not container.stopping and (first is None or first.stopping):
                members[container.operator].append(container)
        replaced = [
            instance.replaces for instance in listed.values() if not instance.stopping and instance.replaces in listed
        ]
        rooms = {name: empty_room(host.cores, host.memory_mb, host.images) for name, host in situation.hosts.items()}
        for container in listed.values():
            rooms[container.host_id] = rooms[container.host_id].without(
                need_of(situation.operators[container.operator])
            )
        return cls(
            {name: tuple(found) for name, found in members.items()},
            frozenset(name for name in replaced if name is not None),
            rooms,
        )

    def count(self, operator: str) -> int:
        """Return how many instances of a type count, with those that start."""
        return len(self.members[operator])

    def starting(self, operator: str) -> int:
        """Return how many of them do not work yet."""
        return sum(1 for member in self.members[operator] if not member.ready)

    def working(self, operator: str) -> int:
        """Return how many work."""
        return self.count(operator) - self.starting(operator)


def need_of(operator: OperatorType) -> Need:
    """Return what an instance of a type must be given."""
    return Need(operator.cpu_cores, operator.memory_mb, operator.name)

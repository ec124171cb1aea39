"""Hosts of a job of equal workers: which are leased, how many workers each has, and what is remembered of that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from perdix.policies.hosts.billing_unit import end_of_unit_s
from perdix.policies.hosts.contract import (
    Host,
    Instance,
    LeaseHost,
    Migrate,
    ReleaseHost,
    StartInstance,
    Step,
    StopInstance,
)
from perdix.policies.hosts.host_selection import ROUNDING, Need, Room, best_host, feasibility
from perdix.policies.remembering import number, part_of
from perdix.policies.visp.options import VispOptions
from perdix.policies.wording import seconds, workers

WORKER = "worker"
MOST_NAMED = 3


@dataclass(frozen=True)
class LeasedHost:
    """A host that is leased since ``since_s`` (epoch seconds), and its workers."""

    since_s: float
    workers: int = 0


@dataclass(frozen=True)
class Placement:
    """Host -> lease and workers."""

    hosts: Mapping[str, LeasedHost] = field(default_factory=dict)

    @property
    def workers(self) -> int:
        """Workers on all hosts."""
        return sum(host.workers for host in self.hosts.values())

    def rooms(self, options: VispOptions) -> dict[str, Room]:
        """Return host -> room that is left."""
        return {
            name: options.host.without(
                Need(host.workers * options.worker_cpu_cores, host.workers * options.worker_memory_mb)
            )
            for name, host in self.hosts.items()
        }

    def moved(self, name: str, by: int) -> Placement:
        """Return the placement with more or fewer workers on a host."""
        one = self.hosts[name]
        return Placement({**self.hosts, name: replace(one, workers=one.workers + by)})

    def matched(self, scale_out: int, options: VispOptions, now_s: float) -> Placement:
        """Return the placement of the workers that really run.

        More than was placed go where Algorithm 2 puts them, onto new hosts that are leased from now on where there is
        no room. Fewer have left the emptiest hosts: those hosts stay leased until their units end.
        """
        rooms, counts = self.rooms(options), {name: host.workers for name, host in self.hosts.items()}
        missing = scale_out - sum(counts.values())
        while missing > 0 and (host := best_host(rooms, options.need)) is not None:
            rooms[host], counts[host], missing = rooms[host].without(options.need), counts[host] + 1, missing - 1
        leased = dict(self.hosts)
        while missing > 0:  # all are full, so each new host is filled before the next
            host = next(name for k in count(len(leased) + 1) if (name := f"host-{k}") not in leased)
            counts[host] = min(missing, room_for(options.host, options))
            leased[host], missing = LeasedHost(now_s), missing - counts[host]
        for host in sorted(counts, key=lambda name: (counts[name], name)):
            gone = min(max(-missing, 0), counts[host])
            counts[host], missing = counts[host] - gone, missing + gone
        return Placement({name: replace(host, workers=counts[name]) for name, host in leased.items()})

    def after(self, steps: Sequence[Step], now_s: float) -> Placement:
        """Return the placement once all steps are carried out."""
        found = self
        for step in steps:
            match step.action:
                case LeaseHost(host_id):
                    found = Placement({**found.hosts, host_id: LeasedHost(now_s)})
                case StartInstance(_, host_id):
                    found = found.moved(host_id, 1)
                case StopInstance(instance_id):
                    found = found.moved(_host_of(instance_id), -1)
                case Migrate(instance_id, host_id):
                    found = found.moved(_host_of(instance_id), -1).moved(host_id, 1)
                case ReleaseHost(host_id):
                    found = Placement({name: host for name, host in found.hosts.items() if name != host_id})
        return found

    def listed(self, options: VispOptions, now_s: float) -> tuple[dict[str, Host], dict[str, Instance]]:
        """Return hosts and instances as policies of hosts know them."""
        hosts, instances = {}, {}
        for name, host in self.hosts.items():
            end_s = self.end_s(name, options, now_s)
            hosts[name] = Host(
                name, options.host_cores, options.host_memory_mb, host.since_s, end_s, frozenset({WORKER})
            )
            for k in range(host.workers):
                key = f"{name}/{k + 1:03d}"
                instances[key] = Instance(key, WORKER, name)
        return hosts, instances

    def end_s(self, name: str, options: VispOptions, now_s: float) -> float:
        """Return when the unit of a host that runs now ends, epoch seconds."""
        first_end_s = self.hosts[name].since_s + max(options.unit_s, options.minimum_s)  # at which nothing more is paid
        return end_of_unit_s(first_end_s, options.unit_s, now_s)

    def in_words(self, options: VispOptions, now_s: float) -> str:
        """Return the hosts in words: their workers, the room for more, and how long their units still run."""
        rooms, parts = self.rooms(options), []
        ends = {name: self.end_s(name, options, now_s) for name in self.hosts}
        for name in sorted(ends, key=lambda name: (ends[name], name))[:MOST_NAMED]:
            more = room_for(rooms[name], options)
            space = f", room for {more}" if more else ""
            left = seconds(ends[name] - now_s)
            parts.append(f"{name} has {workers(self.hosts[name].workers)}{space}, paid for {left} more")
        others = len(ends) - len(parts)
        return "; ".join(parts) + (f"; and {others} hosts more" if others else "")

    def to_json(self) -> dict[str, list[float]]:
        """Return it as JSON-serialisable values."""
        return {name: [host.since_s, host.workers] for name, host in self.hosts.items()}

    @classmethod
    def read(cls, value: Any, options: VispOptions, now_s: float) -> Placement | None:
        """Return what was remembered, ``None`` where it cannot be: unreadable, in the future, or more than fits."""
        found = part_of(value, lambda kept: {str(name): _leased(host) for name, host in kept.items()})
        if found is None:
            return None
        fitting = room_for(options.host, options)
        possible = all(0 <= host.workers <= fitting and host.since_s <= now_s for host in found.values())
        return cls(found) if possible else None


def room_for(room: Room, options: VispOptions) -> int:
    """Return how many workers a room still takes."""
    return max(0, int(feasibility(room, options.need) + ROUNDING))


def _leased(value: Any) -> LeasedHost:
    since_s, count = value
    if int(count) != count:
        raise ValueError(f"{count} workers")
    return LeasedHost(number(since_s), int(count))


def _host_of(instance_id: str) -> str:
    return instance_id.rpartition("/")[0]

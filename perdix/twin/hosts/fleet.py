"""Hosts and containers: leases, starts, stops, migrations, deaths, and the room that each takes."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from perdix.twin.hosts.leased import Container, Event, ImpossibleError, Kind, LeasedHost
from perdix.twin.hosts.luck import Luck
from perdix.twin.hosts.parameters import NOTHING, Topology

SCALED: Final = ("asked", "stopping")  # a migration scales nothing


class Fleet:
    """All hosts and containers. Time is handed in: whole seconds after the twin began.

    ``hosts``, ``containers``: those that are there, by name.
    ``leases``: every host that ever was leased.
    ``scaled``: operator -> how often it was scaled.
    ``version``: counts up whenever something may work that did not, or the other way round.
    """

    def __init__(self, topology: Topology, luck: Luck, unit_s: int) -> None:
        self._topology = topology
        self._luck = luck
        self._unit_s = unit_s
        self._due = True
        self.hosts: dict[str, LeasedHost] = {}
        self.containers: dict[str, Container] = {}
        self.leases: list[LeasedHost] = []
        self.events: list[Event] = []
        self.scaled = Counter[str]()
        self.version = 0
        self._containers_made = 0

    # ---- what is there --------------------------------------------------------------------------------------------

    def on(self, host_id: str) -> Iterator[Container]:
        """Yield the containers of a host in the order in which they were asked for."""
        return (container for container in self.containers.values() if container.host_id == host_id)

    def room(self, host_id: str, *, now: bool = False) -> tuple[float, float]:
        """Return free cores and MB of a host once all that stops is gone; with ``now`` what is free at once."""
        cores, memory_mb = self._topology.hosts.cores, self._topology.hosts.memory_mb
        for container in self.on(host_id):
            taken = container.starts_s is not None if now else not container.stopping
            if taken:
                needs = self._topology.operators[container.operator]
                cores -= needs.cpu_cores
                memory_mb -= needs.memory_mb
        return cores, memory_mb

    # ---- what can be done to it -----------------------------------------------------------------------------------

    def lease(self, host_id: str, now_s: int, *, started: bool = False) -> None:
        """Lease a host under a new name; ``started``: it runs at once, as those at the beginning."""
        if any(lease.host_id == host_id for lease in self.leases):
            raise ImpossibleError(f"the name '{host_id}' was taken before; lease under a new one")
        most = self._topology.hosts.most
        if most is not None and len(self.hosts) >= most:
            raise ImpossibleError(f"{most} hosts are leased, and more are not allowed")
        number = len(self.leases)
        ready_s = now_s if started else now_s + max(1, round(self._luck.host_start_s(number)))
        host = LeasedHost(host_id, number, now_s, ready_s)
        self.hosts[host_id] = host
        self.leases.append(host)
        self._tell(now_s, "leased", host_id)

    def lease_again(self, host_id: str, now_s: int) -> None:
        """Pay for another unit once the running one ends; a release is taken back."""
        host = self._host(host_id)
        if host.again:
            raise ImpossibleError(f"host '{host_id}' is leased for its next unit already")
        host.again, host.releasing = True, False
        self._tell(now_s, "leased-again", host_id)

    def release(self, host_id: str, now_s: int) -> None:
        """Give a host back as soon as it is empty."""
        host = self._host(host_id)
        if host.releasing:
            raise ImpossibleError(f"host '{host_id}' is being released already")
        host.releasing, host.again = True, False
        self._release_if_empty(host, now_s)

    def start(
        self, operator: str, host_id: str, now_s: int, *, replaces: str | None = None, ready: bool = False
    ) -> str:
        """Ask for a container and return its name; ``ready``: it works at once, as those at the beginning."""
        if operator not in self._topology.operators:
            known = ", ".join(self._topology.operators)
            raise ImpossibleError(f"there is no operator '{operator}'; known: {known}")
        host = self._host(host_id)
        if host.releasing:
            raise ImpossibleError(f"host '{host_id}' is being released, so nothing starts there")
        needs, (cores, memory_mb) = self._topology.operators[operator], self.room(host_id)
        if needs.cpu_cores > cores + NOTHING or needs.memory_mb > memory_mb + NOTHING:
            raise ImpossibleError(
                f"host '{host_id}' has {cores:.3g} cores and {memory_mb:.0f} MB free, and {operator} needs "
                f"{needs.cpu_cores:g} and {needs.memory_mb:g}"
            )
        number = self._containers_made
        self._containers_made += 1
        one = Container(f"{operator}-{number:05d}", number, operator, host_id, replaces=replaces)
        self.containers[one.instance_id] = one
        if ready:
            one.ready, one.starts_s, one.ready_s = True, now_s, float(now_s)
            host.images[operator] = float(now_s)
        else:
            self._tell(now_s, "asked" if replaces is None else "migrating", host_id, one)
        self._changed()
        return one.instance_id

    def stop(self, instance_id: str, now_s: int) -> None:
        """Stop a container: it works no more, and is gone some seconds later."""
        one = self._container(instance_id)
        self._stop(one, now_s)
        self._tell(now_s, "stopping", one.host_id, one)

    def migrate(self, instance_id: str, host_id: str, now_s: int) -> str:
        """Start the like of a container elsewhere, stop it once that works, and return the new one's name."""
        one = self._container(instance_id)
        if one.host_id == host_id:
            raise ImpossibleError(f"instance '{instance_id}' is on host '{host_id}' already")
        if any(other.replaces == instance_id for other in self.containers.values()):
            raise ImpossibleError(f"instance '{instance_id}' is being moved already")
        return self.start(one.operator, host_id, now_s, replaces=instance_id)

    def die(self, host_id: str, now_s: int) -> None:
        """Let a host die with all that is on it; what those worked on goes back into the queues."""
        host = self._host(host_id)
        for container in list(self.on(host_id)):
            self._remove(container)
            self._tell(now_s, "lost", host_id, container)
        host.died = True
        self._gone(host, now_s, "host-died")

    # ---- time -----------------------------------------------------------------------------------------------------

    def pass_to(self, now_s: int) -> None:
        """Let everything happen that is due at ``now_s``."""
        for host in list(self.hosts.values()):
            if host.ready_s == now_s and host.leased_s < now_s:
                self._due = True
                self._tell(now_s, "host-started", host.host_id)
            if (now_s - host.leased_s) % self._unit_s == 0 and now_s > host.leased_s:
                self._end_unit(host, now_s)
        if self._due:
            self._begin_starts(now_s)
        due = [
            held for held in self.containers.values()
            if held.gone_s == now_s
            or (held.gone_s is None and not held.ready and held.ready_s is not None and held.ready_s <= now_s)
        ]  # fmt: skip
        for container in due:
            if container.stopping:
                self._stopped(container, now_s)
            else:
                self._started(container, now_s)

    def _begin_starts(self, now_s: int) -> None:
        """Begin the starts for which host and room are there by now."""
        for container in self.containers.values():
            host = self.hosts[container.host_id]
            if container.starts_s is not None or container.stopping or host.ready_s > now_s:
                continue
            needs, (cores, memory_mb) = (
                self._topology.operators[container.operator],
                self.room(container.host_id, now=True),
            )
            if needs.cpu_cores > cores + NOTHING or needs.memory_mb > memory_mb + NOTHING:
                continue  # what stops there has not made room yet
            download_s = needs.image_mb / self._topology.containers.download_mb_per_s
            image_s = host.images.setdefault(container.operator, now_s + download_s)
            container.starts_s = now_s
            container.ready_s = max(image_s, now_s) + self._luck.container_start_s(container.number)
        self._due = any(container.starts_s is None for container in self.containers.values())

    def _started(self, container: Container, now_s: int) -> None:
        if self._luck.fails(container.number):
            self._remove(container)
            self._tell(now_s, "start-failed", container.host_id, container)
            self._release_if_empty(self.hosts[container.host_id], now_s)
            return
        container.ready = True
        self._changed()
        old = self.containers.get(container.replaces or "")
        self._tell(now_s, "started" if container.replaces is None else "migrated", container.host_id, container)
        if old is not None and not old.stopping:
            self._stop(old, now_s)

    def _stopped(self, container: Container, now_s: int) -> None:
        self._remove(container)
        self._tell(now_s, "stopped", container.host_id, container)
        self._release_if_empty(self.hosts[container.host_id], now_s)

    def _end_unit(self, host: LeasedHost, now_s: int) -> None:
        """Begin a host's next unit. One that could not be emptied in time goes on: its next unit is paid for anyway."""
        if host.releasing and any(not container.stopping for container in self.on(host.host_id)):
            host.releasing = False
            self._tell(now_s, "release-lapsed", host.host_id)
        elif not host.again and not host.releasing:
            self._tell(now_s, "went-on", host.host_id)
        host.again = False

    # ---- small things ---------------------------------------------------------------------------------------------

    def _host(self, host_id: str) -> LeasedHost:
        if host_id not in self.hosts:
            raise ImpossibleError(f"there is no host '{host_id}'; leased: {', '.join(self.hosts) or 'none'}")
        return self.hosts[host_id]

    def _container(self, instance_id: str) -> Container:
        one = self.containers.get(instance_id)
        if one is None:
            raise ImpossibleError(f"there is no instance '{instance_id}'")
        if one.stopping:
            raise ImpossibleError(f"instance '{instance_id}' is being stopped already")
        return one

    def _stop(self, container: Container, now_s: int) -> None:
        container.ready = False
        container.gone_s = now_s + self._topology.containers.stop_s
        self._changed()

    def _remove(self, container: Container) -> None:
        del self.containers[container.instance_id]
        for other in self.containers.values():
            if other.replaces == container.instance_id:
                other.replaces = None
        self._changed()

    def _release_if_empty(self, host: LeasedHost, now_s: int) -> None:
        if host.releasing and next(self.on(host.host_id), None) is None:
            self._gone(host, now_s, "released")

    def _gone(self, host: LeasedHost, now_s: int, kind: Kind) -> None:
        del self.hosts[host.host_id]
        host.gone_s = now_s
        self._changed()
        self._tell(now_s, kind, host.host_id)

    def _changed(self) -> None:
        self._due = True
        self.version += 1

    def _tell(self, now_s: int, kind: Kind, host_id: str, container: Container | None = None) -> None:
        named = ("", "") if container is None else (container.instance_id, container.operator)
        self.events.append(Event(now_s, kind, host_id, *named))
        if kind in SCALED:
            self.scaled[named[1]] += 1

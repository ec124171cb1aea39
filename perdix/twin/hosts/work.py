"""What instances can work off in a second: what they are guaranteed first, then idle CPU of their hosts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perdix.telemetry.window import Values
from perdix.twin.hosts.fleet import Fleet
from perdix.twin.hosts.parameters import Topology


@dataclass(frozen=True)
class Placement:
    """Which instances work where."""

    numbers: tuple[int, ...]  # of the hosts on which something works
    counts: Values  # working instances, ``(hosts, operators)``
    # Per host the operators of its instances, those that were asked for first coming first
    order: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, fleet: Fleet, operators: Sequence[str]) -> Placement:
        """Return where the instances of a fleet work."""
        at = {name: k for k, name in enumerate(operators)}
        found: dict[int, list[int]] = {}
        for container in fleet.containers.values():
            if container.ready:
                found.setdefault(fleet.hosts[container.host_id].number, []).append(at[container.operator])
        counts = np.zeros((len(found), len(operators)))
        for row, mine in enumerate(found.values()):
            np.add.at(counts[row], mine, 1.0)
        return cls(tuple(found), counts, tuple(tuple(mine) for mine in found.values()))


class Work:
    """Rates of instances, and how hosts share their CPU."""

    def __init__(self, topology: Topology) -> None:
        operators = list(topology.operators.values())
        processing = topology.processing
        self.per_instance_s: Values = np.array([processing.at_a_time / operator.duration_s for operator in operators])
        self._cores = np.array([operator.cpu_cores for operator in operators])
        self._host_cores = topology.hosts.cores
        self._boost = processing.boost

    def guaranteed(self, placed: Placement, speeds: Values) -> Values:
        """Return the items/s that each operator's instances work off with what they are guaranteed."""
        return np.asarray((speeds @ placed.counts) * self.per_instance_s)

    def with_idle_cpu(self, placed: Placement, speeds: Values, guaranteed: Values, wanted: Values) -> Values:
        """Return the items/s that each operator's instances work off with the idle CPU of their hosts, too.

        CPU that an instance is guaranteed and does not need is idle; who needs more gets it, who was there first coming
        first, up to ``boost`` times its own.
        """
        asked = np.divide(wanted, guaranteed, out=np.zeros_like(wanted), where=guaranteed > 0)
        more = np.minimum(asked, self._boost) - 1.0
        extra = np.where(more > 0, more, 0.0) * self._cores  # cores that an instance would take beyond its own
        if not extra.any():
            return guaranteed
        used = placed.counts @ (np.minimum(asked, 1.0) * self._cores)
        idle = np.maximum(self._host_cores - used, 0.0)
        short = placed.counts @ extra > idle
        gained = (speeds * ~short) @ placed.counts * extra
        for row in np.flatnonzero(short):
            left = float(idle[row])
            for k in placed.order[row]:
                taken = min(float(extra[k]), left)
                gained[k] += speeds[row] * taken
                left -= taken
        return np.asarray(guaranteed + gained / self._cores * self.per_instance_s)

    def at_most(self, placed: Placement, speeds: Values, guaranteed: Values, wanted: Values) -> Values:
        """Return the items/s that each operator's instances reach for a moment, as when a burst of items has come.

        Idle CPU is there for all instances of a host alike then, since their bursts fall into different moments.
        """
        asked = np.divide(wanted, guaranteed, out=np.zeros_like(wanted), where=guaranteed > 0)
        mean = np.minimum(asked, self._boost)
        base = np.maximum(mean, 1.0)
        idle = np.maximum(self._host_cores - placed.counts @ (mean * self._cores), 0.0)
        more = placed.counts @ ((self._boost - base) * self._cores)
        part = np.minimum(np.divide(idle, more, out=np.ones_like(idle), where=more > 0), 1.0)
        steady, bursting = speeds @ placed.counts, (speeds * part) @ placed.counts
        return np.asarray((steady * base + bursting * (self._boost - base)) * self.per_instance_s)

"""What a policy made of a topology on leased hosts: what was paid, what was late, what was changed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perdix.replay.hosts.situation import Carried
from perdix.settings.prices import Billing
from perdix.twin.hosts.leased import Event, LeasedHost
from perdix.twin.hosts.ledger import Course
from perdix.twin.hosts.parameters import Topology
from perdix.twin.hosts.waiting import share_within, waits_s

EMPTY = 1.0  # items: a queue that holds less is worked off


@dataclass(frozen=True)
class Lease:
    """A host's lease: seconds after the start of the run; ``until_s`` is the end of the run where it was kept.

    ``died``: whether the cloud took the host away: nobody gave it back.
    """

    host_id: str
    from_s: int
    until_s: int
    kept: bool
    died: bool = False

    @property
    def leased_s(self) -> int:
        """Its length."""
        return self.until_s - self.from_s


@dataclass(frozen=True)
class Bill:
    """What the leases cost with one billing time unit."""

    unit_min: int
    paid_units: int  # units that were begun
    resource_cost: float  # of those
    unused_s: float  # paid time after hosts were given back
    # Hosts that were given back with more of a paid unit left than passes between two looks, or 5 % of it
    premature: int
    total_cost: Mapping[str, float]  # compliance level -> resource cost and penalties


@dataclass(frozen=True)
class HostsOutcome:
    """What one replay came to.

    ``items``: data items that were begun, over all operators; each counts at every operator that it passes.
    ``unprocessed``: that waited at the end.
    ``compliance``, ``delayed``: level -> share of the items within its limit, and how many were not.
    ``penalties``: level -> their penalty.
    ``time_to_adapt_s``: mean time from when items of an operator wait longer than its objective until none waits any
    more; ``None``: that never happened.
    ``upscalings``, ``downscalings``, ``migrations``: of instances.
    ``hosts_leased``, ``hosts_mean``, ``instances_mean``, ``most_hosts``: leases in all, and means and maximum over
    time.
    ``lost_instances``, ``dead_hosts``, ``failed_starts``: what broke.
    ``went_on``: units that began because nobody said anything.
    ``bills``: one for each billing time unit that it is billed by.
    ``steps``: everything that was asked for, with what could not be carried out.
    ``problems``: looks at which the policy failed or answered what cannot be, and refused steps, in words.
    """

    policy: str
    topology: str
    pattern: str
    seed: int
    seconds: int
    looks: int
    items: float
    unprocessed: float
    compliance: Mapping[str, float]
    delayed: Mapping[str, float]
    penalties: Mapping[str, float]
    time_to_adapt_s: float | None
    upscalings: int
    downscalings: int
    migrations: int
    hosts_leased: int
    hosts_mean: float
    most_hosts: int
    instances_mean: float
    lost_instances: int
    dead_hosts: int
    failed_starts: int
    went_on: int
    refused: int
    bills: tuple[Bill, ...]
    leases: tuple[Lease, ...] = ()
    steps: tuple[Carried, ...] = ()
    sentences: tuple[tuple[int, str], ...] = ()
    problems: tuple[str, ...] = ()
    wall_s: float = 0.0


@dataclass(frozen=True)
class HostsPlayed:
    """A replay that came to its end."""

    outcome: HostsOutcome
    course: Course
    operators: tuple[str, ...]


def leases_of(hosts: Sequence[LeasedHost], end_s: int) -> tuple[Lease, ...]:
    """Return the leases of a run that ends at ``end_s``."""
    return tuple(
        Lease(
            host.host_id,
            host.leased_s,
            end_s if host.gone_s is None else min(host.gone_s, end_s),
            host.gone_s is None,
            host.died,
        )
        for host in hosts
    )


def bill(
    leases: Sequence[Lease],
    billing: Billing,
    price_per_h: float,
    penalties: Mapping[str, float],
    look_every_s: float = 60.0,
) -> Bill:
    """Return what leases cost: every unit that was begun before the end of the run is paid whole."""
    unit_s = billing.unit_s
    paid = [billing.paid_s(lease.leased_s) for lease in leases]
    unused = [
        0.0 if lease.kept or lease.died else paid_s - lease.leased_s for lease, paid_s in zip(leases, paid, strict=True)
    ]
    cost = sum(paid) / 3_600.0 * price_per_h
    late = max(look_every_s, 0.05 * unit_s)
    return Bill(
        unit_s // 60,
        round(sum(paid) / unit_s),
        cost,
        sum(unused),
        sum(seconds > late for seconds in unused),
        {level: cost + penalty for level, penalty in penalties.items()},
    )


def delayed_items(topology: Topology, course: Course) -> dict[str, float]:
    """Return level -> data items that took longer than it allows, over all operators."""
    processing, levels = topology.processing, topology.costs.levels
    found = dict.fromkeys(levels, 0.0)
    seconds = slice(0, len(course))
    begun = course.processed
    for k, operator in enumerate(topology.operators.values()):
        waited_s = waits_s(
            course.arrived[:, k], course.left[:, k], seconds, course.utilisation[:, k], processing.arrivals_every_s
        )
        for level, factor in levels.items():
            within = share_within(
                waited_s, course.slowness[:, k], operator.duration_s, factor, (processing.usual, processing.spread)
            )
            found[level] += float((begun[:, k] * (1.0 - within)).sum())
    return found


def time_to_adapt_s(topology: Topology, course: Course) -> float | None:
    """Return the mean time for which an operator is behind.

    It is behind from when its items wait longer than its objective until its queue is empty, or the run over.
    """
    lengths = []
    queue = course.queue
    for k, operator in enumerate(topology.operators.values()):
        waited_s = waits_s(course.arrived[:, k], course.left[:, k], slice(0, len(course)), np.zeros(len(course)), 0.0)
        behind, empty = waited_s.max(axis=1) > operator.duration_s, queue[:, k] < EMPTY
        since: int | None = None
        for second in np.flatnonzero(behind | empty):
            if since is None and behind[second] and not empty[second]:
                since = int(second)
            elif since is not None and empty[second]:
                lengths.append(int(second) - since)
                since = None
        if since is not None:
            lengths.append(len(course) - since)
    return float(np.mean(lengths)) if lengths else None


def counted(events: Sequence[Event]) -> dict[str, int]:
    """Return how often what happened, by the names in :class:`HostsOutcome`."""
    names = {
        "upscalings": "asked",
        "downscalings": "stopping",
        "migrations": "migrated",
        "lost_instances": "lost",
        "dead_hosts": "host-died",
        "failed_starts": "start-failed",
        "went_on": "went-on",
    }
    kinds = [event.kind for event in events]
    return {name: kinds.count(kind) for name, kind in names.items()}  # type: ignore[arg-type]

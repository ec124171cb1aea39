"""What a course of workers costs on hosts of a price list, and on which instance type it costs least."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perdix.models.billing.leases import Leases, Release, leases
from perdix.models.billing.packing import DoesNotFitError, Resources, pack, per_host
from perdix.settings.prices import PriceList
from perdix.telemetry.window import Values

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Demand:
    """The workers of one job, second by second, where every change of their number restarts the job."""

    starts_s: Counts  # seconds from the start at which the workers change, rising; the first is 0. Shape ``(runs,)``
    counts: Counts  # workers of each size from then on, shape ``(runs, sizes)``
    sizes: tuple[Resources, ...]
    seconds: int  # length of the whole

    @classmethod
    def of_workers(cls, workers: ArrayLike, size: Resources) -> Demand:
        """Return the demand of equal workers, ``workers`` of shape ``(seconds,)``; raises as :meth:`of_mixes`."""
        return cls.of_mixes(np.asarray(workers, dtype=np.float64).reshape(-1, 1), (size,))

    @classmethod
    def of_mixes(cls, workers: ArrayLike, sizes: tuple[Resources, ...]) -> Demand:
        """Return the demand of workers of several sizes, ``workers`` of shape ``(seconds, sizes)``.

        Raises ``ValueError`` when a number of workers is negative, not whole or not finite, or shapes differ.
        """
        given = np.asarray(workers, dtype=np.float64)
        if given.ndim != 2 or given.shape[1] != len(sizes):
            raise ValueError(
                f"workers of {len(sizes)} sizes must be of shape (seconds, {len(sizes)}), found {given.shape}"
            )
        if not np.isfinite(given).all() or (given < 0).any() or (given != np.rint(given)).any():
            raise ValueError("workers must be whole numbers from 0 on in every second")
        counts = given.astype(np.int64)
        changed = np.flatnonzero((counts[1:] != counts[:-1]).any(axis=1)) + 1
        starts = np.concatenate([[0], changed]).astype(np.int64) if len(counts) else np.empty(0, dtype=np.int64)
        return cls(starts, counts[starts], sizes, len(counts))

    @property
    def lengths_s(self) -> Counts:
        """Seconds that each run of equal workers lasts, shape ``(runs,)``."""
        return np.diff(np.append(self.starts_s, self.seconds))

    @property
    def core_s(self) -> float:
        """Core-seconds that the workers are given in all."""
        cores = np.array([size.cores for size in self.sizes])
        return float(((self.counts @ cores) * self.lengths_s).sum())

    def hosts(self, host: Resources) -> Counts:
        """Return how many hosts of one kind carry each run, shape ``(runs,)``.

        Packed anew at each change, because a rescale restarts every worker anyhow; in between none moves.

        Raises ``DoesNotFitError`` when a worker that is needed is larger than an empty host.
        """
        if len(self.sizes) == 1:
            return np.asarray(-(-self.counts[:, 0] // per_host(self.sizes[0], host)), dtype=np.int64)
        sizes = {str(number): size for number, size in enumerate(self.sizes, start=1)}
        known: dict[tuple[int, ...], int] = {}
        for row in self.counts:
            mix = tuple(int(count) for count in row)
            if mix not in known:
                known[mix] = len(pack(dict(zip(sizes, mix, strict=True)), sizes, host).hosts)
        return np.array([known[tuple(int(count) for count in row)] for row in self.counts], dtype=np.int64)


@dataclass(frozen=True)
class Bill:
    """What was paid for hosts of one type, and what of it was used."""

    instance_type: str
    currency: str
    # In ``currency``; every started billing time unit and the minimum are paid, also where they reach beyond the end
    cost: float
    # host_h_paid, host_h_used: host-hours that are paid, and those in which a host carried a worker
    host_h_paid: float
    host_h_used: float
    # Cores of workers as a share of the cores that are paid, over time (1.0 = 100 %); ``None``: nothing was paid
    utilisation: float | None
    # What was paid for cores that no worker had: start-up, idle hosts, and what does not fill a host
    wasted_cost: float
    leases: int  # how many hosts were leased, counting one anew that comes again
    most_hosts: int  # the most that carried at once


@dataclass(frozen=True)
class Billed:
    """A bill, and the hosts that were leased on average in each second of the course, shape ``(seconds,)``."""

    bill: Bill
    hosts: Values


def host_of(prices: PriceList, instance_type: str) -> Resources:
    """Return what a host of this type has for workers. Raises ``KeyError``."""
    return Resources(*prices.usable(instance_type))


def bill(demand: Demand, prices: PriceList, instance_type: str, release: Release | None = None) -> Billed:
    """Return what it costs to carry ``demand`` on hosts of one type.

    Raises ``DoesNotFitError`` when a worker is larger than an empty host; ``KeyError`` when the list has no such type.
    """
    host_type = prices.instance_types[instance_type]
    needed = demand.hosts(host_of(prices, instance_type))
    found = leases(
        demand.starts_s, needed, demand.seconds, prices.billing, start_up_s=host_type.start_up_s, release=release
    )
    return Billed(_bill(demand, needed, found, prices, instance_type), found.hosts(demand.seconds))


def bills(
    demands: Sequence[Demand], prices: PriceList, release: Release | None = None
) -> tuple[list[list[Billed]], Mapping[str, str]]:
    """Return bills of the same demands on every instance type that fits, the cheapest type (in sum) first.

    Returns for each type a bill per demand; and type -> why no bill, where a worker does not fit.
    """
    found: list[list[Billed]] = []
    left_out: dict[str, str] = {}
    for name in prices.instance_types:
        try:
            found.append([bill(demand, prices, name, release) for demand in demands])
        except DoesNotFitError as error:
            left_out[name] = str(error)
    return sorted(found, key=_total), left_out


def least_cost(worker_s: float, worker: Resources, prices: PriceList) -> float | None:
    """Return what nobody gets below for this many worker-seconds: only full hosts, paid for no second more.

    ``None`` when the worker fits on no type.
    """
    per_worker_h = []
    for name, instance_type in prices.instance_types.items():
        try:
            per_worker_h.append(instance_type.price_per_h / per_host(worker, host_of(prices, name)))
        except DoesNotFitError:
            continue
    return min(per_worker_h) * worker_s / 3600.0 if per_worker_h else None


def _total(billed: Sequence[Billed]) -> tuple[float, float]:
    return sum(charged.bill.cost for charged in billed), sum(charged.bill.host_h_paid for charged in billed)


def _bill(demand: Demand, needed: Counts, found: Leases, prices: PriceList, instance_type: str) -> Bill:
    host_type = prices.instance_types[instance_type]
    paid_s = float(found.paid_s.sum())
    cost = paid_s / 3600.0 * host_type.price_per_h
    utilisation = demand.core_s / (paid_s * host_type.cores) if paid_s else None
    return Bill(
        instance_type=instance_type,
        currency=prices.currency,
        cost=cost,
        host_h_paid=paid_s / 3600.0,
        host_h_used=float((needed * demand.lengths_s).sum()) / 3600.0,
        utilisation=utilisation,
        wasted_cost=cost * (1.0 - (utilisation or 0.0)),
        leases=len(found.begins_s),
        most_hosts=int(np.max(needed, initial=0)),
    )


@dataclass(frozen=True)
class Quote:
    """So many workers on hosts of one type."""

    instance_type: str
    # per_host, hosts: workers that one host takes, and hosts that all of them need
    per_host: int
    hosts: int
    price_per_h: float  # of all hosts, in the list's currency; ``worker_price_per_h`` is a worker's part of it
    worker_price_per_h: float
    utilisation: float  # cores of workers as a share of the cores that are paid (1.0 = 100 %)


def quotes(prices: PriceList, worker: Resources, workers: int) -> tuple[list[Quote], Mapping[str, str]]:
    """Return a quote per instance type, the cheapest first, and type -> why not, where a worker does not fit.

    Raises ``ValueError`` when there is no worker to be placed.
    """
    if workers < 1:
        raise ValueError(f"at least 1 worker must be placed, found {workers}")
    found: list[Quote] = []
    left_out: dict[str, str] = {}
    for name, instance_type in prices.instance_types.items():
        try:
            fitting = per_host(worker, host_of(prices, name))
        except DoesNotFitError as error:
            left_out[name] = str(error)
            continue
        hosts = -(-workers // fitting)
        price_per_h = hosts * instance_type.price_per_h
        utilisation = workers * worker.cores / (hosts * instance_type.cores)
        found.append(Quote(name, fitting, hosts, price_per_h, price_per_h / workers, utilisation))
    return sorted(found, key=lambda quote: (quote.price_per_h, quote.hosts, quote.instance_type)), left_out

"""What a course of workers costs on hosts of a price list, and on which instance type it costs least."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perdix.models.billing.demand import Counts, Demand
from perdix.models.billing.leases import Leases, Release, leases
from perdix.models.billing.packing import DoesNotFitError, Resources, per_host
from perdix.settings.prices import PriceList
from perdix.telemetry.window import Values


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

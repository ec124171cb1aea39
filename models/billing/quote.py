"""What a fixed number of equal workers costs per hour on each instance type of a list."""

from collections.abc import Mapping
from dataclasses import dataclass

from perdix.models.billing.bill import host_of
from perdix.models.billing.packing import DoesNotFitError, Resources, per_host
from perdix.settings.prices import PriceList


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

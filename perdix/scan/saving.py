"""What an advice saves in a month: in money where workers have a price, else in worker-hours."""

from dataclasses import dataclass
from typing import Final

from perdix.models.billing.bill import quotes
from perdix.replay.pricing import Pricing
from perdix.settings.yaml_files import SettingsError

MONTH_H: Final = 365.25 * 24.0 / 12.0


@dataclass(frozen=True)
class WorkerPrice:
    """What one worker costs for an hour."""

    per_h: float
    currency: str  # empty: any
    about: str  # where the price is from, in words


def price_of_list(pricing: Pricing, workers: int) -> WorkerPrice:
    """Return a worker's part of the hosts that take this many of them, on the instance type asked for or the cheapest.

    Raises ``SettingsError`` when no host takes such a worker.
    """
    pricing.check()
    found, left_out = quotes(pricing.prices, pricing.worker, max(workers, 1))
    fitting = [quote for quote in found if pricing.instance_type in (None, quote.instance_type)]
    if not fitting:
        raise SettingsError(f"prices '{pricing.prices.name}': {next(iter(left_out.values()), 'no instance type fits')}")
    best = fitting[0]
    about = (
        f"{best.instance_type} of {pricing.prices.name} (as of {pricing.prices.as_of.isoformat()}), "
        f"{best.per_host} workers of {pricing.worker} on each"
    )
    return WorkerPrice(best.worker_price_per_h, pricing.prices.currency, about)


def worker_h_per_month(workers: float) -> float:
    """Return the worker-hours per month of an average number of workers."""
    return workers * MONTH_H


def cost_per_month(workers: float, price: WorkerPrice | None) -> float | None:
    """Return the cost per month of an average number of workers; ``None`` without a price."""
    return None if price is None else worker_h_per_month(workers) * price.per_h


def saves_in_words(value: float, unit: str) -> str:
    """Return what an advice comes to in a month: what it saves, or, where jobs are too small today, costs more."""
    amount = f"{abs(value):,.0f} {unit}".rstrip()
    return f"saves {amount} a month" if round(value) >= 0 else f"costs {amount} a month more"

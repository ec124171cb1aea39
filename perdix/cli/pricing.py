"""Options that say what workers would cost: a price list, what a worker is given, and when hosts are given back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from perdix.cli.output import UserError

if TYPE_CHECKING:
    from perdix.replay.pricing import Pricing

WORKER_CORES, WORKER_MEMORY_MB = 1.0, 2048.0
of_prices = partial(typer.Option, rich_help_panel="Prices")

PricesOption = Annotated[
    str | None,
    of_prices(
        "--prices",
        help="Price list by which hosts are leased for the workers: a name (see perdix prices), or a YAML file.",
        show_default="none",
    ),
]
InstanceTypeOption = Annotated[
    str | None,
    of_prices(
        "--instance-type", help="With --prices: on which hosts.", show_default="cheapest: what comes out so per policy"
    ),
]
WorkerCpuOption = Annotated[
    float | None,
    of_prices(
        "--worker-cpu", help="With --prices: cores of a worker.", show_default=f"{WORKER_CORES:g}", min=0.001, max=1e6
    ),
]
WorkerMemoryOption = Annotated[
    float | None,
    of_prices(
        "--worker-memory", help="With --prices: MB of a worker.", show_default=f"{WORKER_MEMORY_MB:g}", min=1.0, max=1e9
    ),
]
ReleaseOption = Annotated[
    str | None,
    of_prices(
        "--release",
        help="With --prices: when idle hosts are given back: at-once, after-SECONDS, or end-of-unit (of billing).",
        show_default="at-once",
    ),
]


@dataclass(frozen=True)
class AskedPrices:
    """What was asked for; ``None``: nothing was said."""

    prices: str | None
    instance_type: str | None
    worker_cpu: float | None
    worker_memory_mb: float | None
    release: str | None

    def check(self, worker_price: float | None) -> None:
        """Raise ``UserError`` for two prices at once, and for options that say nothing without a price list."""
        if self.prices is not None:
            if worker_price is not None:
                raise UserError("--worker-price and --prices are two prices of the same workers; drop one of them")
            return
        given = {
            "--instance-type": self.instance_type,
            "--worker-cpu": self.worker_cpu,
            "--worker-memory": self.worker_memory_mb,
            "--release": self.release,
        }
        for option, value in given.items():
            if value is not None:
                raise UserError(f"{option} is for hosts of a price list; name one with --prices")

    def pricing(self) -> Pricing | None:
        """Return how replays are to be priced; raises ``SettingsError`` for what cannot be."""
        from perdix.models.billing.packing import Resources
        from perdix.replay.pricing import pricing_named

        if self.prices is None:
            return None
        return pricing_named(
            self.prices,
            instance_type=self.instance_type,
            worker=Resources(self.worker_cpu or WORKER_CORES, self.worker_memory_mb or WORKER_MEMORY_MB),
            release=self.release or "at-once",
        )

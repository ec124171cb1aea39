"""``perdix prices``: the price lists that there are, and what workers cost by one; the options that say so."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from perdix.cli.output import JsonOption, UserError, console, emit, number, table

if TYPE_CHECKING:
    from perdix.replay.pricing import Pricing
    from perdix.twin.parameters import TwinParameters

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

    def check_sizes(self, worker_price: float | None, twin: TwinParameters) -> None:
        """Raise ``UserError`` for what is given of a worker where those of the twin have sizes, which say all of it."""
        given = {
            "--worker-price": worker_price,
            "--worker-cpu": self.worker_cpu,
            "--worker-memory": self.worker_memory_mb,
        }
        for option, value in given.items():
            if value is not None and twin.workers.sizes:
                raise UserError(
                    f"{option}: the workers of twin '{twin.name}' have prices, cores and memory by their sizes "
                    "(workers.sizes in its file); leave it out"
                )

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


if TYPE_CHECKING:
    from collections.abc import Mapping

    from perdix.models.billing.bill import Quote
    from perdix.settings.prices import Billing, PriceList
    from perdix.settings.yaml_files import SettingsError


def prices(
    name: Annotated[
        str | None, typer.Argument(help="A price list, or a YAML file.", show_default="all lists that there are")
    ] = None,
    worker_cpu: Annotated[
        float, typer.Option("--worker-cpu", help="Cores of a worker.", min=0.001, max=1e6)
    ] = WORKER_CORES,
    worker_memory_mb: Annotated[
        float, typer.Option("--worker-memory", help="MB of a worker.", min=1.0, max=1e9)
    ] = WORKER_MEMORY_MB,
    workers: Annotated[int, typer.Option("--workers", help="How many workers.", min=1, max=100_000)] = 1,
    as_json: JsonOption = False,
) -> None:
    """List the price lists; or, of one, what this many workers cost per hour on each instance type, cheapest first.

    Example: perdix prices aws-ec2-us-east-1 --worker-cpu 1 --worker-memory 4096 --workers 12
    """
    if name is None:
        _lists(as_json=as_json)
        return
    from perdix.models.billing.bill import quotes
    from perdix.models.billing.packing import Resources
    from perdix.settings.prices import load_prices

    chosen, worker = load_prices(name), Resources(worker_cpu, worker_memory_mb)
    found, left_out = quotes(chosen, worker, workers)
    if not found:
        largest = max(left_out, key=chosen.usable)
        why = f"{largest}: {left_out[largest]}"
        raise UserError(f"prices '{chosen.name}': no instance type takes such a worker; {why}; give it less")
    document = {
        **_about(chosen),
        "worker": {"cores": worker_cpu, "memory_mb": worker_memory_mb},
        "workers": workers,
        "quotes": found,
        "left_out": left_out,
    }
    emit(
        "perdix.prices/1",
        document,
        as_json=as_json,
        show=lambda: _show(chosen, f"{workers} x {worker}", found, left_out),
    )


def _lists(*, as_json: bool) -> None:
    from perdix.settings.prices import load_prices, price_list_names
    from perdix.settings.yaml_files import SettingsError

    read: list[PriceList] = []
    failed: list[SettingsError] = []
    for name in price_list_names():
        try:
            read.append(load_prices(name))
        except SettingsError as error:
            failed.append(error)
    document = {"lists": [_about(price_list) for price_list in read], "failed": [str(error) for error in failed]}

    def show() -> None:
        columns = ["name", "billed per", "currency", "as of", "types"]
        rows = [
            [
                price_list.name,
                _per(price_list.billing),
                price_list.currency,
                price_list.as_of.isoformat(),
                len(price_list.instance_types),
            ]
            for price_list in read
        ]
        table("price lists", columns, rows)
        for error in failed:
            console.print(f"not read: {error}")

    emit("perdix.prices/1", document, as_json=as_json, show=show)


def _about(prices: PriceList) -> dict[str, object]:
    return {
        "name": prices.name,
        "description": prices.description,
        "currency": prices.currency,
        "as_of": prices.as_of.isoformat(),
        "billing": prices.billing.model_dump(),
        "reserved": prices.reserved.model_dump(),
        "instance_types": list(prices.instance_types),
    }


def _per(billing: Billing) -> str:
    names = {1: "second", 60: "minute", 3_600: "hour"}
    unit = names.get(billing.unit_s) or (
        f"{billing.unit_s // 60} min" if billing.unit_s % 60 == 0 else f"{billing.unit_s} s"
    )
    return f"{unit}, {billing.minimum_s} s at least" if billing.minimum_s > billing.unit_s else unit


def _show(prices: PriceList, what: str, found: list[Quote], left_out: Mapping[str, str]) -> None:
    columns = ["instance type", "workers per host", "hosts", f"{prices.currency} per h", "per worker", "cores used"]
    rows = [
        [
            quote.instance_type,
            quote.per_host,
            quote.hosts,
            number(quote.price_per_h, 4),
            number(quote.worker_price_per_h, 4),
            f"{quote.utilisation:.0%}",
        ]
        for quote in found
    ]
    table(f"{what} on {prices.name} as of {prices.as_of}, billed per {_per(prices.billing)}", columns, rows)
    shares = {"cores": prices.reserved.cores_share, "memory": prices.reserved.memory_share}
    kept = " and ".join(f"{share:.0%} of the {what}" for what, share in shares.items() if share)
    if kept:
        console.print(f"{kept} of each host are left to its system")
    if left_out:
        console.print(f"too small for one worker: {', '.join(left_out)}")
    console.print(
        f"with {number(found[0].worker_price_per_h)} {prices.currency} per worker and hour, {found[0].instance_type} "
        "is cheapest"
    )
    console.print(prices.description, style="dim")

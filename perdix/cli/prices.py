"""``perdix prices``: the price lists that there are, and what workers cost on each instance type of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from perdix.cli.options import JsonOption
from perdix.cli.output import UserError, console, emit, number, table
from perdix.cli.pricing import WORKER_CORES, WORKER_MEMORY_MB

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
        reason = next(iter(left_out.values()))
        raise UserError(f"prices '{chosen.name}': no instance type takes such a worker; {reason}; give it less")
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
            f"{quote.price_per_h:,.4g}",
            f"{quote.worker_price_per_h:.4g}",
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

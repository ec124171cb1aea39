"""``perdix scan``: what perdix would save on the jobs of a Prometheus, before anything is set up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from cli.options import JsonOption
from cli.output import UserError, complaints, console, emit, number, table
from cli.pricing import (
    AskedPrices,
    InstanceTypeOption,
    PricesOption,
    WorkerCpuOption,
    WorkerMemoryOption,
)

if TYPE_CHECKING:
    from scan.document import Scan
    from scan.judging import Wanted
    from settings.access import HttpAccess

ADVICE = {"fixed": "fixed size", "perdix": "perdix", "keep": "keep"}


def scan(
    url: Annotated[str, typer.Argument(help="Address of a Prometheus, for example http://prometheus:9090.")],
    *,
    days: Annotated[float, typer.Option("--days", help="How much of the past is read.", min=1, max=14)] = 7.0,
    job: Annotated[
        list[str] | None, typer.Option("--job", help="This job only; repeat for more.", show_default="all")
    ] = None,
    latency_ms: Annotated[
        float | None,
        typer.Option(
            "--latency-objective",
            help="Objective for p95, ms.",
            show_default="5,000, or twice a job's usual latency where that is more",
            min=1,
        ),
    ] = None,
    error_budget: Annotated[
        float, typer.Option("--error-budget", help="Share of the seconds that may be above it.", min=0.0, max=1.0)
    ] = 0.05,
    thorough: Annotated[
        bool, typer.Option("--thorough", help="Play the policy every minute of all of the time: minutes per job.")
    ] = False,
    worker_price: Annotated[
        float | None, typer.Option("--worker-price", help="Of one worker for an hour.", show_default="none", min=0)
    ] = None,
    prices: PricesOption = None,
    instance_type: InstanceTypeOption = None,
    worker_cpu: WorkerCpuOption = None,
    worker_memory_mb: WorkerMemoryOption = None,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", help="File with a bearer token.", show_default=False)
    ] = None,
    token_env: Annotated[
        str | None, typer.Option("--token-env", help="Variable of the environment with one.", show_default=False)
    ] = None,
    ca_file: Annotated[
        Path | None, typer.Option("--ca-file", help="Certificate authorities to trust.", show_default="the system's")
    ] = None,
    verify_tls: Annotated[bool, typer.Option("--verify-tls/--no-verify-tls", help="Check the certificate.")] = True,
    processes: Annotated[
        int | None, typer.Option("--workers", help="Processes at a time.", show_default="as many as cores", min=1)
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Find the stream jobs of a Prometheus, and say what each would save: as a fixed size, and with perdix.

    Jobs of Flink, Kafka Streams and Spark Structured Streaming are found by their engines' own metrics. Nothing is
    changed, and nothing has to be set up. What is assumed: docs/scan.md.

    Example: perdix scan http://prometheus:9090 --days 7 --prices aws-ec2-us-east-1
    """
    from control.clock import WallClock
    from scan.judging import Wanted

    asked_prices = AskedPrices(prices, instance_type, worker_cpu, worker_memory_mb, None)
    asked_prices.check(worker_price)
    access = _access(url, token_file=token_file, token_env=token_env, ca_file=ca_file, verify_tls=verify_tls)
    wanted = Wanted(access, WallClock().now_s(), days, latency_ms, error_budget, thorough)
    found = _scanned(wanted, set(job or ()), asked_prices, worker_price, processes)
    from scan.document import document

    emit("perdix.scan/1", document(found), as_json=as_json, show=lambda: _show(document(found)))


def _access(
    url: str, *, token_file: Path | None, token_env: str | None, ca_file: Path | None, verify_tls: bool
) -> HttpAccess:
    from pydantic import ValidationError

    from settings.access import HttpAccess
    from settings.secrets import without_user

    given = {"token_file": token_file, "token_env": token_env, "ca_file": ca_file, "verify_tls": verify_tls}
    try:
        return HttpAccess.model_validate({"url": url, **given})
    except ValidationError as error:
        wrong = error.errors()[0]
        place = "--" + str(wrong["loc"][0]).replace("_", "-") if wrong["loc"] else "options"
        place = f"address '{without_user(url)}'" if place == "--url" else place
        hint = "; write it as http://prometheus:9090" if place.startswith("address") else ""
        raise UserError(f"{place}: {wrong['msg'].removeprefix('Value error, ')}{hint}") from None


def _scanned(
    wanted: Wanted, only: set[str], prices: AskedPrices, worker_price: float | None, processes: int | None
) -> Scan:
    import time

    from scan.saving import WorkerPrice, price_of_list
    from scan.scanning import NOTHING, found_in, scan
    from telemetry.prometheus_answers import PrometheusError

    pricing = prices.pricing()  # first: a list that cannot be must not be found out after a minute

    def price_of(workers: int) -> WorkerPrice | None:
        if pricing is not None:
            return price_of_list(pricing, workers)
        return None if worker_price is None else WorkerPrice(worker_price, "", "as given with --worker-price")

    began_s = time.perf_counter()
    try:
        found = found_in(wanted, only)
    except PrometheusError as error:
        raise UserError(f"{error}{_fix(error.kind)}") from None
    if not found.jobs:
        raise UserError(_nothing(only, found.notes, NOTHING))
    with _progress_bar(len(found.jobs)) as tell:
        return scan(
            wanted,
            found,
            price_of=price_of,
            stopwatch_s=time.perf_counter,
            began_s=began_s,
            processes=processes,
            on_progress=tell,
        )


def _fix(kind: str) -> str:
    return {
        "unauthorised": " (here: --token-file or --token-env)",
        "unreachable": "; is the address right, and does the server run?",
        "rejected": "; is this the address of a Prometheus?",
        "malformed": "; give the address of Prometheus itself, for example http://prometheus:9090",
    }.get(kind, "")


def _nothing(only: set[str], notes: tuple[str, ...], nothing: str) -> str:
    if only:
        return f"no job is called {', '.join(sorted(only))}; leave --job out to see all that there are"
    return "; ".join([nothing, *notes])


@contextmanager
def _progress_bar(jobs: int) -> Iterator[Callable[[float, int], None]]:
    """Show a bar on standard error; yields what is to be told how many jobs are done."""
    columns = (
        TextColumn("scan"),
        BarColumn(),
        TextColumn("{task.fields[ended]} of {task.total:.0f} jobs"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=complaints, transient=True) as progress:
        task = progress.add_task("scan", total=float(jobs), ended=0)
        yield lambda done, ended: progress.update(task, completed=done, ended=ended)


def _show(found: Mapping[str, Any]) -> None:
    money = found["price"] is not None
    currency = found["price"]["currency"] if money else ""
    saved = f"saved a month, {currency or 'cost'}" if money else "saved a month, worker-h"
    columns = ["job", "engine", "now", "fixed", "perdix", "advice", saved, "late", "sure", "why"]
    rows = [_cells(row, money=money) for row in found["jobs"]]
    table(f"{found['url']}, the last {found['days']:g} days", columns, rows)
    console.print(_sentence(found), highlight=False)
    for note in found["notes"]:
        console.print(note, highlight=False)


def _cells(row: Mapping[str, Any], *, money: bool) -> list[str]:
    if row["advice"] is None:
        return [row["job"], row["engine"], "-", "-", "-", "not judged", "-", "-", "-", row["why"]]
    now, perdix, fixed = row["now"], row["perdix"], row["fixed"]
    saved = row["saved_cost_per_month"] if money else row["saved_worker_h_per_month"]
    return [
        row["job"],
        row["engine"],
        _workers(now["average_workers"], now["peak_workers"]),
        str(fixed["workers"]),
        _workers(perdix["average_workers"], perdix["peak_workers"]),
        ADVICE[row["advice"]],
        f"{saved:,.0f}",
        f"{100 * row['late_share']:.1f} %",
        row["confidence"]["grade"],
        f"{row['why']} ({row['confidence']['grade']}: {row['confidence']['reason']})",
    ]


def _workers(average: float, peak: int) -> str:
    return f"{number(average)} (peak {peak})" if abs(average - peak) > 0.05 else str(peak)


def _sentence(found: Mapping[str, Any]) -> str:
    summary = found["summary"]
    saved = summary["saved_cost_per_month"]
    worker_h = f"{summary['saved_worker_h_per_month']:,.0f} worker-hours"
    told = worker_h if saved is None else f"{saved:,.0f} {found['price']['currency']} ({worker_h})".replace("  ", " ")
    return (
        f"{summary['judged']} of {summary['jobs']} jobs judged in {found['seconds']:.0f} s: {told} saved a month, "
        f"{number(summary['workers_advised'])} workers on average instead of {number(summary['workers_now'])}."
    )

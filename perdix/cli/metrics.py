"""``perdix metrics``: what the loop knows, for Prometheus, from a process that only reads the state store."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from perdix.cli.output import JsonOption, UserError, console, emit
from perdix.cli.processes import LOOPBACK, stopping
from perdix.control.clock import WallClock
from perdix.settings.durations import DAY_S
from perdix.settings.home import Home
from perdix.settings.product import load_product_settings

if TYPE_CHECKING:
    from perdix.control.publish.metrics import PublishedCollector

PORT = 9464


def metrics(
    port: Annotated[int, typer.Option("--port", help="Port to serve /metrics at.", min=1, max=65_535)] = PORT,
    address: Annotated[str, typer.Option("--address", help="Address to serve at; 0.0.0.0 is every one.")] = LOOPBACK,
    interval_s: Annotated[
        float | None,
        typer.Option(
            "--interval", help="Seconds between ticks: what is older is stale.", min=1, max=DAY_S, show_default="as set"
        ),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Print the metrics once, and end.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Serve the desired scale-outs, and why they are wanted, for Prometheus, KEDA or an HPA; until Ctrl-C.

    Reads the state store only, so it runs beside Dagster's sensor or on another machine. The controller serves the
    same with --metrics-port. What each metric means: docs/metrics.md.

    Example: perdix metrics --once
    """
    collector = collector_of(Home.from_environment(), interval_s or load_product_settings().control.tick_interval_s)
    if once:
        _print(collector, as_json=as_json)
        return
    with stopping() as stop, listening(collector, address, port) as url:
        line = f"metrics at {url} (Ctrl-C ends it)"
        emit("perdix.metrics/1", {"url": url}, as_json=as_json, show=lambda: console.print(line))
        stop.wait()


def collector_of(place: Home, tick_interval_s: float, holder: str | None = None) -> PublishedCollector:
    """Return what answers scrapes about this home; opening it asks nothing of the store, which may be absent."""
    from perdix.control.freshness import Freshness
    from perdix.control.job_files import job_files
    from perdix.control.publish.metrics import PublishedCollector
    from perdix.control.publish.standing import PublishedState

    return PublishedCollector(
        PublishedState(place.state_url),
        job_files(place),
        WallClock(),
        freshness=Freshness(tick_interval_s),
        holder=holder,
    )


@contextmanager
def listening(collector: PublishedCollector, address: str, port: int) -> Iterator[str]:
    """Serve ``/metrics`` until the block ends; yields its URL. ``UserError`` when the address cannot be listened at."""
    from perdix.control.publish.metrics import serving

    with ExitStack() as stack:
        try:
            bound = stack.enter_context(serving(collector, address, port))
        except OSError as error:
            said = error.strerror or error
            raise UserError(f"cannot serve metrics at {address}:{port}: {said}; name another") from None
        yield f"http://{address}:{bound}/metrics"


def _print(collector: PublishedCollector, *, as_json: bool) -> None:
    """Print one scrape; exit code 1 when the state store could not be read."""
    from prometheus_client import generate_latest

    from perdix.control.publish.metrics import registry_of

    if as_json:
        samples = [
            {"name": sample.name, "labels": sample.labels, "value": sample.value}
            for family in collector.collect()
            for sample in family.samples
        ]
        emit("perdix.metrics/1", {"up": not collector.problem, "samples": samples}, as_json=True, show=lambda: None)
    else:
        sys.stdout.write(generate_latest(registry_of(collector)).decode())
    if collector.problem:  # which was logged to standard error
        raise typer.Exit(1)

"""What ``perdix demo`` does: a twin's exports, lake, champions, ten ticks of the loop, comparison, report."""

import shutil
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from perdix.cli import runs
from perdix.cli.demo.comparison import BEST_FIXED, HOURS, PERDIX, TODAY, compare, price_of_a_worker
from perdix.cli.demo.report import over_all_jobs, side, write_report
from perdix.cli.output import UserError, console, emit, number, percent, styled, table
from perdix.cli.stores import home, lake
from perdix.cli.train import train_jobs
from perdix.cli.twin_jobs import SCRAPE_INTERVAL_S, claim_twin_job, is_twin_job, write_twin_jobs
from perdix.control.clock import WallClock
from perdix.control.explain import explain
from perdix.control.explain_text import render
from perdix.control.fleet import tick_fleet
from perdix.control.fleet_report import FleetReport
from perdix.control.live import holder_name, live_io
from perdix.control.state.store import StateStore
from perdix.scan.saving import WorkerPrice
from perdix.settings.home import Home, conf_folder
from perdix.settings.product import load_product_settings
from perdix.settings.stream_job import load_stream_job
from perdix.telemetry.landing import land
from perdix.twin.emission import Scraping
from perdix.twin.emission import emit as scrapes
from perdix.twin.exports import FORMS, write_export
from perdix.twin.living import LivingTwin, SimulatedClock, revive
from perdix.twin.parameters import load_demo_twins
from perdix.twin.prometheus_face import PrometheusFace

TICKS = 10
NAMES: tuple[Literal["flink", "canonical"], ...] = ("flink", "canonical", "flink")


def run_demo(hours: float, seed: int, *, as_json: bool) -> None:
    """Run the demo and print what came of it."""
    started = time.monotonic()
    show = not as_json
    place, settings = home(), load_product_settings().control
    with live_io(place, settings) as io:
        clear_ground(place, io.store, list(load_demo_twins()))
    # The loop's ten minutes end now, so that what comes after (perdix dev, perdix explain) goes on from here.
    clock = SimulatedClock(WallClock().now_s() // 60 * 60 - TICKS * settings.tick_interval_s)
    with _step("1/5 three twins live through the past, and are exported", show):
        scraping = Scraping(interval_s=SCRAPE_INTERVAL_S)
        living = revive(load_demo_twins(), clock, seed=seed, hours=hours, scraping=scraping)
        files = _export(place, living, hours, clock.now_s())
    with _step("2/5 ingest, validate, observe (Dagster, Spark)", show):
        ingested = _ingest(place, files, clock.now_s() - 3600 * hours, clock.now_s(), show=show)
    with _step("3/5 train, backtest, register (Dagster, Spark, MLflow)", show):
        trained = train_jobs(list(living.names()), show=show)
        if trained["problems"]:
            raise UserError("\n".join(trained["problems"]))
    with _step(f"4/5 {TICKS} ticks of the control loop against the living twin", show):
        ticks = _tick(place, living, clock, show=show)
    with _step(f"5/5 the same {HOURS:g} hours under each policy", show):
        rows, results = compare(place, trained, living, seed=seed, hours=hours)
    with live_io(place, settings) as io:
        explained = {name: explain(io.store, name) for name in living.names()}
    price = price_of_a_worker(round(sum(row[f"{TODAY}_workers"] for row in rows)))
    report = write_report(place, rows, results, explained, price)
    document: dict[str, Any] = {
        "seconds": round(time.monotonic() - started, 1),
        "ingest": ingested,
        "train": trained,
        "ticks": [tick.summary() for tick in ticks],
        "jobs": rows,
        "price": {"per_h": price.per_h, "currency": price.currency, "about": price.about},
        "explained": {name: explanation.to_dict() for name, explanation in explained.items()},
        "report": {name: str(path) for name, path in report.items()},
    }
    emit("perdix.demo/1", document, as_json=as_json, show=lambda: _show(document, render(_liveliest(explained)), price))


def _liveliest(explained: dict[str, Any]) -> Any:
    """Return the explanation worth reading: of the job that was scaled last, else of any."""
    scaled = [explanation for explanation in explained.values() if explanation.last_rescale is not None]
    if not scaled:
        return next(iter(explained.values()))
    return max(scaled, key=lambda explanation: explanation.last_rescale.intent.made_s).of_last_rescale


@contextmanager
def _step(title: str, show: bool) -> Iterator[None]:
    began = time.monotonic()
    if show:
        console.print(styled(title, "bold"))
    yield
    if show:
        console.print(styled(f"  {time.monotonic() - began:.1f} s", "dim"))


def _export(place: Home, living: LivingTwin, hours: float, until_s: float) -> dict[str, list[Path]]:
    """Write what each twin's Prometheus would export, a format per job, gzipped."""
    folder, found = place.root / "exports", {}
    for name, form, names in zip(living.names(), FORMS, NAMES, strict=False):
        series = scrapes(living.job(name), living.scraping, names=names, from_s=until_s - 3600 * hours, to_s=until_s)
        target = folder / name
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        found[name] = [write_export(series, target, form, name)]
    return found


def _ingest(place: Home, files: dict[str, list[Path]], from_s: float, until_s: float, *, show: bool) -> dict[str, Any]:
    for name, paths in files.items():
        shutil.rmtree(place.landing / name, ignore_errors=True)
        land(place, paths, name)
    first, last = (datetime.fromtimestamp(at, UTC).date() for at in (from_s, until_s))
    with runs.instance(place) as opened:
        result = runs.run_job("ingest_day", (str(first), str(last)), opened, console if show else None)
        said = runs.metadata(result)
        failed = runs.failed_checks(result)
    days = [str(first + timedelta(days=k)) for k in range((last - first).days + 1)]
    counts = {name: said["samples"][name] for name in ("read", "kept", "masked", "quarantined", "unmapped", "adds_up")}
    if show:
        console.print(
            f"  {number(counts['read'])} samples read = {number(counts['kept'])} kept"
            f" + {number(counts['masked'])} masked + {number(counts['quarantined'])} quarantined;"
            f" checks that did not pass: {', '.join(failed) or 'none'}"
        )
    return {**counts, "days": days, "failed_checks": failed, "jobs": lake().jobs()}


def _tick(place: Home, living: LivingTwin, clock: SimulatedClock, *, show: bool) -> list[FleetReport]:
    settings = load_product_settings().control
    found = []
    with PrometheusFace(living) as face, live_io(place, settings) as io:
        names = write_twin_jobs(place, face.url, mode="act")
        jobs = [load_stream_job(place.jobs / f"{name}.yaml") for name in names]
        for number_of_tick in range(TICKS):
            clock.advance(settings.tick_interval_s)
            report = tick_fleet(jobs, io, clock, holder=holder_name("demo"), keep_lease=False)
            found.append(report)
            if show:
                runs_on = ", ".join(f"{name} {tick.running}" for name, tick in sorted(report.reports.items()))
                mark = styled(f"  tick {number_of_tick + 1:>2}", "dim")
                console.print(mark, f"workers: {runs_on}; {report.sentence()}")
    return found


def _show(document: dict[str, Any], explanation: str, price: WorkerPrice) -> None:
    console.print(styled(f"\n{HOURS:g} hours on, all jobs", "bold"), "(same workload, same seed)")
    table(
        "",
        ["policy", f"{price.currency} a month", "late, at most", "workers", "rescales"],
        [
            [job.name, f"{job.cost:,.0f}", percent(job.late_share), f"{job.workers:.1f}", str(job.rescales)]
            for job in over_all_jobs(document["jobs"], price)
        ],
    )
    table(
        "",
        ["job", f"saved, {price.currency} a month", "late", "best fixed size", "champion", "WAPE", "capacity"],
        [
            [
                row["job"],
                f"{side(row, TODAY, price).cost - side(row, PERDIX, price).cost:,.0f}",
                percent(row[f"{PERDIX}_above_objective"]),
                f"{row[f'{BEST_FIXED}_workers']:.0f} workers, late {percent(row[f'{BEST_FIXED}_above_objective'])}",
                row["family"] or "-",
                percent(row["wape"]),
                percent(row["capacity_error"]),
            ]
            for row in document["jobs"]
        ],
    )
    said = f"A worker costs {price.per_h:.3g} {price.currency} an hour: {price.about}."
    console.print(styled(f"{said} Saved: against the largest size.", "dim"))
    console.print(
        styled("WAPE of 15-minute forecasts, backtested; capacity: mean error against the twin's truth.", "dim")
    )
    console.print(styled("\nwhy did it scale?", "bold"))
    console.print(explanation)
    console.print(
        f"\nreport: {document['report']['html']}\n"
        f"done in {document['seconds']:.0f} s. Next:\n"
        "  perdix dev                  Dagster, MLflow and a living twin in the browser\n"
        "  perdix capacity wordcount   what each scale-out can take, and how that is known\n"
        "  perdix forecast ads         the champion's forecast\n"
        "  perdix explain traffic      the last decision\n"
        "  perdix ingest FILES --job NAME   your own exports"
    )


def clear_ground(place: Home, store: StateStore, names: Collection[str]) -> None:
    """Forget what an earlier demo stored of its jobs: its twins are gone, and its decisions are about other workers.

    Raises ``UserError`` when one of the names belongs to a job that no demo made; nothing is changed then.
    """
    taken = list(_taken(place, store, names))
    if taken:
        raise UserError(
            f"the demo's jobs are called {', '.join(sorted(names))}, and there is something of the same name: "
            f"{'; '.join(taken)}. Nothing was changed; run it as PERDIX_HOME=<new folder> perdix demo"
            + (", without PERDIX_STATE_URL" if place.state_is_elsewhere else "")
        )
    store.forget(names)
    for name in names:
        claim_twin_job(place, name)  # at once: an interrupted demo must know its own again


def _taken(place: Home, store: StateStore, names: Collection[str]) -> Iterator[str]:
    stored = store.journal.statuses()
    for name in sorted(names):
        operators = conf_folder() / "jobs" / f"{name}.yaml"
        if operators.exists():
            yield f"the job file {operators}"
        own = place.jobs / f"{name}.yaml"
        if is_twin_job(own):
            continue
        if own.exists():
            yield f"the job file {own}"
        if name in stored:
            yield f"job '{name}' in {store.database.name}"
        landed = place.landing / name
        if landed.exists():
            yield f"the exports in {landed}"

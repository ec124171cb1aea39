"""``perdix ingest``: exports into the lake, and from there to features."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perdix.cli.how_long import ingest_s, say_beforehand
from perdix.cli.output import JsonOption, UserError, console, emit, number, styled, table
from perdix.cli.stores import home, known, lake, usable_files
from perdix.control.clock import WallClock
from perdix.settings.counting import counted
from perdix.settings.home import job_file_to_write
from perdix.settings.product import load_product_settings
from perdix.settings.stream_job import NAME
from perdix.telemetry.exports.naming import Hint, HintError
from perdix.telemetry.exports.records import Limits
from perdix.telemetry.exports.time_text import RELATIVE_BELOW_DAYS
from perdix.telemetry.landing import ExportFile, export_files, land, landed
from perdix.telemetry.metrics import CANONICAL

if TYPE_CHECKING:
    from dagster import DagsterInstance
    from pyspark.sql import SparkSession

    from perdix.settings.home import Home

USUAL_DAYS, USUAL_ZONE = 14, "UTC"
EPOCH = date(1970, 1, 1)
MUCH_BYTES = 50e6  # of exports: with more, Spark is busy for longer than it takes to start


def ingest(
    paths: Annotated[list[Path] | None, typer.Argument(help="Export files or folders.", show_default=False)] = None,
    *,
    job: Annotated[
        str | None, typer.Option("--job", help="Stream job that the exports belong to.", show_default=False)
    ] = None,
    from_prometheus: Annotated[
        bool, typer.Option("--from-prometheus", help="Read the Prometheus of the job files instead.")
    ] = False,
    days: Annotated[
        int | None,
        typer.Option(
            "--days",
            help="With --from-prometheus: how far back, in days. Later, lake.keep_days of them are kept.",
            show_default=str(USUAL_DAYS),
            min=1,
            max=400,
        ),
    ] = None,
    metric: Annotated[
        str | None, typer.Option("--metric", help=f"What a file without metric names holds: {', '.join(CANONICAL)}.")
    ] = None,
    timezone: Annotated[
        str | None,
        typer.Option("--timezone", help="Zone of date-times that carry none (CSV, Parquet).", show_default=USUAL_ZONE),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Read Prometheus exports into the lake; bad rows are quarantined with file, line and reason.

    Formats, plain or gzip, detected automatically: query_range JSON, VictoriaMetrics JSON lines, OpenMetrics text and
    tsdb dumps, Grafana CSV, canonical Parquet. Ingesting a file twice changes nothing. Exit code 1 when no file could
    be read, a day of the job could not be observed, or nothing could be pulled of any job.

    Example: perdix ingest conf/examples/exports --job ads

    Example: perdix ingest --from-prometheus --days 14
    """
    if from_prometheus:
        if paths or metric is not None or timezone is not None:
            raise UserError("--from-prometheus reads no files: leave out files, --metric and --timezone")
        _backfill(job, USUAL_DAYS if days is None else days, as_json=as_json)
        return
    if not paths or job is None:
        raise UserError("name export files and --job, or --from-prometheus")
    if days is not None:
        raise UserError("--days says how far back --from-prometheus reads; files are read whole, so leave it out")
    if not NAME.fullmatch(job):
        raise UserError(f"'{job}' cannot be a job's name: use letters, digits, '.', '_' or '-', at most 63")
    for path in paths:
        if not path.exists():
            raise UserError(f"{path}: no such file or folder")
    try:
        hint = Hint(metric=metric, timezone=USUAL_ZONE if timezone is None else timezone)
    except HintError as error:
        raise UserError(str(error)) from None
    document = ingest_files(paths, job, hint, show=not as_json)
    emit("perdix.ingest/1", document, as_json=as_json, show=lambda: _show(document))
    if document["failed"]:
        raise typer.Exit(1)


def _backfill(job: str | None, days: int, *, as_json: bool) -> None:
    """Pull jobs' own Prometheus ranges, and ingest them like exports; what fails of one job leaves the others."""
    from perdix.telemetry.live_range import pull_missing

    described, fix = usable_files(but=job), f"{job_file_to_write()}, with 'prometheus'"
    place, live = home(), {name: file for name, file in described.jobs.items() if file.prometheus is not None}
    names = live if job is None else [known(job, live, "job with a Prometheus", fix, described)]
    if not names:
        raise UserError(f"no job file names a Prometheus: {job_file_to_write()}")
    pulls = []
    with console.status("asking Prometheus ...") if not as_json else _nothing() as shown:
        jobs, now_s = [live[name] for name in names], WallClock().now_s()
        for pull in pull_missing(jobs, place, lake(), now_s, history_days=days, again=True):
            pulls.append(pull)
            if shown is not None:
                shown.update(f"asking Prometheus ... {len(pulls)} of {len(jobs)}: {pull.job}")
    read = {pull.job: pull.days for pull in pulls if pull.days}
    taken_in = _taken_in(read, now_s, show=not as_json) if read else {}
    documents: list[dict[str, Any]] = []
    for pull in pulls:
        document = {
            "job": pull.job,
            "failed": True,
            "problems": [],
            **taken_in.get(pull.job, {}),
            "samples": pull.samples,
        }
        document["problems"] = [*pull.problems, *document["problems"]]
        documents.append({**document, "pulled": pull.sentence()})
    found = {"days": days, "jobs": documents}
    emit("perdix.backfill/1", found, as_json=as_json, show=lambda: _show_backfill(documents))
    if all(document["failed"] for document in documents):
        raise typer.Exit(1)


def _taken_in(days_of: Mapping[str, Sequence[str]], now_s: float, *, show: bool) -> dict[str, dict[str, Any]]:
    """Ingest what was landed of jobs, and bring their days up to features: all in one pass, each job for itself.

    Returns job -> its report as JSON, with ``problems`` in words.
    """
    from perdix.assets.expectation_suite import load_suites
    from perdix.assets.refresh import Refresh
    from perdix.telemetry.ingest import new_files

    place = home()
    files = [file for job in days_of for file in new_files(lake(), job, landed(place, job))]
    read = sum(file.path.stat().st_size for file in files if not file.problem)
    if show:
        say_beforehand(counted(len(days_of), "job"), ingest_s(read))
    with _begun(place, read, show=show) as (spark, opened):
        refresh = Refresh(place, lake(), lambda: spark, load_suites(), now_s)
        with console.status(f"{counted(len(days_of), 'job')}: reading, checking, deriving ...") if show else _nothing():
            refresh.run(days_of)
        reports = {report["job"]: report for report in refresh.reports}
        for report in refresh.reports:
            _tell_of_samples(opened, report)
        for day in sorted({day for job, days in days_of.items() for day in days if not refresh.problems[job]}):
            _tell(opened, "observations", day)
            _tell(opened, "features", day)
    found = {}
    for job in days_of:
        report, problems = reports.get(job, {}), list(refresh.problems[job])
        failed = report.get("failed", False) or bool(problems)
        found[job] = {**report, "failed": failed, "days": list(days_of[job]), "problems": problems}
        found[job]["warnings"] = [*report.get("warnings", ()), *refresh.warnings[job]]
    return found


def ingest_files(paths: list[Path], job: str, hint: Hint, *, show: bool) -> dict[str, Any]:
    """Land and ingest files, then observe the days they reach.

    Returns the report as JSON, with the ``days`` that were reached and ``problems``: the checks that failed.

    Raises ``UserError`` where ``paths`` are folders without any file.
    """
    if not export_files(paths):
        raise UserError(f"{', '.join(map(str, paths))}: no file to read (hidden files are passed over)")
    return _ingested(land(home(), paths, job, hint), job, show=show)


def _ingested(files: Sequence[ExportFile], job: str, *, show: bool) -> dict[str, Any]:
    from perdix.telemetry import ingest as ingestion

    place, read = home(), sum(file.path.stat().st_size for file in files if not file.problem)
    if show:
        say_beforehand(f"{job}: {counted(len(files), 'file')}", ingest_s(read))
    with _begun(place, read, show=show) as (spark, opened):
        with console.status(f"{job}: reading {len(files)} file(s) ...") if show else _nothing():
            report = ingestion.ingest(spark, lake(), files, job, limits=Limits.until(WallClock().now_s()))
        document = report.to_dict()
        problems, complete = _observed(document, list(report.to_observe), opened, show=show)
    return {**document, "failed": document["failed"] or not complete, "problems": problems}


@contextmanager
def _begun(place: Home, read_bytes: int, *, show: bool) -> Iterator[tuple[SparkSession, DagsterInstance]]:
    """Start Spark, and open Dagster beside it."""
    from perdix.cli import runs

    with ExitStack() as stack:
        with console.status("starting Spark ...") if show else _nothing():
            pool, short_lived = stack.enter_context(ThreadPoolExecutor(1)), read_bytes < MUCH_BYTES
            starting = pool.submit(_session, place, short_lived=short_lived)
            _import_what_follows()
            opened = stack.enter_context(runs.instance(place))
            spark = starting.result()
        yield spark, opened


def _session(place: Home, *, short_lived: bool) -> SparkSession:
    """Start Spark; called beside the imports, because a JVM takes as long to start as they do."""
    from perdix.telemetry.spark.session import spark_session

    settings = load_product_settings().spark
    return spark_session(place, settings.master, settings.conf, short_lived=short_lived)


def _import_what_follows() -> None:
    """Import what the checks and the assets need while Spark starts."""
    from perdix.assets.expectation_validator import great_expectations
    from perdix.pipelines import ingesting  # noqa: F401

    great_expectations()


def _observed(
    document: dict[str, Any], days: list[str], opened: DagsterInstance, *, show: bool
) -> tuple[list[str], bool]:
    """Tell Dagster of the samples, and check, observe and derive features of the job's days.

    Returns what is wrong, in words, and whether features of every day were derived.
    """
    from perdix.assets import partitions
    from perdix.assets.observe import ONE_JOB
    from perdix.cli import runs

    problems: list[str] = []
    complete = True
    _tell_of_samples(opened, document)
    first = partitions.days.start.date().isoformat()
    problems += _too_early([day for day in days if day < first], first)
    found = stretches([day for day in days if day >= first])
    for stretch in found:
        tags, progress = {ONE_JOB: str(document["job"])}, console if show else None
        result = runs.run_job("observe_day", stretch, opened, progress, tags=tags, must_succeed=False)
        broken = [*runs.failed_steps(result), *runs.errors_of_days(result)]
        when = f"{' to '.join(dict.fromkeys(stretch))}, " if len(found) > 1 else ""
        problems += [*(f"{when}{check}" for check in runs.explained_checks(result)), *broken]
        complete = complete and result.success and not broken
    return problems, complete


def _too_early(days: Sequence[str], first: str) -> Iterator[str]:
    """Yield why days before ``first`` (ISO, ascending) are not observed: no dates, or dates that are too old."""
    relative = [day for day in days if abs((date.fromisoformat(day) - EPOCH).days) < RELATIVE_BELOW_DAYS]
    if relative:
        yield f"{relative[0]} is before {first}: these times count from a start and are no dates; not observed"
    if old := [day for day in days if day not in relative]:
        stretch = " to ".join(dict.fromkeys((old[0], old[-1])))
        yield f"{stretch} is before {first}, where days begin to be observed; not observed"


def _tell_of_samples(opened: DagsterInstance, document: Mapping[str, Any]) -> None:
    """Let Dagster's catalog show the samples of a job that were ingested, day by day."""
    from perdix.assets.ingest import ingest_metadata

    opened.add_dynamic_partitions("stream_jobs", [document["job"]])
    for day in document["days"]:
        _tell(opened, "samples", day, {**ingest_metadata([dict(document)]), "day": day})


def _tell(opened: DagsterInstance, asset: str, day: str, facts: Mapping[str, Any] | None = None) -> None:
    import dagster as dg

    opened.report_runless_asset_event(dg.AssetMaterialization(asset, partition=day, metadata=facts))


def stretches(days: list[str]) -> list[tuple[str, str]]:
    """Return ``days`` (ISO, sorted) as unbroken stretches: first and last day of each."""
    found: list[tuple[str, str]] = []
    for day in days:
        before = str(date.fromisoformat(day) - timedelta(days=1))
        found = [*found[:-1], (found[-1][0], day)] if found and found[-1][1] == before else [*found, (day, day)]
    return found


def _show_backfill(documents: Sequence[dict[str, Any]]) -> None:
    rows = [
        [
            document["job"],
            document["pulled"],
            number(document["totals"]["kept"]) if "totals" in document else "-",
            "; ".join([*document.get("warnings", ()), *document["problems"]]),
        ]
        for document in documents
    ]
    table("read from Prometheus", ["job", "pulled", "kept", "problems"], rows)
    if not all(document["failed"] for document in documents):
        console.print("next: perdix train")


def _show(document: dict[str, Any]) -> None:
    counts = ("read", "kept", "masked", "quarantined", "unmapped")
    rows = [[Path(file["file"]).name, file["format"] or "?", *(file[c] for c in counts)] for file in document["files"]]
    table(f"samples of {document['job']}", ["file", "format", *counts], rows)
    totals = document["totals"]
    console.print(
        f"{number(totals['read'])} read = {number(totals['kept'])} kept + {number(totals['masked'])} masked"
        f" + {number(totals['quarantined'])} quarantined; days {document['days'][0]} to {document['days'][-1]}"
        if document["days"]
        else "no sample could be read"
    )
    for file in document["files"]:
        if file["removal"]:
            console.print(styled("removed", "yellow"), file["removal"])
        for reason, count in list(file["reasons"].items())[:3]:
            line = f"{Path(file['file']).name}: {reason} ({count})"
            console.print(styled("quarantined", "yellow"), line)
    for remark, names in _remarked(document["files"]).items():
        others = f" and {len(names) - 1:,} more" if len(names) > 1 else ""
        console.print(styled("note", "yellow"), f"{names[0]}{others}: {remark}")
    for warning in document["warnings"]:
        console.print(styled("warning", "yellow"), warning)
    for problem in document["problems"]:
        console.print(styled("check", "yellow"), problem)
    if document["days"] and not document["failed"]:
        console.print(f"next: perdix capacity {document['job']}, perdix train --job {document['job']}")


def _remarked(files: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return each remark on files (assumptions that were made of them) with the names of those that it is about."""
    found: dict[str, list[str]] = {}
    for file in files:
        for remark in file["remarks"]:
            found.setdefault(remark, []).append(Path(file["file"]).name)
    return found


def _nothing() -> AbstractContextManager[None]:
    return nullcontext()

"""``perdix ingest``: exports into the lake, and from there to features."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.options import JsonOption
from cli.output import UserError, console, emit, number, styled, table
from cli.stores import home, lake
from settings.product import load_product_settings
from settings.stream_job import NAME
from telemetry.exports.naming import Hint, HintError
from telemetry.metrics import CANONICAL


def ingest(
    paths: Annotated[list[Path], typer.Argument(help="Export files or folders.", show_default=False)],
    job: Annotated[str, typer.Option("--job", help="Stream job that the exports belong to.", show_default=False)],
    metric: Annotated[
        str | None,
        typer.Option("--metric", help=f"What a file without metric names holds: {', '.join(CANONICAL)}."),
    ] = None,
    timezone: Annotated[str, typer.Option("--timezone", help="Zone of date-times that carry none (CSV).")] = "UTC",
    as_json: JsonOption = False,
) -> None:
    """Read Prometheus exports into the lake; bad rows are quarantined with file, line and reason.

    Formats, plain or gzip, told by their content: query_range JSON, VictoriaMetrics JSON lines, OpenMetrics text and
    tsdb dumps, Grafana CSV, canonical Parquet. Ingesting a file twice changes nothing. Exit code 1 when no file could
    be read.

    Example: perdix ingest cpu_1.csv throughput_1.csv --job ramp
    """
    if not NAME.fullmatch(job):
        raise UserError(f"'{job}' cannot be a job's name: use letters, digits, '.', '_' or '-', at most 63")
    for path in paths:
        if not path.exists():
            raise UserError(f"{path}: no such file or folder")
    try:
        hint = Hint(metric=metric, timezone=timezone)
    except HintError as error:
        raise UserError(str(error)) from None
    report, days, problems = ingest_files(paths, job, hint, show=not as_json)
    document = {**report, "days": days, "problems": problems}
    emit("perdix.ingest/1", document, as_json=as_json, show=lambda: _show(document))
    if report["failed"]:
        raise typer.Exit(1)


def ingest_files(paths: list[Path], job: str, hint: Hint, *, show: bool) -> tuple[dict[str, Any], list[str], list[str]]:
    """Land and ingest files, then observe the days they reach. Returns the report, the days, failed checks."""
    import dagster as dg

    from assets import partitions
    from assets.ingest import ingest_metadata
    from cli import runs
    from telemetry import ingest as ingestion
    from telemetry.landing import land
    from telemetry.spark_session import spark_session

    place, settings = home(), load_product_settings()
    landed = land(place, paths, job)
    with console.status("starting Spark (about ten seconds) ...") if show else _nothing():
        spark = spark_session(place, settings.spark.master, settings.spark.conf)
    with console.status(f"reading {len(landed)} file(s) ...") if show else _nothing():
        report = ingestion.ingest(spark, lake(), landed, job, hint=hint)
    document = report.to_dict()
    days = list(report.days)
    problems: list[str] = []
    with runs.instance(place) as opened:
        opened.add_dynamic_partitions("stream_jobs", [job])
        for day in days:
            facts = {**ingest_metadata([document]), "day": day}
            opened.report_runless_asset_event(dg.AssetMaterialization("samples", partition=day, metadata=facts))
        first = partitions.days.start.date().isoformat()
        if days and days[0] < first:
            problems.append(
                f"{days[0]} is before {first}: these times count from a start and are no dates; not observed"
            )
        for stretch in stretches([day for day in days if day >= first]):
            result = runs.run_job("observe_day", stretch, opened, console if show else None)
            problems += runs.failed_checks(result)
    return document, days, problems


def stretches(days: list[str]) -> list[tuple[str, str]]:
    """Return ``days`` (ISO, sorted) as unbroken stretches: first and last day of each."""
    found: list[tuple[str, str]] = []
    for day in days:
        before = str(date.fromisoformat(day) - timedelta(days=1))
        found = [*found[:-1], (found[-1][0], day)] if found and found[-1][1] == before else [*found, (day, day)]
    return found


def _show(document: dict[str, Any]) -> None:
    counts = ("read", "kept", "masked", "quarantined", "unmapped")
    rows = [[Path(file["file"]).name, file["format"] or "?", *(file[c] for c in counts)] for file in document["files"]]
    table(f"samples of {document['job']}", ["file", "format", *counts], rows)
    totals = document["totals"]
    console.print(
        f"{number(totals['read'])} read = {number(totals['kept'])} kept + {number(totals['masked'])} masked"
        f" + {number(totals['quarantined'])} quarantined; days {document['days'][0]} to {document['days'][-1]}"
        if document["days"]
        else "no sample could be read",
        highlight=False,
    )
    for file in document["files"]:
        for reason, count in list(file["reasons"].items())[:3]:
            told = f"{Path(file['file']).name}: {reason} ({count})"
            console.print(styled("quarantined", "yellow"), told, highlight=False)
    for problem in document["problems"]:
        console.print(styled("check", "yellow"), problem, highlight=False)
    if not document["failed"]:
        console.print(f"next: perdix capacity {document['job']}, perdix train --job {document['job']}", highlight=False)


def _nothing() -> Any:
    from contextlib import nullcontext

    return nullcontext()

"""Exports into the lake: pulled from Prometheus or put into the landing folder, read by Spark, validated."""

import hashlib
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg

from assets.metadata import records
from assets.partitions import days, one_run, stream_jobs
from assets.resources import Spark, Workspace
from settings.home import Home
from settings.stream_job import NAME, StreamJob
from telemetry.lake import Lake
from telemetry.landing import ExportFile, landed
from twin.exports import write_victoria_metrics

DIGEST_UP_TO_BYTES = 128 << 20  # larger files are read in slices, whose digests are another number
FILE_COLUMNS = ("job", "file", "format", "read", "kept", "masked", "quarantined", "unmapped", "seconds")


@dg.asset(group_name="ingest", partitions_def=days, backfill_policy=one_run, kinds={"prometheus"}, pool="prometheus")
def exports(context: dg.AssetExecutionContext, workspace: Workspace) -> dg.MaterializeResult:
    """Each job's day, pulled from its Prometheus into the landing folder.

    Jobs without a Prometheus are left to what was put there by hand (``perdix ingest``). A Prometheus that cannot be
    reached fails its own job only.
    """
    jobs, errors = workspace.stream_jobs()
    problems = [str(error) for error in errors]
    pulled = 0
    for job in jobs.values():
        for day in context.partition_keys:
            try:
                pulled += _pull_day(context, workspace.paths(), job, day)
            except Exception as error:  # one job's Prometheus must not keep the others from being trained
                problems.append(f"{job.name}, {day}: {error}")
    for problem in problems:
        context.log.warning(problem)
    context.instance.add_dynamic_partitions(stream_jobs.name or "", list(jobs))
    return dg.MaterializeResult(metadata={"series": pulled, "jobs": len(jobs), "problems": problems})


def _pull_day(context: dg.AssetExecutionContext, home: Home, job: StreamJob, day: str) -> int:
    """Pull one day of one job and land it; returns the number of series."""
    from telemetry.prometheus import Prometheus
    from telemetry.queries import load_queries

    if job.prometheus is None:
        return 0
    source, interval_s = job.prometheus, job.prometheus.scrape_interval_s
    start = datetime.strptime(day, days.fmt).replace(tzinfo=UTC)
    end_s = (start + timedelta(days=1)).timestamp() - interval_s
    with closing(Prometheus(source)) as client:
        pulled = client.pull(
            load_queries(job.engine),
            source.selector,
            start.timestamp(),
            end_s,
            step_s=interval_s,
            scrape_interval_s=interval_s,
        )
        for warning in client.drain_warnings():
            context.log.warning(f"{job.name}, {day}: {warning}")
    if pulled:
        folder = home.landing / job.name
        folder.mkdir(parents=True, exist_ok=True)
        write_victoria_metrics(pulled, folder / f"prometheus-{day}.json.gz")
    return len(pulled)


@dg.asset(
    group_name="ingest",
    partitions_def=days,
    backfill_policy=one_run,
    deps=[exports],
    kinds={"spark", "parquet"},
    pool="spark",
)
def samples(context: dg.AssetExecutionContext, workspace: Workspace, spark: Spark) -> dg.MaterializeResult:
    """Every sample of every landed export, one row each; what could not be read is in ``quarantine`` with its reason.

    Reads the files that are new or changed; all their days are written, also those that were not asked for. A day
    whose files are in the lake already is only counted, so running it twice changes nothing.
    """
    from telemetry.ingest import ingest

    home, lake, reports = workspace.paths(), workspace.lake(), []
    jobs, problems = landed_jobs(home)
    for problem in problems:
        context.log.warning(problem)
    for job in jobs:
        files = _new_files(lake, job, landed(home, job))
        if files:
            report = ingest(spark.session(), lake, files, job)
            reports.append(report.to_dict())
            totals = report.totals
            context.log.info(f"{job}: {totals['files']} file(s), {totals['read']:,} samples read")
        context.instance.add_dynamic_partitions(stream_jobs.name or "", [job])
    rows = sum(part.rows for part in lake.manifests("samples", days=context.partition_keys))
    return dg.MaterializeResult(metadata={**ingest_metadata(reports), "dagster/row_count": rows, "problems": problems})


def landed_jobs(home: Home) -> tuple[list[str], list[str]]:
    """Return the jobs that have a landing folder, and what is wrong with folders that cannot name a job."""
    found = sorted(path.name for path in home.landing.iterdir() if path.is_dir()) if home.landing.is_dir() else []
    jobs = [name for name in found if NAME.fullmatch(name)]
    mend = "rename the folder: letters, digits, '.', '_' or '-', at most 63"
    return jobs, [f"{home.landing / name}: not a job's name; {mend}" for name in found if name not in jobs]


def _new_files(lake: Lake, job: str, files: list[ExportFile]) -> list[ExportFile]:
    """Return the files of which the lake has no row yet, or rows of another content."""
    known = lake.read("sources", job, columns=["source", "digest", "bytes"]).to_pylist()
    by_source = {row["source"]: row for row in known}
    return [file for file in files if file.problem or _differs(file, by_source.get(file.source))]


def _differs(file: ExportFile, known: dict[str, Any] | None) -> bool:
    """Say whether a file is not what the lake knows of it; large ones are told by their size alone."""
    size = file.path.stat().st_size
    if known is None or size != known["bytes"]:
        return True
    if size > DIGEST_UP_TO_BYTES:
        return False
    with file.path.open("rb") as stream:
        return bool(hashlib.file_digest(stream, "sha256").hexdigest() != known["digest"])


def ingest_metadata(reports: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the counts of ingest reports, and a table of their files, as Dagster metadata."""
    counted = ("read", "kept", "masked", "quarantined", "unmapped")
    totals = {name: sum(report["totals"][name] for report in reports) for name in counted}
    files = [{"job": report["job"], **file} for report in reports for file in report["files"]]
    return {
        **totals,
        "adds_up": totals["read"] == totals["kept"] + totals["masked"] + totals["quarantined"],
        "seconds": round(sum(report["seconds"] for report in reports), 3),
        "days": ", ".join(sorted({day for report in reports for day in report["days"]})),
        "files": records(sorted(files, key=lambda file: -file["quarantined"]), FILE_COLUMNS),
    }

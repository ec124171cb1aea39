"""Exports into the lake: pulled from Prometheus or put into the landing folder, read by Spark, validated."""

from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg

from assets.metadata import records
from assets.partitions import days, one_run, stream_jobs
from assets.resources import Spark, Workspace
from settings.home import Home
from settings.stream_job import StreamJob
from twin.exports import write_victoria_metrics

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
    with closing(Prometheus(str(source.url), token_file=source.token_file, verify_tls=source.verify_tls)) as client:
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

    Takes files that are new or changed, and files that hold rows of the days asked for: running it twice gives the same
    lake. Days of a file that were not asked for are written, too, and named in the metadata.
    """
    from telemetry.ingest import ingest, landed

    lake, reports = workspace.lake(), []
    for job, files in landed(workspace.paths(), lake, set(context.partition_keys)).items():
        reports.append(ingest(spark.session(), lake, files, job))
        context.instance.add_dynamic_partitions(stream_jobs.name or "", [job])
        context.log.info(f"{job}: {reports[-1].sentence}")
    return dg.MaterializeResult(metadata=ingest_metadata([report.to_dict() for report in reports]))


def ingest_metadata(reports: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the counts of one or more ingest reports, and a table of their files, as Dagster metadata."""
    files = [{"job": report["job"], **file} for report in reports for file in report["files"]]
    totals = {name: sum(file[name] for file in files) for name in ("read", "kept", "masked", "quarantined", "unmapped")}
    reached = sorted({day for file in files for day in file["days"]})
    return {
        **totals,
        "dagster/row_count": totals["kept"] + totals["masked"],
        "adds_up": totals["read"] == totals["kept"] + totals["masked"] + totals["quarantined"],
        "seconds": round(sum(file["seconds"] for file in files), 3),
        "days": ", ".join(reached),
        "files": records(sorted(files, key=lambda file: -file["quarantined"]), FILE_COLUMNS),
    }

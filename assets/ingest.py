"""Exports into the lake: pulled from Prometheus or put into the landing folder, read by Spark, validated."""

from typing import Any

import dagster as dg

from perdix.assets.metadata import records
from perdix.assets.partitions import days, one_run, stream_jobs
from perdix.assets.resources import Spark, Workspace
from perdix.control.clock import WallClock
from perdix.settings.home import Home
from perdix.settings.stream_job import NAME
from perdix.telemetry.landing import landed

FILE_COLUMNS = ("job", "file", "format", "read", "kept", "masked", "quarantined", "unmapped", "seconds")


@dg.asset(group_name="ingest", partitions_def=days, backfill_policy=one_run, kinds={"prometheus"}, pool="prometheus")
def exports(context: dg.AssetExecutionContext, workspace: Workspace) -> dg.MaterializeResult:
    """Each job's day, pulled from its Prometheus into the landing folder.

    Jobs without a Prometheus are left to what was put there by hand (``perdix ingest``). A Prometheus that cannot be
    reached fails its own job only.
    """
    from perdix.telemetry.live_range import day_range, pull_range

    files = workspace.stream_jobs()
    jobs, problems = files.jobs, list(files.complaints)
    samples = 0
    for job in jobs.values():
        for day in context.partition_keys if job.prometheus is not None else ():
            from_s, until_s = day_range(workspace.lake(), job.name, day)
            until_s = min(until_s, WallClock().now_s())  # else a day that is not over repeats its newest samples
            if until_s < from_s:
                continue
            pulled = pull_range(workspace.paths(), job, from_s, until_s)
            samples += pulled.samples
            problems += [f"{job.name}, {day}: {problem}" for problem in pulled.problems]
            if pulled.server_failed:
                break
    for problem in problems:
        context.log.warning(problem)
    context.instance.add_dynamic_partitions(stream_jobs.name or "", list(jobs))
    return dg.MaterializeResult(metadata={"samples": samples, "jobs": len(jobs), "problems": problems})


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
    from perdix.telemetry.ingest import ingest, new_files

    home, lake, reports = workspace.paths(), workspace.lake(), []
    jobs, problems = landed_jobs(home)
    for problem in problems:
        context.log.warning(problem)
    for job in jobs:
        files = new_files(lake, job, landed(home, job))
        if files:
            report = ingest(spark.session(), lake, files, job)
            reports.append(report.to_dict())
            totals = report.totals
            context.log.info(f"{job}: {totals['files']} file(s), {totals['read']:,} samples read")
            for file in report.files:
                if file.failed:
                    context.log.warning(f"{job}: {file.file}: {next(iter(file.reasons))}")
        context.instance.add_dynamic_partitions(stream_jobs.name or "", [job])
    rows = sum(part.rows for part in lake.manifests("samples", days=context.partition_keys))
    return dg.MaterializeResult(metadata={**ingest_metadata(reports), "dagster/row_count": rows, "problems": problems})


def landed_jobs(home: Home) -> tuple[list[str], list[str]]:
    """Return the jobs that have a landing folder, and what is wrong with folders that cannot name a job."""
    found = sorted(path.name for path in home.landing.iterdir() if path.is_dir()) if home.landing.is_dir() else []
    jobs = [name for name in found if NAME.fullmatch(name)]
    mend = "rename the folder: letters, digits, '.', '_' or '-', at most 63"
    return jobs, [f"{home.landing / name}: not a job's name; {mend}" for name in found if name not in jobs]


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

"""Exports into the lake: pulled from Prometheus or put into the landing folder, read by Spark, validated."""

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import dagster as dg

from perdix.assets.metadata import records
from perdix.assets.partitions import by_spark, days, one_run, partitions_of, stream_jobs
from perdix.assets.resources import Spark, Workspace
from perdix.control.clock import WallClock
from perdix.settings.home import Home
from perdix.settings.stream_job import NAME
from perdix.telemetry.landing import landed

if TYPE_CHECKING:
    from perdix.settings.stream_job import StreamJob
    from perdix.telemetry.live_range import PulledRange

FILE_COLUMNS = ("job", "file", "format", "read", "kept", "masked", "quarantined", "unmapped", "seconds")


@dg.asset(group_name="ingest", partitions_def=days, backfill_policy=one_run, kinds={"prometheus"}, pool="prometheus")
def exports(context: dg.AssetExecutionContext, workspace: Workspace) -> dg.MaterializeResult:
    """Each job's day, pulled from its Prometheus into the landing folder.

    Jobs without a Prometheus are left to what was put there by hand (``perdix ingest``). A Prometheus that cannot be
    reached fails its own jobs only, and is asked once, not once per job; so does a lake that cannot be read of a job.
    """
    files = workspace.stream_jobs()
    jobs, problems = files.jobs, list(files.complaints)
    samples, down = 0, dict[str, str]()
    for job in jobs.values():
        server = "" if job.prometheus is None else job.prometheus.asked_as
        for day in context.partition_keys if server else ():
            if server in down:
                problems.append(f"{job.name}, {day}: {down[server]}")
                break
            pulled = _pulled(workspace, job, day)
            if pulled is None:
                continue
            samples += pulled.samples
            problems += [f"{job.name}, {day}: {problem}" for problem in pulled.problems]
            if pulled.server_failed:
                down[server] = pulled.problems[-1]
                break
    for problem in problems:
        context.log.warning(problem)
    context.instance.add_dynamic_partitions(stream_jobs.name or "", list(jobs))
    return dg.MaterializeResult(metadata={"samples": samples, "jobs": len(jobs), "problems": problems})


def _pulled(workspace: Workspace, job: "StreamJob", day: str) -> "PulledRange | None":
    """Pull a day of a job; nothing where there is nothing to be asked for."""
    from perdix.telemetry.lacking import lacking_of_day
    from perdix.telemetry.lake import LakeError
    from perdix.telemetry.live_range import PulledRange, pull_ranges

    now_s = WallClock().now_s()
    try:
        ranges = lacking_of_day(workspace.lake(), job, day, now_s)
    except LakeError as error:
        return PulledRange(job.name, now_s, now_s, problems=(str(error),))
    return pull_ranges(workspace.paths(), job, ranges, now_s) if ranges else None


@by_spark("ingest", [exports])
def samples(context: dg.AssetExecutionContext, workspace: Workspace, spark: Spark) -> dg.MaterializeResult:
    """Every sample of every landed export, one row each; what could not be read is in ``quarantine`` with its reason.

    Reads the files that are new or changed; all their days are written, also those that were not asked for. A day
    whose files are in the lake already is only counted, so running it twice changes nothing. Of what perdix pulled
    itself, the last ``lake.keep_days`` are kept. A job that cannot be read or written is shown and left out; the run
    fails only when that is so of every job.
    """
    from perdix.telemetry.lake import LakeError

    home, lake, reports, rows = workspace.paths(), workspace.lake(), [], 0
    kept_days, asked = workspace.settings().kept_days, partitions_of(context)
    jobs, problems = landed_jobs(home)
    failed = []
    every = sorted({*jobs, *lake.jobs("samples")})
    for job in every:
        try:
            if job in jobs:
                reports += _ingested(context, home, spark, job)
                context.instance.add_dynamic_partitions(stream_jobs.name or "", [job])
            forget(context, workspace, job, kept_days, asked)
            rows += sum(part.rows for part in lake.manifests("samples", job, days=asked))
        except (LakeError, OSError) as error:
            failed.append(f"{job}: {error}")
    for problem in (*problems, *failed):
        context.log.warning(problem)
    if failed and len(failed) == len(every):
        raise dg.Failure(f"no job could be ingested; the first said: {failed[0]}")
    counts: dict[str, Any] = {"dagster/row_count": rows, "problems": [*problems, *failed]}
    return dg.MaterializeResult(metadata={**ingest_metadata(reports), **counts})


def _ingested(context: dg.AssetExecutionContext, home: Home, spark: Spark, job: str) -> list[dict[str, Any]]:
    """Ingest the landed files of a job that are new or changed; returns their report, where there are any."""
    from perdix.telemetry.exports.records import Limits
    from perdix.telemetry.ingest import ingest, new_files
    from perdix.telemetry.lake import Lake

    lake = Lake(home.lake)
    files = new_files(lake, job, landed(home, job))
    if not files:
        return []
    report = ingest(spark.session(), lake, files, job, limits=Limits.until(WallClock().now_s()))
    totals = report.totals
    context.log.info(f"{job}: {totals['files']} file(s), {totals['read']:,} samples read")
    for warning in report.warnings:
        context.log.warning(f"{job}: {warning}")
    for file in report.files:
        if file.removed:
            context.log.warning(f"{job}: {file.removal()}")
        if file.failed:
            context.log.warning(f"{job}: {file.file}: {next(iter(file.reasons))}")
    return [report.to_dict()]


def forget(
    context: dg.AssetExecutionContext, workspace: Workspace, job: str, kept_days: int, asked: Collection[str] = ()
) -> None:
    """Remove what perdix pulled of a job before its last ``kept_days``, and log it; raises ``LakeError``, ``OSError``.

    ``asked``: days that stay whatever their age.
    """
    from perdix.assets.retention import forget_pulled

    gone = forget_pulled(workspace.paths(), workspace.lake(), job, kept_days, WallClock().now_s(), asked)
    if gone:
        context.log.info(f"{job}: what was pulled of {gone[0]} to {gone[-1]} is removed; {kept_days} days are kept")


def landed_jobs(home: Home) -> tuple[list[str], list[str]]:
    """Return the jobs that have a landing folder, and what is wrong with folders that cannot name a job."""
    found = sorted(path.name for path in home.landing.iterdir() if path.is_dir()) if home.landing.is_dir() else []
    jobs = [name for name in found if NAME.fullmatch(name)]
    fix = "rename the folder: letters, digits, '.', '_' or '-', at most 63"
    return jobs, [f"{home.landing / name}: not a job's name; {fix}" for name in found if name not in jobs]


def warnings_of(reports: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return what is wrong with the files of ingest reports as a whole, job by job."""
    return [f"{report['job']}: {warning}" for report in reports for warning in report.get("warnings", ())]


def ingest_metadata(reports: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the counts of ingest reports, and a table of their files, as Dagster metadata."""
    counted = ("read", "kept", "masked", "quarantined", "unmapped")
    totals = {name: sum(report["totals"][name] for report in reports) for name in counted}
    files = [{"job": report["job"], **file} for report in reports for file in report["files"]]
    warnings = warnings_of(reports)
    return {
        **totals,
        **({"warnings": warnings} if warnings else {}),
        "adds_up": totals["read"] == totals["kept"] + totals["masked"] + totals["quarantined"],
        "seconds": round(sum(report["seconds"] for report in reports), 3),
        "days": ", ".join(sorted({day for report in reports for day in report["days"]})),
        "files": records(sorted(files, key=lambda file: -file["quarantined"]), FILE_COLUMNS),
    }

"""When things happen by themselves: each day is ingested after it ended, then every stream job is trained.

Both run as soon as a Dagster daemon does. Without a job file and without exports they have nothing to do, and say so.
"""

from collections.abc import Iterable
from datetime import timedelta

import dagster as dg

from perdix.assets.ingest import landed_jobs
from perdix.assets.partitions import days, stream_jobs
from perdix.assets.resources import Workspace
from perdix.pipelines.jobs import ingest_day, train
from perdix.settings.durations import DAY_S
from perdix.settings.home import job_file_to_write
from perdix.settings.product import load_product_settings
from perdix.settings.stream_job import NAME
from perdix.telemetry.lacking import ingested_s
from perdix.telemetry.landing import landed
from perdix.telemetry.partitions import LakeError

RANGE_START = "dagster/asset_partition_range_start"
RANGE_END = "dagster/asset_partition_range_end"
NOTHING_NEW = "what was landed is ingested already, and no job file names a Prometheus"


@dg.schedule(
    job=ingest_day,
    cron_schedule="10 0 * * *",
    execution_timezone="UTC",
    description="The day that has just ended: pulled from each job's Prometheus, and what was landed by hand.",
    default_status=dg.DefaultScheduleStatus.RUNNING,
)
def daily_ingest(context: dg.ScheduleEvaluationContext, workspace: Workspace) -> dg.RunRequest | dg.SkipReason:
    """Ingest the day that has just ended: pulled from each job's Prometheus, and what was landed by hand."""
    if not _live(workspace):
        jobs = landed_jobs(workspace.paths())[0]
        if not jobs:
            return dg.SkipReason(_no_job(workspace))
        if not any(_is_new(workspace, job) for job in jobs):
            return dg.SkipReason(NOTHING_NEW)
    ended = (context.scheduled_execution_time - timedelta(days=1)).strftime(days.fmt)
    return dg.RunRequest(run_key=ended, partition_key=ended)


@dg.schedule(
    job=train,
    cron_schedule=load_product_settings().training.cron,
    execution_timezone="UTC",
    description="Every stream job in one run, at training.cron; what the lake lacks is pulled first.",
    default_status=dg.DefaultScheduleStatus.RUNNING,
)
def daily_training(context: dg.ScheduleEvaluationContext, workspace: Workspace) -> dg.RunRequest | dg.SkipReason:
    """Train every stream job in one run, those with a Prometheus on what was pulled until now.

    A job without a file of which nothing has been ingested for ``training.history_days`` is forgotten until something
    is: its models stay as they are.
    """
    name, instance = stream_jobs.name or "", context.instance
    instance.add_dynamic_partitions(name, _live(workspace))
    for job in _over(workspace, instance.get_dynamic_partitions(name), context.scheduled_execution_time.timestamp()):
        instance.delete_dynamic_partition(name, job)
    known = instance.get_dynamic_partitions(name)
    if not known:
        return dg.SkipReason(_no_job(workspace))
    at = context.scheduled_execution_time.strftime("%Y-%m-%dT%H:%M")
    return dg.RunRequest(
        run_key=f"daily-{at}", tags={RANGE_START: known[0], RANGE_END: known[-1], "perdix/reason": "schedule"}
    )


def _no_job(workspace: Workspace) -> str:
    fix = job_file_to_write(folder=workspace.conf_folder())
    return f"no stream job is known yet: {fix}, with its Prometheus, or run perdix ingest"


def _is_new(workspace: Workspace, job: str) -> bool:
    """Return whether something was landed of a job that the lake does not hold; what is broken, the run says."""
    from perdix.telemetry.ingest import new_files

    try:
        return any(not file.problem for file in new_files(workspace.lake(), job, landed(workspace.paths(), job)))
    except (LakeError, OSError):
        return True


def _live(workspace: Workspace) -> list[str]:
    """Return the jobs whose files name a Prometheus."""
    return [name for name, job in workspace.stream_jobs().jobs.items() if job.prometheus is not None]


def _over(workspace: Workspace, jobs: Iterable[str], now_s: float) -> list[str]:
    """Return what has no file and of which nothing has been ingested for a history, or ever.

    A partition that somebody added on Dagster's page may be called as no job can be.
    """
    since_s = now_s - workspace.settings().training.history_days * DAY_S
    lake, described = workspace.lake(), workspace.stream_jobs().jobs

    newest_s = {job: ingested_s(lake, job) if NAME.fullmatch(job) else None for job in jobs if job not in described}
    return [job for job, at_s in newest_s.items() if at_s is None or at_s < since_s]

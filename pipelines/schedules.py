"""When things happen by themselves: each day is ingested after it ended, then every stream job is trained."""

from collections.abc import Iterator
from datetime import timedelta

import dagster as dg

from assets.partitions import days, stream_jobs
from pipelines.jobs import ingest_day, train
from settings.product import load_product_settings

RANGE_START = "dagster/asset_partition_range_start"
RANGE_END = "dagster/asset_partition_range_end"


@dg.schedule(job=ingest_day, cron_schedule="10 0 * * *", execution_timezone="UTC")
def daily_ingest(context: dg.ScheduleEvaluationContext) -> dg.RunRequest:
    """Ingest the day that has just ended."""
    ended = (context.scheduled_execution_time - timedelta(days=1)).strftime(days.fmt)
    return dg.RunRequest(run_key=ended, partition_key=ended)


@dg.schedule(job=train, cron_schedule=load_product_settings().training.cron, execution_timezone="UTC")
def daily_training(context: dg.ScheduleEvaluationContext) -> Iterator[dg.RunRequest | dg.SkipReason]:
    """Train every stream job in one run."""
    known = context.instance.get_dynamic_partitions(stream_jobs.name or "")
    if not known:
        yield dg.SkipReason("no stream job is known yet: ingest exports, or write a file to conf/jobs")
        return
    day = context.scheduled_execution_time.strftime("%Y-%m-%d")
    yield dg.RunRequest(
        run_key=f"daily-{day}", tags={RANGE_START: known[0], RANGE_END: known[-1], "perdix/reason": "schedule"}
    )

"""How assets are partitioned: metrics by day, models by stream job; never by both.

One job x day grid would soon have more partitions than Dagster's pages can show.
"""

from collections.abc import Callable
from typing import Any

import dagster as dg

# end_offset=1: today can be materialized before it is over, and again after.
days = dg.DailyPartitionsDefinition(start_date="2020-01-01", end_offset=1)
stream_jobs = dg.DynamicPartitionsDefinition(name="stream_jobs")

# A range of days, or many jobs, is one run: a Spark session costs ten seconds, a partition milliseconds.
one_run = dg.BackfillPolicy.single_run()


def partitions_of(context: dg.AssetExecutionContext | dg.AssetCheckExecutionContext) -> list[str]:
    """Return the partitions of a run; raises ``dagster.Failure`` where its range begins after it ends."""
    if not context.partition_keys:
        tags = context.run.tags
        start, end = tags.get("dagster/asset_partition_range_start"), tags.get("dagster/asset_partition_range_end")
        raise dg.Failure(f"no partition is in the range from {start} to {end}: exchange the two tags of the run")
    return list(context.partition_keys)


def by_spark(group: str, deps: list[dg.AssetsDefinition]) -> Callable[[Callable[..., Any]], dg.AssetsDefinition]:
    """Return the decorator of an asset that Spark writes into the lake day by day, from what ``deps`` wrote."""
    return dg.asset(
        group_name=group,
        partitions_def=days,
        backfill_policy=one_run,
        deps=deps,
        kinds={"spark", "parquet"},
        pool="spark",
    )

"""What Dagster keeps without end, bounded: materializations of ticks, and the runs that review rescaled jobs.

Its own ``retention`` (``conf/dagster.yaml``) removes ticks of sensors and schedules, and nothing else.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
from sqlalchemy import select

KEPT_TICKS = 20_000  # of the loop: two weeks of one a minute, some 8 kB each
KEPT_REVIEWS_S = 30 * 86_400.0
FORGETS_EACH_S = 3_600.0  # in one tick of these seconds: it takes some 50 ms
RUNS_AT_ONCE, TICKS_AT_ONCE = 20, 1_000  # what is left, the next call removes
ENDED = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]


def forget_ticks(instance: dg.DagsterInstance, asset: dg.AssetKey, keep: int = KEPT_TICKS) -> None:
    """Remove the oldest materializations of an asset that no run makes, but for the newest ``keep``; some at a time."""
    # Dagster has no other way, and may change this one: whoever only loads this module must not fail by that
    from dagster._core.storage.event_log.schema import SqlEventLogStorageTable
    from dagster._core.storage.event_log.sql_event_log import SqlEventLogStorage

    storage, events = instance.event_log_storage, SqlEventLogStorageTable
    if not isinstance(storage, SqlEventLogStorage):  # of a hosted Dagster, which sees to it itself
        return
    kind = dg.DagsterEventType.ASSET_MATERIALIZATION.value
    of_asset = (events.c.asset_key == asset.to_string(), events.c.dagster_event_type == kind)
    # SQLite holds each event twice: where assets are looked up, and as those of a run, here of none
    for connection in (storage.index_connection(), storage.run_connection("")):
        with connection as opened:
            ids = select(events.c.id).where(*of_asset)
            last = opened.execute(ids.order_by(events.c.id.desc()).offset(keep).limit(1)).scalar()
            if last is not None:
                oldest = ids.where(events.c.id <= last).order_by(events.c.id).limit(TICKS_AT_ONCE)
                opened.execute(events.delete().where(events.c.id.in_(oldest)))


def forget_reviews(instance: dg.DagsterInstance, job: str, now_s: float) -> None:
    """Remove runs of a job that are older than 30 days, with their logs and pictures; a few at a time."""
    from dagster._core.storage.event_log.sqlite.sqlite_event_log import SqliteEventLogStorage

    before = datetime.fromtimestamp(now_s - KEPT_REVIEWS_S, UTC)
    ended = dg.RunsFilter(job_name=job, created_before=before, statuses=ENDED)
    for run in instance.get_runs(ended, limit=RUNS_AT_ONCE, ascending=True):
        instance.compute_log_manager.delete_logs(prefix=[run.run_id])
        instance.delete_run(run.run_id)
        if isinstance(instance.event_log_storage, SqliteEventLogStorage):  # which empties the run's file, and leaves it
            Path(instance.event_log_storage.path_for_shard(run.run_id)).unlink(missing_ok=True)

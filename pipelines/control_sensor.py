"""The control loop as a Dagster sensor: thin, because everything is in ``control``.

What Dagster guarantees is little: a tick that times out goes on and overlaps the next, its cursor is lost, a second
daemon acts too. So the tick keeps its own state and leases, and this module only reports.
"""

import atexit
import os
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import dagster as dg
from sqlalchemy import select

from perdix.assets.metadata import MOST_ROWS, records
from perdix.assets.partitions import stream_jobs
from perdix.assets.resources import Workspace
from perdix.control.clock import WallClock
from perdix.control.fleet import tick_fleet
from perdix.control.fleet_report import FleetReport
from perdix.control.job_files import FollowedFiles, job_files
from perdix.control.live import holder_name, live_io
from perdix.control.state.journal import USUAL
from perdix.control.tick_io import TickIO
from perdix.pipelines.rescaled_jobs import review_jobs, review_of
from perdix.settings.counting import counted
from perdix.settings.home import Home
from perdix.settings.product import ControlSettings, load_product_settings
from perdix.settings.yaml_files import SettingsError

DECISIONS = dg.AssetKey("scaling_decisions")
AUTOSTART = "PERDIX_AUTOSTART"
"""Set to 1 (``perdix dev`` does) to have the loop run as soon as Dagster does; else an operator starts the sensor."""
MOST_JOBS = 10  # whose workers are named in a sentence


@lru_cache(maxsize=4)
def _opened(home: Home, settings: ControlSettings) -> TickIO:
    """Open what a tick touches once per process, so that models stay cached between ticks; closed at its exit."""
    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(live_io(home, settings))


@lru_cache(maxsize=4)
def _followed(home: Home, conf: Path) -> FollowedFiles:
    """Follow the job files, so that a tick reads only those that have changed."""
    return job_files(home, conf)


@dataclass
class _LastTick:
    """What this process keeps of its last tick of a home."""

    settings: ControlSettings = field(default_factory=ControlSettings)  # that could be read last, at first the defaults
    complaints: frozenset[str] = frozenset()  # said at each tick, they would leave a log file a minute for good


_LAST: defaultdict[Home, _LastTick] = defaultdict(_LastTick)


def _settings(workspace: Workspace, last: _LastTick) -> tuple[ControlSettings, tuple[str, ...]]:
    """Return the settings as they are now, else as they were read last, and what is wrong with them."""
    try:
        last.settings = workspace.settings().control
    except SettingsError as error:
        return last.settings, (f"{error}; what was read of it last is used, at first the defaults",)
    return last.settings, ()


def interval_s() -> int:
    """Return seconds between ticks; each tick reports settings that cannot be read, and goes on without them."""
    try:
        return round(load_product_settings().control.tick_interval_s)
    except SettingsError:
        return round(ControlSettings().tick_interval_s)


@dg.sensor(
    name="control_loop",
    job_name=review_jobs.name,
    minimum_interval_seconds=interval_s(),
    default_status=(
        dg.DefaultSensorStatus.RUNNING if os.environ.get(AUTOSTART) == "1" else dg.DefaultSensorStatus.STOPPED
    ),
    description=(
        "Every interval (control.tick_interval_s, a minute by default), for every stream job: "
        "observe, forecast, decide, act (or advise), learn."
    ),
)
def control_loop(context: dg.SensorEvaluationContext, workspace: Workspace) -> dg.SensorResult:
    """Make one tick of the fleet and report it as one materialization of ``scaling_decisions``.

    Dagster shows a tick as skipped unless it requests a run: one that rescaled jobs requests their review.
    """
    home = workspace.paths()
    last = _LAST[home]
    settings, unread = _settings(workspace, last)
    files = _followed(home, workspace.conf_folder()).look(float("inf"))
    io = _opened(home, settings)
    report = tick_fleet(
        files.jobs.values(),
        io,
        WallClock(),
        holder=holder_name("sensor"),
        soft_deadline_s=settings.soft_deadline_s,
        heartbeat=home.heartbeat,
        files=files,
    )
    report = replace(report, notes=(*unread, *report.notes))
    complaints = dict.fromkeys((*files.complaints, *report.notes))
    for complaint in complaints:
        if complaint not in last.complaints:
            context.log.warning(complaint)
    last.complaints = frozenset(complaints)
    if report.finished_s % FORGETS_EACH_S < settings.tick_interval_s:
        try:
            forget_ticks(context.instance, DECISIONS)
            forget_reviews(context.instance, review_jobs.name, report.finished_s)
        except Exception as error:  # of a database that is locked, say: what is not removed now, a later tick removes
            context.log.warning(f"old ticks and reviews were not removed: {type(error).__name__}: {error}")
    known = set(context.instance.get_dynamic_partitions(stream_jobs.name or ""))
    unknown = sorted(set(files.jobs) - known)
    rescaled, sentence = report.rescaled, tick_sentence(report)
    if rescaled:  # of such a tick the page shows the run, and this in its log; Dagster never removes a tick's log
        context.log.info(sentence)
    return dg.SensorResult(
        run_requests=[review_of(rescaled)] if rescaled else [],
        skip_reason=None if rescaled else dg.SkipReason(sentence),
        asset_events=[dg.AssetMaterialization(DECISIONS, metadata=tick_metadata(report))],
        dynamic_partitions_requests=[stream_jobs.build_add_request(unknown)] if unknown else [],
    )


def tick_sentence(report: FleetReport) -> str:
    """Return a tick in a sentence, with the workers of the first jobs: all that the sensor's page shows of it."""
    running = [f"{name} {tick.running}" for name, tick in sorted(report.reports.items()) if tick.running is not None]
    more = f" and {len(running) - MOST_JOBS} more" if len(running) > MOST_JOBS else ""
    return f"{report.sentence()} Workers: {', '.join(running[:MOST_JOBS])}{more}." if running else report.sentence()


def tick_metadata(report: FleetReport) -> dict[str, Any]:
    """Return a tick as metadata: numbers that the asset page plots over time, and a sentence per job."""
    summary = report.summary()
    served = report.reports.values()
    wapes = [tick.wape for tick in served if tick.wape is not None]
    horizons = [tick.horizon_wape for tick in served if tick.horizon_wape is not None]
    standing = sorted(report.statuses.items(), key=lambda item: (item[1].status in USUAL, item[0]))
    rows = [{"job": name, "status": status.status.value, "why": status.sentence} for name, status in standing]
    more = len(rows) - MOST_ROWS
    return {
        "jobs": summary["jobs"],
        "workers": summary["workers"],
        "seconds": float(summary["seconds"]),
        "open_retrains": summary["retrains"],
        "rescales": summary["events"].get("applied", 0),
        "blind": summary["statuses"].get("blind", 0),
        **({"wape_mean": round(sum(wapes) / len(wapes), 4)} if wapes else {}),
        **({"horizon_wape_mean": round(sum(horizons) / len(horizons), 4)} if horizons else {}),
        "why": records(rows, ("job", "status", "why")),
        **({"not_shown": f"{counted(more, 'more job')}; perdix jobs lists all"} if more > 0 else {}),
        **({"notes": "; ".join(report.notes)} if report.notes else {}),
    }


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

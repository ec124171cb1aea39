"""One tick of a fleet: every job is served, and one summary says what came of it.

Belongs here: who is served in which order, and what is kept and said of all. Does not belong here: how jobs are served
(:mod:`perdix.control.serving`).
"""

import logging
from collections.abc import Iterable, Set
from dataclasses import replace
from pathlib import Path

from perdix.control.champions import write_whole
from perdix.control.clock import CLOCK_BACK_S, HostClock, moment
from perdix.control.fleet_report import FleetReport, LoopFault, Part, RetrainRequest
from perdix.control.freshness import INTERVAL
from perdix.control.job_files import JobFiles
from perdix.control.serving import Turn, serve, served_by
from perdix.control.state.journal import RETRAIN_EXPIRES_S, JobStatus, Journal, Status, Tick
from perdix.control.state.schema import cause_of, to_text
from perdix.control.tick_io import TickIO
from perdix.models.drift import LONGEST_COOLDOWN_S
from perdix.settings.stream_job import StreamJob

SOFT_DEADLINE_S = 25.0
NO_FILES = JobFiles()
_log = logging.getLogger(__name__)


def tick_fleet(
    jobs: Iterable[StreamJob],
    io: TickIO,
    clock: HostClock,
    *,
    holder: str,
    soft_deadline_s: float = SOFT_DEADLINE_S,
    heartbeat: Path | None = None,
    keep_lease: bool = True,
    files: JobFiles = NO_FILES,
) -> FleetReport:
    """Tick every job once; whatever else fails is in the report, not raised.

    ``clock``: read once per job, or per batch that is read together: those jobs' ``now_s``.
    ``holder``: name of this controller: who it is that holds a lease.
    ``soft_deadline_s``: checked between jobs; those that are left are reported as late and served first the next time.
    ``heartbeat``: file that is written at the end: a dead-man switch outside of any scheduler.
    ``keep_lease``: keep each job's lease for most of the interval, so that of several controllers only one acts in it;
    ``False`` gives it back at once (a single tick by hand).
    ``files``: what was read of the job files: a job whose file cannot be used is reported as broken.
    """
    started = moment(clock)
    started_s = started.wall_s
    others = {
        name: JobStatus(name, Status.BROKEN, started_s, f"Not served: {why}") for name, why in files.faults.items()
    }
    part = Part(others=others, notes=files.problems, faults=(LoopFault.JOB_FILES,) if files.problems else ())
    ordered = _longest_unserved_first(jobs, io)
    turn = Turn(clock, holder, keep_lease, soft_deadline_s, io.tick_interval_s)
    if io.crew is None or not io.crew.wanted_for(len(ordered)):
        part = part.joined(serve(ordered, io, turn, started))
    else:
        part = part.joined(served_by(io.crew, ordered, turn))
    report = _journal(io, FleetReport(**vars(part), started_s=started_s, finished_s=clock.now_s()), holder)
    return report if heartbeat is None else _beaten(heartbeat, report, holder)


def write_heartbeat(path: Path, report: FleetReport, holder: str) -> None:
    """Write when the last tick ended and what it did; the file appears whole or not at all."""
    beat = {"finished_s": report.finished_s, "holder": holder, **report.summary()}
    write_whole(path, to_text(beat, indented=True).encode())


def _beaten(path: Path, report: FleetReport, holder: str) -> FleetReport:
    try:
        write_heartbeat(path, report, holder)
    except Exception as error:  # a full disk, a folder in its place: the jobs were served all the same
        _log.error("the heartbeat %s cannot be written: %s", path, cause_of(error))
        return report.with_fault(LoopFault.HEARTBEAT, f"the heartbeat {path} cannot be written", error)
    return report


def _longest_unserved_first(jobs: Iterable[StreamJob], io: TickIO) -> list[StreamJob]:
    """Order jobs by when they were last served, so that what the deadline cut off comes first the next time."""
    jobs = list(jobs)
    try:
        served_s = io.store.journal.served_s() if len(jobs) > 1 else {}
    except Exception:
        _log.exception("the order of the last tick cannot be read")
        served_s = {}
    return sorted(jobs, key=lambda job: (served_s.get(job.name, float("-inf")), job.name))


def _retrains(journal: Journal, now_s: float, calm: Set[str] = frozenset()) -> tuple[RetrainRequest, ...]:
    """Return the open requests, after closing those that nobody answered for hours and of which nothing more comes.

    So is one closed that was asked for before the clock was set back.

    ``calm``: jobs that do not drift any more; while a job does, another request takes its place within a day.
    """
    still_open = []
    for request in journal.open_retrains():
        longest_s = RETRAIN_EXPIRES_S + (0.0 if request.job in calm else LONGEST_COOLDOWN_S)
        if not -CLOCK_BACK_S <= now_s - request.requested_s <= longest_s:
            journal.close_retrain(request.run_key, now_s)
        else:
            still_open.append(RetrainRequest(request.job, request.run_key, request.reason))
    return tuple(still_open)


def _journal(io: TickIO, report: FleetReport, holder: str) -> FleetReport:
    """Keep one summary per tick, and how the jobs stand that this controller answers for.

    A job that is leased elsewhere has its status written there. A late one keeps its old status, whose age shows it.
    """
    cannot = "the tick could not be journalled"
    try:
        ours = [status for status in report.statuses.values() if status.status not in (Status.OBSERVING, Status.LATE)]
        with io.store.together() as once:
            before_s = once.journal.last_tick_s(report.started_s)
            calm = {name for name, served in report.reports.items() if not served.drifting}
            report = replace(report, retrains=_retrains(once.journal, report.started_s, calm))
            summary = {**report.summary(), INTERVAL: io.tick_interval_s}
            once.journal.record_tick(Tick(report.started_s, report.finished_s, holder, summary), ours)
        cannot = "what is too old cannot be deleted"
        io.store.prune_hourly(before_s, report.started_s)
    except Exception as error:
        _log.error("%s: %s", cannot, cause_of(error))
        return report.with_fault(LoopFault.JOURNAL, cannot, error)
    return report

"""One tick of a fleet: every job for itself, under a lease and a soft deadline, with one summary.

Belongs here: who is served, in which order, and what is said about all of them. Does not belong here: what happens to
one job (:mod:`control.tick`).
"""

from __future__ import annotations

import gc
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from control.calls import Call
from control.champions import write_whole
from control.clock import HostClock, Moment, moment
from control.crew import Crew, Lost
from control.job_files import JobFiles
from control.lease import PREFIX, Lease, StaleLease, acquire_all, holder_of, release
from control.read_ahead import batches, target_call
from control.reconcile import Progress
from control.state_journal import JobStatus, Status, Tick
from control.state_schema import cause_of, to_text
from control.tenure import SHORTEST_S, Tenure
from control.tick import Begun, begin
from control.tick_io import Ready, ServesElsewhere, TickIO, TickReport
from settings.plain_error import presentable
from settings.stream_job import StreamJob

SOFT_DEADLINE_S = 25.0
NO_FILES = JobFiles()
LONGEST_SENTENCE = 500
LEASE_S = 55.0
LEASE_SHARE = 0.9  # of the interval between ticks
RETRAIN_EXPIRES_S = 6 * 3_600.0
PRUNE_EVERY_S = 3_600.0
_log = logging.getLogger(__name__)
FleetCrew = Crew["Turn", "Part"]
Served = tuple[StreamJob, TickReport | JobStatus]


class LoopFault(StrEnum):
    """What the tick of the fleet itself could not do, while every job was served; stable names for alerts."""

    CHAMPIONS = "champions"  # looking for new ones
    JOB_FILES = "job_files"  # listing a folder of them
    READ_AHEAD = "read_ahead"  # asking servers about several jobs at once
    JOURNAL = "journal"  # writing how the tick went into the state store
    HEARTBEAT = "heartbeat"  # writing the file that says that it ended
    PROCESS = "process"  # one of those that serve jobs side by side ended before its jobs were served


@dataclass(frozen=True)
class RetrainRequest:
    """A champion that should be trained anew; ``run_key`` stays the same until it was answered or has expired."""

    job: str
    run_key: str
    reason: str


@dataclass(frozen=True)
class FleetReport:
    """What one tick of a fleet did.

    Attributes
    ----------
    reports
        Job -> report, for the jobs that were served.
    others
        Job -> status, for those that were not: leased elsewhere, late, broken, or without a usable job file.
    retrains
        Every request that is still open: to be offered again and again, as the run key makes that harmless.
    notes
        What went wrong beside the jobs, in words.
    faults
        Which of that is perdix' own, and wants mending: a full disk, for example.
    """

    started_s: float
    finished_s: float
    reports: Mapping[str, TickReport] = field(default_factory=dict)
    others: Mapping[str, JobStatus] = field(default_factory=dict)
    retrains: tuple[RetrainRequest, ...] = ()
    notes: tuple[str, ...] = ()
    faults: tuple[LoopFault, ...] = ()

    def with_fault(self, fault: LoopFault, what: str, error: Exception) -> FleetReport:
        """Return the report with one more thing that went wrong."""
        return replace(self, notes=(*self.notes, _noted(what, error)), faults=(*self.faults, fault))

    @property
    def statuses(self) -> dict[str, JobStatus]:
        """Every job's status."""
        served = {name: report.job_status(self.started_s) for name, report in self.reports.items()}
        return {**served, **self.others}

    def counts(self) -> dict[str, int]:
        """Return status -> how many jobs have it."""
        return dict(Counter(status.status.value for status in self.statuses.values()))

    def summary(self) -> dict[str, Any]:
        """Return the tick in a few JSON-serialisable numbers; stable names."""
        decisions = [report.decision for report in self.reports.values() if report.decision is not None]
        return {
            "jobs": len(self.reports) + len(self.others),
            "statuses": self.counts(),
            "reasons": dict(Counter(decision.reason.value for decision in decisions)),
            "events": dict(Counter(report.event.value for report in self.reports.values())),
            "workers": sum(report.running or 0 for report in self.reports.values()),
            "retrains": len(self.retrains),
            "seconds": round(self.finished_s - self.started_s, 3),
            "notes": list(self.notes),
            "faults": list(self.faults),
        }

    def sentence(self) -> str:
        """Return the tick in one sentence, for a status line."""
        if not self.reports and not self.others:
            return "No stream jobs: write one to conf/jobs."
        counts = ", ".join(f"{number} {status}" for status, number in sorted(self.counts().items()))
        applied = [name for name, report in self.reports.items() if report.event.value == "applied"]
        scaled = f"; scaled {', '.join(sorted(applied))}" if applied else ""
        faults = f"; FAILED: {', '.join(self.faults)}" if self.faults else ""
        return f"{counts}{scaled}{faults}; {self.finished_s - self.started_s:.1f} s."


def _noted(what: str, error: Exception) -> str:
    return presentable(f"{what}: {cause_of(error)}")[:LONGEST_SENTENCE]


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

    Parameters
    ----------
    clock
        Read once per job, or per batch that is read together: those jobs' ``now_s``.
    holder
        Name of this controller: who it is that holds a lease.
    soft_deadline_s
        Checked between jobs; those that are left are reported as late and served first the next time.
    heartbeat
        File that is written at the end: a dead-man switch outside of any scheduler.
    keep_lease
        Keep each job's lease for most of the interval, so that of several controllers only one acts in it; ``False``
        gives it back at once (a single tick by hand).
    files
        What was read of the job files: a job whose file cannot be used is reported as broken.
    """
    started = moment(clock)
    started_s = started.wall_s
    report = FleetReport(started_s, started_s, notes=files.problems)
    if files.problems:
        report = replace(report, faults=(*report.faults, LoopFault.JOB_FILES))
    others = {
        name: JobStatus(name, Status.BROKEN, started_s, f"Not served: {why}") for name, why in files.faults.items()
    }
    ordered = _longest_unserved_first(jobs, io)
    turn = Turn(clock, holder, keep_lease, soft_deadline_s, io.tick_interval_s)
    if io.crew is None or not io.crew.wanted_for(len(ordered)):
        served = serve(ordered, io, turn, started)
    else:
        served = _served_by(io.crew, ordered, turn)
    report = replace(
        report,
        notes=(*report.notes, *served.notes),
        faults=(*report.faults, *served.faults),
        reports=served.reports,
        others={**others, **served.others},
    )
    report = _journal(io, replace(report, finished_s=clock.now_s()), holder)
    return report if heartbeat is None else _beaten(heartbeat, report, holder)


@dataclass(frozen=True)
class Turn:
    """How the jobs of a tick are served, wherever that is done; parameters as of :func:`tick_fleet`."""

    clock: HostClock
    holder: str
    keep_lease: bool
    soft_deadline_s: float
    tick_interval_s: float


@dataclass(frozen=True)
class Part:
    """What came of some jobs of a tick: as in :class:`FleetReport`."""

    reports: Mapping[str, TickReport] = field(default_factory=dict)
    others: Mapping[str, JobStatus] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    faults: tuple[LoopFault, ...] = ()

    def with_fault(self, fault: LoopFault, what: str, error: Exception) -> Part:
        """Return the part with one more thing that went wrong."""
        return replace(self, notes=(*self.notes, _noted(what, error)), faults=(*self.faults, fault))

    def joined(self, other: Part) -> Part:
        """Return both; what both have noted is noted once."""
        return Part(
            {**self.reports, **other.reports},
            {**self.others, **other.others},
            tuple(dict.fromkeys((*self.notes, *other.notes))),
            tuple(dict.fromkeys((*self.faults, *other.faults))),
        )


def serve(jobs: Sequence[StreamJob], io: TickIO, turn: Turn, started: Moment | None = None) -> Part:
    """Tick jobs in this process, in their order; whatever else fails is in the part, not raised."""
    started = started or moment(turn.clock)
    io = replace(io, tick_interval_s=turn.tick_interval_s)
    part = _refreshed(io, started.wall_s)
    fleet = _Fleet(io, turn.clock, turn.holder, turn.keep_lease, started)
    reports: dict[str, TickReport] = {}
    others: dict[str, JobStatus] = {}
    io.memories.keep_only(job.name for job in jobs)
    try:
        with _collected_later():
            for job, served in fleet.serve_all(jobs, turn.soft_deadline_s):
                _sort_in(job.name, served, reports, others)
    except Exception as error:  # a defect of reading ahead: those that it left out are served one after the other
        _log.exception("the jobs cannot be read together")
        part = part.with_fault(LoopFault.READ_AHEAD, "the jobs cannot be read together", error)
        for job, served in replace(fleet, io=replace(io, ahead=None)).serve_all(
            [job for job in jobs if job.name not in {*reports, *others}], turn.soft_deadline_s
        ):
            _sort_in(job.name, served, reports, others)
    return replace(part, reports=reports, others=others)


def serve_elsewhere(jobs: Sequence[StreamJob], io: TickIO, turn: Turn) -> Part:
    """Tick jobs in a process of a crew; what goes back is little."""
    part = serve(jobs, io, turn)
    return replace(part, reports={name: report.in_short() for name, report in part.reports.items()})


def _served_by(crew: ServesElsewhere, jobs: Sequence[StreamJob], turn: Turn) -> Part:
    part = Part()
    with closing(crew.turn(jobs, turn)) as outcomes:
        for found in outcomes:
            part = part.joined(found if isinstance(found, Part) else _unserved(found, turn.clock.now_s()))
    return part


def _unserved(lost: Lost, now_s: float) -> Part:
    why = f"Not served: {lost.why}; in the next tick again."
    others = {job.name: JobStatus(job.name, Status.BROKEN, now_s, why) for job in lost.jobs}
    return Part(others=others, notes=(lost.why,), faults=(LoopFault.PROCESS,))


def _sort_in(
    name: str, served: TickReport | JobStatus, reports: dict[str, TickReport], others: dict[str, JobStatus]
) -> None:
    if isinstance(served, TickReport):
        reports[name] = served
    else:
        others[name] = served


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


def _refreshed(io: TickIO, started_s: float) -> Part:
    try:
        return Part(notes=tuple(io.champions.refresh(started_s)))
    except Exception as error:
        _log.exception("the champions cannot be looked for")
        return Part().with_fault(LoopFault.CHAMPIONS, "the champions cannot be looked for", error)


@dataclass(frozen=True)
class _Fleet:
    io: TickIO
    clock: HostClock
    holder: str
    keep_lease: bool
    started: Moment

    def serve_all(self, jobs: Sequence[StreamJob], soft_deadline_s: float) -> Iterator[Served]:
        """Tick every job: one after the other, or as soon as what they ask servers has been answered."""
        if self.io.ahead is None:
            for job in jobs:
                yield job, self._served(job, self._claimed([job], soft_deadline_s)[0])
            return
        claims: dict[str, Lease] = {}
        refused: list[Served] = []

        def mine(batch: Sequence[StreamJob]) -> list[StreamJob]:
            """Claim the jobs of a batch just before they are read; nobody reads what another controller holds."""
            for job, claimed in zip(batch, self._claimed(batch, soft_deadline_s), strict=True):
                if isinstance(claimed, Lease):
                    claims[job.name] = claimed
                else:
                    refused.append((job, claimed))
            return [job for job in batch if job.name in claims]

        def serve(ready: Ready) -> Iterator[Served | Call[Served]]:
            """Tick a job; while its target takes its time to be asked, others have their turn."""
            job, lease = ready.job, claims.pop(ready.job.name)
            late = self._late(job, soft_deadline_s)
            if late is not None:
                if not self.keep_lease:
                    self._release(lease)
                yield job, late
                return
            begun = self._begun(job, lease, ready)
            if not isinstance(begun, Begun) or not begun.asks:
                yield job, self._ended(job, lease, begun, self._carried(begun))
                return
            yield Call(
                target_call(job),
                partial(self._carried, begun),
                lambda carried: [(job, self._ended(job, lease, begun, carried))],
            )

        yield from self.io.ahead.served(map(mine, batches(jobs)), self.io, self.clock, serve)
        yield from refused

    def _claimed(self, jobs: Sequence[StreamJob], soft_deadline_s: float) -> list[Lease | JobStatus]:
        """Take the leases of jobs, or say of each why it is not served."""
        now = moment(self.clock)
        spent_s = now.elapsed_s - self.started.elapsed_s
        if spent_s > soft_deadline_s:
            return [_late(job, now.wall_s, soft_deadline_s) for job in jobs]
        try:
            # Counted from the tick's start: a job that is served late now and early the next time meets no lease of
            # this controller's own.
            ttl_s = max(min(LEASE_S, LEASE_SHARE * self.io.tick_interval_s) - spent_s, SHORTEST_S)
            taken = acquire_all(self.io.store, map(lease_name, jobs), self.holder, now, ttl_s)
        except Exception as error:  # one job's failure must not stop the others
            if len(jobs) == 1:
                return [self._broken(jobs[0], now.wall_s, error)]
            return [self._claimed([job], soft_deadline_s)[0] for job in jobs]
        return [taken[lease_name(job)] or self._observing(job, now) for job in jobs]

    def _served(self, job: StreamJob, claimed: Lease | JobStatus) -> TickReport | JobStatus:
        """Tick one job; whatever goes wrong stays with that job."""
        if isinstance(claimed, JobStatus):
            return claimed
        begun = self._begun(job, claimed, Ready(job, self.io, moment(self.clock)))
        return self._ended(job, claimed, begun, self._carried(begun))

    def _begun(self, job: StreamJob, lease: Lease, ready: Ready) -> Begun | Exception:
        try:
            return begin(job, ready.io, ready.at.wall_s, Tenure(self.io.store, lease, self.clock))
        except Exception as error:  # one job's failure must not stop the others
            return error

    @staticmethod
    def _carried(begun: Begun | Exception) -> Progress | Exception:
        if isinstance(begun, Exception):
            return begun
        try:
            return begun.carry_out()
        except Exception as error:
            return error

    def _ended(
        self, job: StreamJob, lease: Lease, begun: Begun | Exception, carried: Progress | Exception
    ) -> TickReport | JobStatus:
        now_s = self.clock.now_s()
        try:
            if isinstance(begun, Exception):
                raise begun
            if isinstance(carried, Exception):
                raise carried
            return begun.end(carried)
        except StaleLease as error:
            return JobStatus(job.name, Status.OBSERVING, now_s, f"Another controller took over: {error}.")
        except Exception as error:  # one job's failure must not stop the others
            return self._broken(job, now_s, error)
        finally:
            if not self.keep_lease:
                self._release(lease)

    @staticmethod
    def _broken(job: StreamJob, now_s: float, error: Exception) -> JobStatus:
        sentence = presentable(f"{type(error).__name__}: {cause_of(error)}")[:LONGEST_SENTENCE]
        # Of a store that fails there is no more to know, and it fails for a thousand jobs at every tick.
        of_the_store = isinstance(error, SQLAlchemyError)
        _log.error("the tick of job '%s' failed: %s", job.name, sentence, exc_info=None if of_the_store else error)
        return JobStatus(job.name, Status.BROKEN, now_s, sentence)

    def _late(self, job: StreamJob, soft_deadline_s: float) -> JobStatus | None:
        if self.clock.elapsed_s() - self.started.elapsed_s <= soft_deadline_s:
            return None
        return _late(job, self.clock.now_s(), soft_deadline_s)

    def _observing(self, job: StreamJob, now: Moment) -> JobStatus:
        try:
            held = holder_of(self.io.store, lease_name(job), now)
        except Exception as error:  # one job's failure must not stop the others
            return self._broken(job, now.wall_s, error)
        who = "another controller" if held is None else held.holder
        left_s = None if held is None else held.left_s(now)
        more = "" if left_s is None else f" for {left_s:.0f} s more"
        return JobStatus(job.name, Status.OBSERVING, now.wall_s, f"Observing only: the lease is held by {who}{more}.")

    def _release(self, lease: Lease) -> None:
        try:
            release(self.io.store, lease)
        except Exception:
            _log.exception("lease '%s' could not be given back; it expires by itself", lease.name)


@contextmanager
def _collected_later() -> Iterator[None]:
    """Let Python's collector of cycles rest: it would look through all that is remembered many times in a tick.

    That is an eighth of a fleet's tick. What is in no cycle, by far the most, is freed at once all the same.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def lease_name(job: StreamJob) -> str:
    """Return the name of a job's lease."""
    return PREFIX + job.name


def _longest_unserved_first(jobs: Iterable[StreamJob], io: TickIO) -> list[StreamJob]:
    """Order jobs by when they were last served, so that what the deadline cut off comes first the next time."""
    try:
        served_s = io.store.journal.served_s()
    except Exception:
        _log.exception("the order of the last tick cannot be read")
        served_s = {}
    return sorted(jobs, key=lambda job: (served_s.get(job.name, float("-inf")), job.name))


def _late(job: StreamJob, now_s: float, deadline_s: float) -> JobStatus:
    sentence = f"Not served: the soft deadline of {deadline_s:.0f} s came first; first in the next tick."
    return JobStatus(job.name, Status.LATE, now_s, sentence)


def _retrains(io: TickIO, now_s: float) -> tuple[RetrainRequest, ...]:
    """Return the open requests; one that nobody answered for hours is closed, so that another may follow."""
    still_open = []
    for request in io.store.journal.open_retrains():
        if now_s - request.requested_s > RETRAIN_EXPIRES_S:
            io.store.journal.close_retrain(request.run_key, now_s)
        else:
            still_open.append(RetrainRequest(request.job, request.run_key, request.reason))
    return tuple(still_open)


def _journal(io: TickIO, report: FleetReport, holder: str) -> FleetReport:
    """Keep one summary per tick, and how the jobs stand that this controller answers for.

    A job that is leased elsewhere has its status written there. A late one keeps its old status, whose age then tells.
    """
    try:
        report = replace(report, retrains=_retrains(io, report.started_s))
        ours = [one for one in report.statuses.values() if one.status not in (Status.OBSERVING, Status.LATE)]
        io.store.journal.record_tick(Tick(report.started_s, report.finished_s, holder, report.summary()), ours)
        if report.started_s % PRUNE_EVERY_S < io.tick_interval_s:
            io.store.prune(report.started_s)
    except Exception as error:
        _log.error("the tick could not be journalled: %s", cause_of(error))
        return report.with_fault(LoopFault.JOURNAL, "the tick could not be journalled", error)
    return report

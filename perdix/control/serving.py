"""Some jobs of a tick, each for itself, under a lease and a soft deadline: in this process, or in those of a crew.

Belongs here: in which order what is done for many jobs. Does not belong here: what happens to one job
(:mod:`perdix.control.tick`), and what is said about all of them (:mod:`perdix.control.fleet`).
"""

import gc
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial

from sqlalchemy.exc import SQLAlchemyError

from perdix.control.calls import Call
from perdix.control.clock import HostClock, Moment, moment
from perdix.control.crew import Crew, Lost
from perdix.control.fleet_report import LONGEST_SENTENCE, LoopFault, Part
from perdix.control.lease import PREFIX, Lease, StaleLease, acquire_all, holder_of, release
from perdix.control.read_ahead import batches, target_call
from perdix.control.reconcile import Progress
from perdix.control.state.journal import JobStatus, Status
from perdix.control.state.schema import cause_of
from perdix.control.tenure import SHORTEST_S, Tenure
from perdix.control.tick import Begun, begin
from perdix.control.tick_io import Ready, TickIO, TickReport
from perdix.settings.plain_error import presentable
from perdix.settings.stream_job import StreamJob

LEASE_S = 55.0
LEASE_SHARE = 0.9  # of the interval between ticks
_log = logging.getLogger(__name__)
FleetCrew = Crew["Turn", Part]
Served = tuple[StreamJob, TickReport | JobStatus]


@dataclass(frozen=True)
class Turn:
    """How the jobs of a tick are served, wherever that is done; parameters as of :func:`tick_fleet`."""

    clock: HostClock
    holder: str
    keep_lease: bool
    soft_deadline_s: float
    tick_interval_s: float


def serve(
    jobs: Sequence[StreamJob],
    io: TickIO,
    turn: Turn,
    started: Moment | None = None,
    *,
    kept: Callable[[TickReport], TickReport] = lambda report: report,
) -> Part:
    """Tick jobs in this process, in their order; whatever else fails is in the part, not raised.

    ``kept``: returns what is kept of a report once its job is served.
    """
    started = started or moment(turn.clock)
    io = replace(io, tick_interval_s=turn.tick_interval_s)
    part = _refreshed(io, started.wall_s)
    deadline_s = turn.soft_deadline_s + turn.clock.elapsed_s() - started.elapsed_s  # a slow MLflow makes no job late
    fleet = _Fleet(io, turn.clock, turn.holder, turn.keep_lease, started)
    reports: dict[str, TickReport] = {}
    others: dict[str, JobStatus] = {}

    def sort_in(name: str, served: TickReport | JobStatus) -> None:
        if isinstance(served, TickReport):
            reports[name] = kept(served)
        else:
            others[name] = served

    names = [job.name for job in jobs]
    io.memories.keep_only(names)
    if io.keep_targets is not None:
        io.keep_targets(frozenset(names))
    try:
        with _collected_later():
            for job, served in fleet.serve_all(jobs, deadline_s):
                sort_in(job.name, served)
    except Exception as error:  # a defect of reading ahead: those that it left out are served one after the other
        _log.exception("the jobs cannot be read together")
        part = part.with_fault(LoopFault.READ_AHEAD, "the jobs cannot be read together", error)
        for job, served in replace(fleet, io=replace(io, ahead=None)).serve_all(
            [job for job in jobs if job.name not in {*reports, *others}], deadline_s
        ):
            sort_in(job.name, served)
    return replace(part, reports=reports, others=others)


def serve_elsewhere(jobs: Sequence[StreamJob], io: TickIO, turn: Turn) -> Part:
    """Tick jobs in a process of a crew; what goes back is little."""
    return serve(jobs, io, turn, kept=TickReport.in_short)


def served_by(crew: FleetCrew, jobs: Sequence[StreamJob], turn: Turn) -> Part:
    """Tick jobs in the processes of a crew; jobs of one that fails are broken for this tick, with the reason."""
    part = Part()
    with closing(crew.turn(jobs, turn)) as outcomes:
        for found in outcomes:
            part = part.joined(found if isinstance(found, Part) else _unserved(found, turn.clock.now_s()))
    return part


def _unserved(lost: Lost, now_s: float) -> Part:
    why = f"Not served: {lost.why}; in the next tick again."
    others = {job.name: JobStatus(job.name, Status.BROKEN, now_s, why) for job in lost.jobs}
    return Part(others=others, notes=(lost.why,), faults=(LoopFault.PROCESS,))


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
            job, lease = ready.job, claims[ready.job.name]
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

        try:
            for job, served in self.io.ahead.served(map(mine, batches(jobs)), self.io, self.clock, serve):
                del claims[job.name]
                yield job, served
        except Exception:  # who serves the others instead must hold their leases
            for lease in claims.values():
                self._release(lease)
            raise
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


def _late(job: StreamJob, now_s: float, deadline_s: float) -> JobStatus:
    sentence = f"Not served: the soft deadline came first, {deadline_s:.0f} s into the tick; first in the next one."
    return JobStatus(job.name, Status.LATE, now_s, sentence)

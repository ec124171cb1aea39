"""The tick journal: what each fleet tick did, how each job stands, what is paused, which retrains were asked for."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from perdix.control.clock import CLOCK_BACK_S
from perdix.control.state.quick import quick
from perdix.control.state.schema import Transactions, from_text, keep_last, pauses, retrains, statuses, ticks, to_text
from perdix.settings.outside_text import storable

RETRAIN_EXPIRES_S = 6 * 3_600.0  # for which a request waits to be answered until another may follow
_PAUSED = quick(sa.select(pauses.c.job, pauses.c.until_s, pauses.c.why).where(pauses.c.until_s > sa.bindparam("now_s")))

_SERVED = quick(sa.select(statuses.c.job, statuses.c.updated_s))
_KEEP_TICK = quick(keep_last(ticks, ticks.c.keys()))
_LAST_TICK = quick(sa.select(sa.func.max(ticks.c.started_s)).where(ticks.c.started_s <= sa.bindparam("now_s")))
_RETRAIN = ("run_key", "job", "requested_s", "reason", "since_s")
_OPEN_RETRAINS = quick(
    sa.select(*(retrains.c[name] for name in _RETRAIN))
    .where(retrains.c.closed_s.is_(None))
    .order_by(retrains.c.requested_s, retrains.c.run_key)
)
# A job has its status since the first tick in which it had it, unless the clock was set back since. And where a tick
# could find nothing, it keeps what was found last: what perdix counts and wishes must not vanish with its failure.
_KEEP_STATUSES = quick(
    sa.text(
        keep_last(statuses, statuses.c.keys())
        .text.replace(
            "since_s = excluded.since_s",
            "since_s = CASE WHEN statuses.status = excluded.status AND statuses.since_s <= excluded.since_s"
            " THEN statuses.since_s ELSE excluded.since_s END",
        )
        .replace(
            "details = excluded.details",
            "details = CASE WHEN excluded.details = '{}' THEN statuses.details ELSE excluded.details END",
        )
    )
)


class Status(StrEnum):
    """How a job stands after a tick; stable names for dashboards."""

    ACTING = "acting"
    ADVISE = "advise"
    PAUSED = "paused"
    BLIND = "blind"  # metrics missing or stale
    UNREACHABLE = "unreachable"  # the target cannot be read
    OBSERVING = "observing"  # another controller holds the lease
    LATE = "late"  # the tick's soft deadline came first
    BROKEN = "broken"  # perdix itself failed on this job


USUAL: Final = frozenset({Status.ACTING, Status.ADVISE})  # of these the decision says all


@dataclass(frozen=True)
class JobStatus:
    """A job's status: since when, as of when (epoch seconds), and why in one sentence.

    Without ``details`` those stay that were kept last.
    """

    job: str
    status: Status
    updated_s: float
    sentence: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    since_s: float | None = None


@dataclass(frozen=True)
class Tick:
    """One pass over the fleet by ``holder``."""

    started_s: float
    finished_s: float
    holder: str
    summary: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Pause:
    """A pause of a job until ``until_s`` (epoch seconds)."""

    until_s: float
    why: str


@dataclass(frozen=True)
class Retrain:
    """A retraining that was asked for."""

    run_key: str  # job, UTC day and attempt
    job: str
    requested_s: float
    reason: str
    since_s: float | None = None  # when forecasts became poor, epoch seconds; ``None`` where that is not known


@dataclass(frozen=True)
class Journal:
    """Reads and writes the journal. Each method is one transaction."""

    transactions: Transactions

    def record_tick(self, tick: Tick, jobs: list[JobStatus]) -> None:
        """Keep a fleet tick and the status of the jobs that it looked at, all or none."""
        row = {"started_s": tick.started_s, "holder": tick.holder, "finished_s": tick.finished_s}
        with self.transactions.writing() as connection:
            connection.execute(_KEEP_TICK, {**row, "summary": to_text(dict(tick.summary))})
            if jobs:
                # Always in one order, or two controllers might wait for each other's rows.
                ordered = sorted(jobs, key=lambda status: status.job)
                connection.execute(_KEEP_STATUSES, [_status_row(status) for status in ordered])

    def stands(self, job: JobStatus) -> None:
        """Keep the status of something that no fleet's tick looks at."""
        with self.transactions.writing() as connection:
            connection.execute(_KEEP_STATUSES, _status_row(job))

    def ticks(self, limit: int = 20) -> list[Tick]:
        """Return the latest fleet ticks, newest first."""
        query = sa.select(ticks).order_by(ticks.c.started_s.desc()).limit(limit)
        with self.transactions.reading() as connection:
            rows = connection.execute(query).all()
        return [Tick(row.started_s, row.finished_s, row.holder, from_text(row.summary)) for row in rows]

    def last_tick_s(self, now_s: float) -> float | None:
        """Return when the newest tick up to ``now_s`` began, epoch seconds; ``None`` before the first."""
        with self.transactions.reading() as connection:
            return connection.execute(_LAST_TICK, {"now_s": now_s}).scalar()

    def statuses(self) -> dict[str, JobStatus]:
        """Return the latest status of every job that a tick has looked at; ``since_s`` is when it last changed."""
        with self.transactions.reading() as connection:
            rows = connection.execute(sa.select(statuses).order_by(statuses.c.job)).all()
        return {
            row.job: JobStatus(
                row.job, Status(row.status), row.updated_s, row.sentence, from_text(row.details), row.since_s
            )
            for row in rows
        }

    def served_s(self) -> dict[str, float]:
        """Return job -> when a tick last looked at it, epoch seconds."""
        with self.transactions.reading() as connection:
            return dict(tuple(row) for row in connection.execute(_SERVED).all())

    def pause(self, job: str, until_s: float, now_s: float, why: str = "") -> None:
        """Pause a job until ``until_s``, in place of an earlier pause. An operator's act: needs no lease.

        Raises ``ValueError`` when ``until_s`` has already passed.
        """
        if until_s <= now_s:
            raise ValueError(f"a pause must end in the future: it would have ended {now_s - until_s:.0f} s ago")
        values = {"until_s": until_s, "paused_s": now_s, "why": why}
        with self.transactions.writing() as connection:
            if connection.execute(pauses.update().where(pauses.c.job == job).values(**values)).rowcount == 0:
                connection.execute(pauses.insert().values(job=job, **values))

    def resume(self, job: str) -> bool:
        """End a pause; ``False`` when there was none."""
        with self.transactions.writing() as connection:
            return connection.execute(pauses.delete().where(pauses.c.job == job)).rowcount == 1

    def pauses(self, now_s: float) -> dict[str, Pause]:
        """Return the pauses that hold at ``now_s``, by job."""
        with self.transactions.reading() as connection:
            rows = connection.execute(_PAUSED, {"now_s": now_s}).all()
        return {job: Pause(until_s, why) for job, until_s, why in rows}

    def request_retrain(
        self,
        job: str,
        now_s: float,
        reason: str,
        *,
        since_s: float | None = None,
        cooldown_s: float = 3_600.0,
        most_per_day: int = 3,
    ) -> str | None:
        """Ask for a retraining unless one was asked for within ``cooldown_s``, or the day's are used up.

        Nor while one is open, unless nobody has answered it for six hours: then it is closed, and this one takes its
        place. The run key ends in the attempt's number, because Dagster drops a key that it has seen, even of a failed
        run.

        What was asked for before the clock was set back does not count: nobody can say how long ago it was.

        ``since_s``: when forecasts became poor, epoch seconds: what a retraining is to learn, and to be judged on.
        Returns the run key of the new request.
        """
        day = datetime.fromtimestamp(now_s, UTC).date().isoformat()
        mine = sa.select(retrains).where(retrains.c.job == job)
        try:
            with self.transactions.writing() as connection:
                known = mine.where(retrains.c.requested_s <= now_s + CLOCK_BACK_S)
                latest = connection.execute(known.order_by(retrains.c.requested_s.desc()).limit(1)).one_or_none()
                pause_s = cooldown_s if latest is None or latest.closed_s is not None else RETRAIN_EXPIRES_S
                if latest is not None and now_s - latest.requested_s < pause_s:
                    return None
                asked = connection.execute(mine.where(retrains.c.day == day)).all()
                if sum(row.requested_s <= now_s + CLOCK_BACK_S for row in asked) >= most_per_day:
                    return None
                attempt = len(asked) + 1
                key = f"{job}:{day}:{attempt}"
                row = {"run_key": key, "job": job, "day": day, "attempt": attempt}
                unanswered = retrains.update().where(retrains.c.job == job, retrains.c.closed_s.is_(None))
                connection.execute(unanswered.values(closed_s=now_s))
                connection.execute(retrains.insert().values(**row, requested_s=now_s, reason=reason, since_s=since_s))
                return key
        except IntegrityError:  # another controller asked at the same time
            return None

    def open_retrains(self) -> list[Retrain]:
        """Return the requests not closed, oldest first: to be offered at each tick, as Dagster drops the known."""
        with self.transactions.reading() as connection:
            rows = connection.execute(_OPEN_RETRAINS).all()
        return [Retrain(*row) for row in rows]

    def drifts(self, now_s: float) -> dict[str, float]:
        """Return job -> when its newest drift began (epoch seconds), also where that was answered since.

        None that was found before the clock was set back: nobody can say how long ago it was.
        """
        query = sa.select(retrains.c.job, retrains.c.since_s).where(retrains.c.since_s.is_not(None))
        query = query.where(retrains.c.requested_s <= now_s + CLOCK_BACK_S)
        with self.transactions.reading() as connection:
            rows = connection.execute(query.order_by(retrains.c.requested_s)).all()
        return {row.job: row.since_s for row in rows}

    def close_retrain(self, run_key: str, now_s: float) -> bool:
        """Note that a request was answered, or given up; ``False`` when it was not open."""
        still_open = (retrains.c.run_key == run_key, retrains.c.closed_s.is_(None))
        with self.transactions.writing() as connection:
            return connection.execute(retrains.update().where(*still_open).values(closed_s=now_s)).rowcount == 1

    def prune(self, before_s: float, ticks_before_s: float | None = None) -> int:
        """Forget pauses that ended, closed retrain requests and statuses older than ``before_s``, and older ticks."""
        old = (
            ticks.delete().where(ticks.c.started_s < (before_s if ticks_before_s is None else ticks_before_s)),
            statuses.delete().where(statuses.c.updated_s < before_s),
            pauses.delete().where(pauses.c.until_s < before_s),
            retrains.delete().where(retrains.c.requested_s < before_s, retrains.c.closed_s.is_not(None)),
        )
        with self.transactions.writing() as connection:
            return sum(connection.execute(statement).rowcount for statement in old)


def _status_row(status: JobStatus) -> dict[str, Any]:
    return {
        "job": status.job,
        "status": status.status.value,
        "since_s": status.updated_s,
        "updated_s": status.updated_s,
        "sentence": storable(status.sentence),
        "details": to_text(dict(status.details)),
    }

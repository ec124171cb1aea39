"""What the state store holds that is published, read in one transaction that cannot write.

Belongs here: which rows say what. Does not belong here: the names of metrics (:mod:`perdix.control.publish.names`),
and for how long a value may be shown (:mod:`perdix.control.publish.metrics`).
"""

import math
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from perdix.control.clock import CLOCK_BACK_S
from perdix.control.lease import PREFIX
from perdix.control.state.journal import Tick
from perdix.control.state.ledger import UNJUDGED, State, account_of
from perdix.control.state.postgresql import Limits, engine_of
from perdix.control.state.schema import (
    SCHEMA,
    decisions,
    from_text,
    leases,
    refusals,
    retrains,
    state_version,
    statuses,
    ticks,
    url_of,
)
from perdix.policies.contract import Reason
from perdix.settings.durations import DAY_S
from perdix.settings.plain_error import PlainError

# A reader of SQLite in WAL mode waits for nobody but one who holds the whole file; a scrape must not wait for that one.
WAIT_MS = 250
LIMITS = Limits(connect_s=2, statement_s=5.0, answer_s=6.0)
FAILING_S = 5_400.0  # a target that goes on to fail is asked every half hour, for a size that was given up every hour
VOID = (State.FAILED, State.SUPERSEDED)


class Cause(StrEnum):
    """Why the store could not be read; stable names for alerts."""

    ABSENT = "absent"
    LOCKED = "locked"
    SCHEMA = "schema"
    OTHER = "other"


class UnreadableError(PlainError):
    """The state store cannot be read now. The message says why, and the fix."""

    def __init__(self, message: str, cause: Cause) -> None:
        super().__init__(message)
        self.cause = cause


@dataclass(frozen=True)
class Wanted:
    """The scale-out that is wanted of a job: by which decision, made when, valid until when (epoch seconds).

    ``void`` when that decision was given up or withdrawn: then what runs is wanted. ``unjudged`` when the load was
    never judged: then it is no decision, and its times mean nothing.
    """

    scale_out: int
    from_scale_out: int
    made_s: float
    valid_until_s: float
    mix: Mapping[str, int] = field(default_factory=dict)
    void: bool = False
    unjudged: bool = False


@dataclass(frozen=True)
class Published:
    """One job as the store has it; times are epoch seconds.

    ``details``: of the status, as :meth:`perdix.control.tick_io.TickReport.job_status` wrote them; rows of an older
    perdix hold less.
    ``seen``: what the decision of that tick rested on; empty when none was made.
    ``rescales``: decisions applied within the last 24 hours.
    ``failures``: of the job's target, one after the other, with the newest at most 90 minutes ago.
    ``retrains``, ``oldest_retrain_s``: open requests, and when the oldest was made, or the unanswered one before it.
    """

    name: str
    status: str
    since_s: float
    updated_s: float
    details: Mapping[str, Any]
    wanted: Wanted | None = None
    seen: Mapping[str, Any] = field(default_factory=dict)
    rescales: int = 0
    retrains: int = 0
    oldest_retrain_s: float | None = None
    holder: str | None = None
    lease_expires_s: float = 0.0
    failures: int = 0


@dataclass(frozen=True)
class Snapshot:
    """All that is published, as of ``read_s`` (epoch seconds)."""

    read_s: float
    jobs: Mapping[str, Published] = field(default_factory=dict)
    ticks: tuple[Tick, ...] = ()


class PublishedState:
    """Reads a state store without ever writing to it; opened with the first read, and again after an error.

    ``url``: SQLAlchemy URL of the state store. Unlike :class:`perdix.control.state.store.StateStore` this makes neither
    file nor table.
    """

    def __init__(self, url: str) -> None:
        self._url = url_of(url)
        self._engine: sa.Engine | None = None

    def read(self, now_s: float, ticks_since_s: float) -> Snapshot:
        """Return what the store holds.

        Raises ``UnreadableError`` when the store is absent, locked for longer than a quarter of a second, or of another
        schema.

        ``ticks_since_s``: only ticks that began later are read.
        """
        try:
            with self._reading() as connection:
                _check_schema(connection)
                return Snapshot(now_s, _jobs(connection, now_s), _ticks(connection, ticks_since_s))
        except (SQLAlchemyError, OSError, ImportError, ValueError, TypeError, AttributeError) as error:
            self.close()
            raise self._unreadable(error) from error

    def close(self) -> None:
        """Close every connection."""
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None

    @contextmanager
    def _reading(self) -> Iterator[sa.Connection]:
        if self._engine is None:
            self._engine = self._open()
        with self._engine.connect() as connection, connection.begin():
            if connection.dialect.name == "postgresql":
                connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                connection.exec_driver_sql(f"SET LOCAL lock_timeout = {WAIT_MS}")
            yield connection

    def _open(self) -> sa.Engine:
        if self._url.get_backend_name() != "sqlite":
            return engine_of(self._url, LIMITS, pool_size=1)
        path = Path(self._url.database or "").expanduser()
        if not path.is_file():
            raise UnreadableError(f"state store {path}: there is none yet; a tick makes it", Cause.ABSENT)
        uri = path.resolve().as_uri()
        url = sa.URL.create("sqlite", database=uri, query={"mode": "ro", "uri": "true"})
        engine = sa.create_engine(url, connect_args={"timeout": WAIT_MS / 1_000}, poolclass=sa.NullPool)
        sa.event.listen(engine, "connect", _prepare_sqlite)
        sa.event.listen(engine, "begin", _begin_sqlite)
        return engine

    def _unreadable(self, error: Exception) -> UnreadableError:
        if isinstance(error, UnreadableError):
            return error
        name = self._url.render_as_string(hide_password=True)
        origin = getattr(error, "orig", None) if isinstance(error, DBAPIError) else None
        said = str(origin or error).strip()
        busy = any(word in said.lower() for word in ("locked", "busy", "timeout", "timed out"))
        missing = any(word in said.lower() for word in ("unable to open", "no such table", "does not exist", "refused"))
        cause = Cause.LOCKED if busy else Cause.ABSENT if missing else Cause.OTHER
        return UnreadableError(f"state store {name}: {said}; check PERDIX_STATE_URL, and that it can be read", cause)


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # the driver would begin late; _begin_sqlite begins


def _begin_sqlite(connection: sa.Connection) -> None:
    connection.exec_driver_sql("BEGIN")


def _check_schema(connection: sa.Connection) -> None:
    number = connection.execute(sa.select(state_version.c.number)).scalar()
    if number != SCHEMA:
        said = f"it has schema {number}, this perdix knows {SCHEMA}"
        raise UnreadableError(f"state store: {said}; let this perdix tick once, or use the newer one", Cause.SCHEMA)


def _jobs(connection: sa.Connection, now_s: float) -> dict[str, Published]:
    rows = connection.execute(sa.select(statuses)).all()
    wanted, seen = _wanted(connection, {row.job for row in rows}), _seen(connection, now_s)
    rescales, asked, held = _rescales(connection, now_s), _retrains(connection), _leases(connection)
    failures = _failures(connection, now_s)
    jobs = {}
    for row in rows:
        details = from_text(row.details)
        made_s, rested_on = seen.get(row.job, (0.0, {}))
        holder, expires_s = held.get(row.job, (None, 0.0))
        open_retrains, oldest_s = asked.get(row.job, (0, None))
        jobs[row.job] = Published(
            row.job,
            row.status,
            row.since_s,
            row.updated_s,
            details,
            wanted.get(row.job),
            # Statuses are written when the whole fleet was served: the decision may be one tick ahead, never behind.
            rested_on if made_s >= row.updated_s else {},
            rescales.get(row.job, 0),
            open_retrains,
            oldest_s,
            holder,
            expires_s,
            failures.get(row.job, 0),
        )
    return jobs


def _newest(*conditions: sa.ColumnElement[bool]) -> sa.ScalarSelect[str]:
    """Return a subquery for the newest decision of each journalled job: a step or two down an index, not a scan."""
    query = sa.select(_INNER.c.decision_id).where(_INNER.c.job == statuses.c.job, *conditions)
    return query.order_by(_INNER.c.made_s.desc()).limit(1).correlate(statuses).scalar_subquery()


_INNER = decisions.alias("newest")
_MADE_S = sa.func.coalesce(decisions.c.last_s, decisions.c.made_s).label("made_s")  # the newest tick of a hold
_WANTED: tuple[sa.ColumnElement[Any], ...] = (
    decisions.c.job, decisions.c.scale_out, decisions.c.from_scale_out, _MADE_S, decisions.c.valid_until_s,
    decisions.c.mix, decisions.c.state, decisions.c.reason,
)  # fmt: skip


def _wanted(connection: sa.Connection, jobs: Set[str]) -> dict[str, Wanted]:
    """Return what is wanted: by the newest judgement of each job, else by its newest decision of a settled job.

    A hold on missing metrics must not become a wish: its scale-out is what somebody last saw running.
    """
    judged = _newest(_INNER.c.reason.not_in(UNJUDGED))
    unjudged = _newest(_INNER.c.reason != Reason.HOLD_UNSETTLED)
    found: dict[str, Wanted] = {}
    for newest in (judged, unjudged):
        if jobs <= found.keys():
            break
        query = sa.select(*_WANTED).select_from(statuses).join(decisions, decisions.c.decision_id == newest)
        for row in connection.execute(query):
            mix = from_text(row.mix or "{}")
            wanted = Wanted(row.scale_out, row.from_scale_out, row.made_s, row.valid_until_s, mix)
            void, none = row.state in VOID, row.reason in UNJUDGED
            found.setdefault(row.job, replace(wanted, void=void, unjudged=none))
    return found


def _seen(connection: sa.Connection, now_s: float) -> dict[str, tuple[float, Mapping[str, Any]]]:
    """Return when the newest decision of each job was made, and what was seen then.

    None that was made before the clock was set back: it would be the newest for as long as the clock was ahead.
    """
    query = sa.select(decisions.c.job, _MADE_S, decisions.c.account, decisions.c.explanation).select_from(statuses)
    query = query.join(decisions, decisions.c.decision_id == _newest(_INNER.c.made_s <= now_s + CLOCK_BACK_S))
    return {
        row.job: (row.made_s, account_of(row.account, row.explanation).get("seen") or {})
        for row in connection.execute(query)
    }


def _rescales(connection: sa.Connection, now_s: float) -> dict[str, int]:
    applied = sa.select(sa.func.count()).select_from(decisions)
    within = decisions.c.applied_s.between(now_s - DAY_S, now_s + CLOCK_BACK_S)
    applied = applied.where(decisions.c.job == statuses.c.job, within)
    query = sa.select(statuses.c.job, applied.correlate(statuses).scalar_subquery().label("rescales"))
    return {row.job: row.rescales for row in connection.execute(query)}


def _failures(connection: sa.Connection, now_s: float) -> dict[str, int]:
    counted = sa.select(refusals.c.job, sa.func.sum(refusals.c.failures).label("failures")).group_by(refusals.c.job)
    counted = counted.where(refusals.c.failed_s.between(now_s - FAILING_S, now_s + CLOCK_BACK_S))
    return {row.job: row.failures for row in connection.execute(counted)}


def _retrains(connection: sa.Connection) -> dict[str, tuple[int, float]]:
    asking = sa.select(retrains.c.job).where(retrains.c.closed_s.is_(None))
    query = sa.select(retrains.c.job, retrains.c.requested_s, retrains.c.closed_s).where(retrains.c.job.in_(asking))
    found: dict[str, tuple[int, float]] = {}
    for job, at_s, closed_s in connection.execute(query.order_by(retrains.c.requested_s.desc())):
        open_, oldest_s = found.get(job, (0, math.inf))
        if closed_s is None:
            found[job] = open_ + 1, at_s
        elif closed_s == oldest_s:  # nobody answered it until it was made again
            found[job] = open_, at_s
    return found


def _leases(connection: sa.Connection) -> dict[str, tuple[str, float]]:
    query = sa.select(leases.c.name, leases.c.holder, leases.c.expires_s).where(leases.c.holder.is_not(None))
    query = query.where(leases.c.name.startswith(PREFIX, autoescape=True))
    return {row.name.removeprefix(PREFIX): (row.holder, row.expires_s) for row in connection.execute(query)}


def _ticks(connection: sa.Connection, since_s: float) -> tuple[Tick, ...]:
    rows = connection.execute(sa.select(ticks).where(ticks.c.started_s > since_s).order_by(ticks.c.started_s))
    return tuple(Tick(row.started_s, row.finished_s, row.holder, from_text(row.summary)) for row in rows)

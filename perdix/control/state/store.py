"""The state store of the control loop: everything that must survive a restart, behind one object.

``store.ledger`` holds decisions and desired scale-outs, ``store.learned`` what was learned of each job,
``store.journal`` ticks, statuses, pauses and retrain requests. Leases are in :mod:`perdix.control.lease`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import NoReturn

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from perdix.control.lease import Lease, check, forget_watches
from perdix.control.state.journal import Journal
from perdix.control.state.learned import LearnedState
from perdix.control.state.ledger import Ledger
from perdix.control.state.schema import Database, StateError, Transactions, cause_of, metadata, state_version
from perdix.settings.durations import DAY_S

PRUNE_EVERY_S = 3_600.0
COPIED_AT_ONCE = 500  # rows


@dataclass(frozen=True)
class Retention:
    """How long things are kept, in seconds."""

    decisions_s: float = 90 * DAY_S
    quiet_s: float = 14 * DAY_S  # decisions that changed nothing: by far the most
    journal_s: float = 14 * DAY_S
    ticks_s: float = 2 * 3_600.0  # summaries of the whole fleet, which are published within a scrape
    forecasts_s: float = 14 * DAY_S


@dataclass(frozen=True)
class _Fenced:
    """Transactions on a database; those that write are refused when the lease is no longer the newest."""

    database: Database
    lease: Lease | None = None

    def reading(self) -> AbstractContextManager[sa.Connection]:
        return self.database.reading()

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        with self.database.writing() as connection:
            if self.lease is not None:
                check(connection, self.lease)
            yield connection

    def writing_once(self) -> AbstractContextManager[sa.Connection]:
        return self.writing()


@dataclass(frozen=True)
class _Shared:
    """One open transaction for everything; a part that fails is undone alone."""

    connection: sa.Connection

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        yield self.connection

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        # As begin_nested() does, at a fifth of its cost: of equal names SQL means the innermost.
        self.connection.exec_driver_sql("SAVEPOINT part")
        try:
            yield self.connection
        except BaseException:
            # Where SQLite's disk is full, or a connection is lost, all is undone already: that is the error to report.
            with suppress(sa.exc.SQLAlchemyError, sqlite3.OperationalError):
                self.connection.exec_driver_sql("ROLLBACK TO SAVEPOINT part")
                self.connection.exec_driver_sql("RELEASE SAVEPOINT part")
            raise
        self.connection.exec_driver_sql("RELEASE SAVEPOINT part")

    def writing_once(self) -> AbstractContextManager[sa.Connection]:
        return self.reading()  # nothing is half done when its one statement fails


class _Seen(_Shared):
    """One open transaction that only reads."""

    def writing(self) -> NoReturn:
        raise RuntimeError("this transaction only reads")

    writing_once = writing


class StateStore:
    """Opens (and on first use makes) the state behind an SQLAlchemy URL; safe to share between threads.

    Raises ``StateError`` when the database cannot be opened, or was written by a newer perdix.

    Examples
    --------
    >>> store = StateStore("sqlite:///state.db")  # doctest: +SKIP
    >>> lease = acquire(store, "controller", "host:pid:tick", moment(WallClock()), ttl_s=55)  # doctest: +SKIP
    >>> if lease is not None:  # doctest: +SKIP
    ...     store.under(lease).ledger.record(intent)
    """

    lasts = True  # whether another process may go on with what is in it

    def __init__(self, url: str) -> None:
        database = Database(url)
        self._bind(database, _Fenced(database))

    @classmethod
    def scratch(cls) -> StateStore:
        """Open a store in memory, for a simulation in one thread: nobody else reads it, and nothing outlives it.

        All that is written is one transaction that ends with :meth:`close`: to begin and end one for every call costs
        more than the calls. It does not last: what the loop remembers of a job need not be written down for a restart.
        """
        database = Database("sqlite://")
        made = cls.__new__(cls)
        made.lasts = False
        made._bind(database, _Shared(database.begun()))
        return made

    def under(self, lease: Lease) -> StateStore:
        """Return the same store whose every write raises ``StaleLease`` once ``lease`` was overtaken or released."""
        return self._over(_Fenced(self.database, lease))

    @contextmanager
    def together(self) -> Iterator[StateStore]:
        """Open one transaction over several calls: on an exception none of them happened, and one commit pays for all.

        Nothing but calls to the store it yields belongs inside: the database is locked for other writers meanwhile.

        Examples
        --------
        >>> with store.under(lease).together() as once:  # doctest: +SKIP
        ...     if once.ledger.record(intent):
        ...         once.learned.learn(job, now_s, documents)
        """
        with self._transactions.writing() as connection:
            yield self._over(_Shared(connection))

    @contextmanager
    def seen(self) -> Iterator[StateStore]:
        """Open one transaction that only reads over several calls: to begin one costs as much as to read."""
        with self._transactions.reading() as connection:
            yield self._over(_Seen(connection))

    def prune(self, now_s: float, retention: Retention | None = None) -> int:
        """Forget what is older than the retention; open decisions, desired scales and documents stay."""
        keep = retention or Retention()
        gone = self.ledger.prune(now_s - keep.decisions_s, now_s - keep.quiet_s)
        gone += self.journal.prune(now_s - keep.journal_s, now_s - min(keep.ticks_s, keep.journal_s))
        gone += self.learned.prune(now_s - keep.forecasts_s)
        with self._transactions.writing() as connection:
            gone += forget_watches(connection)
        self.database.give_back()
        return gone

    def prune_hourly(self, before_s: float | None, now_s: float) -> None:
        """Prune with the first tick or look of each hour.

        ``before_s``: when the one before was, epoch seconds; ``None``: there was none.
        """
        if before_s is None or before_s // PRUNE_EVERY_S != now_s // PRUNE_EVERY_S:
            self.prune(now_s)

    def forget(self, jobs: Iterable[str]) -> None:
        """Forget all that is stored of these jobs, and of no others; leases stay, as tokens must never start again."""
        names = sorted(jobs)
        with self._transactions.writing() as connection:
            for table in metadata.sorted_tables:
                if "job" in table.c:
                    connection.execute(table.delete().where(table.c.job.in_(names)))

    def copy_from(self, source: StateStore) -> int:
        """Copy every row of another store, in one transaction; return how many.

        Raises ``StateError`` where this store holds anything already, or does not take a row.
        """
        copied, tables = 0, [table for table in metadata.sorted_tables if table is not state_version]
        try:
            with source.database.reading() as old, self.database.writing() as new:
                if full := [table.name for table in tables if new.execute(sa.select(table).limit(1)).first()]:
                    raise StateError(f"state store {self.database.name}: holds {full[0]} already; name an empty one")
                for table in tables:
                    found = old.execute(sa.select(table))
                    while rows := found.mappings().fetchmany(COPIED_AT_ONCE):
                        new.execute(table.insert(), [dict(row) for row in rows])
                        copied += len(rows)
        except DBAPIError as error:
            raise StateError(f"state store {self.database.name}: nothing was copied: {cause_of(error)}") from error
        return copied

    def close(self) -> None:
        """Close every connection."""
        self.database.close()

    def _over(self, transactions: Transactions) -> StateStore:
        bound = StateStore.__new__(StateStore)
        bound.lasts = self.lasts
        bound._bind(self.database, transactions)
        return bound

    def _bind(self, database: Database, transactions: Transactions) -> None:
        self.database = database
        self._transactions = transactions
        self.ledger = Ledger(transactions)
        self.learned = LearnedState(transactions)
        self.journal = Journal(transactions)

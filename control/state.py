"""The state store of the control loop: everything that must survive a restart, behind one object.

``store.ledger`` holds decisions and desired scale-outs, ``store.learned`` what was learned of each job,
``store.journal`` ticks, statuses, pauses and retrain requests. Leases are in :mod:`control.lease`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import sqlalchemy as sa

from control.lease import Lease, check
from control.state_journal import Journal
from control.state_learned import LearnedState
from control.state_ledger import Ledger
from control.state_schema import Database

DAY_S = 86_400.0


@dataclass(frozen=True)
class Retention:
    """How long things are kept, in seconds."""

    decisions_s: float = 90 * DAY_S
    quiet_s: float = 14 * DAY_S  # decisions that changed nothing: by far the most
    journal_s: float = 14 * DAY_S
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


class StateStore:
    """Opens (and on first use makes) the state behind an SQLAlchemy URL; safe to share between threads.

    Examples
    --------
    >>> store = StateStore("sqlite:///state.db")  # doctest: +SKIP
    >>> lease = acquire(store, "controller", holder="host:pid:tick", now_s=now_s, ttl_s=55)  # doctest: +SKIP
    >>> if lease is not None:  # doctest: +SKIP
    ...     store.under(lease).ledger.record(intent)

    Raises
    ------
    StateError
        When the database cannot be opened, or was written by a newer perdix.
    """

    def __init__(self, url: str) -> None:
        self._bind(Database(url), None)

    def under(self, lease: Lease) -> StateStore:
        """Return the same store whose every write raises ``StaleLease`` once ``lease`` was overtaken or released."""
        fenced = StateStore.__new__(StateStore)
        fenced._bind(self.database, lease)
        return fenced

    def prune(self, now_s: float, retention: Retention | None = None) -> int:
        """Forget what is older than the retention; open decisions, desired scales and documents stay."""
        keep = retention or Retention()
        return (
            self.ledger.prune(now_s - keep.decisions_s, now_s - keep.quiet_s)
            + self.journal.prune(now_s - keep.journal_s)
            + self.learned.prune(now_s - keep.forecasts_s)
        )

    def close(self) -> None:
        """Close every connection."""
        self.database.close()

    def _bind(self, database: Database, lease: Lease | None) -> None:
        transactions = _Fenced(database, lease)
        self.database = database
        self.ledger = Ledger(transactions)
        self.learned = LearnedState(transactions)
        self.journal = Journal(transactions)

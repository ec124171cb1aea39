"""The tables of the state store, and the one place that opens its database.

Portable SQL only: SQLite (WAL) by default, PostgreSQL when shared. Times are epoch seconds, documents are JSON text.
"""

import logging
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol, cast

import orjson
import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, OperationalError, ProgrammingError

from perdix.control.state.postgresql import engine_of
from perdix.control.state.quick import Compiled, QuickConnection
from perdix.settings.home import private_file
from perdix.settings.outside_text import storable
from perdix.settings.plain_error import PlainError

SCHEMA = 4
# From that schema to the next; what was stored stays as it is.
UPGRADES: Mapping[int, tuple[str, ...]] = {
    1: ("ALTER TABLE decisions ADD COLUMN mix TEXT", "ALTER TABLE decisions ADD COLUMN from_mix TEXT"),
    2: ("ALTER TABLE retrains ADD COLUMN since_s DOUBLE PRECISION",),
    3: (
        "ALTER TABLE leases ADD COLUMN boot VARCHAR(160)",
        "ALTER TABLE leases ADD COLUMN deadline_s DOUBLE PRECISION",
        "ALTER TABLE leases ADD COLUMN ttl_s DOUBLE PRECISION",
        "ALTER TABLE leases ADD COLUMN renewals INTEGER",
        "ALTER TABLE decisions ADD COLUMN asked_token BIGINT",
        "ALTER TABLE decisions ADD COLUMN account {bytes}",
        "ALTER TABLE decisions ADD COLUMN ticks INTEGER",
        "ALTER TABLE decisions ADD COLUMN last_s DOUBLE PRECISION",
        "ALTER TABLE learned ADD COLUMN packed {bytes}",
    ),
}
BUSY_TIMEOUT_MS = 10_000
WORTH_GIVING_BACK, LEAST_PAGES = 0.125, 64  # of a file's pages that must be free, and how many
_INCREMENTAL = 2
_log = logging.getLogger(__name__)
_READS = "BEGIN"
# It takes the write lock at once: a transaction that reads first and writes later would fail as "locked" without
# waiting when another one wrote in between.
_WRITES = "BEGIN IMMEDIATE"
FIX = "check PERDIX_STATE_URL, that it can be written, and that its disk has room"
NO_DRIVER = "install what it needs: pip install 'psycopg[binary]' for postgresql://"
DAMAGED = "put a backup in its place, or move the file away to begin anew, without pauses and what was learned"

metadata = sa.MetaData()


class StoredText(sa.types.TypeDecorator[str]):
    """Text that every database takes, whatever came from outside: one text must not undo the transaction of others."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: sa.Dialect) -> str | None:  # noqa: ARG002 - SQLAlchemy's
        """Return the text as it is stored."""
        return None if value is None else storable(value)


state_version = sa.Table(
    "state_version",
    metadata,
    sa.Column("name", sa.String(32), primary_key=True),
    sa.Column("number", sa.Integer, nullable=False),
)

decisions = sa.Table(
    "decisions",
    metadata,
    sa.Column("decision_id", sa.String(64), primary_key=True),
    sa.Column("job", sa.String(63), nullable=False),
    sa.Column("window_end_s", sa.Double, nullable=False),
    sa.Column("made_s", sa.Double, nullable=False),
    sa.Column("from_scale_out", sa.Integer, nullable=False),
    sa.Column("scale_out", sa.Integer, nullable=False),
    sa.Column("from_mix", StoredText),
    sa.Column("mix", StoredText),
    sa.Column("policy", sa.String(63), nullable=False),
    sa.Column("reason", sa.String(63), nullable=False),
    sa.Column("sentence", StoredText, nullable=False),
    sa.Column("versions", StoredText, nullable=False),
    sa.Column("valid_until_s", sa.Double, nullable=False),
    sa.Column("predicted_recovery_s", sa.Double),
    sa.Column("explanation", StoredText, nullable=False),  # of an older perdix; since schema 4, packed in account
    sa.Column("act", sa.Boolean, nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("next_attempt_s", sa.Double),
    sa.Column("applied_s", sa.Double),
    sa.Column("closed_s", sa.Double),
    sa.Column("error", StoredText),
    sa.Column("observed_recovery_s", sa.Double),
    sa.Column("outcome", StoredText),
    sa.Column("account", sa.LargeBinary),
    sa.Column("ticks", sa.Integer),  # a hold that stays is one row; NULL: one
    sa.Column("last_s", sa.Double),  # when the newest of them was; NULL: made_s
    sa.Column("asked_token", sa.BigInteger),  # of the lease under which a request left that nobody has had an answer to
    sa.Index("decisions_by_job", "job", "made_s"),
    sa.Index("decisions_by_state", "job", "state"),
    sa.Index("decisions_by_time", "made_s"),
    sa.Index("decisions_by_application", "job", "applied_s"),
)

desired_scales = sa.Table(
    "desired_scales",
    metadata,
    sa.Column("job", sa.String(63), primary_key=True),
    sa.Column("scale_out", sa.Integer, nullable=False),
    sa.Column("decision_id", sa.String(64), nullable=False),
    sa.Column("since_s", sa.Double, nullable=False),
)

refusals = sa.Table(
    "refusals",
    metadata,
    sa.Column("job", sa.String(63), primary_key=True),
    sa.Column("fault", sa.String(16), primary_key=True),
    sa.Column("failures", sa.Integer, nullable=False),
    sa.Column("failed_s", sa.Double, nullable=False),
    sa.Column("error", sa.Text, nullable=False),
)

forecasts = sa.Table(
    "forecasts",
    metadata,
    sa.Column("job", sa.String(63), primary_key=True),
    sa.Column("origin_s", sa.Double, primary_key=True),
    sa.Column("step_s", sa.Double, nullable=False),
    sa.Column("family", sa.String(63), nullable=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("probabilities", StoredText, nullable=False),
    sa.Column("rates", sa.LargeBinary),  # float32 rows: the mean, then one per probability; dropped once settled
    sa.Column("settled_s", sa.Double),
    sa.Column("wape", sa.Double),
    sqlite_with_rowid=False,
)

learned = sa.Table(
    "learned",
    metadata,
    sa.Column("job", sa.String(63), primary_key=True),
    sa.Column("kind", sa.String(63), primary_key=True),
    sa.Column("schema_number", sa.Integer, nullable=False),
    sa.Column("document", StoredText, nullable=False),  # of an older perdix; since schema 4, packed
    sa.Column("packed", sa.LargeBinary),
    sa.Column("learned_s", sa.Double, nullable=False),
)

retrains = sa.Table(
    "retrains",
    metadata,
    sa.Column("run_key", sa.String(160), primary_key=True),
    sa.Column("job", sa.String(63), nullable=False),
    sa.Column("day", sa.String(10), nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("requested_s", sa.Double, nullable=False),
    sa.Column("reason", StoredText, nullable=False),
    sa.Column("since_s", sa.Double),
    sa.Column("closed_s", sa.Double),
    sa.Index("retrains_by_job", "job", "requested_s"),
)

ticks = sa.Table(
    "ticks",
    metadata,
    sa.Column("started_s", sa.Double, primary_key=True),
    sa.Column("holder", sa.String(160), primary_key=True),
    sa.Column("finished_s", sa.Double, nullable=False),
    sa.Column("summary", StoredText, nullable=False),
    sqlite_with_rowid=False,
)

statuses = sa.Table(
    "statuses",
    metadata,
    sa.Column("job", sa.String(63), primary_key=True),
    sa.Column("status", sa.String(32), nullable=False),
    sa.Column("since_s", sa.Double, nullable=False),
    sa.Column("updated_s", sa.Double, nullable=False),
    sa.Column("sentence", StoredText, nullable=False),
    sa.Column("details", StoredText, nullable=False),
)

pauses = sa.Table(
    "pauses",
    metadata,
    sa.Column("job", sa.String(63), primary_key=True),
    sa.Column("until_s", sa.Double, nullable=False),
    sa.Column("paused_s", sa.Double, nullable=False),
    sa.Column("why", StoredText, nullable=False),
)

leases = sa.Table(
    "leases",
    metadata,
    sa.Column("name", sa.String(160), primary_key=True),
    sa.Column("holder", sa.String(160)),  # NULL: released; the row stays, because tokens must never start again
    sa.Column("token", sa.BigInteger, nullable=False),
    sa.Column("acquired_s", sa.Double, nullable=False),
    sa.Column("expires_s", sa.Double, nullable=False),  # by the holder's wall clock, for people; what counts is below
    sa.Column("boot", sa.String(160)),  # what deadline_s counts from
    sa.Column("deadline_s", sa.Double),
    sa.Column("ttl_s", sa.Double),
    sa.Column("renewals", sa.Integer),
)

lease_watches = sa.Table(  # since when, on each other machine's own clock, a lease was seen to stay as it is
    "lease_watches",
    metadata,
    sa.Column("name", sa.String(160), primary_key=True),
    sa.Column("boot", sa.String(160), primary_key=True),
    sa.Column("token", sa.BigInteger, nullable=False),
    sa.Column("renewals", sa.Integer, nullable=False),
    sa.Column("since_s", sa.Double, nullable=False),
)


class StateError(PlainError):
    """The state store cannot be used. The message says why, and the fix."""


def url_of(text: str) -> sa.URL:
    """Return the URL of a SQLite or PostgreSQL; else raise ``StateError``, which quotes nothing: a password, maybe."""
    url = None
    with suppress(ArgumentError, ValueError):  # ValueError: a port that is no number
        url = sa.make_url(re.sub("^postgres:", "postgresql:", text))  # libpq knows both
    if url is None or url.get_backend_name() not in ("sqlite", "postgresql"):
        raise StateError(f"state store: not a URL of a SQLite or PostgreSQL (sqlite:///file, postgresql://...); {FIX}")
    return url


def _fix_of(error: Exception) -> str:
    if isinstance(error, ImportError):
        return NO_DRIVER
    return DAMAGED if "malformed" in cause_of(error) or "not a database" in cause_of(error) else FIX


def cause_of(error: Exception) -> str:
    """Return what a driver says of an error, without the statement and its values; else what the error says."""
    return str(getattr(error, "orig", None) or error).strip() or type(error).__name__


def to_text(document: Any, *, indented: bool = False) -> str:
    """Return a document as JSON; NumPy values are taken, a number that is not finite becomes null."""
    options = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS | orjson.OPT_SORT_KEYS
    options |= orjson.OPT_INDENT_2 if indented else 0
    try:
        return orjson.dumps(document, option=options).decode()
    except TypeError:  # seldom: text from outside that is not Unicode
        return orjson.dumps(_storable(document), option=options).decode()


def _storable(document: Any) -> Any:
    if isinstance(document, str):
        return storable(document)
    if isinstance(document, Mapping):
        return {_storable(key): _storable(value) for key, value in document.items()}
    return [_storable(value) for value in document] if isinstance(document, list | tuple) else document


def from_text(text: str) -> Any:
    """Return the document that :func:`to_text` wrote."""
    return orjson.loads(text)


def keep_first(table: sa.Table, columns: Sequence[str]) -> sa.TextClause:
    """Return an insert that does nothing where the row's key is known: its ``rowcount`` says whether it was new.

    In the words that SQLite and PostgreSQL share: one statement in place of a look and a write.
    """
    return sa.text(f"{_insert(table, columns)} ON CONFLICT DO NOTHING")


def keep_last(table: sa.Table, columns: Sequence[str]) -> sa.TextClause:
    """Return an insert that takes the place of a row of the same key."""
    keys = [column.name for column in table.primary_key]
    new = ", ".join(f"{name} = excluded.{name}" for name in columns if name not in keys)
    return sa.text(f"{_insert(table, columns)} ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {new}")


def _insert(table: sa.Table, columns: Sequence[str]) -> str:
    values = ", ".join(f":{name}" for name in columns)
    return f"INSERT INTO {table.name} ({', '.join(columns)}) VALUES ({values})"  # noqa: S608 - names of our own tables


class Transactions(Protocol):
    """Where the parts of the store get their transactions from."""

    def reading(self) -> AbstractContextManager[sa.Connection]:
        """Open a transaction that only reads."""

    def writing(self) -> AbstractContextManager[sa.Connection]:
        """Open a transaction that writes: all of it is kept, or on an exception none of it."""

    def writing_once(self) -> AbstractContextManager[sa.Connection]:
        """Open a transaction that writes with one statement, which is all or nothing by itself."""


class Database:
    """A connection pool whose transactions are either reading or writing.

    Raises ``StateError`` when the database cannot be opened, or was written by a newer perdix.

    ``url``: SQLAlchemy URL. Tables are made on first use; any number of processes may do so at once.
    """

    def __init__(self, url: str) -> None:
        self.url = url_of(url)
        self._compiled: Compiled = {}
        try:
            self._engine = _open(self.url)
            self._create()
        except (DBAPIError, ArgumentError, ImportError, OSError) as error:
            raise StateError(f"state store {self.name}: {cause_of(error)}; {_fix_of(error)}") from error

    @property
    def name(self) -> str:
        """The URL without its password."""
        return self.url.render_as_string(hide_password=True)

    @property
    def one_machine(self) -> bool:
        """Whether only processes of one machine can open it: SQLite's write-ahead log is shared through its memory."""
        return self.url.get_backend_name() == "sqlite"

    def reading(self) -> AbstractContextManager[sa.Connection]:
        """Open a transaction that only reads."""
        return self._transaction(_READS)

    def writing(self) -> AbstractContextManager[sa.Connection]:
        """Open a transaction that writes: all of it is kept, or on an exception none of it."""
        return self._transaction(_WRITES)

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sa.Connection]:
        with self._engine.connect() as connection:
            if self.one_machine:
                with QuickConnection(connection, self._compiled).transaction(begin) as quick:
                    yield cast("sa.Connection", quick)
            else:
                with connection.begin():
                    yield connection

    def begun(self) -> sa.Connection:
        """Return a connection to SQLite in a transaction that writes; :meth:`close` ends it and undoes it."""
        quick = QuickConnection(self._engine.connect(), self._compiled)
        quick.exec_driver_sql(_WRITES)
        return cast("sa.Connection", quick)

    def give_back(self) -> None:
        """Let a SQLite file shrink by what was deleted from it, once that is worth it; PostgreSQL does so by itself."""
        if not self.one_machine or self.url.database in (None, "", ":memory:"):
            return
        connection = self._engine.raw_connection()
        try:
            cursor = connection.cursor()
            asked = ("freelist_count", "page_count", "auto_vacuum")
            free, pages, mode = (cursor.execute(f"PRAGMA {name}").fetchone()[0] for name in asked)
            if free < max(WORTH_GIVING_BACK * pages, LEAST_PAGES):
                return
            # A file that an older perdix made has to be written anew once.
            anew = f"PRAGMA auto_vacuum = {_INCREMENTAL}; VACUUM"
            cursor.executescript("PRAGMA incremental_vacuum" if mode == _INCREMENTAL else anew)  # all of it, to its end
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.OperationalError:  # somebody reads or writes just now: the next time
            _log.info("state store %s: not shrunk, as it is in use", self.name)
        finally:
            connection.close()

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()

    def _create(self) -> None:
        if not self.one_machine:
            with self.reading():  # a server that is not there is asked once
                pass
        # Two processes may both find no tables; the slower one fails, and then finds those of the faster.
        for left in range(4, -1, -1):
            try:
                with self._engine.connect() as connection, connection.begin():
                    metadata.create_all(connection)
                    self._check_version(connection)
                return
            except (IntegrityError, ProgrammingError, OperationalError):
                if left == 0:
                    raise

    def _check_version(self, connection: sa.Connection) -> None:
        number = connection.execute(sa.select(state_version.c.number)).scalar()
        if number is None:
            connection.execute(state_version.insert().values(name="schema", number=SCHEMA))
            return
        while number in UPGRADES:
            for statement in UPGRADES[number]:
                connection.execute(sa.text(statement.format(bytes="BLOB" if self.one_machine else "BYTEA")))
            number += 1
            connection.execute(state_version.update().values(number=number))
        if number != SCHEMA:
            raise StateError(
                f"state store {self.name}: written with schema {number}, "
                f"this perdix knows {SCHEMA}; use the perdix that wrote it, or point PERDIX_STATE_URL elsewhere"
            )


def _open(url: sa.URL) -> sa.Engine:
    if url.get_backend_name() != "sqlite":
        return engine_of(url)
    if url.database and url.database != ":memory:" and not url.database.startswith("file:"):
        path = Path(url.database)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        private_file(path)
        for beside in ("-wal", "-shm"):  # SQLite makes them with the rights of the file, but they may be older
            if (other := path.with_name(path.name + beside)).exists():
                private_file(other)
    engine = sa.create_engine(url)
    sa.event.listen(engine, "connect", _prepare_sqlite)
    sa.event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # the driver would begin late; _begin_sqlite begins
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    if cursor.execute("PRAGMA page_count").fetchone()[0] == 0:  # later it would change nothing, and take a lock
        cursor.execute(f"PRAGMA auto_vacuum = {_INCREMENTAL}")
    cursor.execute("PRAGMA journal_mode = WAL")
    # Half the cost of a tick is waiting for the disk. A power cut may lose the last commits, never consistency; the
    # next tick reads what really runs and decides anew.
    cursor.execute("PRAGMA synchronous = NORMAL")
    cursor.close()


def _begin_sqlite(connection: sa.Connection) -> None:
    # What SQLAlchemy executes of a transaction that was begun on the driver belongs to that.
    if not cast("sqlite3.Connection", connection.connection.driver_connection).in_transaction:
        connection.exec_driver_sql(_WRITES)

"""The simulated disk: each statement of a process passes here first, and may fail as SQLite would let it."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import sqlalchemy as sa

from perdix.control.state import schema as state_schema
from perdix.control.state.schema import _open
from perdix.control.state.store import StateStore

LOCKED, FULL = "database is locked", "database or disk is full"
READ_ONLY, GONE = "attempt to write a readonly database", "unable to open database file"
WRITES = ("INSERT", "UPDATE", "DELETE", "REPLACE", "CREATE", "ALTER", "DROP")

CLOSES_S = 10  # within which who used a schema has closed its connections

Before = Callable[[str], str | None]  # statement -> the error that it meets


class Disk:
    """The connections of one process to its state store.

    ``before``: asked before each statement and commit; raises when the process has died.
    """

    def __init__(self, before: Before) -> None:
        self._before = before
        self._connections: list[Any] = []

    def open(self, url: str) -> StateStore:
        """Open a store whose every statement passes here, from the first on."""

        def engine_of_mine(store_url: sa.URL) -> sa.Engine:
            engine = _open(store_url)
            self.listen(engine)
            return engine

        # While this one waits for a frozen store, others open theirs: nobody may listen to every engine.
        with patch.object(state_schema, "_open", engine_of_mine):
            return StateStore(url)

    def listen(self, engine: sa.Engine) -> None:
        """Let every statement on an engine's connections pass here."""
        sa.event.listen(engine, "do_connect", self._connecting)
        sa.event.listen(engine, "connect", self._connected)

    def pull_the_plug(self) -> None:
        """Close every connection as the end of a process does: what was not committed is gone."""
        for connection in self._connections:
            with suppress(sqlite3.Error):
                connection.close()
        self._connections.clear()

    def _connected(self, connection: Any, _record: Any) -> None:
        self._connections.append(connection)
        # A wait for another process of the simulation never ends: all run in one thread.
        connection.execute("PRAGMA busy_timeout = 0")

    def _connecting(self, *given: Any) -> None:
        given[-1]["factory"] = partial(_Connection, meets=self._meet)

    def _meet(self, statement: str) -> None:
        if statement.startswith("PRAGMA"):
            return
        error = self._before(statement)
        if error is not None:
            raise sqlite3.OperationalError(error)


@contextmanager
def files(before: Callable[[Path], None]) -> Iterator[None]:
    """Let every file that is to appear whole, which is how perdix writes one, pass here first; ``before`` may raise."""
    replace = Path.replace

    def replaced(path: Path, target: Path) -> Path:
        before(target)
        return replace(path, target)

    with patch.object(Path, "replace", replaced):
        yield


@contextmanager
def own_schema(server: str) -> Iterator[str]:
    """Make an empty schema on a server; yields a URL that leads there, and drops it at the end."""
    schema = f"perdix_{uuid.uuid4().hex}"
    engine = sa.create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sa.schema.CreateSchema(schema))
    try:
        url = sa.make_url(server).update_query_dict({"options": f"-csearch_path={schema}"})
        yield url.render_as_string(hide_password=False)
    finally:
        with engine.connect() as connection:
            # Who forgot to close a connection is named by an error; to wait for it has no end.
            connection.execute(sa.text(f"SET lock_timeout = '{CLOSES_S}s'"))
            connection.execute(sa.schema.DropSchema(schema, cascade=True))
        engine.dispose()


class _Connection(sqlite3.Connection):
    """Python's driver, of which each statement and commit passes the disk: whoever executes it."""

    def __init__(self, *given: Any, meets: Callable[[str], None], **named: Any) -> None:
        super().__init__(*given, **named)
        self._meets = meets

    def cursor(self, *_: Any) -> Any:
        return super().cursor(partial(_Cursor, meets=self._meets))

    def execute(self, statement: str, *parameters: Any) -> Any:
        return self.cursor().execute(statement, *parameters)

    def executemany(self, statement: str, *parameters: Any) -> Any:
        return self.cursor().executemany(statement, *parameters)

    def commit(self) -> None:
        self._meets("COMMIT")
        super().commit()


class _Cursor(sqlite3.Cursor):
    def __init__(self, connection: sqlite3.Connection, *, meets: Callable[[str], None]) -> None:
        super().__init__(connection)
        self._meets = meets

    def execute(self, statement: str, *parameters: Any) -> Any:
        self._meets(statement)
        return super().execute(statement, *parameters)

    def executemany(self, statement: str, *parameters: Any) -> Any:
        self._meets(statement)
        return super().executemany(statement, *parameters)


def writes(statement: str) -> bool:
    """Whether a statement changes what is stored."""
    return statement.lstrip().upper().startswith(WRITES)

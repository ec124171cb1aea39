"""The simulated PostgreSQL: a real one, where each statement of a process passes the storm first, and may fail there.

An error is raised by the server itself, so that the transaction is lost as it would be.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NoReturn

import psycopg
import sqlalchemy as sa

from benchmarks.storm.disk import FULL, GONE, LOCKED, READ_ONLY, Disk

CODES = {LOCKED: "55P03", FULL: "53100", READ_ONLY: "25006"}
ANY_OTHER = "58030"  # of the server's own disk


class Server(Disk):
    """The connections of one process to a PostgreSQL."""

    def listen(self, engine: sa.Engine) -> None:
        sa.event.listen(engine, "do_connect", self._connecting, insert=True)
        sa.event.listen(engine, "connect", self._connected)

    def _connecting(self, *_: Any) -> None:
        error = self._before("CONNECT")
        if error is not None:
            raise psycopg.OperationalError(error)

    def _connected(self, connection: Any, _record: Any) -> None:
        self._connections.append(connection)
        # A wait for another process of the simulation never ends: all run in one thread. For one that has just died
        # the server needs a moment.
        connection.execute("SET lock_timeout = 200")
        connection.commit()
        connection.cursor_factory = partial(_Cursor, meets=partial(self._meet_on, connection))
        connection.commit = partial(self._commit, connection, connection.commit)

    def _commit(self, connection: Any, commit: Any) -> None:
        if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            self._meet_on(connection, "COMMIT")
        commit()

    def _meet_on(self, connection: Any, statement: str) -> None:
        idle = connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        for part in ("BEGIN IMMEDIATE", statement) if idle else (statement,):
            error = self._before(part)
            if error is not None:
                _fail(connection, error)


def _fail(connection: Any, error: str) -> NoReturn:
    if error == GONE:
        connection.close()
        raise psycopg.OperationalError("server closed the connection unexpectedly")
    code = CODES.get(error, ANY_OTHER)
    psycopg.Cursor(connection).execute(f"DO $$BEGIN RAISE EXCEPTION '{error}' USING ERRCODE = '{code}'; END$$".encode())
    raise AssertionError("the server raised nothing")


class _Cursor(psycopg.Cursor[Any]):  # type: ignore[misc]
    def __init__(self, connection: Any, *, meets: Any, **named: Any) -> None:
        super().__init__(connection, **named)
        self._meets = meets

    def execute(self, statement: Any, *parameters: Any, **named: Any) -> Any:
        self._meets(str(statement))
        return super().execute(statement, *parameters, **named)

    def executemany(self, statement: Any, *parameters: Any, **named: Any) -> Any:
        self._meets(str(statement))
        return super().executemany(statement, *parameters, **named)

"""A state store on PostgreSQL: every call of it ends, whatever the server or the network does.

A server may refuse, be slow, be cut off, or freeze: a frozen one keeps its connections, its kernel acknowledges what is
sent, and no answer ever comes. Only a deadline of the client's own ends that.
"""

import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

LIBPQ = ("psycopg", "psycopg2")  # drivers that take libpq's parameters


@dataclass(frozen=True)
class Limits:
    """How long things may take, in seconds."""

    connect_s: int = 5  # making a connection
    statement_s: float = 10.0  # a statement at the server, waiting for locks included
    # The same as the client sees it: more than ``statement_s``, so that a server that is merely busy says so itself
    answer_s: float = 12.0
    # An open transaction of a client that died or froze, until the server undoes it and frees its locks
    idle_s: float = 60.0

    def parameters(self) -> dict[str, int]:
        """Return libpq's parameters: the connection, and the network under it."""
        silent_ms = round(1_000 * self.answer_s)
        found = {"connect_timeout": self.connect_s, "tcp_user_timeout": silent_ms}
        return {**found, "keepalives": 1, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}


def engine_of(url: sa.URL, limits: Limits | None = None, **options: Any) -> sa.Engine:
    """Return an engine whose every call ends within the limits. What the URL itself says of libpq's parameters counts.

    Raises ``ImportError`` when the driver is not installed.
    """
    limits = limits or Limits()
    driver = url.get_dialect().driver
    given = limits.parameters() if driver in LIBPQ else {}
    arguments = {name: value for name, value in given.items() if name not in url.query}
    engine = sa.create_engine(url, pool_pre_ping=True, connect_args=arguments, **options)
    if driver == "psycopg":
        connect = _bounded(limits.answer_s)
        sa.event.listen(engine, "do_connect", lambda _dialect, _record, args, named: connect(*args, **named))

    def prepare(connection: Any, _record: Any) -> None:
        # Not as a parameter of the connection: poolers between us and the server refuse those.
        cursor = connection.cursor()
        cursor.execute(f"SET statement_timeout = {round(1_000 * limits.statement_s)}")
        cursor.execute(f"SET idle_in_transaction_session_timeout = {round(1_000 * limits.idle_s)}")
        cursor.close()
        connection.commit()

    sa.event.listen(engine, "connect", prepare)
    return engine


def _bounded(answer_s: float) -> Callable[..., Any]:
    """Return psycopg's ``connect`` for connections that are closed when an answer takes longer."""
    import psycopg  # noqa: PLC0415 - an extra that only PostgreSQL needs

    class Bounded(psycopg.Connection[Any]):  # type: ignore[misc]
        def wait(self, gen: Any, *args: Any, **named: Any) -> Any:
            return super().wait(self._within(gen), *args, **named)

        def _within(self, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
            # psycopg resumes what it waits for ten times a second, whether or not anything has come.
            deadline_s = time.monotonic() + answer_s
            try:
                wanted = next(gen)
                while True:
                    came = yield wanted
                    wanted = gen.send(came)
                    if time.monotonic() > deadline_s:
                        self.pgconn.finish()
                        raise psycopg.OperationalError(f"no answer within {answer_s:g} s; the connection was closed")
            except StopIteration as end:
                return end.value

    connect: Callable[..., Any] = Bounded.connect
    return connect

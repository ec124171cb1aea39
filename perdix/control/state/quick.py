"""The store's usual statements on SQLite's own driver.

SQLAlchemy's execution costs several times as much as the statement that it executes, and a tick executes a dozen. Only
statements that are marked go this way; they are the same statements, in the same transaction, with the same errors.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Self, TypeVar, cast

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

QUICK = "perdix_quick"
Compiled = dict[sa.Executable, tuple[str, Sequence[str]]]  # statement -> its text, and its parameters in their order
Parameters = Mapping[str, Any] | Sequence[Mapping[str, Any]]
Statement = TypeVar("Statement", bound=sa.Executable)


def quick(statement: Statement) -> Statement:
    """Mark a statement whose values need no conversion: numbers, text and bytes, in and out; made once and kept."""
    return statement.execution_options(**{QUICK: True})


@dataclass(frozen=True)
class Answer:
    """What SQLAlchemy's result offers, as far as marked statements need it."""

    cursor: sqlite3.Cursor

    @property
    def rowcount(self) -> int:
        """Rows that were changed."""
        return self.cursor.rowcount

    def all(self) -> list[tuple[Any, ...]]:
        """Return every row."""
        return self.cursor.fetchall()

    def one_or_none(self) -> tuple[Any, ...] | None:
        """Return the row, of which there is at most one by the table's key."""
        return cast("tuple[Any, ...] | None", self.cursor.fetchone())

    def scalar(self) -> Any:
        """Return the first value; ``None`` where there is no row."""
        row = self.cursor.fetchone()
        return None if row is None else row[0]


class QuickConnection:
    """Stands in for a connection to SQLite; what is not marked goes through it.

    ``compiled``: marked statements as they were compiled before: shared by the connections of one database.
    """

    def __init__(self, connection: sa.Connection, compiled: Compiled) -> None:
        self._connection = connection
        driver = connection.connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)
        self._driver = driver
        self._compiled = compiled

    def execute(self, statement: sa.Executable, parameters: Parameters | None = None) -> Any:
        """Execute a statement; several rows of parameters at once are several statements."""
        known = self._compiled.get(statement)
        if known is None:
            if QUICK not in statement.get_execution_options():
                return self._connection.execute(statement, parameters)
            compiled = cast("sa.ClauseElement", statement).compile(dialect=self._connection.dialect)
            known = str(compiled), tuple(getattr(compiled, "positiontup", None) or ())
            self._compiled[statement] = known
        text, names = known
        try:
            if isinstance(parameters, Sequence):
                return Answer(self._driver.executemany(text, [[row[name] for name in names] for row in parameters]))
            return Answer(self._driver.execute(text, [parameters[name] for name in names] if parameters else []))
        except sqlite3.Error as error:
            raise _as_sqlalchemy_raises(error, text, self._connection) from error

    @contextmanager
    def transaction(self, begin: str) -> Iterator[Self]:
        """Begin a transaction with these words, and end it: all of it is kept, or on an exception none of it."""
        self.exec_driver_sql(begin)
        try:
            yield self
            self.exec_driver_sql("COMMIT")
        except BaseException:
            with suppress(sqlite3.ProgrammingError):  # SQLAlchemy closes the connection where it is interrupted
                if self._driver.in_transaction:  # on a full disk SQLite has already undone all
                    self._driver.rollback()
            raise

    def exec_driver_sql(self, text: str) -> Any:
        """Execute text as it is."""
        try:
            return self._driver.execute(text)
        except sqlite3.Error as error:
            raise _as_sqlalchemy_raises(error, text, self._connection) from error


def _as_sqlalchemy_raises(error: sqlite3.Error, text: str, connection: sa.Connection) -> BaseException:
    return DBAPIError.instance(text, None, error, sqlite3.Error, dialect=connection.dialect)

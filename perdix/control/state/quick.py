"""The store's usual statements on SQLite's own driver, for a store in memory that one thread uses.

SQLAlchemy's execution costs several times as much as the statement that it executes, which a simulation pays a dozen
times per tick. Only statements that are marked go this way; they are the same statements.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import sqlalchemy as sa

QUICK = "perdix_quick"
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

    def scalar_one(self) -> Any:
        """Return the first value of the row that there always is."""
        return self.cursor.fetchone()[0]


class QuickConnection:
    """Stands in for a connection to SQLite; what is not marked goes through it."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection
        driver = connection.connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)
        self._driver = driver
        self._compiled: dict[sa.Executable, tuple[str, Sequence[str]]] = {}

    def execute(self, statement: sa.Executable, parameters: Parameters | None = None) -> Any:
        """Execute a statement; several rows of parameters at once are several statements."""
        if QUICK not in statement.get_execution_options():
            return self._connection.execute(statement, parameters)
        if statement not in self._compiled:
            compiled = cast("sa.ClauseElement", statement).compile(dialect=self._connection.dialect)
            self._compiled[statement] = str(compiled), tuple(getattr(compiled, "positiontup", None) or ())
        text, names = self._compiled[statement]
        if isinstance(parameters, Sequence):
            return Answer(self._driver.executemany(text, [[row[name] for name in names] for row in parameters]))
        return Answer(self._driver.execute(text, [parameters[name] for name in names] if parameters else []))

    def exec_driver_sql(self, text: str) -> Any:
        """Execute text as it is."""
        return self._driver.execute(text)

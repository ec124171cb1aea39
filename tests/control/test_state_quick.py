"""Statements on SQLite's own driver: the same transaction as what SQLAlchemy executes, and the same errors."""

from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError, OperationalError

from perdix.control.state.quick import quick
from perdix.control.state.schema import Database, pauses

ROW = {"job": "orders", "until_s": 2.0, "paused_s": 1.0, "why": ""}
KEEP = quick(sa.text("INSERT INTO pauses (job, until_s, paused_s, why) VALUES (:job, :until_s, :paused_s, :why)"))
JOBS = quick(sa.select(pauses.c.job).order_by(pauses.c.job))


@pytest.fixture
def database(tmp_path: Path):
    opened = Database(f"sqlite:///{tmp_path / 'state.db'}")
    yield opened
    opened.close()


def jobs(database: Database) -> list[str]:
    with database.reading() as connection:
        return [job for (job,) in connection.execute(JOBS).all()]


def test_what_is_marked_and_what_is_not_are_one_transaction(database: Database):
    with database.writing() as connection:
        connection.execute(KEEP, ROW)
        connection.execute(pauses.insert().values(**{**ROW, "job": "payments"}))
    assert jobs(database) == ["orders", "payments"]
    with pytest.raises(RuntimeError, match="stop"):
        forget_all_and_stop(database)
    assert jobs(database) == ["orders", "payments"]


def forget_all_and_stop(database: Database) -> None:
    with database.writing() as connection:
        connection.execute(pauses.delete())
        connection.execute(KEEP, {**ROW, "job": "refunds"})
        raise RuntimeError("stop")


@pytest.mark.parametrize("statement", [KEEP, pauses.insert().values(**ROW)], ids=["marked", "not marked"])
def test_errors_are_those_of_sqlalchemy_and_nothing_is_kept(database: Database, statement: sa.Executable):
    with database.writing() as connection:
        connection.execute(KEEP, ROW)
    with pytest.raises(IntegrityError, match="UNIQUE"):
        twice(database, statement)
    assert jobs(database) == ["orders"]


def test_an_interrupt_in_the_middle_of_a_statement_stays_one_and_keeps_nothing(database: Database):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    engine = database._engine
    sa.event.listen(engine, "do_execute", interrupted)
    with pytest.raises(KeyboardInterrupt):
        keep_and_forget(database)
    sa.event.remove(engine, "do_execute", interrupted)
    assert jobs(database) == []


def keep_and_forget(database: Database) -> None:
    with database.writing() as connection:
        connection.execute(KEEP, ROW)
        connection.execute(pauses.delete())


def twice(database: Database, statement: sa.Executable) -> None:
    with database.writing() as connection:
        connection.execute(KEEP, {**ROW, "job": "payments"})
        connection.execute(statement, ROW)


def test_two_writers_wait_for_each_other_from_their_beginning(database: Database, tmp_path: Path):
    other = Database(f"sqlite:///{tmp_path / 'state.db'}")
    with database.writing(), other.reading() as reading:
        reading.exec_driver_sql("PRAGMA busy_timeout = 0")
    with database.writing(), pytest.raises(OperationalError, match="locked"), other.writing():
        pytest.fail("two write at once")
    other.close()

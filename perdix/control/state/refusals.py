"""How often a job's target has failed recently, and when it may be asked again: whatever is decided in between.

Belongs here: the count per job and fault, and the pause that follows from it. Does not belong here: what is asked
(:mod:`perdix.control.state.ledger`). A count ends when what was asked for is seen running, or a day after its last
failure.
"""

from collections.abc import Mapping

import sqlalchemy as sa

from perdix.control.state.schema import keep_last, refusals
from perdix.settings.outside_text import storable
from perdix.targets.contract import Fault

BACKOFF_S = 15.0
BACKOFF_LIMIT_S = 600.0
LASTING_LIMIT_S = 1_800.0  # what somebody must fix first
REMEMBERED_S = 86_400.0
LIMITS_S: Mapping[Fault, float] = {
    Fault.PASSING: BACKOFF_LIMIT_S,
    Fault.LASTING: LASTING_LIMIT_S,
    Fault.SIZE: LASTING_LIMIT_S,
}
_OF_JOB = sa.select(refusals).where(refusals.c.job == sa.bindparam("of_job"))
_KEEP = keep_last(refusals, list(refusals.c.keys()))


def backoff_s(failures: int, fault: Fault = Fault.PASSING) -> float:
    """Return how long to wait after that many failures: 15 s, doubling, at most 10 min, or 30 min where it lasts."""
    return float(min(BACKOFF_S * 2.0 ** min(failures - 1, 16), LIMITS_S[fault]))


def count(connection: sa.Connection, job: str, fault: Fault, now_s: float, error: str) -> float:
    """Count a failure, and return how long to wait, seconds."""
    failures = 1 + next((row.failures for row in _fresh(connection, job, now_s) if row.fault == fault), 0)
    row = {"job": job, "fault": fault.value, "failures": failures, "failed_s": now_s, "error": storable(error)}
    connection.execute(_KEEP, row)
    return backoff_s(failures, fault)


def pause(connection: sa.Connection, job: str, now_s: float) -> tuple[float, str] | None:
    """Return until when a new decision must wait (epoch seconds), and for what; ``None`` when it may be asked for."""
    waits = [
        (row.failed_s + backoff_s(row.failures, Fault(row.fault)), row.error) for row in _fresh(connection, job, now_s)
    ]
    until_s, error = max(waits, default=(now_s, ""))
    return (until_s, error) if until_s > now_s else None


def forget(connection: sa.Connection, job: str) -> None:
    """Start counting anew."""
    connection.execute(refusals.delete().where(refusals.c.job == job))


def _fresh(connection: sa.Connection, job: str, now_s: float) -> list[sa.Row[tuple[object, ...]]]:
    """Return what counts still; what failed in the future did so before the clock was set back."""
    rows = connection.execute(_OF_JOB, {"of_job": job}).all()
    return [row for row in rows if 0.0 <= now_s - row.failed_s <= REMEMBERED_S]

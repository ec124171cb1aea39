"""Fenced leases: of several controllers one acts, and one that was overtaken can write nothing more.

A lease is a row (holder, token, deadline) that is taken by compare-and-set. The token grows with every acquisition;
every fenced write names it, and is refused once a greater one exists. So a tick that outlives its lease does no harm.

No expiry goes by wall time, which may step back (all would be locked out) or forward (two would hold it). Who shares
the holder's boot, and so its elapsed time, compares the deadline with that. Who does not, watches: a lease that was not
renewed for as long as it lasts, on the watcher's own elapsed time, is over (decision 38).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from perdix.control.clock import PROCESS, Moment
from perdix.control.state.quick import quick
from perdix.control.state.schema import keep_last, lease_watches, leases

if TYPE_CHECKING:
    from perdix.control.state.store import StateStore

PREFIX = "job:"  # of the names of leases on stream jobs
UNKNOWN_TTL_S = 60.0  # of a lease that an older perdix took, which does not say how long it lasts


class _Row(NamedTuple):
    """A lease as it is stored."""

    name: str
    holder: str | None
    token: int
    boot: str | None
    deadline_s: float | None
    ttl_s: float | None
    renewals: int | None


_NAME = leases.c.name == sa.bindparam("of_name")
_ROWS = sa.select(*(leases.c[name] for name in _Row._fields))
_ROW = quick(_ROWS.where(_NAME))
_LOCKED_ONE = quick(_ROWS.where(_NAME).with_for_update())
_LOCKED = _ROWS.where(leases.c.name.in_(sa.bindparam("names", expanding=True)))
# Always in one order, or two controllers might wait for each other's rows.
_LOCKED = _LOCKED.order_by(leases.c.name).with_for_update()
_TAKEN = ("holder", "token", "acquired_s", "boot", "deadline_s", "ttl_s", "expires_s")
_TAKE = quick(leases.update().where(_NAME).values({name: sa.bindparam(f"new_{name}") for name in _TAKEN}))
_HELD = quick(
    sa.select(leases.c.token)
    .where(_NAME, leases.c.token == sa.bindparam("token"), leases.c.holder == sa.bindparam("holder"))
    .with_for_update()
)
_UNTIL = ("boot", "deadline_s", "ttl_s", "expires_s")
_ROUNDS = sa.func.coalesce(leases.c.renewals, sa.literal_column("0"))
_RENEW = quick(
    leases.update()
    .where(_NAME)
    .values(renewals=_ROUNDS + sa.literal_column("1"), **{name: sa.bindparam(f"new_{name}") for name in _UNTIL})
)
_ROUND = ("name", "boot", "token", "renewals")
_SEEN = quick(
    sa.select(lease_watches.c.since_s).where(*(lease_watches.c[name] == sa.bindparam(name) for name in _ROUND))
)
_WATCH = quick(keep_last(lease_watches, lease_watches.c.keys()))


class StaleLease(Exception):  # noqa: N818 - an event between controllers, not a defect
    """The lease was taken by another holder, or released, or ran out; nothing was written or asked."""


@dataclass(frozen=True)
class Lease:
    """Held by ``holder`` until ``deadline_s`` of elapsed time since ``boot``; ``token`` is the fence."""

    name: str
    holder: str
    token: int
    deadline_s: float
    boot: str | None

    def left_s(self, at: Moment) -> float | None:
        """Return for how many seconds it still lasts; ``None`` where the holder's elapsed time is unknown."""
        return self.deadline_s - at.elapsed_s if self.boot == at.boot else None


def acquire(store: StateStore, name: str, holder: str, at: Moment, ttl_s: float) -> Lease | None:
    """Take the lease if it is free or has expired.

    Not re-entrant, even for the same ``holder``: a tick that timed out and still runs may bear the same name.

    ``at``: now. Not earlier: what is seen held for the first time is watched from then on.
    Returns ``None`` while somebody holds it, or when another one was faster.
    """
    return acquire_all(store, [name], holder, at, ttl_s)[name]


def acquire_all(
    store: StateStore, names: Iterable[str], holder: str, at: Moment, ttl_s: float
) -> dict[str, Lease | None]:
    """Take leases as :func:`acquire` does, many in one transaction, which costs little more than one alone."""
    if ttl_s <= 0:
        raise ValueError(f"ttl_s must be positive, found {ttl_s}")
    wanted = sorted(names)
    try:
        with store.database.writing() as connection:
            return _taken(store, connection, wanted, holder, at=at, ttl_s=ttl_s)
    except IntegrityError:  # two inserted the first row of a lease at once
        if len(wanted) == 1:
            return {wanted[0]: None}
    return {name: acquire(store, name, holder, at, ttl_s) for name in wanted}


def _taken(
    store: StateStore, connection: sa.Connection, wanted: list[str], holder: str, *, at: Moment, ttl_s: float
) -> dict[str, Lease | None]:
    if len(wanted) == 1:
        found = connection.execute(_LOCKED_ONE, {"of_name": wanted[0]}).all()
    else:
        found = connection.execute(_LOCKED, {"names": wanted}).all()
    known = {row.name: row for row in map(_Row._make, found)}
    over = [
        name for name, row in known.items() if _is_over(connection, row, at, one_machine=store.database.one_machine)
    ]
    tokens = {name: 1 for name in wanted if name not in known}
    row = {"holder": holder, "acquired_s": at.wall_s, **_until(at, ttl_s)}
    if tokens:
        connection.execute(leases.insert(), [{"name": name, "token": 1, "renewals": 0, **row} for name in tokens])
    if over:
        tokens |= {name: int(known[name].token) + 1 for name in over}
        taken = {f"new_{column}": value for column, value in row.items()}
        connection.execute(_TAKE, [{"of_name": name, "new_token": tokens[name], **taken} for name in over])
    return {
        name: Lease(name, holder, tokens[name], at.elapsed_s + ttl_s, at.boot) if name in tokens else None
        for name in wanted
    }


def renew(store: StateStore, lease: Lease, at: Moment, ttl_s: float) -> Lease:
    """Let a lease that nobody else has taken last until ``ttl_s`` from now, even if it has expired.

    Raises ``StaleLease`` when it was overtaken or released.
    """
    with store.database.writing() as connection:
        check(connection, lease)
        new = {f"new_{column}": value for column, value in _until(at, ttl_s).items()}
        connection.execute(_RENEW, {"of_name": lease.name, **new})
    return replace(lease, deadline_s=at.elapsed_s + ttl_s, boot=at.boot)


def release(store: StateStore, lease: Lease) -> bool:
    """Give the lease back; ``False`` when it was no longer held."""
    with store.database.writing() as connection:
        mine = leases.c.name == lease.name, leases.c.token == lease.token, leases.c.holder == lease.holder
        freed = connection.execute(leases.update().where(*mine).values(holder=None))
        return freed.rowcount == 1


def holder_of(store: StateStore, name: str, at: Moment) -> Lease | None:
    """Return who holds the lease now, as far as is known without having watched it; ``None`` if nobody."""
    with store.database.reading() as connection:
        found = connection.execute(_ROW, {"of_name": name}).one_or_none()
    row = None if found is None else _Row._make(found)
    if row is None or row.holder is None:
        return None
    lease = Lease(row.name, row.holder, row.token, row.deadline_s or 0.0, row.boot)
    left_s = lease.left_s(at)
    return lease if left_s is None or left_s > 0 else None


def check(connection: sa.Connection, lease: Lease) -> None:
    """Lock the lease's row until the transaction ends and make sure that it still bears the lease's token.

    Raises ``StaleLease`` when it does not.
    """
    named = {"of_name": lease.name, "token": lease.token, "holder": lease.holder}
    held = connection.execute(_HELD, named).scalar()
    if held is None:
        raise StaleLease(f"lease '{lease.name}' (token {lease.token}) of {lease.holder} was overtaken or released")


def forget_watches(connection: sa.Connection) -> int:
    """Forget what was watched of rounds that are over: the lease was taken or renewed since. Returns how many went."""
    same = (leases.c.name == lease_watches.c.name, leases.c.token == lease_watches.c.token)
    goes_on = sa.select(leases.c.name).where(*same, sa.func.coalesce(leases.c.renewals, 0) == lease_watches.c.renewals)
    return connection.execute(lease_watches.delete().where(sa.not_(goes_on.exists()))).rowcount


def _until(at: Moment, ttl_s: float) -> dict[str, Any]:
    # expires_s is for people and metrics; no controller goes by it.
    return {"boot": at.boot, "deadline_s": at.elapsed_s + ttl_s, "ttl_s": ttl_s, "expires_s": at.wall_s + ttl_s}


def _is_over(connection: sa.Connection, row: _Row, at: Moment, *, one_machine: bool) -> bool:
    if row.holder is None:
        return True
    if row.boot == at.boot:
        return (row.deadline_s or 0.0) <= at.elapsed_s
    if one_machine and row.boot is not None and not any(boot.startswith(PROCESS) for boot in (row.boot, at.boot)):
        return True  # the machine was booted since: whoever held it is dead
    if not _watched_long_enough(connection, row, at):
        return False
    connection.execute(lease_watches.delete().where(lease_watches.c.name == row.name))
    return True


def _watched_long_enough(connection: sa.Connection, row: _Row, at: Moment) -> bool:
    """Whether this round of the lease was first seen, on this boot, as long ago as it lasts; begins to watch it."""
    seen = {"name": row.name, "boot": at.boot, "token": row.token, "renewals": row.renewals or 0}
    since_s = connection.execute(_SEEN, seen).scalar()
    if since_s is None:
        connection.execute(_WATCH, {**seen, "since_s": at.elapsed_s})
        return False
    ttl_s = UNKNOWN_TTL_S if row.ttl_s is None else row.ttl_s
    return bool(at.elapsed_s - since_s >= ttl_s)

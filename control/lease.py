"""Fenced leases: of several controllers one acts, and one that was overtaken can write nothing more.

A lease is a row (holder, token, expiry) that is taken by compare-and-set. The token grows with every acquisition; every
fenced write names it, and is refused once a greater one exists. So a tick that outlives its lease does no harm.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from control.state_schema import leases

if TYPE_CHECKING:
    from control.state import StateStore


class StaleLease(Exception):  # noqa: N818 - an event between controllers, not a defect
    """The lease was taken by another holder, or released; nothing was written."""


PREFIX = "job:"  # of the names of leases on stream jobs


@dataclass(frozen=True)
class Lease:
    """Held by ``holder`` until ``expires_s`` (epoch seconds); ``token`` is the fence."""

    name: str
    holder: str
    token: int
    expires_s: float


def acquire(store: StateStore, name: str, holder: str, now_s: float, ttl_s: float) -> Lease | None:
    """Take the lease if it is free or has expired.

    Not re-entrant, even for the same ``holder``: a tick that timed out and still runs may bear the same name.

    Returns
    -------
    Lease or None
        ``None`` while somebody holds it, or when another one was faster.
    """
    if ttl_s <= 0:
        raise ValueError(f"ttl_s must be positive, found {ttl_s}")
    row = {"holder": holder, "acquired_s": now_s, "expires_s": now_s + ttl_s}
    free = sa.or_(leases.c.holder.is_(None), leases.c.expires_s <= now_s)
    try:
        with store.database.writing() as connection:
            taken = connection.execute(
                leases.update().where(leases.c.name == name, free).values(token=leases.c.token + 1, **row)
            )
            token = connection.execute(sa.select(leases.c.token).where(leases.c.name == name)).scalar()
            if token is None:
                token = 1
                connection.execute(leases.insert().values(name=name, token=token, **row))
            elif taken.rowcount == 0:
                return None
    except IntegrityError:  # two inserted the first row at once
        return None
    return Lease(name, holder, int(token), now_s + ttl_s)


def renew(store: StateStore, lease: Lease, now_s: float, ttl_s: float) -> Lease:
    """Extend a lease that nobody else has taken, even if it has expired.

    Raises
    ------
    StaleLease
        When it was overtaken or released.
    """
    with store.database.writing() as connection:
        check(connection, lease)
        connection.execute(leases.update().where(leases.c.name == lease.name).values(expires_s=now_s + ttl_s))
    return replace(lease, expires_s=now_s + ttl_s)


def release(store: StateStore, lease: Lease) -> bool:
    """Give the lease back; ``False`` when it was no longer held."""
    with store.database.writing() as connection:
        freed = connection.execute(leases.update().where(*_held(lease)).values(holder=None))
        return freed.rowcount == 1


def holder_of(store: StateStore, name: str, now_s: float) -> Lease | None:
    """Return who holds the lease now, if anybody."""
    with store.database.reading() as connection:
        row = connection.execute(sa.select(leases).where(leases.c.name == name)).one_or_none()
    if row is None or row.holder is None or row.expires_s <= now_s:
        return None
    return Lease(row.name, row.holder, row.token, row.expires_s)


def check(connection: sa.Connection, lease: Lease) -> None:
    """Lock the lease's row until the transaction ends and make sure that it still bears the lease's token.

    Raises
    ------
    StaleLease
        When it does not.
    """
    held = connection.execute(sa.select(leases.c.token).where(*_held(lease)).with_for_update()).scalar()
    if held is None:
        raise StaleLease(f"lease '{lease.name}' (token {lease.token}) of {lease.holder} was overtaken or released")


def _held(lease: Lease) -> tuple[sa.ColumnElement[bool], ...]:
    return (leases.c.name == lease.name, leases.c.token == lease.token, leases.c.holder == lease.holder)

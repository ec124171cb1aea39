"""The decision ledger: what was decided and why, what became of it, and the scale-out that is wanted of each job.

A decision that changes the scale-out goes ``intent -> applied -> confirmed``, or ends as ``failed`` or ``superseded``.
The intent is stored before anything is asked of the target and is reconciled at each tick, so that a crash in between
heals itself and nothing is done twice.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from perdix.control.state import refusals
from perdix.control.state.packing import ACCOUNT, packed, unpacked
from perdix.control.state.quick import quick
from perdix.control.state.refusals import LASTING_LIMIT_S, backoff_s
from perdix.control.state.schema import (
    Transactions,
    decisions,
    desired_scales,
    from_text,
    keep_first,
    statuses,
    to_text,
)
from perdix.policies.contract import Reason
from perdix.settings.outside_text import storable
from perdix.targets.contract import Fault

FOLD_S = 900.0  # that a row may stand for, so that its values are never older or newer than that


class State(StrEnum):
    """What became of a decision."""

    INTENT = "intent"  # stored, not yet accepted by the target
    APPLIED = "applied"  # accepted by the target, not yet seen running
    CONFIRMED = "confirmed"  # seen running
    FAILED = "failed"  # given up
    SUPERSEDED = "superseded"  # another decision, or its own expiry, came first
    HELD = "held"  # nothing to do
    ADVISED = "advised"  # advice only


OPEN = (State.INTENT, State.APPLIED)
# Decisions that hold without a judgement of the load: what was wanted before stays wanted.
UNJUDGED = (
    Reason.HOLD_BLIND, Reason.HOLD_UNSETTLED, Reason.HOLD_PAUSED, Reason.HOLD_UNKNOWN, Reason.HOLD_INVALID,
    Reason.HOLD_GRACE,
)  # fmt: skip
_DOCUMENTS = ("versions", "from_mix", "mix")
_COLUMNS = tuple(decisions.c.keys())

# Statements are made once: to build one costs more than to run it, and a tick runs a dozen.
_JOB, _ID = decisions.c.job == sa.bindparam("of_job"), decisions.c.decision_id == sa.bindparam("of_decision")
_WANTED = desired_scales.c.job == sa.bindparam("of_job")
_DESIRED = quick(
    sa.select(desired_scales.c.scale_out, desired_scales.c.since_s, decisions)
    .join(decisions, decisions.c.decision_id == desired_scales.c.decision_id)
    .where(_WANTED)
)
_QUEUE = quick(sa.select(desired_scales.c.job).where(_WANTED).with_for_update())
_KNOWN = quick(sa.select(decisions.c.decision_id).where(_ID))
_DECISION = quick(sa.select(decisions).where(_ID))
_NOTED = _JOB, decisions.c.applied_s <= sa.bindparam("to_s")
_RESCALES = quick(
    sa.select(
        sa.select(sa.func.max(decisions.c.applied_s)).where(*_NOTED).scalar_subquery(),
        sa.select(sa.func.count()).where(*_NOTED, decisions.c.applied_s >= sa.bindparam("from_s")).scalar_subquery(),
    )
)


@dataclass(frozen=True)
class Intent:
    """A decision as the tick hands it to the ledger.

    ``window_end_s``, ``made_s``, ``valid_until_s``: epoch seconds: the newest grid step it rests on, when it was made,
    until when it may still be applied.
    ``versions``: model family -> version that was believed.
    ``explanation``: all that a reader needs to understand it: candidates, forecast summary, capacities, WAPE, ...
    ``act``: false in advice-only mode: recorded, never applied.
    ``from_scale_out``, ``scale_out``: workers that run, and that are wanted. What takes a rescale back counts from the
    workers that were asked for, also where they never ran.
    ``from_mix``, ``mix``: size -> workers, of ``from_scale_out`` and ``scale_out``; empty where workers are equal.
    """

    job: str
    window_end_s: float
    made_s: float
    from_scale_out: int
    scale_out: int
    policy: str
    reason: str
    sentence: str
    valid_until_s: float
    versions: Mapping[str, Any]
    explanation: Mapping[str, Any]
    predicted_recovery_s: float | None = None
    act: bool = True
    from_mix: Mapping[str, int] = field(default_factory=dict)
    mix: Mapping[str, int] = field(default_factory=dict)

    @property
    def rescales(self) -> bool:
        """Whether other workers are wanted than run."""
        return self.scale_out != self.from_scale_out or (bool(self.mix) and dict(self.mix) != dict(self.from_mix))

    @property
    def decision_id(self) -> str:
        """Hash of job, window end, model versions and workers: the idempotency key."""
        parts = [self.job, self.window_end_s, dict(self.versions), self.scale_out, self.act]
        if self.mix:
            parts.append(dict(self.mix))
        if self.reason == Reason.ROLLBACK:  # may ask for what was held a moment ago
            parts.append(Reason.ROLLBACK)
        return hashlib.sha256(to_text(parts).encode()).hexdigest()[:32]

    @property
    def first_state(self) -> State:
        """The state in which the ledger takes it."""
        return State.ADVISED if not self.act else State.INTENT if self.rescales else State.HELD


_ASK = quick(decisions.update().where(_ID).values(asked_token=sa.bindparam("token")))
_INTEND = decisions.insert()
_RECORD = quick(keep_first(decisions, [*Intent.__dataclass_fields__, "account", "decision_id", "state", "attempts"]))
_SAME = ("from_scale_out", "scale_out", "from_mix", "mix", "policy", "reason", "versions", "act", "state")
_NEWEST = quick(
    sa.text(
        f"SELECT decision_id, made_s, {', '.join(_SAME)} FROM decisions WHERE job = :of_job"  # noqa: S608 - our own names
        " ORDER BY made_s DESC LIMIT 1"
    )
)
_FOLD = quick(
    sa.text(
        "UPDATE decisions SET decision_id = :decision_id, window_end_s = :window_end_s, sentence = :sentence,"
        " valid_until_s = :valid_until_s, predicted_recovery_s = :predicted_recovery_s, account = :account,"
        " last_s = :made_s, ticks = COALESCE(ticks, 1) + 1 WHERE decision_id = :folded"
        " AND (decision_id = :decision_id AND COALESCE(last_s, made_s) < :made_s"  # ticks within one scrape interval
        " OR NOT EXISTS (SELECT 1 FROM decisions AS known WHERE known.decision_id = :decision_id))"
    )
)


@dataclass(frozen=True)
class Entry:
    """A decision in the ledger and what became of it; times are epoch seconds.

    ``next_attempt_s`` is when a failed application may be tried again, ``closed_s`` when it reached a final state.
    ``ticks`` is how many ticks in a row decided the same, from ``intent.made_s`` to ``last_s``; what the intent says
    else is of the last of them.
    """

    decision_id: str
    intent: Intent
    state: State
    attempts: int = 0
    next_attempt_s: float | None = None
    applied_s: float | None = None
    closed_s: float | None = None
    error: str | None = None
    observed_recovery_s: float | None = None
    outcome: Mapping[str, Any] | None = None
    ticks: int = 1
    last_s: float | None = None

    @property
    def seen_s(self) -> float:
        """When the newest tick decided so, epoch seconds."""
        return self.intent.made_s if self.last_s is None else self.last_s

    @property
    def took_s(self) -> float:
        """Seconds from being accepted to being closed; 0 where one of the two is not known."""
        return 0.0 if self.applied_s is None or self.closed_s is None else max(self.closed_s - self.applied_s, 0.0)

    def is_due(self, now_s: float) -> bool:
        """Whether it may be tried now. A pause longer than any was begun before the clock was set back: it is over."""
        return self.next_attempt_s is None or not now_s < self.next_attempt_s <= now_s + LASTING_LIMIT_S


@dataclass(frozen=True)
class Desired:
    """The scale-out that is wanted of a job since ``since_s``, and the decision that wants it."""

    job: str
    scale_out: int
    since_s: float
    decision: Entry

    @property
    def mix(self) -> Mapping[str, int]:
        """Size -> workers; empty where they are equal."""
        return self.decision.intent.mix


@dataclass(frozen=True)
class Ledger:
    """Reads and writes decisions. Each method is one transaction; writers raise ``StaleLease`` under a lost lease."""

    transactions: Transactions

    def record(self, intent: Intent) -> bool:
        """Store a decision and, when it changes the scale-out, make it the desired one; ``False`` if already stored.

        Decisions of the job that are still open are superseded by one that changes the scale-out. A hold, or advice, as
        the tick before had it is counted in that one's row. All or nothing.
        """
        try:
            return self._record(intent)
        except IntegrityError:  # another writer stored this decision, or the job's first, at the same time
            return self._record(intent)

    def desired(self, job: str) -> Desired | None:
        """Return what is wanted of a job; ``None`` before the first decision that changed something."""
        with self.transactions.reading() as connection:
            row = connection.execute(_DESIRED, {"of_job": job}).one_or_none()
        if row is None:
            return None
        wanted, since_s, *decision = row
        return Desired(job, wanted, since_s, _entry(tuple(decision)))

    def withdraw(self, job: str, now_s: float, why: str) -> bool:
        """Supersede what is still open of a job and want nothing more; ``False`` when nothing was wanted."""
        with self.transactions.writing() as connection:
            wanted = connection.execute(desired_scales.delete().where(desired_scales.c.job == job)).rowcount == 1
            _supersede(connection, job, now_s, why)
            return wanted

    def asked(self, decision_id: str, token: int) -> None:
        """Note, before a request leaves, under which lease it does; whoever has its answer notes that."""
        with self.transactions.writing() as connection:
            connection.execute(_ASK, {"of_decision": decision_id, "token": token})

    def unanswered(self, job: str, since_s: float) -> list[Entry]:
        """Return decisions closed since ``since_s`` whose request was sent and never answered, newest first.

        Its sender was overtaken: the request may have been lost, or may reach the target at any time.
        """
        query = sa.select(decisions).where(decisions.c.job == job, decisions.c.asked_token.is_not(None))
        query = query.where(decisions.c.state.not_in(OPEN), decisions.c.closed_s >= since_s)
        with self.transactions.reading() as connection:
            return [_entry(tuple(row)) for row in connection.execute(query.order_by(decisions.c.made_s.desc()))]

    def heard_of(self, decision_id: str) -> None:
        """Note that a request that was never answered has shown its effect, and will show no other."""
        with self.transactions.writing() as connection:
            connection.execute(_ASK, {"of_decision": decision_id, "token": None})

    def applied(self, decision_id: str, now_s: float) -> bool:
        """Note that the target accepted; ``False`` when the decision was no longer an intent."""
        values = {"state": State.APPLIED, "applied_s": now_s, "attempts": decisions.c.attempts + 1}
        heard = {"next_attempt_s": None, "error": None, "asked_token": None}
        with self.transactions.writing() as connection:
            return _moved(connection, decision_id, (State.INTENT,), {**values, **heard})

    def confirmed(self, decision_id: str, now_s: float) -> bool:
        """Note that the scale-out was seen running; ``False`` when the decision was not open.

        Also from an intent: the controller may have died after the target accepted and before it could note so.
        """
        applied_s = sa.func.coalesce(decisions.c.applied_s, now_s)
        values = {"state": State.CONFIRMED, "closed_s": now_s, "applied_s": applied_s, "next_attempt_s": None}
        with self.transactions.writing() as connection:
            entry = _read(connection, decision_id)
            if entry is not None:
                refusals.forget(connection, entry.intent.job)
            return _moved(connection, decision_id, OPEN, {**values, "asked_token": None})

    def failed(
        self, decision_id: str, now_s: float, error: str, *, retriable: bool, fault: Fault | None = None
    ) -> Entry | None:
        """Note a failed application: it waits with a doubling pause, or is given up when not ``retriable``.

        An applied decision that the target lost becomes an intent again. Returns the entry as it now stands.

        ``fault``: counted for the job, so that the decisions that follow wait, too. Left out where only this one is at
        fault.
        """
        with self.transactions.writing() as connection:
            entry = _read(connection, decision_id)
            if entry is None or entry.state not in OPEN:
                return entry
            attempts = entry.attempts + 1
            values: dict[str, Any] = {"attempts": attempts, "error": error, "asked_token": None}
            pause_s = backoff_s(attempts)
            if fault is not None:
                pause_s = refusals.count(connection, entry.intent.job, fault, now_s, error)
            if retriable:
                values |= {"state": State.INTENT, "next_attempt_s": now_s + pause_s}
            else:
                values |= {"state": State.FAILED, "next_attempt_s": None, "closed_s": now_s}
            connection.execute(decisions.update().where(decisions.c.decision_id == decision_id).values(**values))
            return _read(connection, decision_id)

    def set_outcome(
        self, decision_id: str, outcome: Mapping[str, Any], observed_recovery_s: float | None = None
    ) -> bool:
        """Keep how a decision turned out, over what was kept before; ``False`` when there is no such decision."""
        with self.transactions.writing() as connection:
            entry = _read(connection, decision_id)
            if entry is None:
                return False
            values: dict[str, Any] = {"outcome": to_text({**(entry.outcome or {}), **outcome})}
            if observed_recovery_s is not None:
                values["observed_recovery_s"] = observed_recovery_s
            connection.execute(decisions.update().where(decisions.c.decision_id == decision_id).values(**values))
            return True

    def decision(self, decision_id: str) -> Entry | None:
        """Return one decision."""
        with self.transactions.reading() as connection:
            return _read(connection, decision_id)

    def decisions(
        self,
        job: str | None = None,
        *,
        since_s: float | None = None,
        until_s: float | None = None,
        states: Sequence[State] = (),
        rescales: bool = False,
        limit: int = 100,
    ) -> list[Entry]:
        """Return decisions, newest first, made within ``[since_s, until_s]``; of every job when ``job`` is ``None``.

        ``rescales``: only those for other workers than ran (:attr:`Intent.rescales`).
        """
        query = sa.select(decisions).order_by(decisions.c.made_s.desc(), decisions.c.decision_id).limit(limit)
        if job is not None:
            query = query.where(decisions.c.job == job)
        if since_s is not None:
            query = query.where(decisions.c.made_s >= since_s)
        if until_s is not None:
            query = query.where(decisions.c.made_s <= until_s)
        if states:
            query = query.where(decisions.c.state.in_(states))
        if rescales:
            other_sizes = (decisions.c.mix != to_text({})) & (decisions.c.mix != decisions.c.from_mix)
            query = query.where((decisions.c.scale_out != decisions.c.from_scale_out) | other_sizes)
        with self.transactions.reading() as connection:
            return [_entry(tuple(row)) for row in connection.execute(query)]

    def rescales(self, job: str, since_s: float, until_s: float = math.inf) -> tuple[float | None, int]:
        """Return when a decision was last applied until ``until_s``, and how many since ``since_s``, for the budget."""
        asked = {"of_job": job, "from_s": since_s, "to_s": until_s}
        with self.transactions.reading() as connection:
            ((last_s, count),) = connection.execute(_RESCALES, asked).all()
        return last_s, int(count)

    def prune(self, before_s: float, quiet_before_s: float) -> int:
        """Forget closed decisions made before ``before_s``, and ``held`` or ``advised`` ones before ``quiet_before_s``.

        What is open or still desired stays, and of each job that has a status its newest judgement.
        Returns how many went.
        """
        newer = decisions.alias("newer")
        outdated = sa.select(newer.c.decision_id).where(
            newer.c.job == decisions.c.job, newer.c.made_s > decisions.c.made_s, newer.c.reason.not_in(UNJUDGED)
        )
        alive = decisions.c.job.in_(sa.select(statuses.c.job))
        judged = sa.and_(alive, decisions.c.reason.not_in(UNJUDGED), sa.not_(outdated.exists()))
        quiet = sa.and_(decisions.c.state.in_((State.HELD, State.ADVISED)), decisions.c.made_s < quiet_before_s)
        old = sa.and_(decisions.c.state.not_in(OPEN), decisions.c.made_s < before_s)
        wanted = decisions.c.decision_id.in_(sa.select(desired_scales.c.decision_id))
        with self.transactions.writing() as connection:
            return connection.execute(
                decisions.delete().where(sa.or_(quiet, old), sa.not_(wanted), sa.not_(judged))
            ).rowcount

    def _record(self, intent: Intent) -> bool:
        row = _to_row(intent)
        if intent.first_state is not State.INTENT:  # by far the most, and nothing else changes
            with self.transactions.writing() as connection:
                newest = connection.execute(_NEWEST, {"of_job": intent.job}).one_or_none()
                if newest is not None and _goes_on(newest, row):
                    return connection.execute(_FOLD, {**row, "folded": newest[0]}).rowcount == 1
                return connection.execute(_RECORD, row).rowcount == 1
        with self.transactions.writing() as connection:
            # Writers of one job wait for each other here, and so supersede one another.
            connection.execute(_QUEUE, {"of_job": intent.job})
            if connection.execute(_KNOWN, {"of_decision": row["decision_id"]}).scalar() is not None:
                return False
            _desire(connection, intent)
            _supersede(connection, intent.job, intent.made_s, f"by decision {intent.decision_id}")
            wait = refusals.pause(connection, intent.job, intent.made_s)
            if wait is not None:  # the target does not get well by another decision
                row["next_attempt_s"], row["error"] = wait
            connection.execute(_INTEND, row)  # raises where another writer was quicker: all of it is undone then
            return True


def _moved(connection: sa.Connection, decision_id: str, states: Sequence[State], values: Mapping[str, Any]) -> bool:
    moving = decisions.update().where(decisions.c.decision_id == decision_id, decisions.c.state.in_(states))
    return connection.execute(moving.values(**values)).rowcount == 1


def _goes_on(newest: Sequence[Any], row: Mapping[str, Any]) -> bool:
    """Whether a decision is but that of the tick before once more."""
    _, since_s, *known = newest
    return 0.0 <= row["made_s"] - since_s < FOLD_S and known == [row[name] for name in _SAME]


def _read(connection: sa.Connection, decision_id: str) -> Entry | None:
    row = connection.execute(_DECISION, {"of_decision": decision_id}).one_or_none()
    return None if row is None else _entry(tuple(row))


def _supersede(connection: sa.Connection, job: str, now_s: float, why: str) -> None:
    still_open = (decisions.c.job == job, decisions.c.state.in_(OPEN))
    values = {"state": State.SUPERSEDED, "closed_s": now_s, "next_attempt_s": None, "error": f"superseded {why}"}
    connection.execute(decisions.update().where(*still_open).values(**values))


def _desire(connection: sa.Connection, intent: Intent) -> None:
    values = {"scale_out": intent.scale_out, "decision_id": intent.decision_id, "since_s": intent.made_s}
    known = connection.execute(desired_scales.update().where(desired_scales.c.job == intent.job).values(**values))
    if known.rowcount == 0:
        connection.execute(desired_scales.insert().values(job=intent.job, **values))


def _to_row(intent: Intent) -> dict[str, Any]:
    row = {name: getattr(intent, name) for name in intent.__dataclass_fields__}
    documents: dict[str, Any] = {name: to_text(dict(getattr(intent, name))) for name in _DOCUMENTS}
    documents |= {"explanation": "", "account": packed(to_text(dict(intent.explanation)), ACCOUNT)}
    row["sentence"] = intent.sentence and storable(intent.sentence)
    return {**row, **documents, "decision_id": intent.decision_id, "state": intent.first_state, "attempts": 0}


def account_of(content: bytes | None, text: str) -> Any:
    """Return the account of a decision as it is stored, packed or by an older perdix as text."""
    return from_text((text if content is None else unpacked(bytes(content))) or "{}")


@lru_cache(maxsize=256)
def _entry(row: tuple[Any, ...]) -> Entry:
    """Return the entry of a row of decisions; the one that is desired is read at every tick, and seldom changes."""
    found = dict(zip(_COLUMNS, row, strict=True))
    values = {name: found[name] for name in Intent.__dataclass_fields__}
    documents = {name: from_text(found[name] or "{}") for name in _DOCUMENTS}
    documents["explanation"] = account_of(found["account"], found["explanation"])
    rest = ("last_s", "attempts", "next_attempt_s", "applied_s", "closed_s", "error", "observed_recovery_s")
    return Entry(
        decision_id=found["decision_id"],
        intent=Intent(**{**values, **documents, "act": bool(found["act"])}),
        state=State(found["state"]),
        outcome=None if found["outcome"] is None else from_text(found["outcome"]),
        ticks=found["ticks"] or 1,
        **{name: found[name] for name in rest},
    )

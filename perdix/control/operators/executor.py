"""What a policy decided for the operators of a job, carried out: under a lease, on record, within the day's rescales.

Of several loops on one job one acts. What it decides stands in the ledger before Flink is asked, under the job's name
and ``/operators``: the control loop, which sizes a job as a whole, never takes it for its own.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Protocol

from sqlalchemy.exc import SQLAlchemyError

from perdix.control.clock import HostClock, moment
from perdix.control.lease import PREFIX, Lease, StaleLease, acquire, holder_of, release, renew
from perdix.control.operators.look import Look
from perdix.control.operators.naming import on_record
from perdix.control.pausing import why_paused
from perdix.control.state.journal import JobStatus, Status
from perdix.control.state.ledger import OPEN, Intent
from perdix.control.state.refusals import backoff_s
from perdix.control.state.schema import cause_of
from perdix.control.state.store import DAY_S, StateStore
from perdix.control.tenure import Tenure
from perdix.policies.contract import Reason
from perdix.policies.dataflow.contract import DataflowDecision
from perdix.settings.plain_error import presentable
from perdix.settings.stream_job import StreamJob
from perdix.targets.contract import Fault, Guard, Running, TargetError, unguarded

LEAST_LEASE_S = 60.0
MISSED_LOOKS = 3.0  # intervals that a lease outlasts
VALID_S = 900.0


class ScalesOperators(Protocol):
    """Gives operators their instances: :class:`perdix.targets.flink.target.FlinkTarget`."""

    def scale_operators(
        self, parallelism: Mapping[str, int], idempotency_key: str, guard: Guard = unguarded
    ) -> Running:
        """Ask for the parallelism of single operators; raises ``TargetError``, and what the guard raises."""
        ...


@dataclass
class _Refusals:
    """What Flink has refused since it last accepted, and until when it is not asked again (epoch seconds)."""

    counted: Counter[Fault] = field(default_factory=Counter)
    until_s: float = -math.inf
    last: str = ""

    def add(self, error: TargetError, at_s: float) -> None:
        self.counted[error.fault] += 1
        self.last = str(error)
        self.until_s = max(self.until_s, at_s + backoff_s(self.counted[error.fault], error.fault))

    def waits(self, at_s: float) -> str | None:
        return None if at_s >= self.until_s else f"asked again in {self.until_s - at_s:.0f} s: {self.last}"

    def forget(self) -> None:
        self.counted.clear()


@dataclass
class Executor:
    """Carries out what one loop decides for one job.

    Parameters
    ----------
    holder
        Name of the loop, under which it holds the lease.
    interval_s
        Between two looks: the lease is held for longer than three.
    """

    target: ScalesOperators
    job: StreamJob
    store: StateStore
    clock: HostClock
    holder: str
    interval_s: float
    _lease: Lease | None = None
    _refusals: _Refusals = field(default_factory=_Refusals)

    def carry_out(self, look: Look) -> Look:
        """Put a look on record and ask Flink for what should change, unless something speaks against it."""
        carried = look
        try:
            why = self._observing()
            if why is not None:
                return replace(look, problem=why)
            self._seen(look)
            carried = self._carried_out(look)
            self._stands(carried)
        except StaleLease as error:
            self._lease = None
            return replace(carried, problem=f"another loop took over: {error}")
        except Exception as error:  # a full disk, a database that is gone: what cannot be kept is not asked for
            return replace(carried, problem=presentable(f"what was decided cannot be kept: {cause_of(error)}"))
        return carried

    def close(self) -> None:
        """Give the lease back; where that cannot be, it ends by itself."""
        if self._lease is not None:
            with suppress(SQLAlchemyError):
                release(self.store, self._lease)

    @property
    def _name(self) -> str:
        return on_record(self.job.name)

    def _observing(self) -> str | None:
        """Hold the lease from now on; return who else does where that cannot be."""
        at, ttl_s = moment(self.clock), max(MISSED_LOOKS * self.interval_s, LEAST_LEASE_S)
        if self._lease is not None:
            try:
                self._lease = renew(self.store, self._lease, at, ttl_s)
                return None
            except StaleLease:
                self._lease = None
        self._lease = acquire(self.store, PREFIX + self._name, self.holder, at, ttl_s)
        if self._lease is not None:
            return None
        held = holder_of(self.store, PREFIX + self._name, at)
        return f"observing only: the lease is held by {'another loop' if held is None else held.holder}"

    def _seen(self, look: Look) -> None:
        """Note what became of the last decision, where what runs tells."""
        if look.at_s is None or look.situation is None or self._lease is None:
            return
        ledger = self.store.under(self._lease).ledger
        wanted = ledger.desired(self._name)
        if wanted is None or wanted.decision.state not in OPEN:
            return
        runs = look.situation.parallelism
        if all(runs.get(name) == instances for name, instances in wanted.mix.items()):
            ledger.confirmed(wanted.decision.decision_id, look.at_s)
        else:
            told = ", ".join(f"{name} at {runs.get(name)}" for name in wanted.mix if runs.get(name) != wanted.mix[name])
            ledger.failed(wanted.decision.decision_id, look.at_s, f"Flink runs {told}", retriable=False)

    def _carried_out(self, look: Look) -> Look:
        if look.at_s is None or look.decision is None or look.situation is None or self._lease is None:
            return look
        why = self._held_back(look.at_s) if look.changes else None
        if why is not None:
            return replace(look, problem=why)
        tenure = Tenure(self.store, self._lease, self.clock)
        intent = self._intent(look.at_s, look.situation.parallelism, look.decision, look.changes)
        tenure.fenced.ledger.record(intent)
        if not look.changes:
            return look
        accepted = False
        try:
            with tenure.asking(intent.decision_id) as guard:
                self.target.scale_operators(look.changes, intent.decision_id, guard)
                accepted = True
            tenure.fenced.ledger.applied(intent.decision_id, look.at_s)
        except TargetError as error:
            self._refusals.add(error, look.at_s)
            tenure.fenced.ledger.failed(intent.decision_id, look.at_s, str(error), retriable=False)
            return replace(look, problem=str(error))
        except Exception as error:
            if not accepted:
                raise
            why = presentable(f"Flink was asked, and that cannot be noted: {cause_of(error)}")
            return replace(look, done=True, problem=why)
        self._refusals.forget()
        return replace(look, done=True)

    def _held_back(self, at_s: float) -> str | None:
        """Return why nothing may be changed now, in words; ``None``: nothing against it."""
        paused = why_paused(self.job, self.store.journal.pauses(at_s).get(self.job.name), at_s)
        if paused is not None:
            return f"paused {paused}"
        most = self.job.objectives.rescales_per_day
        _, made = self.store.ledger.rescales(self._name, at_s - DAY_S)
        if made >= most:
            return f"objectives.rescales_per_day is {most}, and as many were made within a day"
        return self._refusals.waits(at_s)

    def _intent(
        self, at_s: float, runs: Mapping[str, int], decision: DataflowDecision, changes: Mapping[str, int]
    ) -> Intent:
        wanted = {**runs, **changes}
        return Intent(
            job=self._name,
            window_end_s=at_s,
            made_s=at_s,
            from_scale_out=max(runs.values()),
            scale_out=max(wanted.values()),
            policy=decision.policy,
            reason=decision.reason,
            sentence=decision.sentence,
            valid_until_s=at_s + VALID_S,
            versions={},
            explanation={},
            from_mix=dict(runs),
            mix=wanted,
        )

    def _stands(self, look: Look) -> None:
        """Keep how the operators stand, for ``perdix metrics`` and dashboards."""
        now_s = self.clock.now_s()
        told = " ".join(filter(None, (None if look.decision is None else look.decision.sentence, look.problem)))
        status = Status.ACTING
        if look.at_s is None:
            status = Status.UNREACHABLE
        elif look.decision is None or look.decision.reason is Reason.HOLD_BLIND:
            status = Status.BLIND
        elif look.problem is not None and look.problem.startswith("paused"):
            status = Status.PAUSED
        self.store.journal.stands(JobStatus(self._name, status, now_s, told))

"""What a policy decided for the operators of a job, carried out: under a lease, on record, within the day's rescales.

Of several loops on one job one acts. What it decides stands in the ledger before Flink is asked, under the job's name
and ``/operators``: the control loop, which sizes a job as a whole, never takes it for its own. What becomes of it is
reconciled as there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from sqlalchemy.exc import SQLAlchemyError

from perdix.control.clock import HostClock, moment
from perdix.control.decide import Avoided
from perdix.control.lease import PREFIX, Lease, StaleLease, acquire, holder_of, release, renew
from perdix.control.operators.at_a_look import AtALook, ScalesOperators, in_words
from perdix.control.operators.look import Look
from perdix.control.operators.naming import on_record
from perdix.control.pausing import why_paused
from perdix.control.plan import PERDIX
from perdix.control.reconcile import Event, Progress, Reconciler, close_undone
from perdix.control.state.journal import JobStatus, Status
from perdix.control.state.ledger import Intent, Ledger, State
from perdix.control.state.schema import cause_of
from perdix.control.state.store import DAY_S, StateStore
from perdix.control.tenure import Tenure
from perdix.control.tick import VALID_S
from perdix.policies.contract import Reason
from perdix.settings.plain_error import presentable
from perdix.settings.stream_job import StreamJob
from perdix.targets.contract import Running

LEAST_LEASE_S = 60.0
MISSED_LOOKS = 3.0  # intervals that a lease outlasts
QUIET = (Event.NOTHING, Event.CONFIRMED, Event.APPLIED)  # events that are no problem


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
    _avoided: tuple[Avoided, ...] = ()

    def carry_out(self, look: Look) -> Look:
        """Put a look on record and ask Flink for what should change, unless something speaks against it."""
        carried = look
        try:
            why = self._observing()
            if why is not None:
                return replace(look, problem=why)
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

    def _carried_out(self, look: Look) -> Look:
        if look.at_s is None or look.running is None or self._lease is None:
            return look
        tenure = Tenure(self.store, self._lease, self.clock)
        paused = why_paused(self.job, self.store.journal.pauses(look.at_s).get(self.job.name), look.at_s)
        progress = self._reviewed(look.at_s, look.running, tenure, paused=paused is not None)
        why = None if paused is None else f"paused {paused}"
        intent, held_back = self._wanted(look, progress, tenure.fenced.ledger)
        if intent is not None and (why is None or not intent.rescales):
            with tenure.fenced.together() as once:
                close_undone(once.ledger, self._name, look.at_s, progress)
                once.ledger.record(intent)
        why = why or held_back or (None if progress.event in QUIET else progress.sentence)
        if paused is not None:
            return replace(look, problem=look.problem or (why if look.changes else None))
        return self._asked(replace(look, problem=look.problem or why), tenure)

    def _asked(self, look: Look, tenure: Tenure) -> Look:
        """Ask Flink for what is wanted, if an attempt is due."""
        desired = tenure.fenced.ledger.desired(self._name)
        if desired is None or look.at_s is None or look.running is None:
            return look
        target = AtALook.of(look.running, desired.mix, self.target)
        try:
            carried = self._reconciler(look.at_s, target, tenure).carry_out(target.running, tenure)
        except StaleLease:
            raise
        except Exception as error:
            if not target.accepted:
                raise
            why = presentable(f"Flink was asked, and that cannot be noted: {cause_of(error)}")
            return replace(look, done=True, problem=why)
        self._keep_off(carried)
        if carried.event is Event.APPLIED and desired.decision.applied_s is not None:
            return replace(look, problem=f"{carried.sentence} again")  # no other decision that a policy may count
        known = carried.event in QUIET or (carried.event is Event.WAITING and look.problem is not None)
        problem = look.problem if known else carried.sentence
        return replace(look, done=carried.event is Event.APPLIED, problem=problem)

    def _reviewed(self, at_s: float, running: Running, tenure: Tenure, *, paused: bool) -> Progress:
        """Note what became of the last decision, where what runs tells."""
        ledger = tenure.fenced.ledger
        desired = ledger.desired(self._name)
        names: Iterable[str] = running.mix if desired is None else desired.mix
        if gone := sorted(set(names) - set(running.requested_mix)):
            ledger.withdraw(self._name, at_s, f"the job has no operator '{gone[0]}' any more")
            names = running.mix
        target = AtALook.of(running, names, self.target)
        progress = self._reconciler(at_s, target, tenure).review(act=True, paused=paused)
        self._keep_off(progress)
        return progress

    def _reconciler(self, at_s: float, target: AtALook, tenure: Tenure) -> Reconciler:
        return Reconciler(tenure.fenced, target, self._name, at_s, in_words)

    def _keep_off(self, progress: Progress) -> None:
        """Remember what turned out badly, for as long as the control loop does."""
        if progress.avoided is not None:
            self._avoided = (*self._avoided, progress.avoided)

    def _wanted(self, look: Look, progress: Progress, ledger: Ledger) -> tuple[Intent | None, str | None]:
        """Return what is to be put on record, and why a change is not."""
        assert look.at_s is not None
        if progress.undone is not None:
            return self._taken_back(look.at_s, progress), None
        if look.decision is None or look.situation is None:
            return None, None
        runs, under_way = look.situation.parallelism, progress.open
        if not look.changes:
            if look.decided and under_way is not None and under_way.state is State.INTENT:
                ledger.withdraw(self._name, look.at_s, "what runs is enough by now")
            return self._intent(look, runs, runs), None
        if under_way is not None and dict(under_way.intent.mix) == dict(look.changes):
            return None, None  # recorded anew, it would have another key and another pause between attempts
        why = self._held_back(look.at_s, look.changes)
        if why is not None:
            return None, why
        return self._intent(look, {name: runs[name] for name in look.changes}, look.changes), None

    def _held_back(self, at_s: float, changes: Mapping[str, int]) -> str | None:
        """Return why nothing may be changed now, in words; ``None``: nothing against it."""
        barred = (one for one in self._avoided if one.bars(max(changes.values()), at_s, changes))
        if (found := next(barred, None)) is not None:
            return f"{found.why}; not tried again for a while"
        most = self.job.objectives.rescales_per_day
        _, made = self.store.ledger.rescales(self._name, at_s - DAY_S)
        if made >= most:
            return f"objectives.rescales_per_day is {most}, and as many were made within a day"
        return None

    def _intent(self, look: Look, before: Mapping[str, int], wanted: Mapping[str, int]) -> Intent:
        assert look.at_s is not None
        assert look.decision is not None
        decision = look.decision
        return self._on_record(look.at_s, before, wanted, (decision.policy, decision.reason, decision.sentence))

    def _taken_back(self, at_s: float, progress: Progress) -> Intent:
        assert progress.undone is not None
        undone = progress.undone.intent
        sentence = f"Rolled back to {in_words(0, undone.from_mix)}: {progress.sentence}."
        return self._on_record(at_s, undone.mix, undone.from_mix, (PERDIX, Reason.ROLLBACK, sentence))

    def _on_record(
        self, at_s: float, before: Mapping[str, int], wanted: Mapping[str, int], why: tuple[str, Reason, str]
    ) -> Intent:
        policy, reason, sentence = why
        return Intent(
            job=self._name,
            window_end_s=at_s,
            made_s=at_s,
            from_scale_out=max(before.values()),
            scale_out=max(wanted.values()),
            policy=policy,
            reason=reason,
            sentence=sentence,
            valid_until_s=at_s + VALID_S,
            versions={},
            explanation={},
            from_mix=dict(before),
            mix=dict(wanted),
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

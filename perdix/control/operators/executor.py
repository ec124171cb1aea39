"""What a policy decided for the operators of a job, carried out: under a lease, on record, within the day's rescales.

Of several loops on one job one acts. What it decides stands in the ledger before Flink is asked, under the job's name
and ``/operators``: the control loop, which sizes a job as a whole, never takes it for its own. What becomes of it is
reconciled as there.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from perdix.control.clock import CLOCK_BACK_S, HostClock, moment
from perdix.control.decide import OVERDRAWN_S, Avoided
from perdix.control.job_memory import AVOIDED, read_avoided
from perdix.control.lease import PREFIX, Lease, StaleLease, acquire, holder_of, release, renew
from perdix.control.operators.at_a_look import AtALook, agrees, in_words
from perdix.control.operators.look import Look
from perdix.control.operators.naming import on_record
from perdix.control.pausing import why_paused
from perdix.control.plan import PERDIX
from perdix.control.reconcile import SETTLE_S, Event, Progress, Reconciler, close_undone, still_avoided
from perdix.control.state.journal import JobStatus, Status
from perdix.control.state.ledger import Desired, Entry, Intent, Ledger, State
from perdix.control.state.schema import StateError, cause_of, statuses
from perdix.control.state.store import StateStore
from perdix.control.tenure import Tenure
from perdix.control.tick import valid_s
from perdix.policies.contract import Reason
from perdix.policies.remembering import part_of
from perdix.settings.durations import DAY_S
from perdix.settings.plain_error import presentable
from perdix.settings.stream_job import StreamJob
from perdix.targets.contract import Running, ScalesOperators

LEAST_LEASE_S = 60.0
MISSED_LOOKS = 3.0  # intervals that a lease outlasts
NEWS = (Event.FORGOTTEN, Event.FELL_SHORT, Event.GIVEN_UP, Event.EXPIRED, Event.WITHDRAWN, Event.STRAY)


def _waits(entry: Entry | None) -> bool:
    """Whether Flink is still to be asked for a decision of a policy."""
    return entry is not None and entry.state is State.INTENT and entry.intent.reason != Reason.ROLLBACK


def _long_before(entry: Entry, began_s: float) -> bool:
    """Whether Flink accepted a decision so long before this loop began that what it does now has other reasons."""
    return entry.state is State.APPLIED and entry.applied_s is not None and entry.applied_s < began_s - SETTLE_S


def _is_part(changes: Mapping[str, int], runs: Mapping[str, int], mix: Mapping[str, int]) -> bool:
    """Whether changes are what is still to be done of a mix."""
    return set(changes) <= set(mix) and agrees({**runs, **changes}, mix)


@dataclass
class Executor:
    """Carries out what one loop decides for one job.

    Raises ``StateError`` where the store cannot hold the name of the job's operators.

    ``holder``: name of the loop, under which it holds the lease.
    ``interval_s``: between two looks: the lease is held for longer than three.
    """

    target: ScalesOperators
    job: StreamJob
    store: StateStore
    clock: HostClock
    holder: str
    interval_s: float
    _lease: Lease | None = None
    _unsettled_s: tuple[float, float] | None = None  # since when, and until when, this loop saw a rescale go on
    _began_s: float | None = None  # at the first look, by Flink's clock
    _paused: bool = False
    _to_remember: tuple[str, Mapping[str, Any]] = ("", {})  # of the newest decision on record
    _ran: dict[str, Any] = field(default_factory=dict)  # when the job could be read last
    _stood_s: float | None = None  # when that was kept last, epoch seconds

    def __post_init__(self) -> None:
        """Refuse a name that PostgreSQL would refuse at every look."""
        most = cast("sa.String", statuses.c.job.type).length or 0
        if not self.store.database.one_machine and len(self._name) > most:
            raise StateError(
                f"job '{self.job.name}': PostgreSQL keeps operators of jobs whose name has at most "
                f"{most - len(on_record(''))} letters; rename its file, or let PERDIX_STATE_URL name a SQLite file"
            )

    def carry_out(self, look: Look) -> Look:
        """Put a look on record and ask Flink for what should change, unless something speaks against it."""
        carried, cannot = look, "what was decided cannot be kept"  # and so is not asked for
        self._watch(look)
        try:
            why = self._observing()
            if why is not None:
                self._unsettled_s = None
                return replace(look, problem=why)
            carried = self._carried_out(look)
            cannot = "how the operators stand cannot be kept"
            self._stands(carried)
            cannot = "what is too old cannot be deleted"
            before_s, self._stood_s = self._stood_s, self.clock.now_s()
            self.store.prune_hourly(before_s, self._stood_s)
        except StaleLease as error:
            self._lease = None
            return replace(carried, problem=f"another loop took over: {error}")
        except Exception as error:  # a full disk, a database that is gone
            return replace(carried, problem=presentable(f"{cannot}: {cause_of(error)}"))
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

    def _watch(self, look: Look) -> None:
        """Note how long a rescale is under way; a job that cannot be read for a moment may still be at it."""
        now_s = self.clock.elapsed_s()
        if look.running is None:
            return
        since_s, last_s = self._unsettled_s or (now_s, now_s)
        if now_s - last_s > MISSED_LOOKS * self.interval_s:
            since_s = now_s
        self._unsettled_s = None if look.running.settled else (since_s, now_s)

    def _carried_out(self, look: Look) -> Look:
        self._paused = False
        if look.at_s is None or look.running is None or self._lease is None:
            return look
        tenure = Tenure(self.store, self._lease, self.clock)
        paused = why_paused(self.job, self.store.journal.pauses(look.at_s).get(self.job.name), look.at_s)
        self._paused = paused is not None
        progress = self._reviewed(look.at_s, look.running, tenure)
        intent, held_back = self._wanted(look, progress, tenure.fenced.ledger)
        if intent is not None and (paused is None or not intent.rescales):
            with tenure.fenced.together() as once:
                close_undone(once.ledger, self._name, look.at_s, progress)
                once.ledger.record(intent)
            if intent.rescales and look.decision is not None:
                self._to_remember = intent.decision_id, look.decision.memory
        news = progress.sentence if progress.event in NEWS else None
        news = intent.sentence if intent is not None and progress.undone is not None else news
        if paused is not None:
            return replace(look, problem=news or look.problem or (f"paused {paused}" if look.changes else None))
        return self._asked(replace(look, problem=news or look.problem or held_back), tenure)

    def _asked(self, look: Look, tenure: Tenure) -> Look:
        """Ask Flink for what is wanted, if an attempt is due."""
        desired = tenure.fenced.ledger.desired(self._name)
        if desired is None or look.at_s is None or look.running is None:
            return look
        target = AtALook.of(look.running, self.target, desired.mix)
        try:
            carried = self._reconciler(look.at_s, target, tenure).carry_out(target.running, tenure)
        except StaleLease:
            raise
        except Exception as error:
            if not target.accepted:
                raise
            why = presentable(f"Flink was asked, and that cannot be noted: {cause_of(error)}")
            return replace(self._accepted(look, desired.decision, why, accepted=True), problem=why)
        self._keep_off(carried, desired, tenure.fenced, look.at_s)
        if carried.event is Event.APPLIED:
            return self._accepted(look, desired.decision, carried.sentence, accepted=target.accepted)
        new = carried.event in {Event.REFUSED, Event.GIVEN_UP}
        new |= carried.event is Event.WAITING and look.problem is None
        return replace(look, problem=carried.sentence if new else look.problem)

    def _accepted(self, look: Look, entry: Entry, sentence: str, *, accepted: bool) -> Look:
        """Return the look at which Flink accepted a decision: what it decided, for the first time, or another.

        A decision that a former loop was refused is as good as this look's own where it wants the same.
        """
        first = entry.intent.reason != Reason.ROLLBACK and entry.applied_s is None
        same = look.decision is not None and look.decision.policy == entry.intent.policy
        runs = {} if look.situation is None else look.situation.parallelism
        if first and same and look.changes and _is_part(look.changes, runs, entry.intent.mix):
            return replace(look, done=True)
        decision_id, memory = self._to_remember
        again = " again" if accepted and entry.applied_s is not None else ""
        accepted_only_now = memory if first and entry.decision_id == decision_id else None
        return replace(look, problem=look.problem or f"{sentence}{again}", accepted=accepted_only_now)

    def _reviewed(self, at_s: float, running: Running, tenure: Tenure) -> Progress:
        """Note what became of the last decision, where what runs shows it.

        Only a rescale that this loop saw going on for so long never ends: another may have been accepted yesterday.
        """
        ledger = tenure.fenced.ledger
        desired = ledger.desired(self._name)
        if desired is not None and (gone := sorted(set(desired.mix) - set(running.requested_mix))):
            ledger.withdraw(self._name, at_s, f"the job has no operator '{gone[0]}' any more")
            desired = None
        if desired is not None and self._withdrawn_by_bounds(desired.decision, running):
            bounds = self.job.bounds
            ledger.withdraw(
                self._name, at_s, f"by the job's bounds, which are {bounds.minimum} to {bounds.maximum} now"
            )
            desired = None
        self._began_s = at_s if self._began_s is None else self._began_s
        if desired is not None and not running.settled and _long_before(desired.decision, self._began_s):
            ledger.withdraw(self._name, at_s, "nobody saw how it ended")
            desired = None
        target = AtALook.of(running, self.target, {} if desired is None else desired.mix)
        since_s, last_s = self._unsettled_s or (0.0, 0.0)
        long_enough = running.settled or last_s - since_s > SETTLE_S
        reconciler = self._reconciler(at_s, target, tenure)
        progress = reconciler.review(act=True, paused=self._paused or not long_enough)
        self._keep_off(progress, desired, tenure.fenced, at_s)
        return progress

    def _reconciler(self, at_s: float, target: AtALook, tenure: Tenure) -> Reconciler:
        return Reconciler(tenure.fenced, target, self._name, at_s, in_words)

    def _avoided(self, at_s: float) -> tuple[Avoided, ...]:
        """Return what turned out badly within the last hour, by whatever loop."""
        document = self.store.learned.recall(self._name, AVOIDED)[AVOIDED.name].document
        return still_avoided(part_of(document, read_avoided) or (), at_s)

    def _keep_off(self, progress: Progress, desired: Desired | None, store: StateStore, at_s: float) -> None:
        """Keep what turned out badly; of slots that were missing, for which operators."""
        if progress.avoided is not None and desired is not None:
            known = (*self._avoided(at_s), replace(progress.avoided, mix=desired.mix))
            store.learned.learn(self._name, at_s, {AVOIDED: {"sizes": [size.to_state() for size in known]}})

    def _wanted(self, look: Look, progress: Progress, ledger: Ledger) -> tuple[Intent | None, str | None]:
        """Return what is to be put on record, and why a change is not."""
        assert look.at_s is not None
        if progress.undone is not None:
            return self._taken_back(look.at_s, progress, ledger), None
        waits = progress.open
        if waits is not None and look.running is not None and self._outside(waits, look.running):
            back = self._allowed(waits.intent.mix)
            sentence = f"Rolled back to {in_words(0, back)}: the bounds have changed since."
            return self._on_record(look.at_s, waits.intent.from_mix, back, (PERDIX, Reason.ROLLBACK, sentence)), None
        if look.decision is None or look.situation is None:
            return None, None
        if look.changes:
            return self._changed(look, look.situation.parallelism, progress.open, ledger)
        if look.decided and _waits(progress.open):
            ledger.withdraw(self._name, look.at_s, "nothing is to be changed by now")
        return self._intent(look, look.situation.parallelism, look.situation.parallelism), None

    def _allowed(self, mix: Mapping[str, int]) -> dict[str, int]:
        """Return instances as the job's bounds allow them now."""
        return {name: self.job.bounds.clamp(count) for name, count in mix.items()}

    def _outside(self, entry: Entry, running: Running) -> bool:
        """Whether Flink is still to be asked for more, or fewer, than the bounds allow by now."""
        mix = entry.intent.mix
        return entry.state is State.INTENT and self._allowed(mix) != mix and not agrees(running.requested_mix, mix)

    def _withdrawn_by_bounds(self, entry: Entry, running: Running) -> bool:
        """Whether what Flink is still to be asked for is wanted no more, by the bounds of by now.

        A rollback still is, as far as they allow it, unless Flink was asked for that already.
        """
        asked = agrees(running.requested_mix, self._allowed(entry.intent.mix))
        return self._outside(entry, running) and (_waits(entry) or asked)

    def _changed(
        self, look: Look, runs: Mapping[str, int], pending: Entry | None, ledger: Ledger
    ) -> tuple[Intent | None, str | None]:
        assert look.at_s is not None
        changes, asked = look.changes, {} if pending is None else pending.intent.mix
        if _is_part(changes, runs, asked):
            return None, None  # recorded anew, it would have another key and another pause between attempts
        why = self._held_back(look.at_s, runs, changes)
        if why is not None:
            if _waits(pending):
                ledger.withdraw(self._name, look.at_s, "something else is wanted by now")
            return None, why
        if pending is not None and _waits(pending) and not pending.is_due(look.at_s):
            return None, None  # a row for each wish until Flink may be asked again would help nobody
        return self._intent(look, {name: runs[name] for name in changes}, changes), None

    def _held_back(self, at_s: float, runs: Mapping[str, int], changes: Mapping[str, int]) -> str | None:
        """Return why nothing may be changed now, in words; ``None``: nothing against it.

        What is above the bounds goes whatever turned out badly; what is outside them, beyond the day's rescales once an
        hour. More than Flink can give is asked for as seldom where the bounds ask for it.
        """
        allowed = self._allowed({name: runs[name] for name in changes})
        above = any(count < runs[name] for name, count in allowed.items())
        for size in () if above else self._avoided(at_s):
            grown = (count for name, count in changes.items() if name in size.mix and count > runs[name])
            newly = agrees({**runs, **changes}, size.mix) and not agrees(runs, size.mix)
            if max(grown, default=0) >= size.scale_out if size.and_above else newly:
                return f"{size.why}; not tried again for a while"
        most = self.job.objectives.rescales_per_day
        last_s, made = self.store.ledger.rescales(self._name, at_s - DAY_S, at_s + CLOCK_BACK_S)
        overdrawn = not agrees(runs, allowed) and most > 0 and (last_s is None or at_s - last_s >= OVERDRAWN_S)
        if made >= most and not overdrawn:
            return f"objectives.rescales_per_day is {most}, and as many were made within a day"
        return None

    def _intent(self, look: Look, before: Mapping[str, int], wanted: Mapping[str, int]) -> Intent:
        assert look.at_s is not None
        assert look.decision is not None
        decision = look.decision
        return self._on_record(look.at_s, before, wanted, (decision.policy, decision.reason, decision.sentence))

    def _taken_back(self, at_s: float, progress: Progress, ledger: Ledger) -> Intent:
        """Return what was wanted before, of the operators that it named and of those that what is undone did."""
        assert progress.undone is not None
        undone, known = progress.undone.intent, ledger.decision(progress.undone.decision_id)
        before = dict((undone if known is None else known.intent).from_mix)
        since = ledger.decisions(self._name, since_s=undone.made_s, states=[State.CONFIRMED])
        for entry in reversed(since):
            before |= {name: count for name, count in entry.intent.mix.items() if name in before}
        before = self._allowed({**before, **undone.from_mix})
        sentence = f"Rolled back to {in_words(0, before)}: {progress.sentence}."
        return self._on_record(at_s, undone.mix, before, (PERDIX, Reason.ROLLBACK, sentence))

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
            valid_until_s=at_s + valid_s(self.interval_s),
            versions={},
            explanation={},
            from_mix=dict(before),
            mix=dict(wanted),
        )

    def _stands(self, look: Look) -> None:
        """Keep how the operators stand, for ``perdix metrics`` and dashboards."""
        sentence = " ".join(filter(None, (None if look.decision is None else look.decision.sentence, look.problem)))
        status = Status.ACTING
        if look.at_s is None:
            status = Status.UNREACHABLE
        elif not look.waits and (look.decision is None or look.decision.reason is Reason.HOLD_BLIND):
            status = Status.BLIND
        elif self._paused:
            status = Status.PAUSED
        if look.running is not None:
            self._ran = {"scale_out": look.running.scale_out, "mix": dict(look.running.mix)}
        self.store.journal.stands(JobStatus(self._name, status, self.clock.now_s(), sentence, self._ran))

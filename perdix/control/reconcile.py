"""Reconcile: compare what is wanted with what runs, and ask the target until they agree or it is given up.

Nothing here decides. What is wanted was stored before; the decision's id is the idempotency key; so any step may be
repeated after a crash, and every failure heals at a later tick.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from perdix.control.clock import CLOCK_BACK_S
from perdix.control.decide import Avoided
from perdix.control.state.ledger import OPEN, Desired, Entry, Ledger, State
from perdix.control.state.store import StateStore
from perdix.control.tenure import Tenure, asking
from perdix.policies.contract import Reason
from perdix.policies.wording import workers
from perdix.targets.contract import Fault, Running, Target, TargetError

ATTEMPTS = 6  # at a size that is not reached; with the ledger's doubling pause, about a quarter of an hour
SETTLE_S = 600.0  # that a rescale may take of a job whose restarts are not known to take longer
LONGEST_S = 3_600.0  # that any may take
PATIENCE = 1.5  # times the longest of the last restarts
LAST = 5  # restarts that say how long the next one may take
STRAY_S = 3_600.0  # for which a request that was never answered is waited for
AVOID_S = 3_600.0


def still_avoided(avoided: Iterable[Avoided], now_s: float) -> tuple[Avoided, ...]:
    """Return what is not tried again yet; what ends later than any bar was kept before the clock was set back."""
    return tuple(size for size in avoided if now_s < size.until_s <= now_s + AVOID_S + CLOCK_BACK_S)


class Event(StrEnum):
    """What happened between perdix and the target; stable names for dashboards."""

    NOTHING = "nothing"
    WAITING = "waiting"  # accepted and not yet seen running, or the next attempt is not due
    APPLIED = "applied"
    CONFIRMED = "confirmed"
    REFUSED = "refused"  # tried again later
    FELL_SHORT = "fell_short"  # tried again later
    FORGOTTEN = "forgotten"  # accepted, and the target does not show it: tried again later
    GIVEN_UP = "given_up"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"
    UNREACHABLE = "unreachable"
    STRAY = "stray"  # what a controller without a lease asked for has arrived; it is undone


@dataclass(frozen=True)
class Progress:
    """Where the wanted scale-out stands."""

    running: Running | None  # what the target says; ``None`` when it could not be read
    desired: Desired | None = None  # what is wanted, as of before this step; its decision may be closed
    event: Event = Event.NOTHING
    sentence: str = ""  # what happened, for the reader
    avoided: Avoided | None = None  # a size that has just turned out badly
    # A rescale that never came to an end, or that was asked for without a lease: it is closed together with the
    # decision that takes it back to what its intent says ran before, so that a crash in between forgets neither
    undone: Entry | None = None
    # How long the rescale took that has just been seen to end, from being accepted on; 0 where none has. Where that is
    # long, as far as it was seen not to have ended
    took_s: float = 0.0

    @property
    def open(self) -> Entry | None:
        """The decision that is still being carried out, as of before this step."""
        if self.desired is None or self.desired.decision.state not in OPEN:
            return None
        return self.desired.decision


def close_undone(ledger: Ledger, job: str, now_s: float, progress: Progress) -> None:
    """Close what is taken back; in one transaction with the decision that takes it back."""
    if progress.undone is not None:
        ledger.failed(progress.undone.decision_id, now_s, progress.sentence, retriable=False)
        ledger.heard_of(progress.undone.decision_id)
        ledger.withdraw(job, now_s, progress.sentence)


@dataclass(frozen=True)
class Reconciler:
    """Between the ledger and the target of one job, at one tick.

    ``store`` is fenced; so what a controller that was overtaken writes here is refused.

    ``in_words``: says a number of workers and their mix.
    ``asked_before``: workers that the target had been asked for when it was last read; ``None``: nobody knows.
    ``interval_s``: between two looks at the target, each of which has its row in the ledger; infinite: they have none.
    """

    store: StateStore
    target: Target
    job: str
    now_s: float
    in_words: Callable[[int, Mapping[str, int]], str] = workers
    asked_before: int | None = None
    interval_s: float = math.inf

    def review(self, *, act: bool, paused: bool = False) -> Progress:
        """Read what runs and note what became of the decision under way; asks nothing of the target.

        ``paused``: nothing may be undone now: a rescale that never ends is taken back when the pause does.
        """
        desired = self.store.ledger.desired(self.job)
        try:
            running = self.target.read()
        except TargetError as error:
            return Progress(None, desired, Event.UNREACHABLE, str(error))
        if desired is None:
            return Progress(running)
        if not act:
            self.store.ledger.withdraw(self.job, self.now_s, "by advice-only mode")
            return Progress(running, None, Event.WITHDRAWN, "advice-only mode: nothing is carried out")
        if desired.decision.state not in OPEN:
            return self._closed(running, desired, paused=paused)
        return self._open(running, desired, paused=paused)

    def carry_out(self, running: Running, tenure: Tenure | None = None) -> Progress:
        """Ask the target for what is wanted, if an attempt is due and, where there is a tenure, while it lasts."""
        desired = self.store.ledger.desired(self.job)
        if desired is None or desired.decision.state is not State.INTENT:
            return Progress(running, desired)
        entry = desired.decision
        asked = self.in_words(desired.scale_out, desired.mix)
        if running.is_asked_for(desired.scale_out, desired.mix) and not running.settled:
            # The target accepted, and perdix died before it could note so.
            self.store.ledger.applied(entry.decision_id, self.now_s)
            return Progress(running, desired, Event.APPLIED, f"{asked} had been asked for already")
        if self._late(entry) or not entry.is_due(self.now_s):
            return Progress(running, desired, Event.WAITING, f"next attempt later: {entry.error}")
        with asking(tenure, entry.decision_id) as guard:
            try:
                after = self.target.scale(desired.scale_out, entry.decision_id, desired.mix, guard)
            except TargetError as error:
                return self._refused(running, desired, error)
        self.store.ledger.applied(entry.decision_id, self.now_s)
        return Progress(after, desired, Event.APPLIED, f"asked for {asked}{f'; {after.note}' if after.note else ''}")

    def _open(self, running: Running, desired: Desired, *, paused: bool) -> Progress:
        # What runs may do so although more is asked for: slots are missing, and may come.
        if running.settled and self._shows(running, desired) and running.is_at(desired.scale_out, desired.mix):
            return self._confirmed(running, desired)
        next_step = self._applied if desired.decision.state is State.APPLIED else self._waiting
        return next_step(running, desired, paused=paused)

    @staticmethod
    def _shows(running: Running, desired: Desired) -> bool:
        """Whether the target may be at what is wanted: it says so, or never says what it was asked for."""
        return running.requested is None or running.is_asked_for(desired.scale_out, desired.mix)

    def _short_of(self, running: Running, desired: Desired) -> str:
        asked = self.in_words(desired.scale_out, desired.mix)
        return f"asked for {asked}, got {self.in_words(running.scale_out, running.mix)}"

    def _late(self, entry: Entry) -> bool:
        """Whether it was decided too long ago to be carried out; to take back a bad size never is."""
        return not self._is_rollback(entry) and self.now_s > entry.intent.valid_until_s

    @staticmethod
    def _is_rollback(entry: Entry) -> bool:
        return entry.intent.reason == Reason.ROLLBACK

    def _confirmed(self, running: Running, desired: Desired) -> Progress:
        self.store.ledger.confirmed(desired.decision.decision_id, self.now_s)
        confirmed = self.store.ledger.desired(self.job)
        run = "runs" if running.scale_out == 1 else "run"
        sentence = f"{self.in_words(running.scale_out, running.mix)} {run}"
        took_s = 0.0 if confirmed is None else self._took_s(confirmed.decision)
        return Progress(running, confirmed, Event.CONFIRMED, sentence, took_s=took_s)

    def _closed(self, running: Running, desired: Desired, *, paused: bool) -> Progress:
        """Somebody else may have asked for another size since."""
        others = running.requested is not None and not running.is_asked_for(desired.scale_out, desired.mix)
        if not others or desired.decision.state is not State.CONFIRMED:
            return Progress(running, desired)
        return self._overtaken(running, desired, paused=paused)

    def _others(self, running: Running, desired: Desired) -> bool:
        """Whether the target was asked for something that is neither wanted nor what was before.

        What fell short of what it was asked for still shows that, not what ran when less was decided.
        """
        if running.requested is None or running.requested == self.asked_before:
            return False
        intent = desired.decision.intent
        ours = ((desired.scale_out, desired.mix), (intent.from_scale_out, intent.from_mix))
        return not any(running.is_asked_for(*change) for change in ours)

    def _overtaken(self, running: Running, desired: Desired, *, paused: bool) -> Progress:
        """Respect what somebody else asked for, and undo what a controller asked for that had lost its lease."""
        asked = self.in_words(running.requested or 0, running.requested_mix)
        stray = self._stray(running, desired)
        if stray is not None and paused:
            return Progress(running, desired)
        if stray is not None:
            why = f"a controller that had lost its lease asked for {asked} after all"
            return Progress(running, None, Event.STRAY, why, undone=stray)
        why = f"by someone who asked the target for {asked}"
        self.store.ledger.withdraw(self.job, self.now_s, why)
        sentence = f"someone else asked for {asked}; perdix goes on from there"
        return Progress(running, None, Event.WITHDRAWN, sentence)

    def _stray(self, running: Running, desired: Desired) -> Entry | None:
        """Return the decision whose late request the target now follows, as one to be taken back to what is wanted."""
        for entry in self.store.ledger.unanswered(self.job, self.now_s - STRAY_S):
            if running.is_asked_for(entry.intent.scale_out, entry.intent.mix):
                before = replace(entry.intent, from_scale_out=desired.scale_out, from_mix=desired.mix)
                return replace(entry, intent=before)
        return None

    def _waiting(self, running: Running, desired: Desired, *, paused: bool) -> Progress:
        """An intent that was not accepted yet; what was decided too long ago is no longer carried out."""
        entry = desired.decision
        if self._others(running, desired):
            return self._overtaken(running, desired, paused=paused)
        under_way = running.is_asked_for(desired.scale_out, desired.mix) and not running.settled
        if under_way or not self._late(entry):
            return Progress(running, desired)
        if entry.applied_s is not None and running.settled and self._shows(running, desired):
            return self._given_up(running, desired, self._short_of(running, desired))  # each attempt takes long
        self.store.ledger.withdraw(self.job, self.now_s, f"by its expiry, after {entry.attempts} attempts")
        late_s = self.now_s - entry.intent.made_s
        sentence = f"decided {late_s:.0f} s ago, too long to be carried out now"
        return Progress(running, None, Event.EXPIRED, sentence)

    def _applied(self, running: Running, desired: Desired, *, paused: bool) -> Progress:
        entry = desired.decision
        if self._others(running, desired):
            return self._overtaken(running, desired, paused=paused)
        asked = self.in_words(desired.scale_out, desired.mix)
        # An answer of 2xx is not what runs: the target has forgotten, or reads of it are late.
        lost = not self._shows(running, desired)
        if lost or (not running.settled and (entry.applied_s or 0.0) > self.now_s + CLOCK_BACK_S):
            why = self._set_back(running, asked) if lost else "the clock was set back meanwhile"
            fault = Fault.PASSING if lost else None
            self.store.ledger.failed(entry.decision_id, self.now_s, why, retriable=True, fault=fault)
            return Progress(running, desired, Event.FORGOTTEN, f"{why}; asked again later")
        if not running.settled:
            waited_s = self._waited_s(entry)
            # What ran before is the last that is known to have run: there is nothing to take a rollback back to.
            if waited_s <= SETTLE_S or paused or self._is_rollback(entry) or waited_s <= self._patience_s():
                return Progress(running, desired, Event.WAITING, f"the rescale has taken {waited_s:.0f} s so far")
            why = f"the rescale to {asked} did not end within {waited_s:.0f} s"
            avoided = Avoided(desired.scale_out, self.now_s + AVOID_S, why, mix=desired.mix, waited_s=waited_s)
            return Progress(running, None, Event.GIVEN_UP, why, avoided, undone=entry)
        why = self._short_of(running, desired)
        if entry.attempts >= ATTEMPTS:
            return self._given_up(running, desired, why)
        self.store.ledger.failed(entry.decision_id, self.now_s, why, retriable=True)
        return Progress(running, desired, Event.FELL_SHORT, f"{why}; tried again later")

    def _set_back(self, running: Running, asked: str) -> str:
        now = self.in_words(running.requested or 0, running.requested_mix)
        others = "does something else set it, as an HPA, KEDA, GitOps or an operator?"
        return f"the target was asked for {asked}, and asks for {now} now; {others}"

    def _waited_s(self, entry: Entry) -> float:
        """Return for how long a rescale was seen to go on; while nobody looked it may have ended, and another begun."""
        since_s = entry.intent.made_s if entry.applied_s is None else entry.applied_s
        seen_s = self.now_s
        ledger, made_s = self.store.ledger, entry.intent.made_s
        # A hold that is only counted on has its row from before the request was accepted
        looks = ledger.decisions(self.job, since_s=made_s, until_s=self.now_s) if self.store.lasts else []
        for look in looks:
            if seen_s - look.seen_s > SETTLE_S + self.interval_s:
                return self.now_s - max(seen_s, since_s)
            seen_s = look.intent.made_s
        return self.now_s - since_s

    def _patience_s(self) -> float:
        """Return for how long a rescale may go on, by what the job's last restarts took."""
        last = self.store.ledger.decisions(self.job, states=(State.CONFIRMED,), limit=LAST)
        longest_s = max(map(self._took_s, last), default=0.0)
        return min(max(SETTLE_S, PATIENCE * longest_s), LONGEST_S)

    def _took_s(self, entry: Entry) -> float:
        """Return for how long a rescale was seen not to have ended, where that is long: nobody may have looked since.

        Each look at a target is a row of the ledger, of a store that lasts.
        """
        if entry.took_s <= SETTLE_S or not self.store.lasts:
            return entry.took_s
        until_s = (entry.closed_s or 0.0) - 1.0  # the look that saw it end may have its own row
        last = next(iter(self.store.ledger.decisions(self.job, until_s=until_s, limit=1)), entry)
        return min(max(last.seen_s - (entry.applied_s or 0.0), 0.0), entry.took_s)

    def _refused(self, running: Running, desired: Desired, error: TargetError) -> Progress:
        """Only a size that was refused is given up, and no rollback: what ran before could be had."""
        entry = desired.decision
        if error.fault is Fault.SIZE and not self._is_rollback(entry):
            asked = self.in_words(desired.scale_out, desired.mix)
            why = f"the target refused {asked}: {error}"
            return self._given_up(running, desired, why, fault=error.fault, most=error.most)
        self.store.ledger.failed(entry.decision_id, self.now_s, str(error), retriable=True, fault=error.fault)
        return Progress(running, desired, Event.REFUSED, f"{error}; tried again later")

    def _given_up(
        self, running: Running, desired: Desired, why: str, *, fault: Fault | None = None, most: int | None = None
    ) -> Progress:
        """Close the decision as failed, and remember the size, so that the next tick does not ask for it again.

        ``most``: workers that can be had, where the target says so.
        """
        with self.store.together() as once:
            once.ledger.failed(desired.decision.decision_id, self.now_s, why, retriable=False, fault=fault)
            once.ledger.withdraw(self.job, self.now_s, why)
        accepted = desired.decision.applied_s is not None and self._shows(running, desired)
        if running.settled and accepted and fault is None and running.scale_out < desired.scale_out:
            most = running.scale_out
        avoided = Avoided(desired.scale_out, self.now_s + AVOID_S, why, mix=desired.mix)
        if most is not None:
            avoided = Avoided(most + 1, avoided.until_s, why, and_above=True)
        return Progress(running, None, Event.GIVEN_UP, f"given up: {why}", avoided)

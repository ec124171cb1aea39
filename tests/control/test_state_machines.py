"""The store and the reconciler under any order of calls, against a model of what they promise."""

from collections import Counter
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from perdix.control.reconcile import Reconciler
from perdix.control.state.ledger import OPEN, Intent, State
from perdix.control.state.store import StateStore
from perdix.targets.contract import Running, TargetError

QUICK = settings(max_examples=12, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck))
START_S = 1_760_000_000.0
JOBS = ("orders", "clicks")
SIZES = st.integers(1, 8)
MET = Counter[str]()  # what the examples came to


def an_intent(job: str, at_s: float, before: int, size: int) -> Intent:
    """A decision as a tick makes it."""
    return Intent(job, at_s, at_s, before, size, "hpa", "scale_out", "so it is", at_s + 900.0, {}, {})


class LedgerMachine(RuleBasedStateMachine):
    """Of a job at most one decision is open, it is the one that is wanted, and what is closed stays closed."""

    @initialize()
    def opened(self) -> None:
        self.store = StateStore("sqlite://")
        self.now_s = START_S
        self.closed: dict[str, State] = {}
        self.applied_s: dict[str, float] = {}

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()

    @rule(job=st.sampled_from(JOBS), before=SIZES, size=SIZES)
    def decide(self, job: str, before: int, size: int) -> None:
        self.now_s += 60.0
        intent = an_intent(job, self.now_s, before, size)
        assert self.store.ledger.record(intent)
        assert not self.store.ledger.record(intent), "the same decision is stored once"
        desired = self.store.ledger.desired(job)
        if intent.rescales:
            assert desired is not None
            assert desired.decision.decision_id == intent.decision_id

    @rule(job=st.sampled_from(JOBS), act=st.sampled_from(("applied", "confirmed", "failed", "given up", "withdrawn")))
    def happens(self, job: str, act: str) -> None:
        self.now_s += 1.0
        desired = self.store.ledger.desired(job)
        if desired is None:
            return
        decision_id = desired.decision.decision_id
        if act in {"applied", "confirmed"}:
            if getattr(self.store.ledger, act)(decision_id, self.now_s):
                entry = self.store.ledger.decision(decision_id)
                assert entry is not None
                assert entry.state is State(act)
        elif act == "withdrawn":
            self.store.ledger.withdraw(job, self.now_s, "for a test")
            assert self.store.ledger.desired(job) is None
        else:
            self.store.ledger.failed(decision_id, self.now_s, "refused", retriable=act == "failed")

    @invariant()
    def at_most_one_is_open_and_it_is_wanted(self) -> None:
        for job in JOBS:
            still_open = self.store.ledger.decisions(job, states=OPEN)
            desired = self.store.ledger.desired(job)
            assert len(still_open) <= 1
            if still_open:
                assert desired is not None
                assert desired.decision.decision_id == still_open[0].decision_id

    @invariant()
    def what_is_closed_stays_closed(self) -> None:
        for entry in self.store.ledger.decisions(limit=1_000):
            if entry.decision_id in self.closed:
                assert entry.state is self.closed[entry.decision_id]
            elif entry.state not in OPEN:
                self.closed[entry.decision_id] = entry.state

    @invariant()
    def it_is_never_forgotten_that_a_decision_was_applied(self) -> None:
        for entry in self.store.ledger.decisions(limit=1_000):
            if entry.decision_id in self.applied_s:
                assert entry.applied_s is not None
            elif entry.applied_s is not None:
                self.applied_s[entry.decision_id] = entry.applied_s


class Moody:
    """A target that refuses, loses answers, or is slow to settle, as it is told to."""

    def __init__(self) -> None:
        self.running = self.asked = 4
        self.mood = "well"
        self.changes: list[str] = []

    def read(self) -> Running:
        if self.mood == "unreadable":
            raise TargetError("cannot be read")
        return Running(self.running, self.asked, settled=self.running == self.asked)

    def scale(self, scale_out: int, idempotency_key: str, mix=None, guard=lambda: None) -> Running:
        if self.mood == "refusing":
            raise TargetError("not now")
        guard()
        if scale_out != self.asked:
            self.asked = scale_out
            self.changes.append(idempotency_key)
        if self.mood == "losing answers":
            raise TargetError("no answer; it may still have been carried out")
        return self.read()

    def close(self) -> None:
        pass


class ReconcilerMachine(RuleBasedStateMachine):
    """However ticks, refusals, lost answers and deaths follow each other: one rescale per decision, and all known."""

    @initialize()
    def opened(self) -> None:
        self.store = StateStore("sqlite://")
        self.target = Moody()
        self.now_s = START_S
        self.died = False

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()

    @rule(mood=st.sampled_from(("well", "well", "unreadable", "refusing", "losing answers")))
    def changes_its_mood(self, mood: str) -> None:
        self.target.mood = mood

    @rule()
    def settles(self) -> None:
        self.target.running = self.target.asked

    @rule(size=SIZES, dies=st.sampled_from(("", "", "before it asks", "before it can note that it asked")))
    def decides(self, size: int, dies: str) -> None:
        self.now_s += 60.0
        reconciler = Reconciler(self.store, self.target, "orders", self.now_s)
        progress = reconciler.review(act=True)
        if progress.running is None:
            return
        if progress.open is None and progress.running.settled:
            self.store.ledger.record(an_intent("orders", self.now_s, progress.running.scale_out, size))
        if not dies:
            reconciler.carry_out(progress.running)
            return
        desired = self.store.ledger.desired("orders")
        if desired is None or desired.decision.state is not State.INTENT:
            return
        MET[f"death {dies}"] += 1
        if dies == "before it can note that it asked":
            with suppress(TargetError):
                self.target.scale(desired.scale_out, desired.decision.decision_id)

    @precondition(lambda self: self.target.mood == "well")
    @rule()
    def all_is_well_for_a_quarter_of_an_hour(self) -> None:
        """What was open then came to its end."""
        for _ in range(20):
            self.target.running = self.target.asked
            self.now_s += 60.0
            reconciler = Reconciler(self.store, self.target, "orders", self.now_s)
            progress = reconciler.review(act=True)
            assert progress.running is not None
            reconciler.carry_out(progress.running)
        desired = self.store.ledger.desired("orders")
        if desired is not None:
            MET["a decision that came to its end"] += 1
            assert desired.decision.state is State.CONFIRMED
            assert desired.scale_out == self.target.asked

    @invariant()
    def no_decision_rescales_twice(self) -> None:
        assert len(self.target.changes) == len(set(self.target.changes))

    @invariant()
    def whoever_rescaled_is_in_the_ledger(self) -> None:
        for key in self.target.changes:
            assert self.store.ledger.decision(key) is not None


LedgerMachine.TestCase.settings = QUICK
TestLedger = LedgerMachine.TestCase


@pytest.mark.hypothesis
def test_the_reconciler_keeps_its_word_through_deaths_with_an_open_decision() -> None:
    MET.clear()
    run_state_machine_as_test(ReconcilerMachine, settings=QUICK)
    assert MET.keys() == {
        "death before it asks",
        "death before it can note that it asked",
        "a decision that came to its end",
    }

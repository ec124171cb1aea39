"""Policies that size operators, on a Flink job that does what its load and its parallelism make of it."""

from __future__ import annotations

import json
import math
import re
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perdix.control.decide import Avoided
from perdix.control.job_memory import AVOIDED
from perdix.control.operators.executor import Executor
from perdix.control.operators.look import Look
from perdix.control.operators.loop import looks
from perdix.control.operators.naming import on_record
from perdix.control.operators.situation import situation_between
from perdix.control.state.journal import Status
from perdix.control.state.ledger import Ledger, State
from perdix.control.state.store import StateStore
from perdix.models.dataflow.flink_rates import SubtaskCounters
from perdix.policies.contract import Reason
from perdix.policies.dataflow.build import build_dataflow_policy
from perdix.policies.dataflow.contract import DataflowDecision, DataflowPolicy, DataflowSituation
from perdix.policies.dataflow.holding import hold
from perdix.settings.stream_job import Bounds, Objectives, StreamJob
from perdix.targets.contract import Fault, Guard, Running, TargetError, unguarded
from perdix.targets.flink.dataflow import DataflowReading, OperatorReading

BOUNDS = Bounds(minimum=1, maximum=12)
WORDS_PER_LINE = 3.0
COUNTS_PER_S = 100.0  # a subtask's capacity, words/s


@dataclass
class Job:
    """Lines arrive at a source, which splits them into words; a second vertex counts these, and holds it back."""

    lines_per_s: float
    parallelism: dict[str, int] = field(default_factory=lambda: {"source": 2, "count": 1})
    now_s: float = 1_000.0
    started_s: float = 0.0
    pending: float = 0.0
    tells_pending: bool = True
    slots: int = 12
    broken: str | None = None
    asked: list[Mapping[str, int]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    requested: dict[str, int] = field(default_factory=dict)  # Flink's requirements, where they are not what runs
    settled: bool = True
    obeys: bool = True  # else what it accepts does not come to run
    lines: float = 0.0
    busy_s: float = 0.0  # of all counting subtasks
    waited_s: float = 0.0  # of all sources

    def sleep(self, seconds: float) -> None:
        most_lines = COUNTS_PER_S * self.parallelism["count"] * seconds / WORDS_PER_LINE
        there = self.pending + self.lines_per_s * seconds
        done = min(there, most_lines)
        self.pending, self.lines, self.now_s = there - done, self.lines + done, self.now_s + seconds
        self.busy_s += done * WORDS_PER_LINE / COUNTS_PER_S
        if self.pending > 0:
            self.waited_s += 0.9 * seconds * self.parallelism["source"]

    def read_dataflow(self) -> DataflowReading:
        if self.broken is not None:
            raise TargetError(self.broken)
        age_ms, words = 1_000.0 * (self.now_s - self.started_s), self.lines * WORDS_PER_LINE
        return DataflowReading(
            self.now_s,
            {
                "source": self._reading((), "source", 0.0, self.waited_s, self.lines, words, age_ms),
                "count": self._reading(("source",), "count", self.busy_s, 0.0, words, 0.0, age_ms),
            },
            self.slots,
            self.running,
        )

    @property
    def running(self) -> Running:
        wanted = {**self.parallelism, **self.requested}
        most = max(self.parallelism.values())
        return Running(most, max(wanted.values()), self.settled, mix=dict(self.parallelism), requested_mix=wanted)

    def _reading(
        self, inputs: tuple[str, ...], name: str, busy_s: float, waited_s: float, *amounts: float
    ) -> OperatorReading:
        n = self.parallelism[name]
        read, written, age_ms = amounts
        busy_ms, waited_ms = 1_000.0 * busy_s / n, 1_000.0 * waited_s / n
        rows = (busy_ms, age_ms - busy_ms - waited_ms, waited_ms, read / n, written / n)
        counters = SubtaskCounters(*(np.full(n, row) for row in rows))
        pending = self.pending if self.tells_pending and not inputs else None
        return OperatorReading(inputs, 128, counters, (round(1_000.0 * self.started_s),) * n, pending)

    def scale_operators(
        self, parallelism: Mapping[str, int], idempotency_key: str, guard: Guard = unguarded
    ) -> Running:
        guard()
        self.asked.append(dict(parallelism))
        self.keys.append(idempotency_key)
        if self.obeys:
            self.parallelism |= parallelism
            self.requested.clear()
            self.restart()
        return self.running

    def restart(self) -> None:
        self.started_s, self.lines, self.busy_s, self.waited_s = self.now_s, 0.0, 0.0, 0.0


@dataclass(frozen=True)
class JobsClock:
    """The job's time is everybody's."""

    job: Job
    boot: str = "kernel:test"

    def now_s(self) -> float:
        return self.job.now_s

    def elapsed_s(self) -> float:
        return self.job.now_s


def acting(job: Job, store: StateStore | None = None, holder: str = "one", **settings: Any) -> Executor:
    orders = StreamJob(name="orders", bounds=BOUNDS, **{"objectives": Objectives(rescales_per_day=1_000), **settings})
    return Executor(job, orders, store or StateStore("sqlite://"), JobsClock(job), holder, 30.0)


def looked(job: Job, count: int, policy: str = "ds2", bounds: Bounds = BOUNDS, *, act: bool = True) -> list[Look]:
    options = {"warm_up_s": 0.0} if policy == "ds2" else {}
    return list(islice(looking(job, build_dataflow_policy(policy, options), bounds, act=act), count))


def looking(
    job: Job, policy: DataflowPolicy, bounds: Bounds = BOUNDS, *, act: bool = True, **more: Any
) -> Iterator[Look]:
    if act:
        more.setdefault("carry_out", acting(job).carry_out)
    return looks(job, policy, bounds, sleep=job.sleep, **{"interval_s": 30.0, **more})


def test_ds2_reaches_what_the_load_needs_in_one_step() -> None:
    job = Job(lines_per_s=200.0)  # 600 words/s: six subtasks
    found = looked(job, 4)
    assert job.asked == [{"count": 6}]
    assert job.parallelism == {"source": 2, "count": 6}
    assert found[0].done
    assert found[1].problem == "the job was redeployed since the last look; the next one counts"
    assert "count 1 to 6" in (found[0].decision.sentence if found[0].decision else "")


def test_what_arrives_is_what_was_emitted_and_what_was_left_waiting_in_the_sources_own_output() -> None:
    job = Job(lines_per_s=200.0, pending=50.0)
    before = job.read_dataflow()
    job.sleep(30.0)
    situation = situation_between(before, job.read_dataflow(), most=12, memory={})
    assert situation.source_per_s["source"] == pytest.approx(600.0)
    assert situation.lag_records["source"] == pytest.approx(WORDS_PER_LINE * job.pending)
    assert situation.windows["count"].window_s == pytest.approx(30.0)
    assert situation.windows["count"].useful_s.tolist() == pytest.approx([30.0])
    assert (situation.parallelism, situation.slots, situation.slots_shared) == ({"source": 2, "count": 1}, 12, True)


def test_it_scales_in_what_is_too_much() -> None:
    job = Job(lines_per_s=80.0, parallelism={"source": 2, "count": 10})
    looked(job, 4)
    assert job.asked == [{"count": 3}]


@pytest.mark.parametrize(("lines_per_s", "wanted"), [(20.0, 1), (200.0, 4)])
def test_a_source_that_does_not_tell_what_waits_scales_in_only_where_it_surely_emits_all(
    lines_per_s: float, wanted: int
) -> None:
    """At 200 lines/s four subtasks are too few; the source waits for room, and what arrives is not known."""
    job = Job(lines_per_s=lines_per_s, parallelism={"source": 2, "count": 4}, tells_pending=False)
    looked(job, 1)
    assert job.parallelism["count"] == wanted


def test_a_source_of_which_not_all_subtasks_report_does_not_tell_what_arrives() -> None:
    job = Job(lines_per_s=80.0, parallelism={"source": 2, "count": 10})
    before = job.read_dataflow()
    job.sleep(30.0)
    after = job.read_dataflow()
    for counters in vars(after.operators["source"].counters).values():
        counters[1] = math.nan
    situation = situation_between(before, after, most=12, memory={})
    assert situation.source_per_s == {}
    decision = build_dataflow_policy("ds2", {"warm_up_s": 0.0}).decide(situation)
    assert decision.parallelism["count"] >= 10, "nothing is scaled in on what is missing"


def test_without_apply_nothing_is_asked_for_and_nothing_is_remembered_as_done() -> None:
    job = Job(lines_per_s=200.0)
    found = looked(job, 3, act=False)
    assert job.asked == []
    assert [dict(look.changes) for look in found] == [{"count": 6}] * 3
    assert not any(look.done for look in found)


def test_bounds_and_slots_hold() -> None:
    job = Job(lines_per_s=1_000.0)
    looked(job, 1, bounds=Bounds(minimum=1, maximum=5))
    assert job.parallelism["count"] == 5
    job = Job(lines_per_s=1_000.0, slots=4)
    looked(job, 1)
    assert job.parallelism["count"] == 4
    job = Job(lines_per_s=10.0, parallelism={"source": 2, "count": 8})
    looked(job, 1, bounds=Bounds(minimum=3, maximum=12))
    assert job.parallelism["count"] == 3


def ds2() -> DataflowPolicy:
    return build_dataflow_policy("ds2", {"warm_up_s": 0.0})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[StateStore]:
    opened = StateStore(f"sqlite:///{tmp_path / 'state.db'}")
    yield opened
    opened.close()


def test_a_paused_job_is_looked_at_and_left_alone(store: StateStore) -> None:
    job = Job(lines_per_s=200.0)
    store.journal.pause("orders", job.now_s + 600.0, job.now_s, "migration")
    look = next(looking(job, ds2(), carry_out=acting(job, store).carry_out))
    assert (job.asked, look.done) == ([], False)
    assert re.fullmatch(r"paused by an operator until .* UTC \(migration\)", look.problem or "")
    assert look.changes == {"count": 6}
    assert store.journal.statuses()[on_record("orders")].status is Status.PAUSED


def test_of_two_loops_one_acts_and_the_other_says_who_does(store: StateStore) -> None:
    job = Job(lines_per_s=200.0)
    first, second = (acting(job, store, holder) for holder in ("host:1", "host:2"))
    one, other = (looking(job, ds2(), carry_out=executor.carry_out) for executor in (first, second))
    assert next(one).done
    job.parallelism["count"] = 2  # by hand
    look = next(other)
    assert (look.done, look.problem) == (False, "observing only: the lease is held by host:1")
    assert look.changes
    first.close()
    assert next(other).done


def test_a_loop_that_died_is_followed_once_its_lease_is_over(store: StateStore) -> None:
    job = Job(lines_per_s=200.0)
    assert next(looking(job, ds2(), carry_out=acting(job, store, "host:1").carry_out)).done
    job.parallelism["count"] = 2
    found = list(islice(looking(job, ds2(), carry_out=acting(job, store, "host:2").carry_out), 5))
    assert [look.done for look in found].index(True) >= 2
    assert job.asked == [{"count": 6}, {"count": 6}]


def test_a_loop_that_slept_longer_than_its_lease_asks_nothing_once_another_took_over(store: StateStore) -> None:
    job, other = Job(lines_per_s=200.0), Job(lines_per_s=200.0)
    late = acting(job, store, "host:1")
    assert next(looking(job, ds2(), carry_out=late.carry_out)).done
    job.parallelism["count"] = other.parallelism["count"] = 2
    other.now_s = job.now_s + 600.0
    assert next(looking(other, ds2(), carry_out=acting(other, store, "host:2").carry_out)).done
    job.now_s = other.now_s
    assert [look.problem for look in islice(looking(job, ds2(), carry_out=late.carry_out), 2)][-1] == (
        "observing only: the lease is held by host:2"
    )
    assert len(job.asked) == 1


def test_what_was_decided_stands_in_the_ledger_and_how_it_turned_out(store: StateStore) -> None:
    job = Job(lines_per_s=200.0)
    loop = looking(job, ds2(), carry_out=acting(job, store).carry_out)
    next(loop)
    (entry,) = store.ledger.decisions(on_record("orders"))
    assert (entry.state, entry.intent.from_mix, entry.intent.mix) == (
        State.APPLIED,
        {"count": 1},
        {"count": 6},
    )
    assert "count 1 to 6" in entry.intent.sentence
    list(islice(loop, 2))
    held, entry = store.ledger.decisions(on_record("orders"))
    assert (held.state, entry.state) == (State.HELD, State.CONFIRMED)
    assert store.journal.statuses()[on_record("orders")].status is Status.ACTING
    assert store.ledger.desired("orders") is None, "the control loop sizes the job as a whole, and sees none of it"


def test_what_somebody_else_asked_for_meanwhile_is_respected(store: StateStore) -> None:
    job = Job(lines_per_s=200.0)
    loop = looking(job, ds2(), carry_out=acting(job, store).carry_out)
    next(loop)
    job.parallelism["count"] = 8
    assert next(loop).problem == "someone else asked for count at 8, source at 2; perdix goes on from there"
    entry = store.ledger.decisions(on_record("orders"))[-1]
    assert (entry.state, entry.error) == (
        State.SUPERSEDED,
        "superseded by someone who asked the target for count at 8, source at 2",
    )
    assert store.ledger.desired(on_record("orders")) is None


def test_what_flink_accepted_and_forgot_is_asked_for_again_with_the_same_key(store: StateStore) -> None:
    job = Job(lines_per_s=200.0, obeys=False)
    loop = looking(job, ds2(), carry_out=acting(job, store).carry_out)
    assert next(loop).done
    assert next(loop).problem == "the target does not show a request for count at 6; asked again later"
    job.obeys = True
    list(islice(loop, 4))
    assert job.parallelism["count"] == 6
    assert len(job.keys) > 1
    assert len(set(job.keys)) == 1
    assert [one.state for one in store.ledger.decisions(on_record("orders"))][-1] is State.CONFIRMED


def test_slots_that_are_missing_are_waited_for_and_then_left_alone_for_an_hour(store: StateStore) -> None:
    job = Job(lines_per_s=200.0, obeys=False)
    loop = looking(job, ds2(), carry_out=acting(job, store).carry_out)
    next(loop)
    job.requested, job.parallelism["count"] = {"count": 6}, 4
    job.restart()
    found = list(islice(loop, 60))
    assert "asked for count at 6, got count at 4, source at 2; tried again later" in {look.problem for look in found}
    assert found[-1].problem == "asked for count at 6, got count at 4, source at 2; not tried again for a while"
    asked = len(job.asked)
    assert 1 < asked < 10
    assert len(set(job.keys)) == 1
    list(islice(loop, 30))
    assert len(job.asked) == asked
    list(islice(loop, 90))
    assert len(job.asked) > asked, "after an hour it is tried again"


def test_a_rescale_that_never_ends_is_taken_back(store: StateStore) -> None:
    job = Job(lines_per_s=200.0)
    loop = looking(job, ds2(), carry_out=acting(job, store).carry_out)
    next(loop)
    job.settled = False
    assert {look.problem for look in islice(loop, 20)} == {"a rescale is under way"}
    assert job.asked == [{"count": 6}]
    told = "Rolled back to count at 1: the rescale to count at 6 did not end within 660 s."
    assert {look.problem for look in islice(loop, 2)} == {"a rescale is under way", told}
    assert job.asked == [{"count": 6}, {"count": 1}]
    back, stuck = (one for one in store.ledger.decisions(on_record("orders")) if one.state is not State.HELD)
    assert (stuck.state, back.intent.reason) == (State.FAILED, Reason.ROLLBACK)
    assert back.intent.sentence == told
    job.settled = True
    found = list(islice(loop, 20))
    assert found[-1].problem == "the rescale to count at 6 did not end within 660 s; not tried again for a while"
    assert len(job.asked) == 2


def test_how_operators_are_scaled_that_no_decision_named_is_nobodys_business(store: StateStore) -> None:
    job = Job(lines_per_s=200.0)
    loop = looking(job, ds2(), carry_out=acting(job, store).carry_out)
    next(loop)
    job.parallelism["source"], job.requested["source"] = 3, 9
    list(islice(loop, 3))
    entry = store.ledger.decisions(on_record("orders"))[-1]
    assert (entry.state, job.asked) == (State.CONFIRMED, [{"count": 6}])


def test_an_operator_that_a_new_program_no_longer_has_is_waited_for_no_longer(store: StateStore) -> None:
    job = Job(lines_per_s=200.0, obeys=False)
    executor = acting(job, store)
    look = next(looking(job, ds2(), carry_out=executor.carry_out))
    assert look.running is not None
    other = Running(2, 2, settled=True, mix={"source": 2}, requested_mix={"source": 2})
    executor.carry_out(Look(job.now_s + 30.0, problem="another program", running=other))
    (entry,) = store.ledger.decisions(on_record("orders"))
    assert entry.error == "superseded the job has no operator 'count' any more"


def test_what_was_refused_is_not_asked_for_once_what_runs_is_enough(store: StateStore) -> None:
    class Full(Job):
        def scale_operators(
            self, parallelism: Mapping[str, int], idempotency_key: str, guard: Guard = unguarded
        ) -> Running:
            self.asked.append(parallelism)
            raise TargetError("503: busy")

    job = Full(lines_per_s=200.0)
    loop = looking(job, ds2(), carry_out=acting(job, store).carry_out)
    next(loop)
    job.lines_per_s, job.pending = 20.0, 0.0
    while (look := next(loop)).changes:
        job.pending = 0.0
    assert look.decision is not None
    entry = store.ledger.decisions(on_record("orders"))[-1]
    assert (entry.state, entry.error) == (State.SUPERSEDED, "superseded nothing is to be changed by now")


class Wishes:
    """A policy that wants one change after the other, and remembers how many looks there were."""

    name = "wishes"

    def __init__(self, *wishes: Mapping[str, int]) -> None:
        self.wishes, self.looks, self.remembered = wishes, 0, list[Mapping[str, Any]]()

    def decide(self, situation: DataflowSituation) -> DataflowDecision:
        self.remembered.append(situation.memory)
        wish = self.wishes[min(self.looks, len(self.wishes) - 1)]
        self.looks += 1
        memory = {"looks": self.looks}
        if not wish:
            return hold(self.name, situation, Reason.HOLD_GOOD, "Enough.", memory=memory)
        wanted = {**situation.parallelism, **wish}
        return DataflowDecision(self.name, wanted, Reason.SCALE_OUT, f"wants {wish}", memory=memory)


@dataclass
class Refusing(Job):
    """Refuses so many requests first."""

    refuses: int = 1

    def scale_operators(
        self, parallelism: Mapping[str, int], idempotency_key: str, guard: Guard = unguarded
    ) -> Running:
        if self.refuses > 0:
            self.refuses -= 1
            raise TargetError("503: busy")
        return super().scale_operators(parallelism, idempotency_key, guard)


def test_a_rescale_that_a_former_loop_made_is_not_taken_back_by_one_that_comes_at_a_bad_moment(
    store: StateStore,
) -> None:
    job = Job(lines_per_s=200.0)
    assert next(looking(job, ds2(), carry_out=acting(job, store).carry_out)).done
    job.now_s += 86_400.0
    job.settled = False  # a TaskManager is lost
    found = list(islice(looking(job, ds2(), carry_out=acting(job, store, "later").carry_out), 40))
    assert job.asked == [{"count": 6}]
    assert {look.problem for look in found} == {"a rescale is under way"}


def test_another_wish_does_not_let_an_older_one_be_asked_for(store: StateStore) -> None:
    job = Refusing(lines_per_s=10.0)
    executor = acting(job, store, objectives=Objectives(rescales_per_day=1))
    store.learned.learn(on_record("orders"), 1_000.0, {AVOIDED: {"sizes": [BARRED.to_state()]}})
    policy = Wishes({"count": 6}, {"count": 7})
    first, second, third = islice(looking(job, policy, carry_out=executor.carry_out), 3)
    assert (first.done, first.problem) == (False, "503: busy; tried again later")
    assert {(look.done, look.problem) for look in (second, third)} == {(False, "was bad; not tried again for a while")}
    assert job.asked == []
    assert policy.remembered == [{}, {}, {}]


BARRED = Avoided(7, 2_000.0, "was bad", mix={"count": 7})


def test_what_was_refused_and_accepted_at_a_later_look_is_remembered_as_it_was_decided(store: StateStore) -> None:
    job, policy = Refusing(lines_per_s=10.0), Wishes({"count": 6}, {"count": 6}, {})
    loop = looking(job, policy, carry_out=acting(job, store).carry_out)
    found = list(islice(loop, 6))
    assert job.asked == [{"count": 6}]
    assert [look.done for look in found].index(True) == 1
    assert {"looks": 2} in policy.remembered
    job, policy = Refusing(lines_per_s=10.0, refuses=1), Wishes({"count": 6}, {"count": 6}, {})
    loop = looking(job, policy, carry_out=acting(job).carry_out)
    next(loop)
    job.restart()  # so that the next look decides nothing
    job.started_s += 1.0
    look = next(loop)
    assert (look.decision, look.done, look.accepted) == (None, False, {"looks": 1})
    assert look.problem == "the job was redeployed since the last look; the next one counts"
    list(islice(loop, 2))
    assert policy.remembered[1] == {"looks": 1}


def test_of_two_operators_of_which_one_is_reached_the_other_is_asked_for_under_the_same_key(store: StateStore) -> None:
    job, policy = Job(lines_per_s=10.0, obeys=False), Wishes({"count": 6, "source": 3})
    loop = looking(job, policy, carry_out=acting(job, store).carry_out)
    assert next(loop).done
    job.parallelism["source"], job.requested = 3, {"count": 6, "source": 3}
    found = list(islice(loop, 30))
    assert len(set(job.keys)) == 1
    assert not any(look.done for look in found)
    assert store.ledger.rescales(on_record("orders"), 0.0)[1] == 1
    assert policy.remembered[-1] == {"looks": 1}


@pytest.mark.parametrize("wish", [{"count": 6}, {"count": 6, "source": 3}])
def test_what_never_ended_is_not_asked_for_again_with_others_nor_by_another_loop(
    store: StateStore, wish: Mapping[str, int]
) -> None:
    job = Job(lines_per_s=200.0)
    loop = looking(job, Wishes({"count": 6}), carry_out=acting(job, store).carry_out)
    next(loop)
    job.settled = False
    list(islice(loop, 24))
    assert job.asked == [{"count": 6}, {"count": 1}]
    job.settled = True
    job.now_s += 300.0
    later = looking(job, Wishes(wish), carry_out=acting(job, store, "later").carry_out)
    assert "not tried again for a while" in str([look.problem for look in islice(later, 3)][-1])
    assert job.asked == [{"count": 6}, {"count": 1}]
    job.now_s -= 86_400.0  # the JobManager's clock is set back: how long ago it was nobody can say
    job.started_s = job.now_s - 60.0
    list(islice(later, 2))
    assert job.asked[-1] == wish


def test_a_late_request_of_a_loop_that_lost_its_lease_is_undone_with_all_that_it_changed(store: StateStore) -> None:
    def killed(*_: object) -> Running:
        _[-1]()  # type: ignore[operator]
        raise SystemExit

    job = Job(lines_per_s=10.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job, "scale_operators", killed)
        loop = looking(job, Wishes({"source": 3}), carry_out=acting(job, store, "a").carry_out)
        with pytest.raises(SystemExit):
            next(loop)
    job.now_s += 300.0
    loop = looking(job, Wishes({"count": 6}, {}), carry_out=acting(job, store, "b").carry_out)
    list(islice(loop, 4))
    assert job.parallelism == {"source": 2, "count": 6}
    job.parallelism |= {"source": 3, "count": 1}  # its body holds all operators, as they were then
    job.restart()
    told = [look.problem for look in islice(loop, 3)]
    assert job.parallelism == {"source": 2, "count": 6}
    assert told[0] is not None
    assert "a controller that had lost its lease asked for" in told[0]


def stuck(job: Job, store: StateStore, **more: Any) -> Iterator[Look]:
    """A loop whose rescale from 1 to 6 does not end."""
    loop = looking(job, Wishes({"count": 6}), carry_out=acting(job, store).carry_out, **more)
    next(loop)
    job.settled = False
    return loop


def test_a_job_that_cannot_be_read_now_and_then_has_its_stuck_rescale_taken_back(store: StateStore) -> None:
    job = Job(lines_per_s=200.0)
    loop = stuck(job, store)
    for look in range(60):
        job.broken = "cannot be reached" if look % 18 == 17 else None
        next(loop)
    assert job.asked == [{"count": 6}, {"count": 1}]


def test_a_loop_that_slept_does_not_know_how_long_a_rescale_took(store: StateStore) -> None:
    job = Job(lines_per_s=200.0)
    loop = stuck(job, store)
    next(loop)
    job.now_s += 7_200.0  # the host was suspended
    list(islice(loop, 15))
    assert job.asked == [{"count": 6}]


def test_what_a_person_asks_for_is_not_overwritten_by_a_rollback_that_waits(store: StateStore) -> None:
    job = Refusing(lines_per_s=200.0, refuses=0)
    loop = stuck(job, store)
    list(islice(loop, 21))
    job.refuses = 1
    next(loop)
    job.parallelism["count"], job.settled = 3, False
    list(islice(loop, 15))
    assert job.asked == [{"count": 6}]
    assert job.parallelism["count"] == 3


def test_a_bar_does_not_hold_back_other_operators_where_what_it_bars_runs_already(store: StateStore) -> None:
    job = Job(lines_per_s=10.0, parallelism={"source": 2, "count": 7})
    store.learned.learn(on_record("orders"), 1_000.0, {AVOIDED: {"sizes": [BARRED.to_state()]}})
    assert next(looking(job, Wishes({"source": 3}), carry_out=acting(job, store).carry_out)).done


def test_what_a_former_loop_was_refused_is_done_once_it_is_accepted(store: StateStore) -> None:
    job, kept = Refusing(lines_per_s=10.0), list[Mapping[str, Any]]()
    assert not next(looking(job, Wishes({"count": 6}), carry_out=acting(job, store).carry_out)).done
    job.now_s += 120.0
    later = acting(job, store, "later")
    look = next(looking(job, Wishes({"count": 6}), carry_out=later.carry_out, remember=lambda _, new: kept.append(new)))
    assert (look.done, look.problem, kept) == (True, None, [{"looks": 1}])


def test_a_rollback_that_cannot_be_noted_is_nothing_that_the_policy_did(
    store: StateStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> bool:
        raise sqlite3.OperationalError("database or disk is full")

    job = Job(lines_per_s=200.0)
    loop = stuck(job, store)
    monkeypatch.setattr(Ledger, "applied", full)
    found = list(islice(loop, 23))
    assert job.asked == [{"count": 6}, {"count": 1}]
    assert not any(look.done for look in found)
    assert "Flink was asked, and that cannot be noted: database or disk is full" in [look.problem for look in found]


def test_slots_that_are_missing_are_missing_for_the_operators_that_lack_them(store: StateStore) -> None:
    job = Job(lines_per_s=10.0, parallelism={"source": 8, "count": 1}, obeys=False)
    loop = looking(job, Wishes({"count": 7}), carry_out=acting(job, store).carry_out)
    next(loop)
    job.parallelism["count"], job.requested = 4, {"count": 7}
    list(islice(loop, 60))
    job.now_s += 120.0
    told = next(looking(job, Wishes({"count": 6}), carry_out=acting(job, store, "a").carry_out)).problem
    assert "not tried again for a while" in str(told)
    job.obeys = True
    job.now_s += 120.0
    assert next(looking(job, Wishes({"source": 9}), carry_out=acting(job, store, "b").carry_out)).done


def test_wishes_that_change_while_flink_refuses_leave_few_rows(store: StateStore) -> None:
    job = Refusing(lines_per_s=10.0, refuses=10_000)
    policy = Wishes(*({"count": 5 + k % 2} for k in range(240)))
    list(islice(looking(job, policy, carry_out=acting(job, store).carry_out), 240))
    assert len(store.ledger.decisions(on_record("orders"), limit=1_000)) < 60


def test_no_more_rescales_are_made_than_a_day_may_have(store: StateStore) -> None:
    job = Job(lines_per_s=200.0)
    executor = acting(job, store, objectives=Objectives(rescales_per_day=1))
    loop = looking(job, ds2(), carry_out=executor.carry_out)
    found = []
    for _ in range(12):
        found.append(next(loop))
        job.parallelism["count"] = 2  # somebody else asks for that each time
    assert len(job.asked) == 1
    assert "objectives.rescales_per_day is 1, and as many were made within a day" in {look.problem for look in found}


def test_what_cannot_be_kept_is_not_asked_for(store: StateStore) -> None:
    job = Job(lines_per_s=200.0)
    loop = looking(job, ds2(), carry_out=acting(job, store).carry_out)
    with store.database._engine.connect() as connection:
        connection.exec_driver_sql("DROP TABLE decisions")
        connection.commit()
    look = next(loop)
    assert look.changes
    assert not look.done
    assert look.problem == "what was decided cannot be kept: no such table: decisions"
    assert job.asked == []


def test_what_flink_accepted_is_done_also_where_that_cannot_be_noted(
    store: StateStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> bool:
        raise sqlite3.OperationalError("database or disk is full")

    job = Job(lines_per_s=200.0)
    loop = looking(job, ds2(), carry_out=acting(job, store).carry_out)
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "applied", full)
        look = next(loop)
    assert look.done
    assert look.problem == "Flink was asked, and that cannot be noted: database or disk is full"
    list(islice(loop, 2))
    (entry,) = store.ledger.decisions(on_record("orders"), states=[State.CONFIRMED])
    assert entry.applied_s is not None
    assert job.asked == [{"count": 6}]


def test_a_full_disk_costs_the_loop_no_more_than_what_it_remembers() -> None:
    def full(_: float, __: Mapping[str, Any]) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    job = Job(lines_per_s=20.0, parallelism={"source": 2, "count": 4})
    dhalion = build_dataflow_policy("dhalion", {})
    found = list(islice(looking(job, dhalion, remember=full), 130))
    assert any("cannot be stored: database or disk is full" in str(look.problem) for look in found)
    assert job.asked, "after an hour of calm, which it has in mind"


def test_a_job_that_cannot_be_read_for_a_while_is_left_alone_meanwhile() -> None:
    job = Job(lines_per_s=200.0)
    loop = looking(job, ds2())
    job.broken = "cannot be reached"
    with pytest.raises(TargetError, match="cannot be reached"):
        next(loop)  # at the beginning it is a mistake of the user
    job.broken = None
    loop = looking(job, ds2())
    next(loop)
    job.broken = "cannot be reached"
    assert [look.problem for look in islice(loop, 2)] == ["cannot be reached"] * 2
    job.broken = None
    next(loop)
    assert job.parallelism["count"] == 6


def test_what_the_policy_remembers_goes_on_where_a_former_loop_ended() -> None:
    """Dhalion scales in what has been idle for an hour: two loops of forty minutes are one of eighty."""

    def for_minutes(minutes: int, job: Job, memory: Mapping[str, Any]) -> dict[str, Any]:
        kept: list[Mapping[str, Any]] = [memory]
        policy = build_dataflow_policy("dhalion", {"scale_in_after_s": 3_600.0})
        loop = looking(job, policy, interval_s=60.0, memory=memory, remember=lambda _, new: kept.append(new))
        list(islice(loop, minutes))
        return json.loads(json.dumps(kept[-1]))

    going_on, afresh = (Job(lines_per_s=20.0, parallelism={"source": 2, "count": 6}) for _ in range(2))
    memory = for_minutes(40, going_on, {})
    assert going_on.asked == []
    for_minutes(40, going_on, memory)
    assert going_on.asked != []
    for_minutes(40, afresh, {})
    for_minutes(40, afresh, {})
    assert afresh.asked == [], "one that forgets waits for its hour in vain"


def test_what_was_not_carried_out_is_not_remembered() -> None:
    job, kept = Job(lines_per_s=200.0), list[Mapping[str, Any]]()
    loop = looking(job, ds2(), act=False, remember=lambda _, memory: kept.append(memory))
    assert all(look.changes for look in islice(loop, 3))
    assert kept == []


def test_a_restart_between_two_looks_is_not_a_window() -> None:
    job = Job(lines_per_s=30.0)
    loop = looking(job, ds2())
    next(loop)
    job.restart()
    assert "redeployed" in (next(loop).problem or "")
    assert next(loop).decision is not None


def test_a_request_that_flink_refuses_is_told_and_tried_again() -> None:
    class Full(Job):
        def scale_operators(
            self, parallelism: Mapping[str, int], idempotency_key: str, guard: Guard = unguarded
        ) -> Running:
            if not self.asked:
                self.asked.append(parallelism)
                raise TargetError("503: busy")
            return super().scale_operators(parallelism, idempotency_key, guard)

    job = Full(lines_per_s=200.0)
    first, second = looked(job, 2)
    assert (first.problem, first.done) == ("503: busy; tried again later", False)
    assert second.done
    assert job.parallelism["count"] == 6


def test_a_right_that_is_missing_for_90_minutes_is_seldom_asked_for() -> None:
    class Forbidden(Job):
        def scale_operators(
            self, parallelism: Mapping[str, int], idempotency_key: str, guard: Guard = unguarded
        ) -> Running:
            self.asked.append(parallelism)
            raise TargetError("403: no", fault=Fault.LASTING)

    job = Forbidden(lines_per_s=200.0)
    found = looked(job, 180)
    assert len(job.asked) <= 10
    assert found[-1].problem == "next attempt later: 403: no"


def test_a_policy_that_fails_holds_what_runs() -> None:
    class Broken:
        name = "broken"

        def decide(self, situation: DataflowSituation) -> DataflowDecision:
            raise ValueError(f"no answer at {situation.now_s:g} s")

    job = Job(lines_per_s=200.0)
    look = next(looking(job, Broken()))
    assert look.decision is not None
    assert look.decision.sentence == "Held: ValueError: no answer at 1030 s."
    assert (look.decided, dict(look.changes), job.asked) == (False, {}, [])


def test_waiting_for_a_warm_up_is_no_decision() -> None:
    job = Job(lines_per_s=200.0)
    policy = build_dataflow_policy("ds2", {"warm_up_s": 30.0})
    first, second = islice(looking(job, policy), 2)
    assert first.decision is not None
    assert (first.decided, first.decision.reason) == (False, Reason.HOLD_GRACE)
    assert second.decided


@pytest.mark.parametrize("policy", ["dhalion", "flink-autoscaler"])
def test_other_policies_run_on_it_too(policy: str) -> None:
    job = Job(lines_per_s=200.0)
    looked(job, 60, policy)
    assert job.parallelism["count"] >= 6
    assert math.isclose(job.pending, 0.0, abs_tol=1e4)


@pytest.mark.parametrize("policy", ["ds2", "dhalion", "flink-autoscaler"])
def test_with_fewer_slots_than_the_load_needs_all_of_them_are_taken(policy: str) -> None:
    job = Job(lines_per_s=200.0, slots=4)
    looked(job, 60, policy)
    assert job.parallelism["count"] == 4

"""What becomes of decisions for operators: on record, asked for, asked for again, taken back, kept off."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from perdix.control.decide import Avoided
from perdix.control.job_memory import AVOIDED
from perdix.control.operators.executor import Executor
from perdix.control.operators.look import Look
from perdix.control.operators.loop import looks
from perdix.control.operators.naming import on_record
from perdix.control.state.journal import JobStatus, Journal, Status
from perdix.control.state.ledger import Ledger, State
from perdix.control.state.schema import Database, StateError
from perdix.control.state.store import StateStore
from perdix.policies.contract import Reason
from perdix.settings.durations import DAY_S
from perdix.settings.stream_job import Bounds, Objectives, StreamJob
from perdix.targets.contract import Fault, Guard, Running, TargetError, unguarded
from tests.control.operators_rig import BOUNDS, Job, JobsClock, Refusing, Wishes, acting, ds2, looked, looking


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


def test_a_name_that_postgresql_cannot_hold_is_refused_before_anything_is_asked(
    store: StateStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def named(letters: int) -> Executor:
        job = Job(lines_per_s=200.0)
        return Executor(job, StreamJob(name="j" * letters, bounds=BOUNDS), store, JobsClock(job), "one", 30.0)

    assert named(63).store is store, "SQLite holds any"
    monkeypatch.setattr(Database, "one_machine", False)
    assert named(53).store is store
    with pytest.raises(StateError, match="at most 53 letters; rename its file"):
        named(54)


def test_a_job_that_is_rescaled_or_redeployed_is_no_blind_one(store: StateStore) -> None:
    job = Job(lines_per_s=200.0)
    loop = looking(job, Wishes({}), carry_out=acting(job, store).carry_out)

    def stands() -> Status:
        next(loop)
        return store.journal.statuses()[on_record("orders")].status

    assert stands() is Status.ACTING
    job.settled = False
    assert stands() is Status.ACTING
    job.settled = True
    job.restart()
    assert stands() is Status.ACTING
    job.broken = "503"
    assert stands() is Status.UNREACHABLE


def test_a_loop_that_has_the_store_to_itself_forgets_what_is_old_once_an_hour(store: StateStore) -> None:
    job = Job(lines_per_s=200.0)
    loop, long_ago_s = looking(job, Wishes({}), carry_out=acting(job, store).carry_out), job.now_s - 15 * DAY_S
    kept = []
    for hour in (0, 0, 1):
        store.journal.stands(JobStatus("of-last-year", Status.ACTING, long_ago_s))
        job.now_s += hour * 3_600.0
        next(loop)
        kept.append("of-last-year" in store.journal.statuses())
    assert kept == [False, True, False]


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
    problem = next(loop).problem
    assert problem.startswith("the target was asked for count at 6, and asks for count at 1, source at 2 now")
    assert problem.endswith("asked again later")
    job.obeys = True
    list(islice(loop, 4))
    assert job.parallelism["count"] == 6
    assert len(job.keys) > 1
    assert len(set(job.keys)) == 1
    assert [decision.state for decision in store.ledger.decisions(on_record("orders"))][-1] is State.CONFIRMED


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
    back, stuck = (
        decision for decision in store.ledger.decisions(on_record("orders")) if decision.state is not State.HELD
    )
    assert (stuck.state, back.intent.reason) == (State.FAILED, Reason.ROLLBACK)
    assert back.intent.sentence == told
    job.settled = True
    found = list(islice(loop, 20))
    assert found[-1].problem == "the rescale to count at 6 did not end within 660 s; not tried again for a while"
    assert len(job.asked) == 2


def test_a_rollback_asks_for_what_the_bounds_allow_by_then(store: StateStore) -> None:
    job = Job(lines_per_s=80.0, parallelism={"source": 2, "count": 10})
    loop = acting(job, store)
    found = looking(job, ds2(), carry_out=loop.carry_out)
    next(found)
    job.settled = False
    of_bounds(loop, 6)
    list(islice(found, 23))
    assert job.asked == [{"count": 3}, {"count": 6}]


def looking_within_its_file(job: Job, loop: Executor) -> Iterator[Look]:
    """The looks of a loop whose policy, too, follows the bounds that the job's file has by then."""
    return looks(job, ds2(), lambda: loop.job.bounds, interval_s=30.0, carry_out=loop.carry_out, sleep=job.sleep)


def of_bounds(loop: Executor, maximum: int, minimum: int = 1) -> None:
    loop.job = loop.job.model_copy(update={"bounds": Bounds(minimum=minimum, maximum=maximum)})


def test_what_was_refused_is_not_asked_for_outside_bounds_that_changed_since(store: StateStore) -> None:
    job = Refusing(lines_per_s=390.0, parallelism={"source": 2, "count": 10})
    loop = acting(job, store)
    found = looking_within_its_file(job, loop)
    next(found)
    assert (job.refuses, job.asked) == (0, [])
    job.settled = False  # somebody restarts it
    of_bounds(loop, 11)
    next(found)
    (entry,) = (entry for entry in store.ledger.decisions(on_record("orders")) if entry.intent.mix == {"count": 12})
    told = "superseded by the job's bounds, which are 1 to 11 now"
    assert (entry.state, entry.error) == (State.SUPERSEDED, told)
    job.settled = True
    list(islice(found, 20))
    assert job.asked == [{"count": 11}]


@pytest.mark.parametrize(("maximum", "asked"), [(6, [{"count": 6}]), (3, []), (2, [{"count": 2}])])
def test_a_rollback_that_was_refused_is_not_asked_for_outside_bounds_that_changed_since(
    maximum: int, asked: list[Mapping[str, int]], store: StateStore
) -> None:
    """10 instances were scaled in to 3, which never ended: where no more are allowed by now, nothing is taken back."""
    job = Refusing(lines_per_s=80.0, parallelism={"source": 2, "count": 10}, refuses=0)
    loop = acting(job, store)
    found = looking_within_its_file(job, loop)
    next(found)
    job.settled, job.refuses = False, 1
    list(islice(found, 22))
    assert (job.refuses, job.asked) == (0, [{"count": 3}])
    of_bounds(loop, maximum)
    list(islice(found, 20))
    assert job.asked[1:] == asked
    (entry,) = (entry for entry in store.ledger.decisions(on_record("orders")) if entry.intent.mix == {"count": 10})
    assert entry.state is State.SUPERSEDED
    if not asked:
        assert entry.error == "superseded by the job's bounds, which are 1 to 3 now"
        assert store.ledger.desired(on_record("orders")) is None


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
    def killed(_: Mapping[str, int], __: str, guard: Guard) -> Running:
        guard()
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


def test_rescales_that_are_used_up_keep_no_operator_outside_bounds_that_changed_for_longer_than_an_hour(
    store: StateStore,
) -> None:
    job = Job(lines_per_s=200.0)
    loop = acting(job, store, objectives=Objectives(rescales_per_day=1))
    found = looking_within_its_file(job, loop)
    list(islice(found, 4))
    assert job.asked == [{"count": 6}]
    of_bounds(loop, 4)
    list(islice(found, 100))
    assert job.asked == [{"count": 6}]
    list(islice(found, 100))
    assert job.asked == [{"count": 6}, {"count": 4}]


def test_no_bar_keeps_an_operator_above_bounds_that_were_lowered(store: StateStore) -> None:
    job = Job(lines_per_s=200.0, parallelism={"source": 2, "count": 8})
    barred = Avoided(4, 4_000.0, "was bad", mix={"count": 4})
    store.learned.learn(on_record("orders"), 1_000.0, {AVOIDED: {"sizes": [barred.to_state()]}})
    loop = acting(job, store)
    of_bounds(loop, 4)
    assert next(looking_within_its_file(job, loop)).done


def test_what_flink_refuses_is_asked_for_once_an_hour_though_the_bounds_ask_for_more(store: StateStore) -> None:
    class Small(Job):
        def scale_operators(
            self, parallelism: Mapping[str, int], idempotency_key: str, guard: Guard = unguarded
        ) -> Running:
            super().scale_operators({}, idempotency_key, guard)
            raise TargetError("400: a maximum parallelism of 6", retriable=False)

    job = Small(lines_per_s=100.0, parallelism={"source": 8, "count": 4})
    loop = acting(job, store)
    of_bounds(loop, 12, minimum=8)
    list(islice(looking(job, Wishes({"count": 8}), loop.job.bounds, carry_out=loop.carry_out), 100))
    assert len(job.asked) == 1


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


@pytest.mark.parametrize(
    ("part", "problem"),
    [((StateStore, "prune"), "what is too old cannot be deleted"),
     ((Journal, "stands"), "how the operators stand cannot be kept")],
)  # fmt: skip
def test_what_fails_after_flink_was_asked_is_not_said_of_what_was_decided(
    store: StateStore, monkeypatch: pytest.MonkeyPatch, part: tuple[type, str], problem: str
) -> None:
    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(*part, full)
    job = Job(lines_per_s=200.0)
    look = next(looking(job, ds2(), carry_out=acting(job, store).carry_out))
    assert look.done
    assert look.problem == f"{problem}: database or disk is full"


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

"""A rescale that leaves the job down, or never ends: given up, taken back once, and remembered."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest

from perdix.control import tick
from perdix.control.job_memory import recall
from perdix.control.learn import learn
from perdix.control.memories import Memories
from perdix.control.reconcile import LONGEST_S, SETTLE_S, Event, Reconciler
from perdix.control.state.journal import Status
from perdix.control.state.ledger import State
from perdix.control.state.store import StateStore
from perdix.policies.contract import Reason
from perdix.settings.stream_job import PolicySettings
from perdix.targets.contract import Running, TargetError, unguarded
from perdix.targets.twin import LocalTwinTarget
from perdix.telemetry.window import Window
from tests.control.rig import LOW, MINUTE, FaultyTarget, Rig, restarts_of, took

MINUTES_TO_SETTLE = int(SETTLE_S / MINUTE)


def standing_since(at_s: float) -> Callable[[Window], Window]:
    """Metrics of a job that is down: records arrive, its workers are gone, and the engine says that it is not up."""

    def change(window: Window) -> Window:
        down = window.times_s > at_s
        gone = {name: np.where(down[:, None], np.nan, values) for name, values in window.worker_metrics.items()}
        of_job = dict(window.job_metrics)
        of_job["uptime_s"] = np.where(down, 0.0, of_job["uptime_s"])
        return replace(window, worker_metrics=gone, job_metrics=of_job)

    return change


@dataclass
class Stuck(FaultyTarget):
    """A target that takes note of what it is asked for, and never brings it about: ``at`` workers go on."""

    at: int = 4
    noted: int | None = None
    short: bool = False  # runs what it can, and calls that settled

    def read(self) -> Running:
        noted = self.at if self.noted is None else self.noted
        return Running(self.at, noted, settled=self.short or noted == self.at)

    def scale(self, scale_out, idempotency_key, mix=None, guard=unguarded) -> Running:
        self.asked.append((scale_out, idempotency_key))
        if self.refusing is not None:
            raise self.refusing
        self.noted = scale_out
        return self.read()


@pytest.mark.parametrize("refused", [0, 5])
def test_a_rescale_that_nobody_saw_go_on_is_not_taken_back_for_a_restart_long_after_it(
    store: StateStore, refused: int
) -> None:
    """Perdix, or its store, was away for an hour; the job restarts as it comes back."""
    rig = five_for_four(store)
    rig.target.refusing = TargetError("503: no leader") if refused else None
    rig.minutes(refused)
    rig.target.refusing, before = None, len(rig.target.asked)
    while len(rig.target.asked) == before:
        rig.minutes(1)
    rig.twin.step(60 * MINUTE)
    rig.twin.fail()
    rig.twin.step(5)
    assert not rig.target.read().settled
    assert rig.tick().event is Event.WAITING
    assert Event.CONFIRMED in [report.event for report in rig.minutes(3)]
    assert {size for size, _ in rig.target.asked} == {5}


@pytest.mark.parametrize("interval_s", [MINUTE, 15 * MINUTE])
def test_a_rescale_that_goes_on_after_that_is_taken_back_once_it_was_seen_to_for_long(
    store: StateStore, interval_s: int
) -> None:
    rig = five_for_four(store)
    rig.target = Stuck(rig.twin)
    io, reports = replace(rig.io, tick_interval_s=float(interval_s)), []
    for away_s in (MINUTE, 60 * MINUTE, *[interval_s] * 12):
        rig.twin.step(away_s)
        reports.append(tick.tick(rig.job, io, rig.now_s))
    assert [report.event for report in reports[:2]] == [Event.APPLIED, Event.WAITING]
    assert Reason.ROLLBACK in [report.decision.reason for report in reports if report.decision is not None]


@dataclass
class Queued(Stuck):
    """A target whose cluster has no room yet: what runs goes on, and is restarted once there is."""

    room_s: float = 0.0

    def read(self) -> Running:
        if self.noted is None or self.twin.now_s < self.room_s:
            return super().read()
        LocalTwinTarget(self.twin).scale(self.noted, "there is room")
        return LocalTwinTarget(self.twin).read()


def five_for_four(store: StateStore, **job: object) -> Rig:
    """A job that works on four workers, and whose policy wants five."""
    return Rig.of(store, 2 * LOW, scale_out=4, policy=PolicySettings(name="static", options={"scale_out": 5}), **job)


def left_down(rig: Rig) -> None:
    """Let the rescale that was just asked for leave the job down."""
    rig.target.never_settling = True
    rig.source.change = standing_since(rig.now_s)


def brought_back(rig: Rig) -> None:
    rig.target.never_settling = False
    rig.source.change = None


def sizes_asked(rig: Rig) -> list[int]:
    return [size for size, _ in rig.target.asked]


def test_a_job_that_stands_still_for_longer_than_a_decision_looks_back_is_blind(store: StateStore) -> None:
    rig = five_for_four(store)
    rig.minutes(1)
    left_down(rig)
    reports = rig.minutes(8)
    assert {report.status for report in reports} == {Status.ACTING}, "a rescale is under way"
    held = reports[-1].decision
    assert held is not None
    assert (held.reason, held.scale_out) == (Reason.HOLD_UNSETTLED, rig.twin.scale_out)
    rig.target.never_settling = False
    blind = rig.minutes(1)[-1]
    assert blind.status is Status.BLIND
    assert "the job has stood still for the last 180 s" in blind.sentence


def test_a_rescale_that_leaves_the_job_down_is_taken_back_after_ten_minutes(store: StateStore) -> None:
    rig = five_for_four(store)
    rig.minutes(1)
    left_down(rig)
    reports = rig.minutes(MINUTES_TO_SETTLE + 2)
    assert sizes_asked(rig) == [5, 4]
    back = next(
        report for report in reports if report.decision is not None and report.decision.reason is Reason.ROLLBACK
    )
    assert "did not end within 660 s" in back.sentence
    brought_back(rig)
    assert Event.CONFIRMED in {report.event for report in rig.minutes(5)}
    assert rig.twin.scale_out == 4
    failed = store.ledger.decisions("orders", states=[State.FAILED])
    assert [entry.intent.scale_out for entry in failed] == [5]
    assert [size.scale_out for size in recall(store, "orders").memory.avoided] == [5]


def test_a_rescale_that_never_ends_while_the_job_runs_on_is_taken_back_by_name(store: StateStore) -> None:
    """Four workers go on while five are asked for: from four to four is no rescale, and the five must be taken back."""
    rig = five_for_four(store)
    rig.target = Stuck(rig.twin)
    rig.minutes(MINUTES_TO_SETTLE + 4)
    assert sizes_asked(rig) == [5, 4]
    assert rig.target.read() == Running(4, 4, settled=True)
    rig.minutes(20)
    assert sizes_asked(rig) == [5, 4], "five are not asked for again so soon"


def test_what_cannot_be_taken_back_yet_stays_wanted(store: StateStore) -> None:
    """Four run, as is wanted again, and five are still asked for: they would come as soon as there is room."""
    rig = five_for_four(store)
    target = rig.target = Stuck(rig.twin)
    rig.minutes(5)
    target.refusing = TargetError("503: no leader")
    rig.minutes(8)
    target.short = True
    rig.minutes(35)
    assert target.noted == 5
    target.refusing = None
    rig.minutes(11)
    assert target.noted == 4


def test_what_was_taken_back_is_not_taken_back_again(store: StateStore) -> None:
    rig = five_for_four(store)
    rig.minutes(1)
    left_down(rig)
    reports = rig.minutes(60)
    assert sizes_asked(rig) == [5, 4]
    assert "the rescale has taken" in reports[-1].sentence
    brought_back(rig)
    assert Event.CONFIRMED in {report.event for report in rig.minutes(5)}


def test_a_rollback_of_which_a_worker_never_comes_up_does_not_hold_its_job_for_good(store: StateStore) -> None:
    """A node is gone, so that three of the four come back; ten minutes later the policy goes on from there."""
    rig = five_for_four(store)
    target = rig.target = Stuck(rig.twin)
    rig.minutes(MINUTES_TO_SETTLE + 2)
    assert sizes_asked(rig) == [5, 4]
    target.at = 3
    rig.twin.rescale(3, "a node is gone", None)
    rig.job = rig.job.model_copy(update={"policy": PolicySettings(name="static", options={"scale_out": 6})})
    rig.minutes(MINUTES_TO_SETTLE)
    assert sizes_asked(rig) == [5, 4]
    rig.minutes(3)
    assert sizes_asked(rig) == [5, 4, 6]
    (back,) = store.ledger.decisions("orders", states=[State.SUPERSEDED])
    assert back.intent.reason == Reason.ROLLBACK


def test_a_pause_puts_the_taking_back_off_and_does_not_forget_it(store: StateStore) -> None:
    rig = five_for_four(store)
    rig.minutes(1)
    left_down(rig)
    store.journal.pause("orders", rig.now_s + 30 * MINUTE, rig.now_s, "on call is looking")
    rig.minutes(29)
    assert sizes_asked(rig) == [5]
    rig.minutes(2)
    assert sizes_asked(rig) == [5, 4]


@pytest.mark.parametrize("point", ["Ledger.failed", "Ledger.withdraw", "Ledger.record"])
def test_a_crash_while_it_is_given_up_forgets_nothing(
    store: StateStore, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    rig = five_for_four(store)
    rig.minutes(1)
    left_down(rig)
    rig.minutes(MINUTES_TO_SETTLE)
    with monkeypatch.context() as patch:
        patch.setattr(f"perdix.control.state.ledger.{point}", _crash)
        with pytest.raises(KeyboardInterrupt):
            rig.minutes(1)
    assert sizes_asked(rig) == [5]
    rig.tick()
    assert sizes_asked(rig) == [5, 4]


def _crash(*_args: object, **_options: object) -> None:
    raise KeyboardInterrupt


def test_a_scale_out_that_the_target_calls_done_and_after_which_the_job_stands_still_is_taken_back(
    store: StateStore,
) -> None:
    """The replicas of a Deployment are there, and the job in them is not."""
    rig = five_for_four(store)
    rig.minutes(1)
    rig.source.change = standing_since(rig.now_s)
    reports = rig.minutes(20)
    assert Event.CONFIRMED in {report.event for report in reports[:5]}
    assert sizes_asked(rig) == [5, 4]
    back = next(
        report for report in reports if report.decision is not None and report.decision.reason is Reason.ROLLBACK
    )
    assert "has stood still since it was rescaled to 5 workers" in back.sentence
    rig.minutes(40)
    assert sizes_asked(rig) == [5, 4], "nor is it taken back where it does not help"


def paused_while_it_stands(store: StateStore, minutes: int) -> Rig:
    """A job that stands still since it was rescaled, and is paused before that is found out."""
    rig = five_for_four(store)
    rig.minutes(1)
    rig.source.change = standing_since(rig.now_s)
    rig.minutes(3)
    store.journal.pause("orders", rig.now_s + minutes * MINUTE, rig.now_s, "on call is looking")
    return rig


def test_a_pause_and_a_target_that_cannot_be_read_put_the_taking_back_off(store: StateStore) -> None:
    """Just then the watch of a job that stands still in its new pods comes to its end."""
    rig = paused_while_it_stands(store, minutes=15)
    rig.minutes(14)
    rig.target.unreadable = "no route to host"
    rig.minutes(4)
    assert sizes_asked(rig) == [5]
    rig.target.unreadable = None
    rig.minutes(2)
    assert sizes_asked(rig) == [5, 4]


@pytest.mark.parametrize("unsettled_at", [range(8, 9), range(13, 16), range(5, 60, 2)], ids=["once", "late", "flaps"])
def test_a_target_that_is_unsettled_just_then_puts_the_taking_back_off(store: StateStore, unsettled_at: range) -> None:
    """Its new pods crash-loop: all of them are there in one minute, and one is missing in the next."""
    rig = five_for_four(store)
    rig.minutes(1)
    rig.source.change = standing_since(rig.now_s)
    rig.minutes(3)
    for minute in range(4, 20):
        rig.target.never_settling = minute in unsettled_at
        rig.minutes(1)
    assert sizes_asked(rig) == [5, 4]


def test_a_job_that_came_back_during_a_pause_is_not_taken_back(store: StateStore) -> None:
    rig = paused_while_it_stands(store, minutes=30)
    rig.minutes(17)
    rig.source.change = None
    rig.minutes(20)
    assert sizes_asked(rig) == [5]
    (entry,) = store.ledger.decisions("orders", states=(State.CONFIRMED,))
    assert entry.outcome is not None
    assert entry.outcome["recovered"] is True


def test_what_a_person_made_of_it_meanwhile_is_not_rolled_back(store: StateStore) -> None:
    rig = Rig.of(store, 22_000.0, scale_out=6, policy=PolicySettings(name="static", options={"scale_out": 1}))
    rig.minutes(2)
    assert rig.twin.scale_out == 1
    rig.twin.rescale(7, "by hand", None)
    rig.job = rig.job.model_copy(update={"policy": PolicySettings(name="static", options={"scale_out": 7})})
    rig.source.change = always_behind
    reports = rig.minutes(20)
    assert Reason.ROLLBACK not in [report.decision.reason for report in reports if report.decision is not None]
    assert (sizes_asked(rig), rig.twin.scale_out) == ([1], 7)


def test_what_a_policy_remembers_outlives_a_rollback(store: StateStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its error budget, which sizes were late, and which fixed size did better: just then it needs them."""
    rig = Rig.of(store, LOW, scale_out=2, policy=PolicySettings(name="perdix"))
    rig.minutes(12)
    before = recall(store, "orders").memory.policy_memory
    assert before
    monkeypatch.setattr(tick, "learn", lambda *of, **how: replace(learn(*of, **how), roll_back_to=(3, "it was late")))
    back = rig.minutes(1)[-1].decision
    assert back is not None
    assert back.reason is Reason.ROLLBACK
    assert recall(store, "orders").memory.policy_memory == before


def committed_now_and_then(window: Window) -> Window:
    """The lag as offsets are committed once a minute tell it: it grows until then, although nothing waits."""
    metrics = dict(window.job_metrics)
    metrics["consumer_lag_records"] = metrics["workload_per_s"] * (window.times_s % MINUTE)
    return replace(window, job_metrics=metrics)


def always_behind(window: Window) -> Window:
    metrics = dict(window.job_metrics)
    metrics["consumer_lag_records"] = metrics["workload_per_s"] * MINUTE
    metrics["latency_p95_ms"] = np.full(len(window), 60_000.0)
    return replace(window, job_metrics=metrics)


def test_a_scale_in_that_makes_nothing_late_is_not_taken_back(store: StateStore) -> None:
    rig = Rig.of(store, LOW / 2, scale_out=2, policy=PolicySettings(name="static", options={"scale_out": 1}))
    rig.source.change = committed_now_and_then
    reasons = [report.decision.reason for report in rig.minutes(45) if report.decision is not None]
    assert rig.twin.scale_out == 1
    assert Reason.ROLLBACK not in reasons


def test_a_job_that_restarts_slowly_is_given_the_time_that_it_took_before(store: StateStore) -> None:
    """Of the first restart nobody knows how long it may take; the way back shows that no size was at fault."""
    policy = PolicySettings(name="static", options={"scale_out": 3})
    rig = Rig.of(store, 2 * LOW, scale_out=4, warm_s=900, restart=restarts_of(700.0), policy=policy)
    rig.memories = Memories()
    rig.minutes(54)
    assert sizes_asked(rig) == [3, 4, 3], "nor is the last taken back because it catches up slowly"
    assert rig.twin.settled
    downtimes = recall(store, "orders").memory.downtimes
    assert min(downtimes.out_s, downtimes.in_s) > 200.0


def test_the_time_in_which_a_target_could_not_be_read_is_no_downtime(store: StateStore) -> None:
    """Nobody saw the restart of half a minute end until a quarter of an hour later; its uptime says when it did."""
    rig = five_for_four(store)
    rig.minutes(1)
    rig.target.unreadable = "no route to host"
    rig.minutes(15)
    rig.target.unreadable = None
    rig.minutes(5)
    assert (sizes_asked(rig), rig.twin.scale_out) == ([5], 5)
    downtimes = recall(store, "orders").memory.downtimes
    assert downtimes.out.seen == 1.0
    assert downtimes.out_s < 60.0


def without_uptime(window: Window) -> Window:
    return replace(window, job_metrics={**window.job_metrics, "uptime_s": np.full(len(window), np.nan)})


@pytest.mark.parametrize("blind", [False, True], ids=["no uptime", "blind at first"])
def test_time_in_which_nobody_looked_is_no_downtime(store: StateStore, blind: bool) -> None:
    """The controller was away for 25 minutes, and the restart took half a minute."""
    rig = five_for_four(store)
    rig.source.change = None if blind else without_uptime
    rig.minutes(1)
    rig.twin.step(25 * MINUTE)
    rig.source.error = "timed out" if blind else None
    assert rig.tick().event is Event.CONFIRMED
    rig.source.error = None
    rig.minutes(5)
    out = recall(store, "orders").memory.downtimes.out
    assert out.seen == (1.0 if blind else 0.0), "without its uptime, missing throughput is no stop"
    assert out.s < 60.0


def test_a_slow_restart_is_counted_once(store: StateStore) -> None:
    """Its target says how long it took, and so do its metrics, once it has caught up: that is one restart, not two."""
    policy = PolicySettings(name="static", options={"scale_out": 3})
    rig = Rig.of(store, LOW, scale_out=4, warm_s=900, restart=restarts_of(700.0), policy=policy)
    took(store, rig.now_s - 40_000.0, 900.0)
    rig.memories = Memories()
    rig.minutes(12)
    assert not rig.twin.settled
    reports = rig.minutes(20)
    assert (Event.CONFIRMED in {report.event for report in reports}, sizes_asked(rig)) == (True, [3])
    inward = recall(store, "orders").memory.downtimes.inward
    assert inward.seen == 1.0
    assert inward.s > 250.0


def test_time_in_which_a_job_works_until_there_is_room_is_no_downtime(store: StateStore) -> None:
    rig = five_for_four(store)
    took(store, rig.now_s - 40_000.0, 900.0)
    rig.target = Queued(rig.twin, room_s=rig.now_s + 12.5 * MINUTE)
    rig.memories = Memories()
    rig.minutes(25)
    assert (sizes_asked(rig), rig.twin.scale_out) == ([5], 5)
    out = recall(store, "orders").memory.downtimes.out
    assert out.seen == 1.0
    assert out.s < 60.0


@pytest.mark.parametrize(
    ("before_s", "waits_s"),
    [((), SETTLE_S), ((60.0,), SETTLE_S), ((960.0, 60.0), 1_350.0), ((9_000.0,), LONGEST_S)],
)
def test_a_rescale_is_waited_for_as_long_as_those_before_say(
    store: StateStore, before_s: tuple[float, ...], waits_s: float
) -> None:
    rig = five_for_four(store)
    for k, seconds in enumerate(before_s):
        took(store, rig.now_s - 40_000.0 + 10_000.0 * k, seconds)
    assert_waits(rig, waits_s)


@pytest.mark.parametrize(("looked_s", "waits_s"), [(60.0, SETTLE_S), (800.0, 1_200.0)])
def test_time_in_which_nobody_looked_makes_no_rescale_be_waited_for_longer(
    store: StateStore, looked_s: float, waits_s: float
) -> None:
    """The controller was upgraded for 40 minutes; when it was back, what it had asked for ran."""
    rig = five_for_four(store)
    took(store, rig.now_s - 40_000.0, 2_400.0, looked_s=looked_s)
    assert_waits(rig, waits_s)


def assert_waits(rig: Rig, waits_s: float) -> None:
    """Check for how long the first rescale of a job is waited for that never ends."""
    rig.minutes(1)
    asked_s, target = rig.now_s, Stuck(rig.twin, noted=5)
    looks = [Reconciler(rig.store, target, "orders", asked_s + waits_s + late_s).review(act=True) for late_s in (-1, 1)]
    assert [look.event for look in looks] == [Event.WAITING, Event.GIVEN_UP]

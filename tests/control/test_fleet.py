"""A fleet's tick: isolation, leases, the soft deadline, retrains, the heartbeat."""

import gc
import itertools
from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import Mock

import orjson
import pytest

from perdix.control import tick as ticking
from perdix.control.champions import GivenChampions
from perdix.control.clock import Moment, moment
from perdix.control.controller import run
from perdix.control.fleet import _retrains, tick_fleet
from perdix.control.job_files import JobFiles
from perdix.control.lease import acquire
from perdix.control.serving import lease_name
from perdix.control.state.journal import RETRAIN_EXPIRES_S, Status
from perdix.control.state.store import StateStore
from perdix.control.tick_io import TickIO
from perdix.models.drift import LONGEST_COOLDOWN_S
from perdix.settings.stream_job import StreamJob
from perdix.targets.contract import Target, TargetError
from perdix.twin.living import SimulatedClock
from tests.control.rig import HIGH, LOW, Rig, a_job, applied


@dataclass
class Fleet:
    """Several jobs that share a clock and a store; each has its own twin."""

    rigs: dict[str, Rig]
    clock: SimulatedClock
    store: StateStore
    cost_s: float = 0.0

    @classmethod
    def of(cls, store: StateStore, loads: dict[str, float]) -> "Fleet":
        rigs = {}
        for name, per_s in loads.items():
            rig = Rig.of(store, per_s, scale_out=2)
            rig.job = a_job(name=name)
            rigs[name] = rig
        return cls(rigs, SimulatedClock(next(iter(rigs.values())).now_s), store)

    @property
    def jobs(self) -> list[StreamJob]:
        return [rig.job for rig in self.rigs.values()]

    def read(self, job: StreamJob, now_s: float, since_s: float):
        self.clock.advance(self.cost_s)
        return self.rigs[job.name].source.read(job, now_s, since_s)

    def target(self, job: StreamJob) -> Target:
        return self.rigs[job.name].target

    @property
    def io(self) -> TickIO:
        rig = next(iter(self.rigs.values()))
        return TickIO(self, self.store, rig.champions, self.target)

    def in_s(self, seconds: float) -> Moment:
        now = moment(self.clock)
        return replace(now, wall_s=now.wall_s + seconds, elapsed_s=now.elapsed_s + seconds)

    def minute(self, holder: str = "a", **options):
        self.clock.advance(60.0)
        for rig in self.rigs.values():
            rig.twin.step(max(int(self.clock.now_s()) - rig.twin.now_s, 0))
        return tick_fleet(self.jobs, self.io, self.clock, holder=holder, **options)


def test_one_job_that_breaks_does_not_stop_the_others(store: StateStore, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = Fleet.of(store, {"good": HIGH, "bad": HIGH, "fine": LOW})
    fleet.rigs["bad"].source.change = lambda window: 1 / 0
    report = fleet.minute()
    assert report.others["bad"].status is Status.BROKEN
    assert "ZeroDivisionError" in report.others["bad"].sentence
    assert set(report.reports) == {"good", "fine"}
    assert applied(fleet.rigs["good"])
    assert report.summary()["statuses"] == {"acting": 2, "broken": 1}
    assert store.journal.statuses()["bad"].status is Status.BROKEN
    assert "1 broken" in report.sentence()


def test_a_target_error_outside_of_the_target_is_that_jobs_alone(store: StateStore) -> None:
    fleet = Fleet.of(store, {"one": LOW, "two": LOW})

    def target(job: StreamJob) -> Target:
        if job.name == "one":
            raise TargetError("no such deployment")
        return fleet.target(job)

    io = replace(fleet.io, target_of=target)
    fleet.clock.advance(60)
    report = tick_fleet(fleet.jobs, io, fleet.clock, holder="a")
    assert report.others["one"].status is Status.BROKEN
    assert "two" in report.reports


def test_of_two_controllers_one_acts_and_the_other_only_observes(store: StateStore) -> None:
    fleet = Fleet.of(store, {"orders": HIGH})
    first = fleet.minute("a")
    assert "orders" in first.reports
    fleet.clock.advance(5.0)
    second = tick_fleet(fleet.jobs, fleet.io, fleet.clock, holder="b")
    assert second.reports == {}
    assert second.others["orders"].status is Status.OBSERVING
    assert "held by a" in second.others["orders"].sentence
    # The status that others read is that of the one who acts.
    assert store.journal.statuses()["orders"].status is Status.ACTING
    assert len(applied(fleet.rigs["orders"])) == 1


def test_the_second_controller_takes_over_when_the_first_is_gone(store: StateStore) -> None:
    fleet = Fleet.of(store, {"orders": HIGH})
    fleet.minute("a")
    report = fleet.minute("b")
    assert "orders" in report.reports
    assert {key for _, key in fleet.rigs["orders"].target.asked} == {store.ledger.decisions("orders")[-1].decision_id}


def test_a_tick_by_hand_gives_its_lease_back(store: StateStore) -> None:
    fleet = Fleet.of(store, {"orders": LOW})
    fleet.minute("by hand", keep_lease=False)
    report = tick_fleet(fleet.jobs, fleet.io, fleet.clock, holder="a")
    assert "orders" in report.reports


def test_a_controller_that_was_overtaken_asks_nothing_of_the_target(store: StateStore) -> None:
    """It hangs while it observes; its lease runs out, another one acts; what it then wants to store is refused."""
    fleet = Fleet.of(store, {"orders": HIGH})
    rig = fleet.rigs["orders"]

    def hang(window):
        rig.source.change = None
        taken = acquire(store, lease_name(rig.job), "b", fleet.in_s(56.0), 55.0)
        assert taken is not None
        return window

    rig.source.change = hang
    report = fleet.minute("a")
    assert report.others["orders"].status is Status.OBSERVING
    assert rig.target.asked == []
    assert store.ledger.decisions("orders") == []


def test_an_overtaken_controller_does_not_ask_even_after_it_stored_its_intent(
    store: StateStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = Fleet.of(store, {"orders": HIGH})
    rig = fleet.rigs["orders"]
    carry_out = ticking.Begun.carry_out

    def late(*args, **options):
        assert acquire(store, lease_name(rig.job), "b", fleet.in_s(56.0), 55.0) is not None
        return carry_out(*args, **options)

    monkeypatch.setattr(ticking.Begun, "carry_out", late)
    assert fleet.minute("a").others["orders"].status is Status.OBSERVING
    assert rig.target.asked == []
    desired = store.ledger.desired("orders")
    assert desired is not None, "the intent is there for whoever acts next"


@pytest.mark.parametrize("step_s", [-86_400.0, -3_600.0, -30.0, 30.0, 86_400.0])
def test_a_clock_that_is_set_locks_nobody_out_and_makes_no_second_holder(store: StateStore, step_s: float) -> None:
    fleet = Fleet.of(store, {"orders": LOW})
    fleet.minute("a")
    fleet.clock.step(step_s)
    other = tick_fleet(fleet.jobs, fleet.io, fleet.clock, holder="b")
    assert other.others["orders"].status is Status.OBSERVING, "the lease lasts as long as it was to"
    fleet.clock.advance(60.0)
    again = tick_fleet(fleet.jobs, fleet.io, fleet.clock, holder="a")
    assert again.statuses["orders"].status is not Status.OBSERVING, "and no longer"


def test_a_clock_that_is_set_on_during_a_tick_makes_nothing_late(store: StateStore) -> None:
    fleet = Fleet.of(store, {f"job-{n}": LOW for n in range(3)})
    first = fleet.rigs["job-0"]

    def set_on(window):
        fleet.clock.step(3_600.0)
        return window

    first.source.change = set_on
    assert len(fleet.minute().reports) == 3


def test_what_the_soft_deadline_cuts_off_comes_first_the_next_time(store: StateStore) -> None:
    fleet = Fleet.of(store, {f"job-{n}": LOW for n in range(6)})
    fleet.cost_s = 10.0
    first = fleet.minute(soft_deadline_s=25.0)
    late = {name for name, status in first.others.items() if status.status is Status.LATE}
    assert len(first.reports) == 3
    assert len(late) == 3
    second = fleet.minute(soft_deadline_s=25.0)
    assert set(second.reports) == late


def test_a_slow_mlflow_makes_no_job_late(store: StateStore) -> None:
    fleet = Fleet.of(store, {f"job-{n}": LOW for n in range(3)})
    slow = Mock(wraps=fleet.io.champions)
    slow.refresh.side_effect = lambda _: fleet.clock.advance(28.0) and ()
    report = tick_fleet(fleet.jobs, replace(fleet.io, champions=slow), fleet.clock, holder="a", soft_deadline_s=25.0)
    assert len(report.reports) == 3


def test_a_job_served_late_and_then_early_meets_no_lease_of_its_own_controller(store: StateStore) -> None:
    fleet = Fleet.of(store, {f"job-{n}": LOW for n in range(4)})
    fleet.cost_s = 6.0
    began = fleet.minute()
    assert len(began.reports) == 4
    fleet.clock.advance(began.started_s + 60.0 - fleet.clock.now_s())
    last = list(began.reports)[-1]
    again = tick_fleet([fleet.rigs[last].job], fleet.io, fleet.clock, holder="a")
    assert last in again.reports


def test_a_controller_that_looks_often_is_not_locked_out_by_its_own_rescale(store: StateStore) -> None:
    fleet = Fleet.of(store, {"orders": HIGH})
    often = replace(fleet.io, tick_interval_s=15.0)
    fleet.clock.advance(60.0)
    rig = fleet.rigs["orders"]
    rig.twin.step(60)
    tick_fleet(fleet.jobs, often, fleet.clock, holder="a")
    assert applied(rig), "it has asked the target, and so renewed its lease"
    fleet.clock.advance(15.0)
    rig.twin.step(15)
    assert "orders" in tick_fleet(fleet.jobs, often, fleet.clock, holder="a").reports


def test_open_retrain_requests_are_offered_again_until_they_expire(store: StateStore) -> None:
    fleet = Fleet.of(store, {"orders": LOW})
    key = store.journal.request_retrain("orders", fleet.clock.now_s(), "drift")
    assert [request.run_key for request in fleet.minute().retrains] == [key]
    assert [request.run_key for request in fleet.minute().retrains] == [key]
    fleet.clock.advance(RETRAIN_EXPIRES_S)
    assert fleet.minute().retrains == ()
    assert store.journal.open_retrains() == []


def test_a_request_that_nobody_answered_stays_open_while_its_job_drifts(store: StateStore) -> None:
    ask, asked_s = store.journal.request_retrain, 1_760_000_000.0
    key, late_s = ask("orders", asked_s, "drift"), asked_s + RETRAIN_EXPIRES_S + 60.0
    assert [request.run_key for request in _retrains(store.journal, late_s)] == [key], "who was away may answer it"
    another = ask("orders", late_s, "drift")
    assert another not in {None, key}
    assert [request.run_key for request in _retrains(store.journal, late_s)] == [another], "in its place"
    assert _retrains(store.journal, late_s + RETRAIN_EXPIRES_S + LONGEST_COOLDOWN_S + 1.0) == (), "it is served no more"
    assert store.journal.open_retrains() == []


def test_what_is_old_is_removed_by_ticks_at_any_minute(store: StateStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a crontab that says 2-59/5: none of its ticks is within a tick's interval of the full hour."""
    pruned = Mock()
    monkeypatch.setattr(StateStore, "prune", pruned)
    clock = SimulatedClock(1_760_000_400.0 // 3_600.0 * 3_600.0 + 120.0)
    io = TickIO(Mock(), store, GivenChampions(), Mock())
    for _ in range(3 * 12):
        tick_fleet([], io, clock, holder="a")
        clock.advance(300.0)
    assert pruned.call_count == 3


def test_a_journalled_tick_after_which_nothing_old_can_be_deleted_is_reported_as_that(
    store: StateStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StateStore, "prune", Mock(side_effect=OSError("disk full")))
    io = TickIO(Mock(), store, GivenChampions(), Mock())
    report = tick_fleet([], io, SimulatedClock(1_760_000_400.0), holder="a")
    assert report.notes == ("what is too old cannot be deleted: disk full",)
    assert len(store.journal.ticks()) == 1


def test_the_heartbeat_tells_when_and_what(store: StateStore, tmp_path: Path) -> None:
    fleet = Fleet.of(store, {"orders": LOW})
    report = fleet.minute(heartbeat=tmp_path / "home" / "heartbeat.json")
    beat = orjson.loads((tmp_path / "home" / "heartbeat.json").read_bytes())
    assert beat["finished_s"] == report.finished_s
    assert beat["jobs"] == 1
    assert beat["holder"] == "a"


def test_each_tick_leaves_one_summary(store: StateStore) -> None:
    fleet = Fleet.of(store, {"one": LOW, "two": HIGH})
    for _ in range(3):
        fleet.minute()
    ticks = store.journal.ticks()
    assert len(ticks) == 3
    assert ticks[0].summary["jobs"] == 2
    assert ticks[0].summary["workers"] > 0
    assert ticks[0].summary["interval_s"] == fleet.io.tick_interval_s


def test_no_jobs_is_said_so(store: StateStore) -> None:
    rig = Rig.of(store, LOW)
    report = tick_fleet([], rig.io, SimulatedClock(rig.now_s), holder="a")
    assert "No stream jobs" in report.sentence()


class _Waits:
    """Time that passes only while the controller waits."""

    def __init__(self, fleet: Fleet, until: int) -> None:
        self.fleet, self.left, self.waits = fleet, until, []

    def wait(self, timeout: float) -> bool:
        self.waits.append(timeout)
        self.fleet.clock.advance(timeout)
        for rig in self.fleet.rigs.values():
            rig.twin.step(max(int(self.fleet.clock.now_s()) - rig.twin.now_s, 0))
        self.left -= 1
        return self.left == 0


def test_the_controller_ticks_at_fixed_times_and_stops_when_told(store: StateStore) -> None:
    fleet = Fleet.of(store, {"orders": HIGH})
    fleet.cost_s = 7.0
    stop = _Waits(fleet, until=4)
    files = JobFiles(jobs={"orders": fleet.jobs[0]})
    reports = list(run(lambda: files, fleet.io, fleet.clock, holder="a", stop=stop))
    starts = [report.started_s for report in reports]
    assert [later - sooner for sooner, later in itertools.pairwise(starts)] == [60.0, 60.0, 60.0]
    assert stop.waits == [53.0] * 4
    assert all("orders" in report.reports for report in reports)


def test_the_controller_ends_after_as_many_ticks_as_asked(store: StateStore) -> None:
    fleet = Fleet.of(store, {"orders": LOW})
    files = JobFiles(jobs={"orders": fleet.jobs[0]})
    assert len(list(run(lambda: files, fleet.io, fleet.clock, holder="a", ticks=1))) == 1


def test_the_collector_of_cycles_rests_while_jobs_are_served_and_goes_on_afterwards(store: StateStore) -> None:
    fleet = Fleet.of(store, {"first": LOW, "bad": LOW})
    seen = []
    fleet.rigs["first"].source.change = lambda window: seen.append(gc.isenabled()) or window
    fleet.rigs["bad"].source.change = lambda window: seen.append(gc.isenabled()) or 1 / 0
    fleet.minute()
    assert set(seen) == {False}
    assert gc.isenabled()

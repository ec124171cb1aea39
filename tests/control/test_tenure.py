"""A controller that sleeps between its check of the lease and its request: what leaves, and what is undone."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from perdix.control.clock import moment
from perdix.control.lease import Lease, StaleLease, acquire, holder_of
from perdix.control.reconcile import Event, Progress, Reconciler
from perdix.control.state.ledger import Intent, State
from perdix.control.state.store import StateStore
from perdix.control.tenure import CALL_S, Tenure
from perdix.settings.targets import FlinkSettings
from perdix.targets.contract import Guard, Running, Target
from perdix.targets.flink.target import FlinkTarget
from perdix.targets.twin import LocalTwinTarget
from perdix.twin.living import SimulatedClock
from tests.control.rig import HIGH, Rig
from tests.targets.flink_api import FlinkCluster, a_job
from tests.targets.kubernetes_api import kubernetes_target

NOW_S = 1_700_000_000.0
THREE_MINUTES_S = 180.0


@dataclass
class Controller:
    """One of several that share a clock, a store and a target."""

    name: str
    store: StateStore
    clock: SimulatedClock
    target: Target
    tenure: Tenure | None = None

    def takes_over(self, ttl_s: float = 55.0) -> None:
        lease = acquire(self.store, "job:orders", self.name, moment(self.clock), ttl_s)
        assert isinstance(lease, Lease)
        self.tenure = Tenure(self.store, lease, self.clock)

    def decides(self, from_scale_out: int, scale_out: int) -> None:
        assert self.tenure is not None
        now_s = self.clock.now_s()
        made = Intent(
            "orders", now_s, now_s, from_scale_out, scale_out, "daedalus", "scale_out", "why", now_s + 900.0, {}, {}
        )
        assert self.tenure.fenced.ledger.record(made)

    @property
    def reconciler(self) -> Reconciler:
        assert self.tenure is not None
        return Reconciler(self.tenure.fenced, self.target, "orders", self.clock.now_s())

    def asks(self) -> Progress:
        return self.reconciler.carry_out(self.target.read(), self.tenure)

    def looks(self) -> Progress:
        return self.reconciler.review(act=True)


@pytest.fixture
def clock() -> SimulatedClock:
    return SimulatedClock(NOW_S)


@pytest.fixture
def flink():
    cluster = FlinkCluster([a_job()], checkpoints_pass=True)
    yield cluster
    cluster.close()


def on_flink(name: str, store: StateStore, clock: SimulatedClock, cluster: FlinkCluster) -> Controller:
    return Controller(name, store, clock, FlinkTarget(FlinkSettings(url=cluster.url), "orders"))


def overtaken_by(other: Controller, scale_out: int | None = None) -> Callable[[], None]:
    """Return a sleep of three minutes, in which another controller takes over and, if told so, rescales."""

    def sleep() -> None:
        other.clock.advance(THREE_MINUTES_S)
        other.takes_over()
        if scale_out is not None:
            other.decides(2, scale_out)
            assert other.asks().event is Event.APPLIED
            assert other.looks().event is Event.CONFIRMED

    return sleep


def test_a_flink_request_does_not_leave_a_controller_that_slept_after_its_last_look(store, clock, flink) -> None:
    first, second = (on_flink(name, store, clock, flink) for name in "ab")
    first.takes_over()
    first.decides(2, 4)
    seen = first.target.read()
    flink.meanwhile["GET resource-requirements"] = overtaken_by(second)
    with pytest.raises(StaleLease, match="overtaken"):
        first.reconciler.carry_out(seen, first.tenure)
    assert flink.puts() == []


def test_a_kubernetes_request_does_not_leave_it_either(store, clock, tmp_path) -> None:
    with kubernetes_target(tmp_path) as (target, server):
        first, second = (Controller(name, store, clock, target) for name in "ab")
        first.takes_over()
        first.decides(2, 4)
        look = target._api.scale

        def sleepy():
            seen = look()
            overtaken_by(second)()
            return seen

        target._api.scale = sleepy
        with pytest.raises(StaleLease, match="overtaken"):
            first.reconciler.carry_out(Running(2, 2, settled=True), first.tenure)
        assert [request.method for request in server.requests if request.method == "PUT"] == []


def test_a_twin_is_not_asked_by_it(store, clock) -> None:
    rig = Rig.of(store, HIGH, scale_out=2)

    class Sleepy(LocalTwinTarget):
        def scale(self, scale_out: int, idempotency_key: str, mix=None, guard: Guard = lambda: None) -> Running:
            overtaken_by(second)()
            return super().scale(scale_out, idempotency_key, mix, guard)

    first, second = (Controller(name, store, clock, Sleepy(rig.twin)) for name in "ab")
    first.takes_over()
    first.decides(2, 4)
    with pytest.raises(StaleLease):
        first.asks()
    assert rig.twin.requested == 2


def test_a_sleep_while_the_lease_is_renewed_is_noticed_before_anything_leaves(store, clock, flink, monkeypatch) -> None:
    """Nobody took over, yet the lease may run out while the request is under way."""
    first = on_flink("a", store, clock, flink)
    first.takes_over()
    first.decides(2, 4)
    monkeypatch.setattr("perdix.control.state.ledger.Ledger.asked", lambda *_: clock.advance(11.0))
    with pytest.raises(StaleLease, match="renewed 11 s ago"):
        first.asks()
    assert flink.puts() == []


def test_kubernetes_refuses_what_a_controller_sends_that_slept_at_the_very_last_moment(store, clock, tmp_path) -> None:
    with kubernetes_target(tmp_path) as (target, server):
        first, second = (Controller(name, store, clock, target) for name in "ab")
        first.takes_over()
        first.decides(2, 4)
        resource = next(iter(server.resources.values()))

        def rescaled_by_the_other() -> None:
            overtaken_by(second)()
            resource.replicas, resource.version = 6, resource.version + 1
            resource.settle()

        server.before_put = [rescaled_by_the_other]
        with pytest.raises(StaleLease):
            first.asks()  # with the resourceVersion of before its sleep
        assert resource.replicas == 6


def test_what_flink_is_asked_too_late_is_told_from_a_stranger_s_wish_and_undone(store, clock, flink) -> None:
    first, second = (on_flink(name, store, clock, flink) for name in "ab")
    first.takes_over()
    first.decides(2, 4)
    flink.meanwhile["PUT resource-requirements"] = overtaken_by(second, scale_out=6)
    with pytest.raises(StaleLease):
        first.asks()
    assert second.target.read() == Running(4, 4, settled=True), "it has arrived all the same"
    found = second.looks()
    assert found.event is Event.STRAY
    assert found.undone is not None
    assert found.undone.intent.from_scale_out == 6, "to which it is taken back"
    assert found.sentence == "a controller that had lost its lease asked for 4 workers after all"
    desired = store.ledger.desired("orders")
    assert desired is not None
    assert desired.scale_out == 6, "and what is wanted stays wanted"
    assert second.looks().event is Event.STRAY, "until it is taken back, whoever dies meanwhile"
    assert second.tenure is not None
    second.tenure.fenced.ledger.heard_of(found.undone.decision_id)
    assert second.looks().event is Event.WITHDRAWN, "asked for once more, it is somebody else's wish: respected"


def test_what_a_stranger_asks_for_is_respected(store, clock, flink) -> None:
    first = on_flink("a", store, clock, flink)
    first.takes_over()
    first.decides(2, 4)
    assert first.asks().event is Event.APPLIED
    assert first.looks().event is Event.CONFIRMED
    first.target.scale(6, "by hand")
    found = first.looks()
    assert found.event is Event.WITHDRAWN
    assert found.undone is None


def test_a_request_that_was_answered_is_waited_for_no_more(store, clock, flink) -> None:
    first = on_flink("a", store, clock, flink)
    first.takes_over()
    flink.refusals["PUT"] = (503, "busy")
    first.decides(2, 4)
    assert first.asks().event is Event.REFUSED
    store.ledger.withdraw("orders", clock.now_s(), "by the test")
    assert store.ledger.unanswered("orders", 0.0) == []
    assert [decision.state for decision in store.ledger.decisions("orders")] == [State.SUPERSEDED]


def test_the_lease_covers_the_request_and_then_ends_when_it_would_have(store, clock, flink) -> None:
    first = on_flink("a", store, clock, flink)
    first.takes_over(ttl_s=13.5)
    first.decides(2, 4)
    clock.advance(10.0)
    left_s = []

    def look() -> None:
        held = holder_of(store, "job:orders", moment(clock))
        left_s.append(None if held is None else held.left_s(moment(clock)))

    flink.meanwhile["PUT resource-requirements"] = look
    assert first.asks().event is Event.APPLIED
    look()
    assert left_s == [CALL_S, 3.5]


def test_a_rescale_that_a_sleeping_controller_asked_for_too_late_is_rolled_back_by_the_loop(store) -> None:
    rig = Rig.of(store, HIGH, scale_out=6)
    clock = SimulatedClock(rig.now_s)
    first, second = (Controller(name, store, clock, rig.target) for name in "ab")

    def sleep() -> None:
        rig.target.meanwhile = None
        rig.twin.step(int(THREE_MINUTES_S))
        clock.advance(THREE_MINUTES_S)
        second.takes_over()
        second.decides(6, 7)
        second.asks()
        rig.twin.step(180)
        clock.advance(180.0)
        assert second.looks().event is Event.CONFIRMED

    rig.target.meanwhile = sleep
    first.takes_over()
    first.decides(6, 8)
    with pytest.raises(StaleLease):
        first.asks()
    assert rig.twin.requested == 8
    rig.twin.step(180)
    report = rig.tick()
    assert report.event is Event.APPLIED
    assert report.sentence.startswith("Rolled back to 7 workers: a controller that had lost its lease asked for 8")
    assert rig.twin.requested == 7

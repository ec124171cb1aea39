"""The control loop on a Kubernetes resource."""

from dataclasses import dataclass

import numpy as np
import pytest

from perdix.control.job_memory import recall
from perdix.control.memories import Memories
from perdix.control.reconcile import Event
from perdix.control.state.journal import Status
from perdix.control.state.store import StateStore
from perdix.policies.contract import Reason
from perdix.settings.stream_job import PolicySettings
from perdix.targets.contract import Running, unguarded
from perdix.targets.kubernetes.target import KubernetesTarget
from perdix.twin.job import JobTwin
from tests.control.rig import HIGH, LOW, Rig
from tests.targets.kubernetes_api import RBAC, Fault, RefusedError, Resource, kubernetes_target

# In the loop


@dataclass
class Followed:
    """The twin runs what the resource asks for, and the resource's status says what the twin runs."""

    target: KubernetesTarget
    resource: Resource
    twin: JobTwin

    def read(self) -> Running:
        self._follow()
        return self.target.read()

    def scale(self, scale_out, idempotency_key, mix=None, guard=unguarded):
        try:
            return self.target.scale(scale_out, idempotency_key, mix, guard)
        finally:
            self._follow()

    def _follow(self):
        if self.resource.replicas != self.twin.requested:
            self.twin.rescale(self.resource.replicas, f"generation {self.resource.generation}")
        self.resource.running = self.twin.scale_out if self.twin.settled else 0  # as a FlinkDeployment has it


@pytest.fixture
def store(tmp_path):
    opened = StateStore(f"sqlite:///{tmp_path / 'state.db'}")
    yield opened
    opened.close()


@pytest.fixture
def loop(cluster, store):
    """Target, server, and a loop in which 2 workers are too few."""
    target, server, resource = cluster
    rig = Rig.of(store, HIGH, scale_out=2)
    rig.memories = Memories()
    rig.target = Followed(target, resource, rig.twin)
    return rig, server, resource


def test_the_loop_scales_once_through_refusals_and_answers_that_get_lost(loop):
    rig, server, resource = loop
    server.fail("PUT", status=503, message="etcdserver: leader changed")
    server.fail("PUT", half=True)
    reports = rig.minutes(12)
    events = [report.event for report in reports]
    assert events.count(Event.REFUSED) == 2
    assert Event.CONFIRMED in events
    assert Event.GIVEN_UP not in events
    assert resource.generation == 2, "it was written once"
    assert resource.running == resource.replicas > 2
    assert {report.status for report in reports} == {Status.ACTING}


def test_the_loop_says_which_right_is_missing_and_decides_nothing(loop):
    rig, server, _ = loop
    server.lasting = Fault(status=403, message=RBAC.format("get"))
    report = rig.minutes(1)[-1]
    assert (report.status, report.decision) == (Status.UNREACHABLE, None)
    assert 'verbs: ["get"]' in report.sentence
    server.lasting = None
    assert rig.minutes(1)[-1].event is Event.APPLIED


def test_what_the_resource_has_forgotten_is_asked_for_again_with_the_same_key_and_nothing_is_barred(loop):
    """A restored etcd, a stale read, an operator that writes its own number back: 2xx is not what runs."""
    rig, _, resource = loop
    assert rig.minutes(1)[-1].event is Event.APPLIED
    resource.replicas, resource.generation = 2, resource.generation + 1
    reports = rig.minutes(8)
    events = [report.event for report in reports]
    assert Event.FORGOTTEN in events
    assert Event.CONFIRMED in events
    assert Event.GIVEN_UP not in events
    assert resource.running == resource.replicas > 2
    assert recall(rig.store, "orders").memory.avoided == ()
    assert len([decision for decision in rig.store.ledger.decisions("orders") if decision.intent.rescales]) == 1, (
        "one decision"
    )


def test_a_number_that_something_sets_back_is_reported_with_who_may_do_so(loop):
    """An HPA or GitOps holds two replicas: each request of perdix lasts until that one looks again."""
    rig, _, resource = loop
    wanted = rig.minutes(1)[-1].decision.scale_out
    resource.replicas, resource.generation = 2, resource.generation + 1
    sentence = rig.minutes(1)[-1].sentence
    assert f"the target was asked for {wanted} workers, and asks for 2 workers now" in sentence
    assert "an HPA, KEDA, GitOps or an operator" in sentence


def test_a_resource_that_forgets_for_longer_than_a_decision_holds_bars_no_size(loop):
    rig, _, resource = loop

    def forget():
        resource.replicas, resource.generation = 2, resource.generation + 1

    for _ in range(20):
        report = rig.minutes(1)[-1]
        assert report.event is not Event.GIVEN_UP
        forget()
    assert recall(rig.store, "orders").memory.avoided == ()
    reports = rig.minutes(20)
    assert Event.CONFIRMED in {report.event for report in reports}
    assert resource.running > 2


def test_a_size_that_an_admission_rule_refuses_is_barred_and_one_below_is_asked_for(loop):
    rig, server, resource = loop

    def refuse_six_and_more():
        if server.requests[-1].method == "PUT" and server.requests[-1].body["spec"]["replicas"] > 5:
            raise RefusedError(422, "replicas: at most 5 here")

    server.before_put = [refuse_six_and_more] * 9
    reports = rig.minutes(4)
    assert reports[0].event is Event.GIVEN_UP
    assert "at most 5 here" in reports[0].sentence
    assert resource.replicas == 5


def test_a_server_that_does_not_answer_for_longer_than_a_decision_holds_bars_no_size(loop):
    rig, server, resource = loop
    for _ in range(20):
        server.faults = []
        server.fail("PUT", status=503, message="etcdserver: no leader")
        assert rig.minutes(1)[-1].event is not Event.GIVEN_UP
    assert recall(rig.store, "orders").memory.avoided == ()
    server.faults = []
    rig.minutes(15)
    assert resource.running > 5


def test_a_scale_out_for_which_there_is_no_room_is_taken_back_after_ten_minutes(store, tmp_path):
    """Four pods of six are ready and go on: what is asked for must be taken back by name."""
    with kubernetes_target(tmp_path, ready=True) as (target, server):
        (resource,) = server.resources.values()
        resource.replicas = 4
        resource.settle()
        rig = Rig.of(store, 2 * LOW, scale_out=4, policy=PolicySettings(name="static", options={"scale_out": 6}))
        rig.target = target
        rig.minutes(1)
        assert resource.replicas == 6
        resource.observed, resource.running = resource.generation, 6
        rig.minutes(12)
        assert resource.replicas == 4


@pytest.fixture
def losing(store, tmp_path):
    """A loop on six pods that are ready, and how to let one of them be lost for good."""
    with kubernetes_target(tmp_path, ready=True) as (target, server):
        (resource,) = server.resources.values()
        resource.replicas = 6
        resource.settle()

        def rig_of(*per_s, **job):
            load = np.repeat([LOW, *per_s], [1_800, *[4_000] * len(per_s)])
            rig = Rig.of(store, load, scale_out=6, **job)
            rig.target, rig.restarting = target, True
            return rig

        def lose(rig):
            resource.ready = 5
            rig.twin.rescale(5, "a node died")

        yield resource, rig_of, lose


def test_a_pod_that_stays_unready_does_not_hold_the_job_for_ever(losing):
    resource, rig_of, lose = losing
    rig = rig_of(HIGH, policy=PolicySettings(name="static", options={"scale_out": 6}))
    rig.minutes(2)
    lose(rig)
    rig.job = rig.job.model_copy(update={"policy": PolicySettings(name="daedalus")})
    reasons = {report.decision.reason for report in rig.minutes(11)}
    assert reasons == {Reason.HOLD_UNSETTLED}
    decided = next(found for found in (rig.minutes(1)[-1] for _ in range(19)) if found.event is Event.APPLIED)
    assert decided.decision.reason is not Reason.HOLD_UNSETTLED
    assert decided.running == 5
    assert resource.replicas == decided.decision.scale_out > 6, "five are not enough, and six are asked for already"
    assert recall(rig.store, "orders").memory.followed.changes_s == (), "a pod that is lost is nobody's rescale"
    assert {report.decision.reason for report in rig.minutes(10)} == {Reason.HOLD_UNSETTLED}, "that one is waited for"


def test_what_is_asked_for_already_is_not_decided_anew_while_a_pod_stays_unready(losing, store):
    resource, rig_of, lose = losing
    rig = rig_of(HIGH, policy=PolicySettings(name="static", options={"scale_out": 6}))
    rig.minutes(2)
    lose(rig)
    report = rig.minutes(30)[-1]
    assert report.sentence.startswith("6 workers are already asked for.")
    assert "Target: asked for 6 workers, got 5 workers for 1740 s; perdix goes on from there." in report.sentence
    assert (report.running, resource.replicas) == (5, 6)
    assert not [decision for decision in store.ledger.decisions("orders") if decision.intent.rescales]
    assert recall(store, "orders").memory.avoided == ()
    resource.settle()
    resource.ready = 6
    assert "Target" not in rig.minutes(1)[-1].sentence


def test_while_a_pod_stays_unready_fewer_may_be_asked_for(losing):
    resource, rig_of, lose = losing
    rig = rig_of(LOW, policy=PolicySettings(name="static", options={"scale_out": 6}))
    rig.minutes(2)
    lose(rig)
    rig.job = rig.job.model_copy(update={"policy": PolicySettings(name="static", options={"scale_out": 4})})
    rig.minutes(12)
    assert resource.replicas == 4

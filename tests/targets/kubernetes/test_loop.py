"""The control loop on a Kubernetes resource."""

from dataclasses import dataclass

import pytest

from control.reconcile import Event
from control.state import StateStore
from control.state_journal import Status
from targets.contract import Running, unguarded
from targets.kubernetes import KubernetesTarget
from tests.control.rig import HIGH, Rig
from tests.targets.kubernetes_api import RBAC, Fault, Resource
from twin.job import JobTwin

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
def loop(cluster, tmp_path):
    """Target, server, and a loop in which 2 workers are too few."""
    target, server, resource = cluster
    store = StateStore(f"sqlite:///{tmp_path / 'state.db'}")
    rig = Rig.of(store, HIGH, scale_out=2)
    rig.target = Followed(target, resource, rig.twin)
    yield rig, server, resource
    store.close()


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

"""The Kubernetes target against a fake API server over real HTTP and TLS (``kubernetes_api``).

That the target works on a real one is shown by ``tests/e2e/test_kubernetes_live.py``. Here the official client speaks,
its own models read what the fake says and what the target sends, and every refusal, as the API server words it, becomes
one plain error.
"""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from kubernetes import client

from perdix.settings.stream_job import StreamJob
from perdix.settings.targets import KubernetesSettings
from perdix.targets.build import build_target
from perdix.targets.contract import Running, TargetError
from perdix.targets.kubernetes.target import ATTEMPTS, KubernetesTarget
from tests.targets.kubernetes_api import (
    RBAC,
    RESOURCES,
    TOKEN,
    FakeKubernetes,
    kubernetes_target,
    methods,
    settings_of,
    status_of,
)

DEPLOY = Path(__file__).parents[3] / "deploy" / "kubernetes"


# What it does


@pytest.mark.parametrize(("api_version", "resource"), RESOURCES)
def test_whatever_has_a_scale_subresource_is_scaled_and_then_really_runs(tmp_path, api_version, resource):
    with kubernetes_target(tmp_path, api_version=api_version, resource=resource) as (target, server):
        assert target.read() == Running(2, 2, settled=True)
        assert target.scale(4, "a") == Running(2, 4, settled=False)
        next(iter(server.resources.values())).settle()
        assert target.read() == Running(4, 4, settled=True)


def test_the_job_s_settings_build_it(tmp_path):
    with FakeKubernetes() as server:
        server.add(3)
        told = settings_of(server, tmp_path).model_dump(mode="json")
        target = build_target(StreamJob.model_validate({"name": "orders", "target": told}))
        assert target.read().scale_out == 3
        target.close()


def test_a_status_follows_by_itself(cluster):
    target, server, _ = cluster
    server.follow_s = 0.05
    assert not target.scale(3, "a").settled
    time.sleep(0.06)
    assert target.read() == Running(3, 3, settled=True)


def test_what_is_asked_for_already_is_not_written(cluster):
    target, server, _ = cluster
    target.scale(2, "a")
    assert methods(server) == ["GET"]


def test_a_restarted_controller_that_repeats_itself_writes_nothing(cluster, tmp_path):
    target, server, _ = cluster
    target.scale(4, "a")
    with KubernetesTarget(settings_of(server, tmp_path), "orders") as restarted:
        assert restarted.scale(4, "a") == Running(2, 4, settled=False)
    assert methods(server).count("PUT") == 1


def test_a_mix_of_sizes_is_refused_for_good(cluster):
    target, server, _ = cluster
    with pytest.raises(TargetError, match=r"its replicas are all alike.*leave out 'sizes'") as refused:
        target.scale(2, "a", {"small": 1, "large": 1})
    assert not refused.value.retriable
    assert not server.requests


def test_what_somebody_has_scaled_to_zero_is_left_alone(cluster):
    target, server, resource = cluster
    resource.replicas = resource.running = 0
    for asked in (target.read, lambda: target.scale(3, "a")):
        with pytest.raises(TargetError, match="somebody has scaled it to 0"):
            asked()
    assert "PUT" not in methods(server)


def test_with_ready_only_pods_that_are_ready_count(tmp_path):
    with kubernetes_target(tmp_path, ready=True) as (target, server):
        assert target.read() == Running(2, 2, settled=True)
        assert target.scale(4, "a") == Running(2, 4, settled=False)
        resource = next(iter(server.resources.values()))
        resource.running, resource.observed = 4, resource.generation
        assert target.read() == Running(2, 4, settled=False), "two pods wait for a node"
        resource.ready = 4
        assert target.read() == Running(4, 4, settled=True)
        resource.observed -= 1
        assert not target.read().settled, "its controller has not seen the latest change"


PROGRESSES = {"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated"}
STUCK = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}
PAUSED = {"type": "Progressing", "status": "Unknown", "reason": "DeploymentPaused"}


@pytest.mark.parametrize(
    ("conditions", "settled"),
    [
        ([PROGRESSES], False),
        ([{"type": "Available", "status": "True"}, STUCK], True),
        ([PAUSED], True),
        ([], False),
        (["?"], False),
    ],
)
def test_a_rollout_that_is_given_up_or_paused_is_waited_for_no_longer(conditions, settled, tmp_path):
    """An image that cannot be pulled leaves a pod too many, and every old pod ready: the job would be held for good."""
    with kubernetes_target(tmp_path, ready=True) as (target, server):
        (resource,) = server.resources.values()
        server.follow_s, resource.conditions = None, conditions
        resource.running, resource.ready = 3, 2
        assert target.read() == Running(2, 2, settled=settled)
        resource.ready = 1
        assert not target.read().settled


# Others write too


def test_a_status_that_changes_meanwhile_does_not_stop_it(cluster):
    target, server, resource = cluster

    def touched():
        resource.version += 1

    server.before_put = [touched, touched]
    assert target.scale(4, "a").requested == 4
    assert methods(server) == ["GET", "PUT", "GET", "PUT", "GET", "PUT"]


def test_somebody_else_s_number_is_not_overwritten_in_the_same_breath(cluster):
    target, server, resource = cluster

    def scaled():
        resource.replicas = 7
        resource.version += 1

    server.before_put = [scaled]
    with pytest.raises(TargetError, match="someone else asked for 7 instead of 2 meanwhile") as refused:
        target.scale(4, "a")
    assert refused.value.retriable
    assert target.read().requested == 7


def test_somebody_else_s_same_number_is_as_good(cluster):
    target, server, resource = cluster

    def scaled():
        resource.replicas = 4
        resource.version += 1

    server.before_put = [scaled]
    assert target.scale(4, "a").requested == 4
    assert methods(server).count("PUT") == 1


def test_what_never_stands_still_is_given_up(cluster):
    target, server, resource = cluster

    def touched():
        resource.version += 1

    server.before_put = [touched] * 20
    with pytest.raises(TargetError, match="changes faster than it can be written") as refused:
        target.scale(4, "a")
    assert refused.value.retriable
    assert methods(server).count("PUT") == ATTEMPTS
    assert resource.replicas == 2


def test_a_resource_that_was_made_anew_meanwhile_is_read_again(cluster):
    target, server, resource = cluster

    def made_anew():
        resource.uid, resource.version, resource.replicas = "another", 1, 1

    server.before_put = [made_anew]
    with pytest.raises(TargetError, match="someone else asked for 1"):
        target.scale(4, "a")


# What goes wrong


REFUSALS = [
    (403, RBAC.format("update"), r'add to its Role in namespace prod: apiGroups: \["apps"\], resources: '
     r'\["deployments/scale"\], verbs: \["update"\] \(deploy/kubernetes/rbac\.yaml\)', True),
    (403, 'deployments.apps "orders" is forbidden: User "system:anonymous" cannot update', "no credentials", True),
    (403, 'admission webhook "quota.example" denied the request: at most 3', "at most 3; an admission rule", False),
    (404, 'deployments.apps "orders" not found', "check 'name' and 'namespace'", True),
    (404, "the server could not find the requested resource", "has the subresource scale", False),
    (405, "the server does not allow this method on the requested resource", "cannot be scaled", False),
    (400, 'admission webhook "w" denied the request: not on Fridays', "not on Fridays; an admission rule", False),
    (422, "ValidatingAdmissionPolicy 'p' denied request: too many", "too many; an admission rule", False),
    (429, "the server has received too many requests", "429: the server has received too many requests$", True),
    (500, 'Internal error occurred: failed calling webhook "w"', "500: Internal error occurred: failed calling", True),
    (500, 'Internal error occurred: the spec replicas field ".spec.taskManager.replicas" does not exist',
     "write a first number into the resource", False),
    (503, "etcdserver: leader changed", "503: etcdserver: leader changed$", True),
]  # fmt: skip


@pytest.mark.parametrize(("status", "message", "told", "retriable"), REFUSALS)
def test_a_refusal_is_told_with_its_mend(cluster, status, message, told, retriable):
    target, server, resource = cluster
    server.fail("PUT", status=status, message=message)
    with pytest.raises(TargetError, match=told) as refused:
        target.scale(4, "a")
    assert refused.value.retriable is retriable
    assert str(refused.value).startswith(f"{server.url}: deployments prod/orders: {status}: ")
    assert methods(server) == ["GET", "PUT"], "nothing is tried again by itself"
    assert resource.replicas == 2
    assert target.scale(4, "a").requested == 4, "the same key may be used again: its request was never accepted"


def test_reading_without_the_right_to_names_the_rule(cluster):
    target, server, _ = cluster
    server.fail("GET", status=403, message=RBAC.format("get"))
    with pytest.raises(TargetError, match=r'resources: \["deployments/scale"\], verbs: \["get"\]'):
        target.read()


def test_ready_without_the_right_to_names_the_other_rule(tmp_path):
    with kubernetes_target(tmp_path, ready=True) as (target, server):
        server.fail("GET", status=403, message='deployments.apps "orders" is forbidden: User "u" cannot get resource')
        with pytest.raises(TargetError, match=r'resources: \["deployments"\], verbs: \["get"\]'):
            target.read()


def test_what_is_not_there_is_told_apart(cluster, tmp_path):
    _, server, _ = cluster
    access = settings_of(server, tmp_path)
    for changed, told in [
        ({"name": "order"}, "check 'name' and 'namespace'"),
        ({"namespace": "staging"}, "check 'name' and 'namespace'"),
        ({"resource": "deployment"}, "check 'api_version' and 'resource'"),
        ({"api_version": "apps/v2"}, "check 'api_version' and 'resource'"),
    ]:
        settings = KubernetesSettings.model_validate({**access.model_dump(), **changed})
        with KubernetesTarget(settings, "orders") as target, pytest.raises(TargetError, match=told) as failed:
            target.read()
        assert failed.value.retriable is bool({"name", "namespace"} & set(changed)), "an object may come back"


def test_a_custom_resource_without_scale_is_told_so(tmp_path):
    kind = {"api_version": "flink.apache.org/v1beta1", "resource": "flinkdeployments"}
    with kubernetes_target(tmp_path, **kind) as (target, server):
        server.without_scale.add("flinkdeployments")
        with pytest.raises(
            TargetError, match=r"no flinkdeployments/scale in flink\.apache\.org/v1beta1.*definition has"
        ):
            target.read()


def test_a_retry_after_is_told_and_not_slept(cluster):
    target, server, _ = cluster
    server.fail("GET", status=429, message="slow down", headers={"Retry-After": "30"})
    began_s = time.monotonic()
    with pytest.raises(TargetError, match="slow down; the API server asks to wait 30 s") as refused:
        target.read()
    assert time.monotonic() - began_s < 25
    assert refused.value.retriable
    assert methods(server) == ["GET"]


@pytest.mark.parametrize(("method", "asked"), [("GET", "read"), ("PUT", "scale")])
def test_a_slow_server_is_waited_for_once(tmp_path, method, asked):
    with kubernetes_target(tmp_path, timeout_s=1.0) as (target, server):
        server.fail(method, delay_s=30.0)
        began_s = time.monotonic()
        with pytest.raises(TargetError, match=r"no answer within 1 s") as failed:
            target.read() if asked == "read" else target.scale(4, "a")
        assert time.monotonic() - began_s < 20
        assert methods(server)[-1:] == ([] if method == "GET" else ["GET"]), "urllib3 does not try again by itself"
        assert failed.value.retriable
        assert ("may still have been carried out" in str(failed.value)) is (method == "PUT")


def test_a_request_whose_answer_got_lost_was_carried_out_all_the_same(cluster):
    target, server, _ = cluster
    server.fail("PUT", half=True)
    with pytest.raises(TargetError) as failed:
        target.scale(4, "a")
    assert failed.value.retriable
    assert target.scale(4, "a") == Running(2, 4, settled=False)
    assert methods(server).count("PUT") == 1, "what it finds done it does not do again"


def test_nobody_listens(cluster):
    target, server, _ = cluster
    server.close()
    with pytest.raises(TargetError, match=r"cannot be reached: .*refused") as failed:
        target.read()
    assert failed.value.retriable


def test_a_server_that_comes_back_is_read_again(cluster):
    target, server, _ = cluster
    target.read()
    server.close()
    with pytest.raises(TargetError):
        target.read()
    with FakeKubernetes(port=server.port) as again:
        again.resources = server.resources
        assert target.read() == Running(2, 2, settled=True)


MALFORMED = [
    b"<html>log in</html>", b"", b"[]", b"null", b"{}", b"\xff\xfe", b'{"kind": "Deployment", "spec": {"replicas": 2}}',
    b'{"kind": "Scale", "spec": {"replicas": "2"}, "status": {"replicas": 2}}',
    b'{"kind": "Scale", "spec": {"replicas": 2}, "status": {"replicas": -2}}',
    b'{"kind": "Scale", "spec": {"replicas": true}, "status": {"replicas": 2}}',
    b'{"kind": "Scale", "spec": [], "status": {"replicas": 2}}', b'{"kind": "Scale", "spec": {"replicas": 2.5}}',
]  # fmt: skip


@pytest.mark.parametrize("body", MALFORMED)
def test_a_stranger_s_answer_is_a_target_error(cluster, body):
    target, server, _ = cluster
    server.fail("GET", body=body)
    with pytest.raises(TargetError, match="not the answer of a Kubernetes API server") as failed:
        target.read()
    assert failed.value.retriable


@pytest.mark.parametrize("body", [b"<html>gateway</html>", b"", b"\xff\xfe", b"[]", b'{"kind": "Status"}'])
def test_a_stranger_s_refusal_is_a_target_error_and_not_quoted(cluster, body):
    target, server, _ = cluster
    server.fail("GET", status=502, body=body)
    with pytest.raises(TargetError, match=r"502: Bad Gateway$") as failed:
        target.read()
    assert failed.value.retriable


def test_half_an_answer_is_a_target_error(cluster):
    target, server, _ = cluster
    server.fail("GET", half=True)
    with pytest.raises(TargetError, match="cannot be reached") as failed:
        target.read()
    assert failed.value.retriable


# Connections


def test_closing_ends_the_connections_and_what_is_closed_stays_so(cluster):
    target, server, _ = cluster
    target.read()
    assert len(server.connections) == 1
    target.read()
    assert len(server.connections) == 1, "a connection is kept"
    held = target._api._client  # else the garbage collector would close them
    target.close()
    target.close()
    until_s = time.monotonic() + 20
    while server.connections and time.monotonic() < until_s:
        time.sleep(0.01)
    assert not server.connections, f"{held} has let go of them"
    with pytest.raises(TargetError, match="was closed") as failed:
        target.read()
    assert not failed.value.retriable


def test_the_client_is_imported_by_no_other_target():
    script = "import sys, perdix.targets.build; sys.exit('kubernetes' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], cwd=DEPLOY.parents[1], check=False)
    assert done.returncode == 0


# What crosses the wire, and what it takes


def test_the_client_s_own_models_read_what_the_fake_says_and_the_target_sends(cluster):
    target, server, _ = cluster
    target.scale(4, "a")
    sent = next(request.body for request in server.requests if request.method == "PUT")
    with client.ApiClient(client.Configuration(host=server.url, api_key={"BearerToken": f"Bearer {TOKEN}"})) as api:
        said = client.AppsV1Api(api).read_namespaced_deployment_scale("orders", "prod", _preload_content=False).json()
        typed = client.AppsV1Api(api).read_namespaced_deployment_scale("orders", "prod")
        assert isinstance(typed, client.V1Scale)
        assert (typed.spec.replicas, typed.status.replicas) == (4, 2)
        assert (typed.kind, typed.api_version, typed.metadata.name) == ("Scale", "autoscaling/v1", "orders")
        for scale in (said, sent):
            assert _left_over(scale, client.V1Scale, api) == set()
        assert _left_over(status_of(403, "no"), client.V1Status, api) == set()
        deployment = client.AppsV1Api(api).read_namespaced_deployment("orders", "prod", _preload_content=False).json()
        assert _left_over(deployment["status"], client.V1DeploymentStatus, api) == set()
        api.rest_client.pool_manager.clear()
    assert sent["metadata"]["resourceVersion"] == "100"
    assert sent["spec"] == {"replicas": 4}


def _left_over(found, model, api):
    """Return the names that the official model does not know, nested ones included."""
    known = {name: model.openapi_types[attribute] for attribute, name in model.attribute_map.items()}
    unknown = set(found) - set(known)
    for name, value in found.items():
        nested = getattr(client, known.get(name, ""), None)
        if isinstance(value, dict) and nested is not None:
            unknown |= _left_over(value, nested, api)
    return unknown

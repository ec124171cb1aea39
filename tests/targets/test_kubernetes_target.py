"""The Kubernetes target against a fake API server over real HTTP and TLS (``kubernetes_api``).

A real kube-apiserver could not be had on the machine where this was written: that the target works on one is not shown
here. What is shown: the official client is what speaks, its own models read what the fake says and what the target
sends, and every refusal, as the API server words it, becomes one plain error.
"""

import datetime
import ipaddress
import logging
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from kubernetes import client
from kubernetes.config import incluster_config
from pydantic import ValidationError
from ruamel.yaml import YAML

from control.reconcile import Event
from control.state import StateStore
from control.state_journal import Status
from settings.stream_job import StreamJob
from settings.targets import KubernetesSettings
from targets.build import build_target
from targets.contract import Running, TargetError
from targets.kubernetes import ATTEMPTS, KubernetesTarget
from tests.control.rig import HIGH, Rig
from tests.targets.kubernetes_api import TOKEN, FakeKubernetes, Fault, Resource, kubernetes_target, status_of
from twin.job import JobTwin

DEPLOY = Path(__file__).parents[2] / "deploy" / "kubernetes"
KINDS = [("apps/v1", "deployments"), ("apps/v1", "statefulsets"), ("flink.apache.org/v1beta1", "flinkdeployments")]
RBAC = 'deployments.apps "orders" is forbidden: User "system:serviceaccount:perdix:perdix" cannot {} resource '
RBAC += '"deployments/scale" in API group "apps" in the namespace "prod"'


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch, tmp_path):
    """Neither the proxies nor the clusters of whoever runs the tests."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nobody"))


@pytest.fixture
def cluster(tmp_path):
    """Target, server, and the one resource that it scales, at 2."""
    with kubernetes_target(tmp_path) as (target, server):
        yield target, server, next(iter(server.resources.values()))


def methods(server):
    return [request.method for request in server.requests]


def settings_of(server, folder, **more):
    return KubernetesSettings(kubeconfig=server.kubeconfig(folder / "config"), namespace="prod", name="orders", **more)


# What it does


@pytest.mark.parametrize(("api_version", "resource"), KINDS)
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


# Who asks


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 422, 429, 500])
def test_no_message_holds_the_token(cluster, status):
    target, server, _ = cluster
    for _ in range(2):
        server.fail("GET", status=status, message="cannot do with ", echo_token=True)
    with pytest.raises(TargetError, match=rf"{status}: cannot do with \*\*\*") as failed:
        target.read()
    assert TOKEN not in repr(failed.value)
    assert failed.value.__cause__ is None


@pytest.mark.parametrize("token", [f"{TOKEN}\n", f"{TOKEN}\r\nX-Other: 1", f"{TOKEN}\u20ac"])
def test_a_token_that_cannot_be_sent_is_not_shown(cluster, tmp_path, token):
    _, server, _ = cluster
    config = server.kubeconfig(tmp_path / "odd", token=token)
    settings = KubernetesSettings(kubeconfig=config, namespace="prod", name="orders")
    with KubernetesTarget(settings, "orders") as target, pytest.raises(TargetError, match="not one line") as failed:
        target.read()
    assert TOKEN not in str(failed.value)


def test_a_token_that_is_not_known_is_told(cluster):
    target, server, _ = cluster
    server.tokens = {"another"}
    with pytest.raises(TargetError, match="401: Unauthorized; its token or certificate is missing, wrong or") as failed:
        target.read()
    assert failed.value.retriable
    assert methods(server) == ["GET", "GET"], "once more with what the files hold now"


def test_a_token_file_that_has_rotated_is_read_again(cluster, tmp_path):
    _, server, _ = cluster
    held = tmp_path / "token"
    held.write_text(TOKEN)
    config = server.kubeconfig(tmp_path / "rotating", user={"tokenFile": str(held)})
    settings = KubernetesSettings(kubeconfig=config, namespace="prod", name="orders")
    with KubernetesTarget(settings, "orders") as target:
        target.read()
        held.write_text("the-next-one")
        server.tokens = {"the-next-one"}
        assert target.scale(4, "a").requested == 4


@pytest.fixture
def pod(monkeypatch, tmp_path, authority):
    """A server with TLS, as a pod sees it: its address in the environment, token and authority as files."""
    with FakeKubernetes(authority.server) as server:
        server.add(2)
        token = tmp_path / "pod-token"
        token.write_text(TOKEN)
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(server.port))
        monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
        monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(authority.trusted))
        yield server, token


def test_in_a_pod_the_service_account_is_used_and_its_renewed_token_taken_up(pod):
    server, token = pod
    with KubernetesTarget(KubernetesSettings(namespace="prod", name="orders"), "orders") as target:
        assert target.scale(3, "a").requested == 3
        token.write_text("renewed")
        server.tokens = {"renewed"}
        assert target.read().requested == 3
    assert {request.token for request in server.requests} == {TOKEN, "renewed"}


def test_the_client_itself_reads_the_pod_s_token_again_after_a_minute(pod, monkeypatch):
    server, token = pod
    server.tokens = {TOKEN, "renewed"}
    made = []
    plain = incluster_config.InClusterConfigLoader
    monkeypatch.setattr(incluster_config, "InClusterConfigLoader", lambda **of: made.append(plain(**of)) or made[-1])
    with KubernetesTarget(KubernetesSettings(namespace="prod", name="orders"), "orders") as target:
        target.read()
        token.write_text("renewed")
        target.read()
        made[0].token_expires_at -= datetime.timedelta(minutes=2)
        target.read()
    assert [request.token for request in server.requests] == [TOKEN, TOKEN, "renewed"]


def test_a_token_that_is_gone_is_a_target_error(pod, monkeypatch):
    _, token = pod
    with KubernetesTarget(KubernetesSettings(namespace="prod", name="orders"), "orders") as target:
        token.unlink()
        with pytest.raises(TargetError, match=r"Service token file does not exist.*nobody is not there; name one"):
            target.read()


def test_outside_of_a_pod_the_user_s_kubeconfig_is_used(cluster, monkeypatch, tmp_path):
    _, server, _ = cluster
    monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path / "mine")))
    with KubernetesTarget(KubernetesSettings(namespace="prod", name="orders"), "orders") as target:
        assert target.read().scale_out == 2


def test_a_named_kubeconfig_comes_before_the_pod_s_account(pod, cluster, tmp_path):
    _, server, resource = cluster
    resource.replicas = resource.running = 5
    with KubernetesTarget(settings_of(server, tmp_path), "orders") as target:
        assert target.read().scale_out == 5


LEAKY = f"""
apiVersion: v1
current-context: test
contexts: [{{name: test, context: {{cluster: test, user: perdix}}}}]
clusters: [{{name: test, cluster: {{server: "https://127.0.0.1:1"}}}}]
users: [{{name: perdix, token: {TOKEN}}}]
"""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (LEAKY, "kubeconfig .*config: cannot be used: Invalid kube-config file. Expected key user"),
        (LEAKY.replace("current-context: test", "current-context: prod"), "Expected object with name prod"),
        (f"users: [{{name: perdix, token: {TOKEN}", r"config, line \d+: cannot be used"),
        ("", "cannot be used"),
        ("[]", "cannot be used"),
        (TOKEN, "cannot be used"),
        (LEAKY.replace("users: [{", "users: {").replace("}]", "}"), "cannot be used"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_is_named_and_not_quoted(tmp_path, text, told):
    path = tmp_path / "config"
    path.write_text(text)
    with (
        KubernetesTarget(KubernetesSettings(kubeconfig=path, name="orders"), "orders") as target,
        pytest.raises(TargetError, match=told) as failed,
    ):
        target.read()
    assert not failed.value.retriable
    assert TOKEN not in str(failed.value)


def test_a_proxy_of_the_environment_is_not_asked_for_what_is_here(cluster, tmp_path, monkeypatch):
    _, server, _ = cluster
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    with KubernetesTarget(settings_of(server, tmp_path), "orders") as target:
        assert target.read().scale_out == 2


def test_an_address_without_tls_elsewhere_is_warned_of(cluster, tmp_path, caplog):
    _, server, _ = cluster
    path = server.kubeconfig(tmp_path / "clear")
    path.write_text(path.read_text().replace("127.0.0.1", "nowhere.invalid"))
    settings = KubernetesSettings(kubeconfig=path, namespace="prod", name="orders")
    with (
        KubernetesTarget(settings, "orders") as target,
        pytest.raises(TargetError, match="cannot be reached") as failed,
    ):
        target.read()
    assert failed.value.retriable
    assert [record.getMessage() for record in caplog.records] == [
        "nowhere.invalid: the kubeconfig names an address without TLS; tokens travel in the clear"
    ]


def test_an_unknown_context_is_named(cluster, tmp_path):
    _, server, _ = cluster
    with (
        KubernetesTarget(settings_of(server, tmp_path, context="staging"), "orders") as target,
        pytest.raises(TargetError, match="Expected object with name staging"),
    ):
        target.read()


def test_no_kubeconfig_at_all_says_where_it_was_looked_for(tmp_path):
    with (
        KubernetesTarget(KubernetesSettings(name="orders"), "orders") as target,
        pytest.raises(TargetError, match=r"this is no pod with a service account .*nobody is not there") as failed,
    ):
        target.read()
    assert not failed.value.retriable


# TLS


class Authority:
    """A certificate authority of the test, and a certificate of 127.0.0.1 that it has signed."""

    def __init__(self, folder):
        self.trusted, self.server = folder / "authority.pem", folder / "server.pem"
        key, own_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
        issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority of the test")])
        authority = (
            self._signed(issuer, key.public_key(), issuer, key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(
                x509.KeyUsage(True, False, False, False, False, True, True, False, False),
                critical=True,
            )
            .sign(key, hashes.SHA256())
        )
        loopback = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
        leaf = (
            self._signed(subject, own_key.public_key(), issuer, key)
            .add_extension(loopback, critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        self.trusted.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
        private = own_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        self.server.write_bytes(private + leaf.public_bytes(serialization.Encoding.PEM))

    @staticmethod
    def _signed(subject, public_key, issuer, key):
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder(issuer, subject, public_key, x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
        )


@pytest.fixture(scope="session")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def secure(authority):
    with FakeKubernetes(authority.server) as server:
        server.add(2)
        yield server


def over_tls(server, folder, **cluster):
    config = server.kubeconfig(folder / "secure", **cluster)
    return KubernetesTarget(KubernetesSettings(kubeconfig=config, namespace="prod", name="orders"), "orders")


def test_a_certificate_of_a_named_authority_is_trusted(secure, authority, tmp_path, caplog):
    with over_tls(secure, tmp_path, **{"certificate-authority": str(authority.trusted)}) as target:
        assert target.scale(4, "a").requested == 4
    assert not caplog.records


def test_any_other_certificate_is_not_and_no_token_is_sent(secure, tmp_path):
    with (
        over_tls(secure, tmp_path) as target,
        pytest.raises(TargetError, match=r"(?i)certificate.*name its authority in the kubeconfig") as failed,
    ):
        target.read()
    assert failed.value.retriable
    assert not secure.requests


def test_a_certificate_of_another_name_is_not_trusted(secure, authority, tmp_path):
    cluster = {"certificate-authority": str(authority.trusted), "tls-server-name": "elsewhere.example"}
    with over_tls(secure, tmp_path, **cluster) as target, pytest.raises(TargetError, match="elsewhere"):
        target.read()
    assert not secure.requests


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
def test_an_insecure_kubeconfig_is_obeyed_and_warned_of(secure, tmp_path, caplog):
    with over_tls(secure, tmp_path, **{"insecure-skip-tls-verify": True}) as target, caplog.at_level(logging.WARNING):
        assert target.read().scale_out == 2
        target.read()
    assert [record.getMessage() for record in caplog.records] == [
        "127.0.0.1: the kubeconfig turns off that certificates are checked"
    ]


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
    script = "import sys, targets.build; sys.exit('kubernetes' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], cwd=DEPLOY.parents[1], check=False)
    assert done.returncode == 0


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

    def scale(self, scale_out, idempotency_key, mix=None):
        try:
            return self.target.scale(scale_out, idempotency_key, mix)
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


def manifests(name):
    return list(YAML(typ="safe").load_all(DEPLOY / name))


def granted(role):
    found = next(one for one in manifests("rbac.yaml") if one["kind"] == "Role" and one["metadata"]["name"] == role)
    return {
        (group, resource, verb)
        for rule in found["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def asked_for(tmp_path, kinds, **settings):
    """Drive the target through reading, scaling, a conflict and a rotated token; return what it asked the server."""
    asked = set()
    for api_version, resource in kinds:
        of = {"api_version": api_version, "resource": resource, **settings}
        with kubernetes_target(tmp_path, **of) as (target, server):
            made = next(iter(server.resources.values()))
            target.read()
            server.before_put = [made.settle, lambda made=made: setattr(made, "version", made.version + 1)]
            target.scale(4, "a")
            made.settle()
            server.fail("GET", status=401)
            target.read()
            asked |= server.verbs()
    return asked


def test_the_role_grants_exactly_what_the_target_asks_for(tmp_path):
    assert asked_for(tmp_path, KINDS) == granted("perdix-scale")


def test_with_ready_the_second_role_grants_the_rest(tmp_path):
    asked = asked_for(tmp_path, KINDS[:2], ready=True)
    assert asked - granted("perdix-scale") == granted("perdix-ready")


def test_every_rule_names_its_resources_and_binds_to_the_one_account():
    objects = manifests("rbac.yaml")
    assert {one["kind"] for one in objects} == {"ServiceAccount", "Role", "RoleBinding"}, "nothing cluster-wide"
    assert all(rule["resourceNames"] for one in objects if one["kind"] == "Role" for rule in one["rules"])
    account = next(one["metadata"] for one in objects if one["kind"] == "ServiceAccount")
    for binding in (one for one in objects if one["kind"] == "RoleBinding"):
        role = next(one for one in objects if one["kind"] == "Role" and one["metadata"] == binding["metadata"])
        assert binding["roleRef"]["name"] == role["metadata"]["name"]
        assert [(one["name"], one["namespace"]) for one in binding["subjects"]] == [
            (account["name"], account["namespace"])
        ]


def test_the_controller_s_pod_is_confined_and_its_job_file_is_valid(tmp_path):
    objects = {one["kind"]: one for one in manifests("controller.yaml")}
    pod = objects["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert not pod["automountServiceAccountToken"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert not container["securityContext"]["allowPrivilegeEscalation"]
    assert set(container["resources"]["limits"]) == {"cpu", "memory"}
    volumes = {volume["name"] for volume in pod["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes
    ((name, text),) = objects["ConfigMap"]["data"].items()
    job = StreamJob.model_validate({"name": Path(name).stem, **YAML(typ="safe").load(text)})
    names = {
        name
        for one in manifests("rbac.yaml")
        if one["kind"] == "Role"
        for r in one["rules"]
        for name in r["resourceNames"]
    }
    assert isinstance(job.target, KubernetesSettings)
    assert job.target.name in names


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"ready": True, "resource": "flinkdeployments", "api_version": "flink.apache.org/v1beta1"}, "'ready' is for"),
        ({"api_version": "v1"}, "api_version"),
        ({"resource": "deployments/scale"}, "resource"),
        ({"namespace": "../kube-system"}, "namespace"),
    ],
)
def test_settings_that_name_no_resource_are_refused(wrong, told):
    with pytest.raises(ValidationError, match=told):
        KubernetesSettings.model_validate({"name": "orders", **wrong})

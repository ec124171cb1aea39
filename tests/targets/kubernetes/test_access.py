"""Who asks the API server, and whom it is believed to be: tokens, kubeconfigs, service accounts, TLS."""

import datetime
import ipaddress
import logging

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from kubernetes.config import incluster_config

from perdix.settings.targets import KubernetesSettings
from perdix.targets.contract import TargetError
from perdix.targets.kubernetes.target import KubernetesTarget
from tests.targets.kubernetes_api import (
    TOKEN,
    FakeKubernetes,
    methods,
    settings_of,
)

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


def plugin(*command):
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": command[0], "args": command[1:]}}


@pytest.mark.parametrize(
    ("user", "why"),
    [
        (plugin("gke-auth-of-nobody"), "No such file or directory: 'gke-auth-of-nobody'"),
        (
            plugin("sh", "-c", "echo 'Token has expired; run aws sso login' >&2; exit 255"),
            "returned 255. Token has exp",
        ),
        (plugin("sh", "-c", f"echo 'Bearer {TOKEN} is no more' >&2; exit 1"), r"Bearer \*\*\* is no more"),
        (plugin("sh", "-c", "echo nothing"), "failed to decode process output"),
    ],
)
def test_a_plugin_that_gives_no_credentials_is_reported_with_its_reason(cluster, tmp_path, caplog, user, why):
    """Nothing but a 401 was reported, and what the plugin itself said stood in the log of another library."""
    _, server, _ = cluster
    config = server.kubeconfig(tmp_path / "cloud", user=user)
    settings = KubernetesSettings(kubeconfig=config, namespace="prod", name="orders")
    with KubernetesTarget(settings, "orders") as target, pytest.raises(TargetError, match=why) as failed:
        target.read()
    assert f"kubeconfig {config}: no credentials: " in str(failed.value)
    assert failed.value.retriable
    assert TOKEN not in str(failed.value)
    assert not server.requests
    assert not caplog.records


def test_credentials_of_a_plugin_are_used(cluster, tmp_path):
    _, server, _ = cluster
    kind = '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", '
    user = plugin("echo", f'{kind}"status": {{"token": "{TOKEN}"}}}}')
    config = server.kubeconfig(tmp_path / "cloud", user=user)
    with KubernetesTarget(KubernetesSettings(kubeconfig=config, namespace="prod", name="orders"), "orders") as target:
        assert target.read().scale_out == 2


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


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
def test_what_is_insecure_is_said_again_only_once_it_has_changed(secure, tmp_path, caplog):
    config = tmp_path / "secure"
    with over_tls(secure, tmp_path, **{"insecure-skip-tls-verify": True}) as target:
        target.read()
        secure.tokens = {"another"}  # at each call the client is made anew, which does not help
        for host in ("127.0.0.1", "localhost", "127.0.0.1"):
            config.write_text(config.read_text().replace("127.0.0.1", host).replace("localhost", host))
            for _ in range(2):
                with pytest.raises(TargetError, match="401"):
                    target.read()
    said = "the kubeconfig turns off that certificates are checked"
    assert [record.getMessage() for record in caplog.records] == [
        f"127.0.0.1: {said}",
        f"localhost: {said}",
        f"127.0.0.1: {said}",
    ]

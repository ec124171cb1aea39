"""A fake API server over real HTTP: it knows the scale subresource, and little else.

A real one is asked by ``tests/e2e/test_kubernetes_live.py``. What is imitated here, and nothing more: paths, the
objects ``autoscaling/v1 Scale`` and ``meta/v1 Status`` (their shape is checked against the official client's models),
optimistic concurrency by resourceVersion and uid, bearer tokens, and the words of its refusals. A status follows when
the test says so (``settle``), or after ``follow_s``.
"""

import json
import socket
import ssl
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from perdix.settings.targets import KubernetesSettings

TOKEN = "s3cret-token-of-the-test"
KINDS = {"deployments": "Deployment", "statefulsets": "StatefulSet", "flinkdeployments": "FlinkDeployment"}
REASONS = {400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 405: "MethodNotAllowed"}
REASONS |= {409: "Conflict", 422: "Invalid", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable"}

RESOURCES = [("apps/v1", "deployments"), ("apps/v1", "statefulsets"), ("flink.apache.org/v1beta1", "flinkdeployments")]
RBAC = 'deployments.apps "orders" is forbidden: User "system:serviceaccount:perdix:perdix" cannot {} resource '
RBAC += '"deployments/scale" in API group "apps" in the namespace "prod"'


@dataclass
class Resource:
    """One Deployment, StatefulSet or custom resource."""

    replicas: int
    running: int
    ready: int
    uid: str = "7d1b0f2e-0000-4000-8000-000000000001"
    version: int = 100
    generation: int = 1
    observed: int = 1
    changed_s: float = 0.0
    conditions: list = field(default_factory=list)

    def settle(self):
        if (self.running, self.ready, self.observed) != (self.replicas, self.replicas, self.generation):
            self.running = self.ready = self.replicas
            self.observed = self.generation
            self.version += 1


@dataclass
class Fault:
    """What goes wrong with a request: an answer of another status, a raw body, half of an answer, a delay."""

    status: int = 0
    message: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    half: bool = False
    delay_s: float = 0.0
    echo_token: bool = False


@dataclass(frozen=True)
class Request:
    """What was asked: ``get``, ``update`` ... in Kubernetes' words, and of which resource."""

    method: str
    group: str
    resource: str
    name: str
    body: dict | None
    query: dict[str, list[str]]
    token: str

    @property
    def verb(self):
        return {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "POST": "create"}[self.method]


class RefusedError(Exception):
    def __init__(self, status, message, headers=None):
        super().__init__(message)
        self.status, self.message, self.headers = status, message, headers or {}


class FakeKubernetes:
    """Serves ``resources`` (``(api_version, plural, namespace, name)`` -> resource) until it is closed."""

    def __init__(self, certificate=None, port=0):
        self.resources: dict[tuple[str, str, str, str], Resource] = {}
        self.without_scale: set[str] = set()
        self.tokens = {TOKEN}
        self.requests: list[Request] = []
        self.faults: list[tuple[str, Fault]] = []  # for the next request of that method, each once
        self.lasting: Fault | None = None
        self.before_put = []  # callables, each before one PUT is looked at: somebody else's doing
        self.follow_s: float | None = None
        self.gone = threading.Event()
        self.connections: list[socket.socket] = []
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", port), _handler_of(self))
        self.scheme = "http"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            self.scheme = "https"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        self.close()

    def close(self):
        """End the server; a second time changes nothing."""
        self.gone.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        for connection in list(self.connections):
            with suppress(OSError):  # the client was faster
                connection.shutdown(socket.SHUT_RDWR)

    @property
    def port(self):
        return self._server.server_port

    @property
    def url(self):
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def add(self, replicas=2, *, api_version="apps/v1", resource="deployments", namespace="prod", name="orders"):
        made = Resource(replicas, replicas, replicas)
        self.resources[api_version, resource, namespace, name] = made
        return made

    def kubeconfig(self, path: Path, *, token=TOKEN, user=None, **cluster):
        """Write a kubeconfig for this server and return its path."""
        user = {"token": token} if user is None else user
        text = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "perdix"}}],
            "clusters": [{"name": "test", "cluster": {"server": self.url, **cluster}}],
            "users": [{"name": "perdix", "user": user}],
        }
        path.write_text(json.dumps(text))  # JSON is YAML
        return path

    def fail(self, method, **fault):
        """Let the next request of that method go wrong."""
        self.faults.append((method, Fault(**fault)))

    def verbs(self):
        """Return (group, resource with its subresource, verb) of all that was asked."""
        return {(request.group, request.resource, request.verb) for request in self.requests}

    def fault_of(self, method):
        with self._lock:
            for number, (of, fault) in enumerate(self.faults):
                if of == method:
                    del self.faults[number]
                    return fault
        return self.lasting

    def answer(self, request, api_version, resource, namespace, subresource):
        """Return the object that answers a request, or raise what refuses it."""
        with self._lock:
            self.requests.append(request)
            key = (api_version, resource, namespace, request.name)
            qualified = f"{resource}.{request.group}"
            if request.token not in self.tokens:
                raise RefusedError(401, "Unauthorized")
            known = any(of[:2] == key[:2] for of in self.resources)
            if not known or (subresource and resource in self.without_scale) or subresource not in {"", "scale"}:
                raise RefusedError(404, "the server could not find the requested resource")
            found = self.resources.get(key)
            if found is None:
                raise RefusedError(404, f'{qualified} "{request.name}" not found')
            self._follow(found)
            if request.method == "GET":
                return _scale(key, found) if subresource else _object(key, found)
            if not subresource or request.method not in {"PUT", "PATCH"}:
                raise RefusedError(405, "the server does not allow this method on the requested resource")
            if self.before_put:
                self.before_put.pop(0)()
            self._write(key, found, request, qualified)
            return _scale(key, found)

    def _follow(self, found):
        if self.follow_s is not None and time.monotonic() >= found.changed_s + self.follow_s:
            found.settle()

    def _write(self, key, found, request, qualified):
        body, name = request.body, request.name
        meta = body.get("metadata") or {}
        if request.method == "PUT":
            if (body.get("kind"), body.get("apiVersion")) != ("Scale", "autoscaling/v1"):
                raise RefusedError(400, "the object provided is unrecognized (must be of type Scale)")
            if meta.get("name") != name or meta.get("namespace") != key[2]:
                raise RefusedError(400, "the name of the object does not match the name on the URL")
        stale = ""
        if meta.get("resourceVersion", str(found.version)) != str(found.version):
            stale = "the object has been modified; please apply your changes to the latest version and try again"
        if meta.get("uid", found.uid) != found.uid:
            stale = f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: {found.uid}"
        if stale:
            raise RefusedError(409, f'Operation cannot be fulfilled on {qualified} "{name}": {stale}')
        replicas = (body.get("spec") or {}).get("replicas", 0)
        if type(replicas) is not int:
            raise RefusedError(400, "json: cannot unmarshal into Go struct field ScaleSpec.spec.replicas of type int32")
        if replicas < 0:
            raise RefusedError(
                422, f'Scale.autoscaling "{name}" is invalid: spec.replicas: must be greater than or equal to 0'
            )
        if replicas != found.replicas:
            found.replicas, found.changed_s = replicas, time.monotonic()
            found.version += 1
            found.generation += 1


@contextmanager
def kubernetes_target(folder, *, replicas=2, timeout_s=5.0, **settings):
    """Give a target and the server it talks to: the one line that a suite needs."""
    from perdix.targets.kubernetes.target import KubernetesTarget  # noqa: PLC0415 - the client takes its time to import

    of = {name: settings[name] for name in ("api_version", "resource") if name in settings}
    with FakeKubernetes() as server:
        server.add(replicas, **of)
        access = {"kubeconfig": server.kubeconfig(folder / "kubeconfig"), "namespace": "prod", "name": "orders"}
        with KubernetesTarget(KubernetesSettings(**{**access, **settings}), "orders", timeout_s) as target:
            yield target, server


def _metadata(key, found):
    _, _, namespace, name = key
    stamp = "2026-01-01T00:00:00Z"
    version = str(found.version)
    return {
        "name": name,
        "namespace": namespace,
        "uid": found.uid,
        "resourceVersion": version,
        "creationTimestamp": stamp,
    }


def _replicas(count):
    return {"replicas": count} if count else {}  # omitempty


def _scale(key, found):
    status = {"replicas": found.running, "selector": f"app={key[3]}"}
    spec = _replicas(found.replicas)
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": _metadata(key, found),
        "spec": spec,
        "status": status,
    }


def _object(key, found):
    status = {"observedGeneration": found.observed, "conditions": found.conditions, **_replicas(found.running)}
    if found.ready:
        status["readyReplicas"] = found.ready
    metadata = {**_metadata(key, found), "generation": found.generation}
    spec = {"replicas": found.replicas}
    return {"kind": KINDS[key[1]], "apiVersion": key[0], "metadata": metadata, "spec": spec, "status": status}


def status_of(code, message):
    """Return what an API server says when it refuses."""
    reason = REASONS.get(code, "")
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """Say nothing of clients that went away: the tests make them do so."""


def _handler_of(fake):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # head and body in one packet: the second would wait for the first one's acknowledgement

        def setup(self):
            super().setup()
            fake.connections.append(self.connection)

        def finish(self):
            fake.connections.remove(self.connection)
            super().finish()

        def do_GET(self):
            self._serve()

        do_PUT = do_PATCH = do_POST = do_DELETE = do_GET

        def log_message(self, *args):
            pass

        def _serve(self):
            length = int(self.headers.get("Content-Length") or 0)
            sent = json.loads(self.rfile.read(length)) if length else None
            parts = urlsplit(self.path)
            _, _, group, version, _, namespace, resource, name, *rest = parts.path.split("/")
            token = self.headers.get("Authorization", "").partition(" ")[2]
            what = "/".join([resource, *rest])
            request = Request(self.command, group, what, name, sent, parse_qs(parts.query), token)
            fault = fake.fault_of(self.command) or Fault()
            if fault.delay_s:
                fake.gone.wait(fault.delay_s)
            try:
                if fault.status:
                    fake.requests.append(request)
                    raise RefusedError(fault.status, fault.message + (token if fault.echo_token else ""), fault.headers)
                found = fake.answer(request, f"{group}/{version}", resource, namespace, "/".join(rest))
                self._send(200, found, fault)
            except RefusedError as refused:
                self._send(refused.status, status_of(refused.status, refused.message), fault, refused.headers)

        def _send(self, status, found, fault, headers=None):
            body = json.dumps(found).encode() if fault.body is None else fault.body
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body[: len(body) // 2] if fault.half else body)
            if fault.half:
                self.close_connection = True

    return Handler


def methods(server):
    """Return what was asked of it, as HTTP calls it."""
    return [request.method for request in server.requests]


def settings_of(server, folder, **more):
    """Return a target's settings for the one resource that it has."""
    return KubernetesSettings(kubeconfig=server.kubeconfig(folder / "config"), namespace="prod", name="orders", **more)

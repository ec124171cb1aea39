"""The calls to an API server: the ``scale`` subresource of one resource, and the resource itself."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import get_ident
from typing import Any
from urllib.parse import urlsplit

from kubernetes import client, config
from urllib3.exceptions import HTTPError, NewConnectionError
from urllib3.exceptions import TimeoutError as TimedOut

from perdix.settings.targets import KubernetesSettings
from perdix.targets.contract import Fault, TargetError
from perdix.targets.kubernetes.limits import BoundedPools
from perdix.targets.kubernetes.refusals import SHOWN, Refusal, error_of, number_in
from perdix.telemetry.http_access import LOOPBACK
from perdix.telemetry.http_client import HttpError

FIELD_MANAGER = "perdix"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Scale:
    """The subresource, as read."""

    # wanted, running: ``spec.replicas`` and ``status.replicas``
    wanted: int
    running: int
    whole: dict[str, Any]  # all of it, to be sent back changed


@dataclass(frozen=True)
class Workload:
    """What a Deployment or StatefulSet says of its pods."""

    # wanted, ready: pods that are asked for, and that answer their readiness probes
    wanted: int
    ready: int
    # Whether its controller has seen the latest change and no pod is left over, except of a rollout that is paused or
    # that Kubernetes gave up
    followed: bool


class ScaleApi:
    """One resource on one API server.

    The client is made at the first call and made anew when the API server no longer knows who asks: whatever has
    rotated (a token's file, a kubeconfig, a certificate) is read again then. In a pod, the client also reads its token
    again every minute.

    ``timeout_s``: seconds that each of connecting and reading may take.
    """

    def __init__(self, settings: KubernetesSettings, timeout_s: float) -> None:
        self._settings, self._timeout_s = settings, timeout_s
        self._group, _, self._version = settings.api_version.rpartition("/")
        self._client: Any = None
        self._closed = False
        self._warned = ""  # of what, so that a client made anew does not say it again

    @property
    def place(self) -> str:
        """Server and resource, for messages."""
        settings = self._settings
        resource = f"{settings.resource} {settings.namespace}/{settings.name}"
        return resource if self._client is None else f"{_address(self._client.configuration.host)}: {resource}"

    def scale(self) -> Scale:
        """Return the subresource."""
        return self._scale(self._asked("GET", "get_namespaced_custom_object_scale", "/scale"))

    def replace(self, scale: Scale, replicas: int) -> Scale:
        """Ask for ``replicas``. Raises ``ConflictError`` when something has changed since ``scale`` was read."""
        # Sent back whole: its resourceVersion and uid are what the API server checks.
        body = {**scale.whole, "spec": {"replicas": replicas}}
        return self._scale(self._asked("PUT", "replace_namespaced_custom_object_scale", "/scale", body))

    def workload(self) -> Workload:
        """Return what the Deployment or StatefulSet says of its pods; asks for the right to get the resource itself."""
        answer = self._asked("GET", "get_namespaced_custom_object", "")
        try:
            if not isinstance(answer, dict) or not isinstance(answer.get("spec"), dict):
                raise ValueError("it has no spec")
            wanted = number_in(answer, "spec", "replicas")
            made, ready = (number_in(answer, "status", of) or 0 for of in ("replicas", "readyReplicas"))
            seen = number_in(answer, "status", "observedGeneration") or 0
            latest = number_in(answer, "metadata", "generation") or 0
        except ValueError as error:
            raise self._malformed(str(error)) from None
        wanted = 1 if wanted is None else wanted
        return Workload(wanted, ready, followed=seen >= latest and (made == wanted or _gave_up(answer)))

    def close(self) -> None:
        """Close the connections, for good."""
        self._forget()
        self._closed = True

    def _forget(self) -> None:
        if self._client is not None:
            # The client's own close() ends its threads only, and urllib3's manager leaves its pools to their holders.
            pools = self._client.rest_client.pool_manager.pools
            for key in pools.keys():  # noqa: SIM118 - it cannot be iterated over
                pools[key].close()
            self._client.close()
            self._client = None

    def _connected(self) -> Any:
        if self._closed:
            raise TargetError(f"{self.place}: this connection was closed", retriable=False, fault=Fault.LASTING)
        if self._client is None:
            configuration = configuration_of(self._settings)
            self._warn(insecurity_of(configuration))
            self._client = client.ApiClient(configuration)
            self._client.user_agent = FIELD_MANAGER
            self._client.rest_client.pool_manager = BoundedPools(self._client.rest_client.pool_manager)
        return self._client

    def _warn(self, of: str) -> None:
        if of and of != self._warned:
            _log.warning("%s", of)
        self._warned = of

    def _asked(self, method: str, call: str, subresource: str, body: Any = None) -> Any:
        try:
            return self._once(method, call, subresource, body)
        except _UnknownError:
            self._forget()
            return self._once(method, call, subresource, body)

    def _once(self, method: str, call: str, subresource: str, body: Any) -> Any:
        settings = self._settings
        connected = self._connected()
        send = getattr(client.CustomObjectsApi(connected), call)
        where = (self._group, self._version, settings.namespace, settings.resource, settings.name)
        sent = () if body is None else (body,)
        options: dict[str, Any] = {"_request_timeout": (self._timeout_s, self._timeout_s)}
        if sent:
            options["field_manager"] = FIELD_MANAGER
        try:
            return send(*where, *sent, **options)
        except HTTPError as error:
            raise self._unreached(error, method) from None
        except HttpError as error:
            raise TargetError(f"{self.place}: it {error}") from None
        except Exception as error:
            raise self._failed(error, method, settings.resource + subresource) from None

    def _unreached(self, error: HTTPError, method: str) -> TargetError:
        if isinstance(error, NewConnectionError):
            return TargetError(f"{self.place}: cannot be reached: {str(error).rpartition(': ')[2]}")
        if isinstance(error, TimedOut):
            maybe = "" if method == "GET" else "; it may still have been carried out"
            return TargetError(f"{self.place}: no answer within {self._timeout_s:g} s{maybe}")
        return TargetError(f"{self.place}: cannot be reached: {self._plain(str(error))}")

    def _failed(self, error: Exception, method: str, what: str) -> TargetError:
        # The client stumbles over a refusal that has no body (a certificate's) or one that is not UTF-8; the refusal
        # is then what it was busy with.
        refused = error if isinstance(error, client.ApiException) else error.__context__
        if isinstance(error, client.ApiException | AttributeError | UnicodeDecodeError):
            if not isinstance(refused, client.ApiException):
                return self._malformed("it cannot be decoded")
            if not refused.status:
                return TargetError(
                    f"{self.place}: cannot be reached: {self._plain(str(refused.reason))}; if its certificate is not "
                    "trusted, name its authority in the kubeconfig (certificate-authority)"
                )
            body = refused.body if isinstance(refused.body, str) else ""
            refusal = Refusal(method, what, refused.status, refused.reason or "", body, refused.headers or {})
            failure = error_of(refusal, self.place, self._settings, self._plain)
            return _UnknownError(str(failure), fault=failure.fault) if refused.status == 401 else failure
        if isinstance(error, ValueError):
            # Of a header that cannot be sent, the standard library quotes the value: that is the token.
            why = "the token is not one line of plain text"
            return TargetError(f"{self.place}: cannot be asked: {why}", retriable=False, fault=Fault.LASTING)
        return TargetError(f"{self.place}: cannot be asked: {gist(error)}")

    def _scale(self, answer: Any) -> Scale:
        try:
            if not isinstance(answer, dict) or answer.get("kind") != "Scale":
                raise ValueError("it is no Scale")
            # Zeros are left out in Kubernetes' JSON.
            wanted, running = (number_in(answer, of, "replicas") or 0 for of in ("spec", "status"))
        except ValueError as error:
            raise self._malformed(str(error)) from None
        return Scale(wanted, running, answer)

    def _malformed(self, why: str) -> TargetError:
        return TargetError(f"{self.place}: not the answer of a Kubernetes API server: {why}")

    def _plain(self, text: str) -> str:
        for secret in [] if self._client is None else secrets_of(self._client.configuration):
            text = text.replace(secret, "***")
        return " ".join(text.split())


class _UnknownError(TargetError):
    """The API server does not know who asks."""


def _gave_up(answer: dict[str, Any]) -> bool:
    """Whether a Deployment's rollout is paused, or past its ``progressDeadlineSeconds``: nobody knows if it ends."""
    conditions = (answer.get("status") or {}).get("conditions")
    return any(
        isinstance(found, dict) and found.get("type") == "Progressing" and found.get("status") in ("False", "Unknown")
        for found in (conditions if isinstance(conditions, list) else ())
    )


def _address(url: str) -> str:
    """Return scheme, host and port: a user and password may stand in a URL too."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def configuration_of(settings: KubernetesSettings) -> Any:
    """Return the client's configuration, credentials included; read anew at each call.

    A named kubeconfig or context comes first, then the pod's service account, then ``KUBECONFIG`` or
    ``~/.kube/config``. An insecure kubeconfig is obeyed; :func:`insecurity_of` puts that into words.

    Raises ``TargetError`` when none can be used. Nothing of what a file holds is in the message.
    """
    configuration = client.Configuration()
    # urllib3 would try three times more, and sleep for as long as a Retry-After says: the loop has its own pace.
    configuration.retries = False
    named = settings.kubeconfig is not None or settings.context is not None
    not_in_pod = "" if named else _load_in_pod(configuration)
    if named or not_in_pod:
        _load_kubeconfig(configuration, settings, not_in_pod)
    if urlsplit(configuration.host).hostname in LOOPBACK:
        configuration.proxy = None  # the environment's does not lead back here
    return configuration


def secrets_of(configuration: Any) -> list[str]:
    """Return what must never stand in a message: tokens, with and without their scheme."""
    whole = [str(key) for key in configuration.api_key.values()]
    bare = [key.split(maxsplit=1)[-1].strip() for key in whole if key.strip()]
    return [secret for secret in [*whole, *bare] if secret]


def _load_in_pod(configuration: Any) -> str:
    """Use the service account; return why that could not be done, or nothing."""
    try:
        config.load_incluster_config(client_configuration=configuration)
    except (config.ConfigException, OSError, ValueError) as error:
        return gist(error)
    return ""


def _load_kubeconfig(configuration: Any, settings: KubernetesSettings, not_in_pod: str) -> None:
    files = str(settings.kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config")
    place = f"kubeconfig {files}"
    if not any(Path(file).expanduser().is_file() for file in files.split(os.pathsep) if file):
        pod = f"this is no pod with a service account ({not_in_pod}), and " if not_in_pod else ""
        message = f"{pod}{place} is not there; name one with 'kubeconfig'"
        raise TargetError(message, retriable=False, fault=Fault.LASTING)
    try:
        with _complaints() as complaints:
            config.load_kube_config(files, settings.context, client_configuration=configuration)
    except Exception as error:  # whatever is odd in the file surfaces as whatever the loader trips over
        mark = getattr(error, "problem_mark", None)  # of YAML
        line = "" if mark is None else f", line {mark.line + 1}"
        message = f"{place}{line}: cannot be used: {gist(error)}"
        raise TargetError(message, retriable=False, fault=Fault.LASTING) from None
    if complaints and not (configuration.api_key or configuration.cert_file or configuration.username):
        why = " ".join(complaints[-1].split())[:SHOWN]
        raise TargetError(f"{place}: no credentials: {why}; log in again, or try kubectl with it", fault=Fault.LASTING)


@contextmanager
def _complaints() -> Iterator[list[str]]:
    """Collect what the client's loader logs of plugins that give no credentials, in place of its lines in the log."""
    heard: list[str] = []
    root, thread = logging.getLogger(), get_ident()

    def passes(record: logging.LogRecord) -> bool:
        if record.thread != thread or record.module != "kube_config":
            return True
        heard.append(record.getMessage())
        return False

    root.addFilter(passes)
    try:
        yield heard
    finally:
        root.removeFilter(passes)


def gist(error: Exception) -> str:
    """Return what the client's loader says, without the part that quotes the file: tokens stand there."""
    if isinstance(error, config.ConfigException):
        return str(error).splitlines()[0].partition(" in ")[0].rstrip(".")
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}"
    return type(error).__name__


def insecurity_of(configuration: Any) -> str:
    """Return in words what is insecure; nothing where all is well."""
    address = urlsplit(configuration.host)
    if not configuration.verify_ssl:
        return f"{address.hostname}: the kubeconfig turns off that certificates are checked"
    if address.scheme == "http" and address.hostname not in LOOPBACK:
        return f"{address.hostname}: the kubeconfig names an address without TLS; tokens travel in the clear"
    return ""

"""How the API server is reached: the pod's own service account, else a kubeconfig."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kubernetes import client, config

from perdix.settings.targets import KubernetesSettings
from perdix.targets.contract import Fault, TargetError
from perdix.telemetry.http_access import LOOPBACK


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
        config.load_kube_config(files, settings.context, client_configuration=configuration)
    except Exception as error:  # whatever is odd in the file surfaces as whatever the loader trips over
        mark = getattr(error, "problem_mark", None)  # of YAML
        line = "" if mark is None else f", line {mark.line + 1}"
        message = f"{place}{line}: cannot be used: {gist(error)}"
        raise TargetError(message, retriable=False, fault=Fault.LASTING) from None


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

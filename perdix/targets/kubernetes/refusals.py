"""What an API server's refusal means, and what would fix it."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from perdix.settings.targets import KubernetesSettings
from perdix.targets.contract import Fault, TargetError

VERBS = {"GET": "get", "PUT": "update"}
MANIFEST = "deploy/kubernetes/rbac.yaml"
LATER = frozenset({408, 425, 429})
SHOWN = 300

# Status -> what fixes it, and whether the same call may succeed later.
ALWAYS = {
    400: ("an admission rule or the resource's own schema does not accept it", False),
    401: ("its token or certificate is missing, wrong or out of date; log in again or check the service account", True),
    405: ("this resource cannot be scaled", False),
    422: ("an admission rule or the resource's own schema does not accept it", False),
}


class ConflictError(TargetError):
    """The resource has changed since it was read."""


@dataclass(frozen=True)
class Refusal:
    """An answer that is not 2xx."""

    # method, what: what was asked of what: ``PUT``, ``deployments/scale``
    method: str
    what: str
    status: int  # HTTP status
    reason: str = ""  # its phrase
    # body, headers: as they came
    body: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def status_message(self) -> str | None:
        """The API server's own words; ``None`` where something else answered (a proxy's page), which is not quoted."""
        try:
            said = json.loads(self.body)
            return str(said["message"]) if said["kind"] == "Status" else None
        except (ValueError, KeyError, TypeError, RecursionError):
            return None

    @property
    def message(self) -> str:
        """Why, in words."""
        return self.status_message or self.reason or "no reason given"


def error_of(refusal: Refusal, place: str, settings: KubernetesSettings, plain: Callable[[str], str]) -> TargetError:
    """Return the one error that says what was refused, why, and what to do.

    ``place``: server and resource.
    ``plain``: takes secrets out of a text.
    """
    fix, retriable = _fix(refusal, settings)
    said = " ".join(plain(refusal.message).split())[:SHOWN]
    sentence = f"{place}: {refusal.status}: {said}" + (f"; {fix}" if fix else "")
    kind = ConflictError if refusal.status == 409 else TargetError
    return kind(sentence, retriable=retriable, fault=_fault(refusal, retriable=retriable))


def _fault(refusal: Refusal, *, retriable: bool) -> Fault:
    status = refusal.status
    if status in LATER or status == 409 or (status >= 500 and retriable):
        return Fault.PASSING
    # An admission rule or a quota that forbids speaks as the API server does; something on the way to it does not.
    forbidden = status == 403 and not retriable and refusal.status_message is not None
    about_size = refusal.method == "PUT" and (status in {400, 422} or forbidden)
    return Fault.SIZE if about_size else Fault.LASTING


def _fix(refusal: Refusal, settings: KubernetesSettings) -> tuple[str, bool]:
    """Return what fixes it, and whether the same call may succeed later without asking otherwise."""
    status = refusal.status
    if status in ALWAYS:
        return ALWAYS[status]
    if status == 403:
        return _forbidden(refusal, settings)
    if status == 404:
        return _absent(refusal, settings)
    if status in LATER:
        wait_s = refusal.headers.get("Retry-After", "")
        return (f"the API server asks to wait {wait_s} s" if wait_s.isdigit() else ""), True
    return _broken(refusal) if status >= 500 else ("", status == 409)


def _forbidden(refusal: Refusal, settings: KubernetesSettings) -> tuple[str, bool]:
    if " cannot " not in refusal.message:
        return "an admission rule, a quota or something on the way to the API server does not accept it", False
    group = settings.api_version.rpartition("/")[0]
    rule = f'apiGroups: ["{group}"], resources: ["{refusal.what}"], verbs: ["{VERBS[refusal.method]}"]'
    who = "no credentials were sent; " if "system:anonymous" in refusal.message else ""
    return f"{who}add to its Role in namespace {settings.namespace}: {rule} ({MANIFEST})", True


def _absent(refusal: Refusal, settings: KubernetesSettings) -> tuple[str, bool]:
    said = refusal.status_message
    if said is not None and "could not find the requested resource" not in said:
        return "check 'name' and 'namespace' of the target", True  # it may be about to be created anew
    return (
        f"the cluster knows no {refusal.what} in {settings.api_version}: check 'api_version' and 'resource' (the "
        "plural), and whether the custom resource's definition has the subresource scale"
    ), False


def _broken(refusal: Refusal) -> tuple[str, bool]:
    if "replicas field" in refusal.message and "does not exist" in refusal.message:
        return "write a first number into the resource (of a FlinkDeployment: spec.taskManager.replicas)", False
    return "", True


def number_in(answer: Any, *path: str) -> int | None:
    """Return a whole number from 0 on; ``None`` where it is left out. Raises ``ValueError`` for anything else."""
    for key in path:
        if not isinstance(answer, dict):
            raise ValueError(f"{'.'.join(path)} is no number")
        answer = answer.get(key)
        if answer is None:
            return None
    if type(answer) is not int or answer < 0:
        raise ValueError(f"{'.'.join(path)} is no number")
    return answer

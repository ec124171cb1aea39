"""What to set where a Prometheus gives no usable answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from perdix.settings.access import HttpAccess
from perdix.telemetry.prometheus_answers import ErrorKind, PrometheusError

UNRESOLVED = ("Name or service not known", "nodename nor servname", "Temporary failure in name resolution")


def fix_of(error: PrometheusError, access: HttpAccess) -> str:
    """Return the fix of a server that does not answer, in words; keys are those of the job file."""
    fix = _FIXES_OF.get(error.kind)
    return _FIXES[error.kind] if fix is None else fix(str(error), access)


def _unreachable(text: str, access: HttpAccess) -> str:
    if "CERTIFICATE_VERIFY_FAILED" in text:
        trusted = "name its authority in prometheus.ca_file"
        return trusted if access.ca_file is None else f"is {access.ca_file} the authority that signed its certificate?"
    if "SSL" in text:
        return "does it speak plain HTTP? Then write http:// in prometheus.url"
    if any(words in text for words in UNRESOLVED):
        return "the name in prometheus.url cannot be resolved here: correct it"
    return "start it, or correct prometheus.url"


def _unauthorised(_: str, access: HttpAccess) -> str:
    if access.token_file is not None:
        return f"put a token that it takes into {access.token_file} (prometheus.token_file)"
    if access.token_env is not None:
        return f"put a token that it takes into the environment variable {access.token_env} (prometheus.token_env)"
    return "set prometheus.token_file or token_env to where a token is"


def _rejected(text: str, access: HttpAccess) -> str:
    if access.url.scheme == "http" and "HTTPS" in text:
        return "write https:// in prometheus.url"
    return "correct prometheus.url: it must lead to Prometheus itself, with the path before /api/v1 if there is one"


_FIXES: Mapping[ErrorKind, str] = {
    "timeout": "is it overloaded, or behind a firewall? Ask it from this machine: curl prometheus.url/-/ready",
    "overloaded": "look at its log and its load, or correct prometheus.url if a proxy answers for it",
    "malformed": "correct prometheus.url: it must lead to Prometheus itself, without a login page before it",
}
_FIXES_OF: Mapping[ErrorKind, Callable[[str, HttpAccess], str]] = {
    "unreachable": _unreachable,
    "unauthorised": _unauthorised,
    "rejected": _rejected,
}

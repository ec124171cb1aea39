"""How a server's settings look to an HTTP client: which certificates count, whether a proxy is asked, its name."""

import ssl
from functools import cache
from typing import TypedDict

import httpx

from perdix.settings.access import AccessError, HttpAccess

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class Trust(TypedDict):
    """Arguments of an ``httpx`` client."""

    verify: ssl.SSLContext | bool
    trust_env: bool


def trust(access: HttpAccess) -> Trust:
    """Return what a client is made with. Raises ``AccessError`` when the file of authorities cannot be used."""
    local = httpx.URL(str(access.url)).host in LOOPBACK  # a proxy does not lead back here
    return {"verify": _certificates(access), "trust_env": not local}


def shown(access: HttpAccess) -> str:
    """Return the address without a user and a password that may stand in it, for messages."""
    return str(httpx.URL(str(access.url)).copy_with(userinfo=b"", query=None)).rstrip("/")


def _certificates(access: HttpAccess) -> ssl.SSLContext | bool:
    if access.ca_file is None:
        return _system() if access.verify_tls else False
    try:
        return ssl.create_default_context(cafile=str(access.ca_file))
    except (OSError, ssl.SSLError) as error:
        raise AccessError(f"ca_file {access.ca_file}: {error}") from None


@cache
def _system() -> ssl.SSLContext:
    """Return the system's authorities, read once: that takes 50 ms and a megabyte, and each job has its target."""
    return httpx.create_ssl_context()

"""Secrets in text that is stored or shown: masked, wherever the text came from."""

import base64
import re
from collections.abc import Iterable
from urllib.parse import unquote, urlsplit

MASK = "***"
SHORTEST = 4  # a shorter one would be found in every second word
_USERINFO = re.compile(r"(?<=//)[^\s/@'\"]*:[^\s'\"]*@(?=[^\s/@'\"])")  # a password may hold '/', '@' and ':'
_NO_PORT = re.compile(r"(?<=//)([^\s/@:'\"\[]*):(?!\d+\b)[^\s'\"]+")  # of an address that lost its '@'
_USER = re.compile(r"((?:\w+:)?//)?[^\s'\"]+@")
_QUERY = re.compile(r"(://[^\s'\"?]*\?)[^\s'\"]+")
_CREDENTIALS = re.compile(r"\b(Bearer|Basic)(\s+|%20)[\w.~+/=-]{4,}", re.IGNORECASE)
_NAMED = re.compile(r"token|password|passwd|secret|credential|api_?key", re.IGNORECASE)


def masked(text: str, secrets: Iterable[str] = ()) -> str:
    """Return ``text`` without passwords and queries of URLs, credentials of HTTP headers, and the ``secrets`` given.

    A server may echo what it was asked with, so a client hands in what it sent.
    """
    for secret in secrets:
        if len(secret) >= SHORTEST:
            text = text.replace(secret, MASK)
    if "//" in text:
        text = _NO_PORT.sub(rf"\1:{MASK}", _USERINFO.sub(f"{MASK}@", text))
        text = _QUERY.sub(rf"\1{MASK}", text)
    return _CREDENTIALS.sub(rf"\1\2{MASK}", text)


def sent_with(address: str, authorization: str = "") -> tuple[str, ...]:
    """Return the secrets that a request to ``address`` carries, as a server may echo them: token and password."""
    parts = urlsplit(address)
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    basic = base64.b64encode(f"{user}:{password}".encode()).decode() if password else ""
    return tuple(filter(None, (authorization.partition(" ")[2], parts.password, password, basic)))


def without_user(address: str) -> str:
    """Return what may be an address, also one that is no whole URL, without the user and the password in it."""
    return _USER.sub(rf"\1{MASK}@", masked(address))


def names_a_secret(key: object) -> bool:
    """Whether what is written under this key may be a secret, also by mistake (a token in place of its file)."""
    return _NAMED.search(str(key)) is not None

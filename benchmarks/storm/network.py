"""The simulated network: what the real HTTP clients send ends here instead of in a socket.

``httpx`` and ``urllib3`` are cut where they would open a connection, so that everything above (time-outs as they are
set, decoding, retries, refusals) is the clients' own.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch
from urllib.parse import urlsplit

import httpx
import urllib3
from urllib3.exceptions import NewConnectionError, ReadTimeoutError

DEFAULT_TIMEOUT_S = 5.0
HEADERS = {"Content-Type": "application/json"}


@dataclass(frozen=True)
class Request:
    """What was sent, and how long its sender waits."""

    method: str
    host: str
    path: str
    body: bytes
    timeout_s: float
    query: str = ""


@dataclass(frozen=True)
class Response:
    """What came back."""

    status: int
    body: bytes
    headers: dict[str, str]

    @classmethod
    def of(cls, status: int, document: Any) -> Response:
        return cls(status, json.dumps(document).encode(), dict(HEADERS))


class RefusedError(Exception):
    """Nobody listens."""


class SilenceError(Exception):
    """No answer came in time."""


Exchange = Callable[[Request], Response]


@contextmanager
def simulated(exchange: Exchange) -> Iterator[None]:
    """Let every request of this process end in ``exchange``."""
    over_httpx = patch.object(httpx.HTTPTransport, "handle_request", _over_httpx(exchange))
    with over_httpx, patch.object(urllib3.PoolManager, "urlopen", _over_urllib3(exchange)):
        yield


class _Body(httpx.SyncByteStream):
    def __init__(self, content: bytes) -> None:
        self._content = content

    def __iter__(self) -> Iterator[bytes]:
        yield self._content


def _over_httpx(exchange: Exchange) -> Any:
    def handle_request(_: httpx.HTTPTransport, request: httpx.Request) -> httpx.Response:
        timeout_s = request.extensions.get("timeout", {}).get("read") or DEFAULT_TIMEOUT_S
        url = request.url
        sent = Request(request.method, url.host, url.path, request.read(), timeout_s, url.query.decode())
        try:
            found = exchange(sent)
        except RefusedError:
            raise httpx.ConnectError("[Errno 111] Connection refused") from None
        except SilenceError:
            raise httpx.ReadTimeout("timed out") from None
        return httpx.Response(found.status, headers=found.headers, stream=_Body(found.body))

    return handle_request


def _over_urllib3(exchange: Exchange) -> Any:
    def urlopen(manager: urllib3.PoolManager, method: str, url: str, redirect: bool = True, **how: Any) -> Any:  # noqa: ARG001
        parts = urlsplit(url)
        timeout = how.get("timeout")
        timeout_s = getattr(timeout, "read_timeout", None) or DEFAULT_TIMEOUT_S
        body = how.get("body") or b""
        sent = Request(
            method, parts.hostname or "", parts.path, body.encode() if isinstance(body, str) else body, timeout_s
        )
        pool: Any = manager.connection_from_url(url)
        try:
            found = exchange(sent)
        except RefusedError:
            raise NewConnectionError(pool, "Connection refused") from None
        except SilenceError:
            raise ReadTimeoutError(pool, url, "Read timed out") from None
        return urllib3.HTTPResponse(
            body=io.BytesIO(found.body),
            headers=found.headers,
            status=found.status,
            reason="",
            preload_content=how.get("preload_content", True),
            decode_content=how.get("decode_content", True),
        )

    return urlopen

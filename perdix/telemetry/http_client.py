"""One HTTP call with a bound on everything: how long all of it takes, and how large its answer grows.

Belongs here: the conversation with any server that perdix asks (Prometheus, Flink, a twin). Does not belong here: what
an answer means. Kubernetes' own client keeps the same bounds in :mod:`perdix.targets.kubernetes.limits`.
"""

import ssl
import threading
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal

import httpcore
import httpx

from perdix.settings.access import HttpAccess
from perdix.settings.plain_error import PlainError
from perdix.settings.secrets import masked, sent_with
from perdix.telemetry.http_access import shown, trust

Trouble = Literal["unreachable", "no answer", "too slow", "broken off", "unreadable", "too large", "unaskable"]
MIB = 2**20


class HttpError(PlainError):
    """A call without a usable answer. ``trouble`` is for programs; the message does not name the server."""

    def __init__(self, trouble: Trouble, message: str) -> None:
        super().__init__(message)
        self.trouble: Trouble = trouble


@dataclass(frozen=True)
class Limits:
    """What one call may cost."""

    pause_s: float  # seconds for connecting, and between two pieces of an answer
    total_s: float  # seconds for the whole call; looking up the server's name is not counted
    largest_bytes: int  # of an answer's body, unpacked


@dataclass(frozen=True)
class Answer:
    """What a server answered: ``body`` is unpacked, ``reason`` the status line's phrase.

    A server may echo what it was asked with. ``body`` is as it was sent, so that no number in it is changed; no text of
    it is stored or shown but through :meth:`without_secrets`.
    """

    status: int
    reason: str
    content_type: str
    body: bytes = field(repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)  # what the request carried: token, password

    def without_secrets(self, text: str) -> str:
        """Return text of the body, decoded and not yet cut, as it may be stored and shown."""
        return masked(text, self.secrets)


class HttpClient:
    """Connections to one server, to be used from several threads.

    Raises ``AccessError`` when the certificate authorities that ``access`` names cannot be used.
    """

    def __init__(self, access: HttpAccess, limits: Limits) -> None:
        self.address = shown(access)
        self._base = str(access.url).rstrip("/")
        self._access, self._limits = access, limits
        # A coding that can be unpacked bit by bit: with others, a few bytes become gigabytes at once.
        self._client = httpx.Client(
            timeout=limits.pause_s, headers={"Accept-Encoding": "gzip", "User-Agent": "perdix"}, **trust(access)
        )
        _bound(self._client)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def ask(self, method: str, path: str, *, params: Mapping[str, str] | None = None, json: Any = None) -> Answer:
        """Send a request and read its answer, whatever its status.

        Raises ``HttpError`` when there is no answer, or none that keeps to the limits; ``AccessError`` when the token
        cannot be read.
        """
        headers = self._access.headers()
        with within(self._limits.total_s):
            try:
                return self._asked(method, self._base + path, params=params, json=json, headers=headers)
            except httpx.TimeoutException as error:
                raise self._timed_out(error) from None
            except httpx.RemoteProtocolError:
                raise HttpError("broken off", "broke off in the middle of its answer") from None
            except httpx.TransportError as error:
                raise HttpError("unreachable", f"cannot be reached: {error}") from None
            except (httpx.InvalidURL, RuntimeError, UnicodeError) as error:
                raise HttpError("unaskable", f"cannot be asked: {error}") from None

    def _asked(self, method: str, url: str, **sent: Any) -> Answer:
        with self._client.stream(method, url, **sent) as response:
            coding, kind = (response.headers.get(name, "") for name in ("content-encoding", "content-type"))
            body = unpacked(response.iter_raw(), coding, self._limits.largest_bytes)
            secrets = sent_with(url, response.request.headers.get("Authorization", ""))
            return Answer(response.status_code, masked(response.reason_phrase, secrets), kind, body, secrets)

    def _timed_out(self, error: httpx.TimeoutException) -> HttpError:
        if left_s() <= 0.0:
            return HttpError("too slow", f"took over {self._limits.total_s:g} s for one answer")
        what = "connect" if isinstance(error, httpx.ConnectTimeout) else "answer"
        return HttpError("no answer", f"did not {what} in time")


@dataclass
class SharedClients:
    """One client for each server and way of asking it, however many ask: a fleet's targets share connections.

    Thread-safe. What is borrowed is given back once; the last one closes the client.
    """

    _lent: dict[tuple[str, Limits], tuple[HttpClient, int]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def borrow(self, access: HttpAccess, limits: Limits) -> HttpClient:
        """Return the client; raises ``AccessError`` as :class:`HttpClient` does."""
        key = access.asked_as, limits
        with self._lock:
            client, lent = self._lent.get(key) or (HttpClient(access, limits), 0)
            self._lent[key] = client, lent + 1
            return client

    def give_back(self, client: HttpClient) -> None:
        """Close the client if nobody else has it."""
        with self._lock:
            key, lent = next((key, lent) for key, (pool, lent) in self._lent.items() if pool is client)
            if lent > 1:
                self._lent[key] = client, lent - 1
                return
            del self._lent[key]
        client.close()


def unpacked(pieces: Iterable[bytes], coding: str, largest_bytes: int) -> bytes:
    """Return a body, unpacked piece by piece: of a bomb, no more is ever held than may be.

    Raises ``HttpError`` when it grows too large, or is packed in another way than asked for.
    """
    codings = [part.strip().lower() for part in coding.split(",") if part.strip().lower() not in {"", "identity"}]
    if codings not in ([], ["gzip"], ["x-gzip"], ["deflate"]):
        raise HttpError("unreadable", f"sent a body packed as {coding[:40]!r}, which was not asked for")
    packed = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32) if codings else None  # gzip or zlib, as its head says
    body = bytearray()
    empty = True
    for piece in pieces:
        empty = empty and not piece
        try:
            body += piece if packed is None else packed.decompress(piece, largest_bytes + 1 - len(body))
        except zlib.error:
            raise HttpError("unreadable", "sent a body that cannot be unpacked") from None
        if len(body) > largest_bytes:
            raise HttpError("too large", f"answers with more than {largest_bytes / MIB:.3g} MiB; ask for less")
    if packed is not None and not packed.eof and not empty:
        raise HttpError("broken off", "broke off in the middle of its answer")
    return bytes(body)


def _bound(client: httpx.Client) -> None:
    """Let every read and write of a client end with its call.

    httpx counts a time-out anew for each piece, so that a server which sends a byte now and then is never too slow, not
    even while it sends its headers. There is no public way in: a test holds this against the version in use.
    """
    for transport in (client._transport, *client._mounts.values()):
        if isinstance(transport, httpx.HTTPTransport):
            transport._pool._network_backend = _Bounded(transport._pool._network_backend)


class _Bounded(httpcore.NetworkBackend):
    def __init__(self, inner: httpcore.NetworkBackend) -> None:
        self._inner = inner

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        allowed_s = _allowed_s(timeout, httpcore.ConnectTimeout)
        return _BoundedStream(self._inner.connect_tcp(host, port, allowed_s, local_address, socket_options))

    def sleep(self, seconds: float) -> None:
        self._inner.sleep(seconds)


class _BoundedStream(httpcore.NetworkStream):
    def __init__(self, inner: httpcore.NetworkStream) -> None:
        self._inner = inner

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, _allowed_s(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, _allowed_s(timeout, httpcore.WriteTimeout))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        allowed_s = _allowed_s(timeout, httpcore.ConnectTimeout)
        return _BoundedStream(self._inner.start_tls(ssl_context, server_hostname, allowed_s))

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


def _allowed_s(timeout_s: float | None, error: type[httpcore.TimeoutException]) -> float:
    allowed_s = left_s(timeout_s)
    if allowed_s <= 0.0:
        raise error
    return allowed_s


_until_s: ContextVar[float] = ContextVar("_until_s", default=float("inf"))


@contextmanager
def within(total_s: float) -> Iterator[None]:
    """Let whatever is read or written in this block, in this thread, end ``total_s`` seconds from now."""
    token = _until_s.set(time.monotonic() + total_s)
    try:
        yield
    finally:
        _until_s.reset(token)


def left_s(timeout_s: float | None = None) -> float:
    """Return how long the next read or write may take: ``timeout_s``, or less; not positive when the time is over."""
    left = _until_s.get() - time.monotonic()
    return left if timeout_s is None else min(timeout_s, left)

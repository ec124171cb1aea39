"""Bounds on what an API server's answer may cost: Kubernetes' own client knows none on the whole of it."""

import io
import socket
from typing import Any

from urllib3 import HTTPConnectionPool, HTTPResponse, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection

from perdix.targets.http import LARGEST_ANSWER_BYTES, TOTAL_S
from perdix.telemetry.http_client import left_s, unpacked, within


class BoundedPools:
    """Stands in for the client's pool manager: ``manager``, urllib3's, which has made no connection yet."""

    def __init__(self, manager: Any) -> None:
        manager.pool_classes_by_scheme = {"http": _Pool, "https": _SecurePool}
        self._manager = manager
        self.pools = manager.pools

    def request(self, method: str, url: str, **options: Any) -> HTTPResponse:
        """Send a request and read its answer, unpacked.

        Raises ``HTTPError`` as urllib3 does; ``HttpError`` when the answer grows too large, or is packed oddly.
        """
        with within(TOTAL_S):
            response = self._manager.request(method, url, **options | {"preload_content": False})
            try:
                coding = response.headers.get("Content-Encoding", "")
                body = unpacked(response.stream(65_536, decode_content=False), coding, LARGEST_ANSWER_BYTES)
            except BaseException:
                response.close()
                raise
            response.release_conn()
        return HTTPResponse(
            body, response.headers, response.status, reason=response.reason, decode_content=False, preload_content=True
        )


class _Reading(io.RawIOBase):
    """A socket's bytes, for as long as the call may take."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._pause_s = connected.gettimeout()
        self._file = connected.makefile("rb", buffering=0)  # keeps the socket open for as long as it is read

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        allowed_s = left_s(self._pause_s)
        if allowed_s <= 0.0:
            raise TimeoutError("the time for the whole answer is over")
        self._socket.settimeout(allowed_s)
        return self._file.readinto(buffer)

    def close(self) -> None:
        self._file.close()
        super().close()


class _Socket:
    """A connected socket of which the answer is read by the deadline."""

    def __init__(self, connected: socket.socket) -> None:
        self._connected = connected

    def makefile(self, mode: str, *_: Any, **__: Any) -> io.BufferedReader:
        if mode != "rb":
            raise ValueError(f"an answer is read, not opened as {mode!r}")
        return io.BufferedReader(_Reading(self._connected))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connected, name)


class _Connection(HTTPConnection):
    def connect(self) -> None:
        super().connect()
        self.sock = _Socket(self.sock)


class _SecureConnection(HTTPSConnection):
    def connect(self) -> None:
        super().connect()
        self.sock = _Socket(self.sock)


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _SecureConnection

"""A server of JSON over real HTTP, in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any


class JsonHandler(BaseHTTPRequestHandler):
    """Answers in JSON, and logs nothing."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def send(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@contextmanager
def serving(handler_of: Callable[..., type[JsonHandler]], *given: Any) -> Iterator[tuple[str, int | None]]:
    """Serve with ``handler_of(*given)`` until the block ends; yields the base URL and the process."""
    context = get_context("spawn")
    here, there = context.Pipe()
    server = context.Process(target=_serve, args=(there, handler_of, given), daemon=True)
    server.start()
    try:
        yield here.recv(), server.pid
    finally:
        server.terminate()
        server.join()


def _serve(parent: Connection, handler_of: Callable[..., type[JsonHandler]], given: tuple[Any, ...]) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler_of(*given))
    server.daemon_threads = True
    parent.send(f"http://127.0.0.1:{server.server_port}")
    server.serve_forever()

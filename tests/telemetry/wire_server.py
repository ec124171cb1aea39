"""A server of raw bytes on a loopback port, for whatever no HTTP library would send."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress


class Wire:
    """Accepts connections and writes pieces of bytes on each, with a pause between them; then closes it."""

    def __init__(self, *pieces: bytes, pause_s: float = 0.0):
        self.pieces, self._pause_s = pieces, pause_s
        self._gone = threading.Event()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection):
        with connection:
            try:
                connection.recv(65_536)
                for piece in self.pieces:
                    connection.sendall(piece)
                    if self._gone.wait(self._pause_s):
                        return
            except OSError:
                pass  # the client hung up, as it should

    def close(self):
        self._gone.set()
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)  # else it listens until the thread in accept() returns
        self._listening.close()


def answer_of(body, coding="", status=b"200 OK"):
    packed = f"Content-Encoding: {coding}\r\n" if coding else ""
    head = b"HTTP/1.1 " + status + b"\r\n" + f"{packed}Content-Length: {len(body)}\r\n\r\n".encode()
    return head + body


DRIPS = {
    "headers": [b"HTTP/1.1 200 OK\r\n", *[b"X"] * 400],
    "body": [b"HTTP/1.1 200 OK\r\nContent-Length: 400\r\n\r\n", *[b"X"] * 400],
    "interim answers": [b"HTTP/1.1 100 Continue\r\n\r\n"] * 400,
}

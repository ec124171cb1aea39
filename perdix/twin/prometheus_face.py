"""The twin over HTTP: Prometheus' query API to read it, and a scale resource per job to act on it."""

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from perdix.twin import prometheus_api as api
from perdix.twin.exposition import subtasks_of
from perdix.twin.job import JobTwin
from perdix.twin.living import LivingTwin

JOB_PATH: Final = re.compile(r"/jobs/(?P<job>[^/]+)/(?P<resource>scale|failures)")
MAXIMUM_BODY: Final = 1 << 20


class PrometheusFace:
    """A server for a living twin, on the loopback address and a free port by default.

    Use as a context manager, or :meth:`start` and :meth:`close`.
    """

    def __init__(self, living: LivingTwin, *, host: str = "127.0.0.1", port: int = 0) -> None:
        self.living = living
        handler = type("Handler", (_Handler,), {"face": self})
        self._server = ThreadingHTTPServer((host, port), handler)
        self._server.daemon_threads = True
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Base URL, without a slash at its end."""
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    def start(self) -> Self:
        """Serve in a thread of its own."""
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="twin-face", daemon=True)
        self._thread.start()
        return self

    def close(self) -> None:
        """Stop serving and free the port."""
        if self._thread is not None:
            self._server.shutdown()
            self._thread.join()
            self._thread = None
        self._server.server_close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()


class _Handler(BaseHTTPRequestHandler):
    face: PrometheusFace
    protocol_version = "HTTP/1.1"
    server_version = "perdix-twin"
    disable_nagle_algorithm = True  # else what is left of an answer waits 40 ms for an acknowledgement
    wbufsize = -1  # head and body leave together
    timeout = 30

    def do_GET(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        self._answer_with_body()

    def do_PUT(self) -> None:
        self._answer_with_body()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        """Stay silent: a tick per minute and job would fill the terminal."""

    def _answer_with_body(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > MAXIMUM_BODY:
            self.close_connection = True
            self._send(411 if not length.isdigit() else 413, _error("send a body of at most 1 MB with its length"))
            return
        self._answer(self.rfile.read(int(length)))

    def _answer(self, body: bytes) -> None:
        address = urlsplit(self.path)
        try:
            status, answer = self._routed(address.path, address.query, body)
        except UnicodeDecodeError:
            status, answer = 400, _error("the request is not UTF-8")
        self._send(status, answer)

    def _routed(self, path: str, query: str, body: bytes) -> api.Answer:
        if match := JOB_PATH.fullmatch(path):
            return self._of_job(unquote(match["job"]), match["resource"], body)
        if path == "/-/healthy" and self.command == "GET":
            return 200, {"status": "success"}
        if path == "/api/v1/status/buildinfo" and self.command == "GET":
            return 200, api.BUILD
        if path in {"/api/v1/query_range", "/api/v1/query"} and self.command in {"GET", "POST"}:
            parameters = dict(parse_qsl(query)) | dict(parse_qsl(body.decode()))
            if path.endswith("_range"):
                return api.query_range(self.face.living, parameters)
            return api.query(self.face.living, parameters)
        return 404, _error(f"nothing answers {self.command} {path}")

    def _of_job(self, name: str, resource: str, body: bytes) -> api.Answer:
        living = self.face.living
        if name not in living.names():
            return 404, _error(f"no job {name!r}; there are {', '.join(living.names())}")
        if self.command == "GET" and resource == "scale":
            with living.lock:
                return 200, _running(living.job(name))
        if self.command not in {"PUT", "POST"} or (self.command == "POST") != (resource == "failures"):
            return 405, _error(f"{self.command} is not for {resource}")
        try:
            asked = json.loads(body or b"{}")
        except (json.JSONDecodeError, RecursionError) as error:
            return 400, _error(f"the body is not JSON: {error}")
        with living.lock:
            return _failed(living, name, asked) if resource == "failures" else _scaled(living, name, asked)

    def _send(self, status: int, answer: dict[str, Any]) -> None:
        content = json.dumps(answer, separators=(",", ":")).encode()
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            self.wfile.flush()
        except (BrokenPipeError, ConnectionResetError):  # the client has hung up: nobody is left to answer
            self.close_connection = True


def _scaled(living: LivingTwin, name: str, asked: Any) -> api.Answer:
    scale_out = asked.get("scale_out") if isinstance(asked, dict) else None
    key = asked.get("idempotency_key") if isinstance(asked, dict) else None
    mix = asked.get("mix") if isinstance(asked, dict) else None
    if type(scale_out) is not int or not isinstance(key, str) or not key or not _is_mix(mix):
        return 400, _error('expected {"scale_out": <whole number>, "idempotency_key": <text>, "mix": <size: number>}')
    maximum = living.job(name).parameters.workers.maximum
    if not 1 <= scale_out <= maximum:
        return 400, _error(f"scale-out {scale_out} is outside 1..{maximum}")
    try:
        return 200, _running(living.rescale(name, scale_out, key, mix))
    except ValueError as error:
        return 409, _error(str(error))


def _is_mix(mix: Any) -> bool:
    return mix is None or (isinstance(mix, dict) and all(type(count) is int and count > 0 for count in mix.values()))


def _failed(living: LivingTwin, name: str, asked: Any) -> api.Answer:
    worker = asked.get("worker", 0) if isinstance(asked, dict) else None
    if type(worker) is not int:
        return 400, _error('expected {"worker": <whole number>}')
    try:
        return 200, _running(living.fail(name, worker))
    except ValueError as error:
        return 400, _error(str(error))


def _running(twin: JobTwin) -> dict[str, Any]:
    running = {"scale_out": twin.scale_out, "requested": twin.requested, "settled": twin.settled}
    subtasks = subtasks_of(twin)
    dealt = {"subtasks": list(subtasks.workers), "key_groups": subtasks.key_groups}
    return running | {"mix": dict(twin.mix), "requested_mix": dict(twin.requested_mix)} | dealt


def _error(message: str) -> dict[str, Any]:
    return {"status": "error", "error": message}

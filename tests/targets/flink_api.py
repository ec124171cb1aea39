"""The part of Flink's REST API that a target speaks, with the adaptive scheduler's behaviour, over real HTTP.

Paths, field names and the order of things are those of a Flink 2.2.1 JobManager; ``tests/testbed`` drives the target
against a real one.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl

AT_ONCE = "jobmanager.adaptive-scheduler.rescale-trigger.max-delay"
TRACE = "org.apache.flink.runtime.rest.handler.RestHandlerException: {}\n\tat org.apache.flink.runtime.Foo(Foo.java:1)"


@dataclass
class Vertex:
    """A vertex; what its subtasks have done is that of a constant load since ``since_s``, each a row of ``per_s``.

    Attributes
    ----------
    per_s
        What a subtask does each second: records read, records written, ms busy, ms back-pressured.
    pending, pending_per_s
        Records that wait before it, and how many more each second; ``None``: it has no such metric.
    heard_of
        Whether the JobManager has heard of its subtasks' metrics.
    taskmanager
        The one of each subtask, by its number.
    group
        Its slot sharing group; ``None``: the JobManager does not tell.
    """

    id: str
    name: str
    running: int
    upper: int
    lower: int = 1
    most: int = 128
    inputs: tuple[str, ...] = ()
    per_s: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    pending: float | None = None
    pending_per_s: float = 0.0
    heard_of: bool = True
    taskmanager: str = "tm-{}"
    group: str | None = None
    ships: str = "HASH"  # how what comes in is dealt out
    since_s: float = field(default_factory=time.time)

    def subtasks(self, now_s: float) -> list[dict[str, Any]]:
        age_s = now_s - self.since_s if self.heard_of else 0.0
        read, written, busy_ms, waited_ms = (age_s * each for each in self.per_s)
        told = {
            "read-records": int(read),
            "read-records-complete": self.heard_of,
            "write-records": int(written),
            "write-records-complete": self.heard_of,
            "accumulated-backpressured-time": int(waited_ms),
            "accumulated-idle-time": int(1_000 * age_s - busy_ms - waited_ms),
            "accumulated-busy-time": busy_ms,
        }
        started_ms = int(1_000 * self.since_s)
        return [
            {"subtask": k, "start-time": started_ms, "metrics": told, "taskmanager-id": self.taskmanager.format(k)}
            for k in range(self.running)
        ]


@dataclass
class FlinkJob:
    """One job: what runs follows what is asked for at the next checkpoint, as far as there are slots.

    ``runs_since_s``: seconds since it was last deployed; ``None``: it does not tell.
    """

    name: str = "orders"
    jid: str = "a" * 32
    state: str = "RUNNING"
    vertices: list[Vertex] = field(default_factory=list)
    runs_since_s: float | None = 3_600.0
    made_ms: int = field(default_factory=lambda: int(1_000 * time.time()))


@dataclass
class FlinkCluster:
    """A JobManager.

    Attributes
    ----------
    checkpoints_pass
        Whether a checkpoint that is triggered takes a waiting rescale along.
    looks
        How often a checkpoint that was triggered is still under way when it is looked at.
    failure
        Why each checkpoint fails; ``None``: it completes.
    configuration, version
        The cluster's, as far as it was set, and which Flink it is. By default it rescales without waiting.
    refusals
        ``METHOD path-ending`` -> (status, message) to answer with.
    delay_s
        Before each answer.
    meanwhile
        ``METHOD last-part-of-path`` -> what else happens, once, while such a request is under way.
    garbled
        ``METHOD path-ending`` -> (status, headers, body) to answer with; nothing is carried out.
    forgetting
        How many more requests it accepts and forgets.
    """

    jobs: list[FlinkJob]
    slots: int = 8
    checkpoints_pass: bool = False
    looks: int = 0
    failure: str | None = None
    configuration: dict[str, str] = field(default_factory=lambda: {AT_ONCE: "0 ms"})
    version: str = "2.2.1"
    refusals: dict[str, tuple[int, str]] = field(default_factory=dict)
    delay_s: float = 0.0
    meanwhile: dict[str, Callable[[], object]] = field(default_factory=dict)
    asked: list[tuple[str, str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    garbled: dict[str, tuple[int, dict[str, str], bytes]] = field(default_factory=dict)
    forgetting: int = 0

    def __post_init__(self) -> None:
        cluster = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                cluster._serve(self, "GET")

            do_PUT = do_POST = lambda self: cluster._serve(self, self.command)

            def log_message(self, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def rescales_at_once(self) -> bool:
        """Whether it waits for no checkpoint."""
        return self.configuration.get(AT_ONCE) == "0 ms"

    def complete_checkpoint(self) -> None:
        """Flink rescales now."""
        for job in self.jobs:
            for vertex in job.vertices:
                if vertex.running != min(vertex.upper, self.slots):
                    vertex.running, vertex.since_s = min(vertex.upper, self.slots), time.time()

    def puts(self) -> list[dict[str, tuple[int, int]]]:
        """Return vertex id -> (lower, upper) of each request so far."""
        return [
            {
                vertex: (asked["parallelism"]["lowerBound"], asked["parallelism"]["upperBound"])
                for vertex, asked in body.items()
            }
            for method, _, body in self.asked
            if method == "PUT"
        ]

    def _serve(self, request: BaseHTTPRequestHandler, method: str) -> None:
        length = int(request.headers.get("Content-Length") or 0)
        body = json.loads(request.rfile.read(length)) if length else None
        self.asked.append((method, request.path, body))
        self.headers.append(dict(request.headers))
        time.sleep(self.delay_s)
        other = self.meanwhile.pop(f"{method} {request.path.rsplit('/', 1)[1]}", None)
        if other is not None:
            other()
        garbled = next(
            (answer for end, answer in self.garbled.items() if f"{method} {request.path}".endswith(end)), None
        )
        headers: dict[str, str] = {}
        if garbled is None:
            status, answer = self._answer(method, request.path, body)
        else:
            status, headers, answer = garbled
        payload = json.dumps(answer).encode() if not isinstance(answer, bytes) else answer
        request.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            request.send_header(name, value)
        request.send_header("Content-Length", str(len(payload)))
        request.end_headers()
        request.wfile.write(payload)

    def _answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        for wanted, (status, message) in self.refusals.items():
            if f"{method} {path}".endswith(wanted) or wanted == method:
                return status, {"errors": ["Internal server error.", TRACE.format(message)]}
        parts = path.strip("/").split("/")
        if path == "/overview":
            reserved = sum(max(v.upper for v in j.vertices) for j in self.jobs)
            free = max(self.slots - reserved, 0)
            return 200, {"slots-total": self.slots, "slots-available": free, "taskmanagers": self.slots}
        if path == "/jobmanager/config":
            return 200, [{"key": key, "value": value} for key, value in self.configuration.items()]
        if path == "/config":
            return 200, {"refresh-interval": 3000, "flink-version": self.version, "features": {}}
        if path == "/jobs/overview":
            return 200, {"jobs": [{"jid": j.jid, "name": j.name, "state": j.state, "duration": 1} for j in self.jobs]}
        job = next((job for job in self.jobs if len(parts) > 1 and job.jid == parts[1]), None)
        if job is None:
            return 404, {"errors": [f"Job {parts[1] if len(parts) > 1 else path} not found"]}
        return self._of_job(job, method, parts[2:], body)

    def _of_job(self, job: FlinkJob, method: str, rest: list[str], body: Any) -> tuple[int, Any]:
        if rest == ["resource-requirements"] and method == "PUT" and self.forgetting:
            self.forgetting -= 1
            return 200, {}
        if rest == ["resource-requirements"] and method == "PUT":
            for vertex in job.vertices:
                asked = body[vertex.id]["parallelism"]
                if asked["upperBound"] > vertex.most:
                    return 400, {"errors": [TRACE.format("upper bound exceeds the maximum parallelism")]}
                vertex.lower, vertex.upper = asked["lowerBound"], asked["upperBound"]
            if self.checkpoints_pass and self.rescales_at_once:
                self.complete_checkpoint()
            return 200, {}
        if rest == ["resource-requirements"]:
            return 200, {v.id: {"parallelism": {"lowerBound": v.lower, "upperBound": v.upper}} for v in job.vertices}
        if rest == ["checkpoints"]:
            if self.checkpoints_pass:
                self.complete_checkpoint()
            return 202, {"request-id": "r"}
        if rest == ["checkpoints", "config"]:
            return 200, {"mode": "exactly_once", "interval": 10_000, "timeout": 600_000, "min_pause": 0}
        if rest[:1] == ["checkpoints"]:
            if self.looks:
                self.looks -= 1
                return 200, {"status": {"id": "IN_PROGRESS"}, "operation": None}
            told = {"checkpointId": 7, "failureCause": None}
            if self.failure is not None:
                told = {"checkpointId": None, "failureCause": {"class": "E", "stack-trace": TRACE.format(self.failure)}}
            return 200, {"status": {"id": "COMPLETED"}, "operation": told}
        if rest[:1] == ["vertices"]:
            return self._of_vertex(next(vertex for vertex in job.vertices if vertex.id == rest[1]), rest[2:])
        vertices = [
            {
                "id": v.id,
                "name": v.name,
                "parallelism": v.running,
                "maxParallelism": v.most,
                "status": "RUNNING",
                "tasks": {"RUNNING": v.running if job.state == "RUNNING" else 0, "CREATED": 0},
                **({} if v.group is None else {"slotSharingGroupId": v.group}),
            }
            for v in job.vertices
        ]
        fed = {
            v.id: [{"id": name, "num": k, "ship_strategy": v.ships} for k, name in enumerate(v.inputs)]
            for v in job.vertices
        }
        now_ms, since_s = int(1_000 * time.time()), job.runs_since_s
        nodes = [{"id": name, **({"inputs": inputs} if inputs else {})} for name, inputs in fed.items()]
        return 200, {
            "jid": job.jid,
            "name": job.name,
            "state": job.state,
            "now": now_ms,
            "timestamps": {"CREATED": 1, "RUNNING": 0 if since_s is None else job.made_ms - int(1_000 * since_s)},
            "vertices": vertices,
            "plan": {"jid": job.jid, "nodes": nodes},
        }

    def _of_vertex(self, vertex: Vertex, rest: list[str]) -> tuple[int, Any]:
        if not rest:
            return 200, {"id": vertex.id, "name": vertex.name, "subtasks": vertex.subtasks(time.time())}
        names = ["numRecordsIn", *([] if vertex.pending is None else ["Source__words.pendingRecords"])]
        asked = dict(parse_qsl(rest[1].partition("?")[2]))
        if "get" not in asked:
            return 200, [{"id": name} for name in names]
        grown = vertex.pending_per_s * (time.time() - vertex.since_s)
        sums = {"Source__words.pendingRecords": None if vertex.pending is None else vertex.pending + grown}
        return 200, [{"id": name, "sum": sums[name]} for name in asked["get"].split(",") if sums.get(name) is not None]


def a_job(running: int = 2, name: str = "orders", **changes: Any) -> FlinkJob:
    """Return a job of two vertices that runs at one parallelism and was asked for it."""
    vertices = [
        Vertex("s" * 32, "Source: words -> split", running, running),
        Vertex("c" * 32, "count -> sink", running, running, inputs=("s" * 32,)),
    ]
    return FlinkJob(name, vertices=vertices, **changes)

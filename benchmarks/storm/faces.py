"""The targets' servers as functions: what Flink, Kubernetes and the twin answer to a request; no sockets here."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from benchmarks.storm.deployment import Deployment, State

Answer = tuple[int, Any]
Ask = Callable[[int, str], None]  # workers, and the idempotency key where the protocol has one
JID = "a" * 32
VERTICES = {"s" * 32: "Source: words", "c" * 32: "count -> sink"}


def answer(kind: str, deployment: Deployment, state: State, request: tuple[str, str, bytes], ask: Ask) -> Answer:
    """Answer ``(method, path, body)``; ``state`` is what the server believes, ``ask`` hands on what is asked for."""
    method, path, body = request
    given = json.loads(body) if body else None
    return _FACES[kind](deployment, state, method, path, given, ask)


def _twin(deployment: Deployment, state: State, method: str, path: str, given: Any, ask: Ask) -> Answer:  # noqa: ARG001
    if method == "PUT":
        wanted, key = given["scale_out"], given["idempotency_key"]
        if not 1 <= wanted <= deployment.maximum:
            return 400, {"status": "error", "error": f"scale-out {wanted} is outside 1..{deployment.maximum}"}
        if deployment.keys.setdefault(key, wanted) != wanted:
            return 409, {"status": "error", "error": f"key {key!r} was used for {deployment.keys[key]}"}
        ask(wanted, key)
        state = State(state.running, wanted, state.running == wanted, state.slots, state.version)
    return 200, {"scale_out": state.running, "requested": state.asked, "settled": state.settled}


def _flink(deployment: Deployment, state: State, method: str, path: str, given: Any, ask: Ask) -> Answer:
    name = deployment.place.job.name
    if path == "/overview":
        return 200, {"slots-total": state.slots, "slots-available": 0, "taskmanagers": state.slots}
    if path == "/jobs/overview":
        return 200, {"jobs": [{"jid": JID, "name": name, "state": "RUNNING", "duration": 1}]}
    if path == f"/jobs/{JID}/checkpoints":
        return 202, {"request-id": "r"}
    if path == f"/jobs/{JID}/resource-requirements":
        if method == "PUT":
            wanted = max(given[vertex]["parallelism"]["upperBound"] for vertex in VERTICES)
            ask(wanted, "")
            return 200, {}
        return 200, {vertex: {"parallelism": {"lowerBound": 1, "upperBound": state.asked}} for vertex in VERTICES}
    if path != f"/jobs/{JID}":
        return 404, {"errors": [f"Not found: {path}"]}
    running = state.running if deployment.twin.settled else 0
    vertices = [
        {
            "id": vertex,
            "name": called,
            "parallelism": state.running,
            "maxParallelism": 128,
            "status": "RUNNING",
            "tasks": {"RUNNING": running, "CREATED": 0},
        }
        for vertex, called in VERTICES.items()
    ]
    nodes = [{"id": vertex} for vertex in VERTICES]
    alive = "RUNNING" if deployment.twin.settled else "RESTARTING"
    plan = {"jid": JID, "nodes": nodes}
    return 200, {"jid": JID, "name": name, "state": alive, "now": 0, "vertices": vertices, "plan": plan}


def _kubernetes(deployment: Deployment, state: State, method: str, path: str, given: Any, ask: Ask) -> Answer:
    name = deployment.place.job.name
    if not path.endswith(f"/deployments/{name}/scale"):
        return _status(404, "the server could not find the requested resource")
    if method == "PUT":
        told = given.get("metadata", {}).get("resourceVersion", str(deployment.version))
        if told != str(deployment.version):
            return _status(409, f'Operation cannot be fulfilled on "{name}": the object has been modified')
        wanted = given.get("spec", {}).get("replicas", 0)
        ask(wanted, "")
        state = State(state.running, wanted, False, state.slots, deployment.version)
    metadata = {"name": name, "namespace": "storm", "uid": f"uid-{name}", "resourceVersion": str(state.version)}
    scale = {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata}
    # While pods start anew, as many as before are counted.
    return 200, scale | {"spec": {"replicas": state.asked}, "status": {"replicas": state.running}}


def _status(code: int, message: str) -> Answer:
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message}
    return code, status | {"reason": "", "code": code}


_FACES = {"twin": _twin, "flink": _flink, "kubernetes": _kubernetes}

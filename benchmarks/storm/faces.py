"""The targets' servers as functions: what Flink, Kubernetes and the twin answer to a request; no sockets here."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from benchmarks.storm.deployment import Deployment, State
from benchmarks.storm.flink_face import flink

Answer = tuple[int, Any]
Ask = Callable[[int, str], None]  # workers, and the idempotency key where the protocol has one


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
        state = replace(state, asked=wanted, settled=state.running == wanted)
    return 200, {"scale_out": state.running, "requested": state.asked, "settled": state.settled}


def _kubernetes(deployment: Deployment, state: State, method: str, path: str, given: Any, ask: Ask) -> Answer:
    name = deployment.place.job.name
    if path.endswith(f"/deployments/{name}") and method == "GET":
        return 200, _of_pods(name, state)
    if not path.endswith(f"/deployments/{name}/scale"):
        return _status(404, "the server could not find the requested resource")
    if method == "PUT":
        version = given.get("metadata", {}).get("resourceVersion", str(deployment.version))
        if version != str(deployment.version):
            return _status(409, f'Operation cannot be fulfilled on "{name}": the object has been modified')
        wanted = given.get("spec", {}).get("replicas", 0)
        ask(wanted, "")
        state = replace(state, asked=wanted, version=deployment.version)
    scale = {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": _metadata(name, state)}
    return 200, scale | {"spec": {"replicas": state.asked}, "status": {"replicas": state.made}}


def _of_pods(name: str, state: State) -> dict[str, Any]:
    """Return the Deployment itself, which says how many of its pods are ready."""
    status = {"replicas": state.made, "readyReplicas": state.running, "observedGeneration": state.version}
    metadata = _metadata(name, state) | {"generation": state.version}
    whole = {"kind": "Deployment", "apiVersion": "apps/v1", "metadata": metadata}
    return whole | {"spec": {"replicas": state.asked}, "status": status}


def _metadata(name: str, state: State) -> dict[str, Any]:
    return {"name": name, "namespace": "storm", "uid": f"uid-{name}", "resourceVersion": str(state.version)}


def _status(code: int, message: str) -> Answer:
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message}
    return code, status | {"reason": "", "code": code}


_FACES = {"twin": _twin, "flink": flink, "kubernetes": _kubernetes}

"""Flink's REST API as a function, as far as a target speaks it: the job, what is asked for, and checkpoints.

Half of the clusters rescale at once, as before Flink 2.0; the others when a checkpoint completes after the request.
So both ways are gone in which perdix rescales Flink (decision 44).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from benchmarks.storm.deployment import Deployment, State

if TYPE_CHECKING:
    from benchmarks.storm.flow import Flow

Answer = tuple[int, Any]
JID = "a" * 32
JOB = f"/jobs/{JID}"
CHECKPOINTS = f"{JOB}/checkpoints"
VERTICES = {"s" * 32: "Source: words", "c" * 32: "count -> sink"}
LONG_S = 3_600  # since when a job runs that has not stopped yet


def flink(
    deployment: Deployment, state: State, method: str, path: str, given: Any, ask: Callable[[int, str], None]
) -> Answer:
    """Answer a request."""
    found = cluster_or_checkpoint(deployment, state.slots, method, path)
    if found is not None:
        return found
    if path == f"{JOB}/resource-requirements":
        if method == "PUT":
            wanted = max(given[vertex]["parallelism"]["upperBound"] for vertex in VERTICES)
            ask(wanted, "")
            return 200, {}
        return 200, {vertex: {"parallelism": {"lowerBound": 1, "upperBound": state.asked}} for vertex in VERTICES}
    return (200, _job(deployment, state)) if path == JOB else missing(path)


def cluster_or_checkpoint(deployment: Deployment | Flow, slots: int, method: str, path: str) -> Answer | None:
    """Answer what is no job's own; ``None`` for anything else."""
    if path.startswith(CHECKPOINTS):
        return _of_checkpoints(deployment, method, path)
    return _of_the_cluster(deployment, slots, path)


def is_of_checkpoints(path: str) -> bool:
    """Whether a request prepares a rescale, which goes on without an answer to it."""
    return path.startswith(CHECKPOINTS) or path in {"/jobmanager/config", "/config"}


def rescales_at_once(deployment: Deployment | Flow) -> bool:
    """Whether this cluster is older than 2.0."""
    return deployment.place.seed % 2 == 0


def _of_the_cluster(deployment: Deployment | Flow, slots: int, path: str) -> Answer | None:
    match path:
        case "/overview":
            return 200, {"slots-total": slots, "slots-available": 0, "taskmanagers": slots}
        case "/jobs/overview":
            name = deployment.place.job.name
            return 200, {"jobs": [{"jid": JID, "name": name, "state": "RUNNING", "duration": 1}]}
        case "/jobmanager/config":
            if _bad(deployment, "hidden"):
                return 403, {"errors": ["the configuration is not shown"]}
            return 200, [{"key": "jobmanager.scheduler", "value": "adaptive"}]
        case "/config":
            version = "1.20.1" if rescales_at_once(deployment) else "2.2.1"
            return 200, {"refresh-interval": 3_000, "flink-version": version, "features": {"web-submit": False}}
    return None


def _of_checkpoints(deployment: Deployment | Flow, method: str, path: str) -> Answer:
    """Answer what is asked of checkpoints: to make one, or how far one is."""
    if method == "POST":
        if _bad(deployment, "refused"):
            return 503, {"errors": ["Checkpoint triggering task is not being executed at the moment"]}
        deployment.checkpoints += 1
        return 202, {"request-id": f"{deployment.checkpoints:032x}"}
    number = path.rpartition("/")[2]
    if not 0 < int(number, 16) <= deployment.checkpoints or _bad(deployment, "forgotten"):
        return missing(path)
    if deployment.active("slow checkpoint") is not None:
        return 200, {"status": {"id": "IN_PROGRESS"}, "operation": None}
    done: dict[str, Any] = {"checkpointId": deployment.checkpoints, "failureCause": None}
    if _bad(deployment, "fails"):
        why = {"class": "CheckpointException", "stack-trace": "Checkpoint expired before completing."}
        done = {"checkpointId": None, "failureCause": why}
    return 200, {"status": {"id": "COMPLETED"}, "operation": done}


def _bad(deployment: Deployment | Flow, what: str) -> bool:
    fault = deployment.active("bad checkpoint")
    return fault is not None and fault.what == what


def _job(deployment: Deployment, state: State) -> dict[str, Any]:
    twin = deployment.twin
    since_s = twin.outages[-1].end_s if twin.outages else twin.now_s - LONG_S
    vertices = {vertex: (called, state.running) for vertex, called in VERTICES.items()}
    return shown_job(deployment, since_s, vertices, [{"id": vertex} for vertex in VERTICES])


def shown_job(
    deployment: Deployment | Flow, since_s: float, vertices: Mapping[str, tuple[str, int]], nodes: Sequence[Any]
) -> dict[str, Any]:
    """Return the job as it is shown; ``vertices``: id -> name and parallelism, ``nodes``: of its plan."""
    twin = deployment.twin
    return {
        "jid": JID,
        "name": deployment.place.job.name,
        "state": "RUNNING" if twin.settled else "RESTARTING",
        "now": 1_000 * twin.now_s,
        "timestamps": {"RUNNING": 1_000 * since_s},
        "vertices": [
            {
                "id": vertex,
                "name": called,
                "parallelism": count,
                "maxParallelism": 128,
                "status": "RUNNING",
                "tasks": {"RUNNING": count if twin.settled else 0, "CREATED": 0},
            }
            for vertex, (called, count) in vertices.items()
        ],
        "plan": {"jid": JID, "nodes": nodes},
    }


def missing(path: str) -> Answer:
    """Return what it answers about a page that it has not."""
    return 404, {"errors": [f"Not found: {path}"]}

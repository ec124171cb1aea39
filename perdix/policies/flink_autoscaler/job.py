"""The decision for a whole job: all vertices that want to change do so together, or none."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from perdix.policies.flink_autoscaler.delay import PendingScaleDown
from perdix.policies.flink_autoscaler.evaluation import Evaluated, evaluate
from perdix.policies.flink_autoscaler.graph import Graph, Samples
from perdix.policies.flink_autoscaler.history import Rescale, Restart, remembered, restart_s
from perdix.policies.flink_autoscaler.options import FlinkAutoscalerOptions
from perdix.policies.flink_autoscaler.vertex import VertexDecision, decide_vertex


@dataclass(frozen=True)
class JobState:
    """What is kept from decision to decision: by vertex, and how long restarts took."""

    history: Mapping[str, tuple[Rescale, ...]] = field(default_factory=dict)
    pending: Mapping[str, PendingScaleDown] = field(default_factory=dict)
    restarts: tuple[Restart, ...] = ()


@dataclass(frozen=True)
class JobDecision:
    """What every vertex should be."""

    vertices: Mapping[str, VertexDecision]  # what each vertex wants for itself
    evaluated: Mapping[str, Evaluated]
    changes: Mapping[str, int]  # vertex -> parallelism, for those that are rescaled; empty when nothing is done
    state: JobState  # what is kept while nothing is carried out; see :func:`carried_out`


def decide_job(
    graph: Graph, samples: Samples, state: JobState, options: FlinkAutoscalerOptions, now_s: float
) -> JobDecision:
    """Evaluate a window of samples and decide for every vertex.

    A vertex whose rates cannot be known stays as it is and holds up no other.
    """
    took_s = restart_s(state.restarts, now_s, options)
    evaluated = evaluate(graph, samples, options, took_s)
    vertices: dict[str, VertexDecision] = {}
    pending: dict[str, PendingScaleDown] = {}
    for vertex in graph:
        vertices[vertex.name], waits = decide_vertex(
            vertex,
            evaluated[vertex.name],
            options,
            now_s=now_s,
            restart_s=took_s,
            history=state.history.get(vertex.name, ()),
            pending=state.pending.get(vertex.name),
        )
        if waits is not None:
            pending[vertex.name] = waits
    changes = gate(graph, vertices)
    return JobDecision(vertices, evaluated, changes, JobState(state.history, pending, state.restarts))


def gate(graph: Graph, vertices: Mapping[str, VertexDecision]) -> Mapping[str, int]:
    """Return the vertices to rescale: every one that wants to change if any of these is outside its band, else none."""
    wishes = {v.name: vertices[v.name] for v in graph if vertices[v.name].parallelism != v.parallelism}
    if not any(wish.outside for wish in wishes.values()):
        return {}
    return {name: wish.parallelism for name, wish in wishes.items()}


def recorded(graph: Graph, decision: JobDecision, options: FlinkAutoscalerOptions, now_s: float) -> JobState:
    """Return the state with a rescale entered in the history; timers run on until it is seen to have happened."""
    history = dict(decision.state.history)
    for vertex in graph:
        if vertex.name in decision.changes:
            before, after = vertex.parallelism, decision.changes[vertex.name]
            true_per_s = decision.evaluated[vertex.name].true_per_s
            new = Rescale(now_s, before, after, true_per_s, true_per_s / before * after)
            history[vertex.name] = remembered(history.get(vertex.name, ()), new, options)
    return JobState(history, decision.state.pending, decision.state.restarts)


def carried_out(state: JobState, restart: Restart | None, options: FlinkAutoscalerOptions) -> JobState:
    """Return the state once a rescale has happened: every timer is off, and how long it took is noted where known."""
    restarts = state.restarts if restart is None else (*state.restarts, restart)[-options.history_count :]
    return JobState(state.history, {}, restarts)

"""The decision for one vertex: its parallelism, fitted to the partitions of a source or to key groups."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from perdix.models.dataflow.slots import first_even
from perdix.policies.flink_autoscaler.delay import PendingScaleDown, pend
from perdix.policies.flink_autoscaler.demand import required_per_s
from perdix.policies.flink_autoscaler.evaluation import Evaluated
from perdix.policies.flink_autoscaler.graph import Vertex
from perdix.policies.flink_autoscaler.history import Rescale, gain, scalability
from perdix.policies.flink_autoscaler.options import Alignment, FlinkAutoscalerOptions


@dataclass(frozen=True)
class Limits:
    """What the parallelism of a vertex may become."""

    least: int
    most: int


@dataclass(frozen=True)
class VertexDecision:
    """What a vertex should be."""

    parallelism: int  # the present one where nothing is to change
    # Whether the vertex was outside its band when this was wanted: what lets the whole job be rescaled
    outside: bool = False
    # wanted, computed: the parallelism before the scale-down interval and the effectiveness had a say, and before
    # alignment
    wanted: int = 0
    computed: int = 0
    held_by: str | None = None  # why it stays although another was wanted, in words


def decide_vertex(
    vertex: Vertex,
    evaluated: Evaluated,
    options: FlinkAutoscalerOptions,
    *,
    now_s: float,
    restart_s: float,
    history: Sequence[Rescale] = (),
    pending: PendingScaleDown | None = None,
) -> tuple[VertexDecision, PendingScaleDown | None]:
    """Return what a vertex should be, and what is pending after that.

    ``restart_s``: how long a restart is reckoned to take.
    ``history``: of this vertex, oldest first.
    ``pending``: a scale-down of this vertex that waits.
    """
    current = vertex.parallelism
    required = required_per_s(evaluated.demand, options.utilisation_target, options, restart_s)
    if math.isnan(required) or math.isnan(evaluated.true_per_s):
        return VertexDecision(current, wanted=current, computed=current, held_by="its rates are not known"), pending
    computed = scaled(vertex, _factor(required, evaluated.true_per_s, history, options), options)
    limits = Limits(min(current, options.vertex_min), max(current, options.vertex_max))
    wanted = align(vertex, computed, limits, options.alignment)
    if wanted == current:
        blocked = None if computed == current else "no parallelism that fits its partitions keeps the direction"
        return VertexDecision(current, wanted=wanted, computed=computed, held_by=blocked), None
    change = VertexDecision(wanted, evaluated.outside, wanted, computed)
    if wanted > current:
        return _checked_for_effect(change, current, evaluated, history, options), None
    if options.scale_down_interval_s <= 0:
        return change, pending
    pending = pend(pending, now_s, wanted, outside=evaluated.outside, interval_s=options.scale_down_interval_s)
    due = pending.due(now_s, options.scale_down_interval_s)
    if due is None:
        since_s = now_s - pending.first_s
        wait = f"scaling in has been wanted for {since_s:,.0f} of {options.scale_down_interval_s:,.0f} s"
        return VertexDecision(current, wanted=wanted, computed=computed, held_by=wait), pending
    return VertexDecision(due.parallelism, due.outside, wanted, computed), pending


def scaled(vertex: Vertex, factor: float, options: FlinkAutoscalerOptions) -> int:
    """Return the parallelism times ``factor``, within what one decision may change and the bounds of the vertex."""
    current = vertex.parallelism
    least, most = 1.0 - options.max_down_factor, 1.0 + options.max_up_factor
    wanted = min(min(max(factor, least), most) * current, float(max(vertex.maximum, current)))
    low, high = min(current, options.vertex_min), max(current, options.vertex_max)
    # 10 * 0.7 is 7, not 7.000000000000001
    return max(1, min(max(math.ceil(round(wanted, 9)), low), vertex.maximum, high))


def align(vertex: Vertex, target: int, limits: Limits, mode: Alignment) -> int:
    """Return the parallelism to take for the computed ``target``.

    From the target upwards (to what runs now, when scaling in) the first is taken that divides the partitions evenly;
    ``BALANCED`` also takes the first that leaves the fullest subtask less to do. Where there is none, the target stays.

    The legacy modes look below the target then, and give up the change (what runs now stays) rather than reverse it.

    Only sources with known partitions, and vertices with a keyed input, are aligned.
    """
    applies = vertex.partitions is not None or any(vertex.inputs.values())
    if mode == "OFF" or not applies or target == vertex.parallelism:
        return target
    shared_out = vertex.partitions or vertex.groups or vertex.maximum
    cap = min(shared_out, vertex.maximum, limits.most)
    last = cap if target > vertex.parallelism else min(vertex.parallelism, cap)
    may_be_uneven = mode in {"BALANCED", "LEGACY_MAXIMISE_UTILISATION"}
    found = first_even(shared_out, target, last, may_be_uneven=may_be_uneven)
    if found is not None:
        return found
    if not mode.startswith("LEGACY"):
        return target
    below = max(_least_with_as_much_each(shared_out, target), limits.least)
    reversed_ = (below <= vertex.parallelism) == (target > vertex.parallelism)
    return vertex.parallelism if reversed_ else below


def _least_with_as_much_each(shared_out: int, target: int) -> int:
    """Return the least parallelism that gives a subtask no more partitions than ``target`` does, or a divisor below.

    With ``q`` partitions each at the target, ``shared_out // (q + 1)`` is the greatest that gives more.
    """
    fewer = shared_out // (shared_out // target + 1)
    if fewer == 0:
        return 1
    return fewer if shared_out % fewer == 0 else fewer + 1


def _factor(required: float, true_per_s: float, history: Sequence[Rescale], options: FlinkAutoscalerOptions) -> float:
    if math.isinf(true_per_s):
        return 0.0
    factor = required / true_per_s if true_per_s > 0 else math.inf
    return factor / scalability(history, options) if options.learn_scalability else factor


def _checked_for_effect(
    change: VertexDecision,
    current: int,
    evaluated: Evaluated,
    history: Sequence[Rescale],
    options: FlinkAutoscalerOptions,
) -> VertexDecision:
    brought = gain(history, current, evaluated.true_per_s)
    if not options.detect_ineffective or brought is None or not brought < options.least_gain:
        return change
    why = f"the last scale-out brought {brought:.0%} of what was expected, {options.least_gain:.0%} are needed"
    return VertexDecision(current, wanted=change.wanted, computed=change.computed, held_by=why)

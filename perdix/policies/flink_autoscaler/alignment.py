"""Fitting a parallelism to the partitions of a source, or to the key groups of a keyed vertex."""

from __future__ import annotations

from dataclasses import dataclass

from perdix.models.dataflow.alignment import first_even
from perdix.policies.flink_autoscaler.graph import Vertex
from perdix.policies.flink_autoscaler.options import Alignment


@dataclass(frozen=True)
class Limits:
    """What the parallelism of a vertex may become."""

    least: int
    most: int


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
    shared_out = vertex.partitions or vertex.maximum
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

"""What happens in a dataflow, as pure functions: cost among many, skew, and what flows in one step.

A step is fluid: within it records pass through as many operators as have time and room for them. Buffers are bounded;
who finds no room waits, and so do all that feed it, up to the sources.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from perdix.models.dataflow.graph import Dataflow
from perdix.telemetry.window import Values
from perdix.twin.physics import cost_factor

ROUNDS = 4  # of dealing a join's time to its inputs; each hands on what the one before left over
NOTHING = 1e-9  # relative difference below which a rate counts as reached


@dataclass(frozen=True)
class Wiring:
    """A dataflow by numbers: operators ``0..n-1`` in topological order, edges ``0..m-1``."""

    names: tuple[str, ...]
    edges: tuple[tuple[int, int], ...]  # ``(upstream, downstream)`` of each edge
    gains: tuple[float, ...]  # records that each edge gets per record that its upstream operator processes
    inputs: tuple[tuple[int, ...], ...] = field(init=False)
    outputs: tuple[tuple[int, ...], ...] = field(init=False)
    joins: bool = field(init=False)
    # By edge: its upstream operator and everything that feeds that
    before: tuple[frozenset[int], ...] = field(init=False)

    def __post_init__(self) -> None:
        count = range(len(self.names))
        inputs = tuple(tuple(e for e, (_, down) in enumerate(self.edges) if down == i) for i in count)
        outputs = tuple(tuple(e for e, (up, _) in enumerate(self.edges) if up == i) for i in count)
        object.__setattr__(self, "inputs", inputs)
        object.__setattr__(self, "outputs", outputs)
        object.__setattr__(self, "joins", any(len(edges) > 1 for edges in inputs))
        feeding: list[frozenset[int]] = []
        for i, edges in enumerate(inputs):
            feeding.append(frozenset({i}).union(*(feeding[self.edges[e][0]] for e in edges)))
        object.__setattr__(self, "before", tuple(feeding[up] for up, _ in self.edges))


def wiring(graph: Dataflow, gains: Sequence[float]) -> Wiring:
    """Return the wiring of ``graph``; ``gains`` belong to ``graph.edges``."""
    numbers = {name: k for k, name in enumerate(graph.names)}
    return Wiring(graph.names, tuple((numbers[up], numbers[down]) for up, down in graph.edges), tuple(gains))


def most_useful(maximum: int, contention: float, coherency: float) -> int:
    """Return the number of instances, up to ``maximum``, that can take the most together."""
    if coherency == 0:
        return maximum
    top = max(1, round(((1.0 - contention) / coherency) ** 0.5))
    near = [n for n in range(max(1, top - 2), top + 3) if n <= maximum] or [maximum]
    return max(near, key=lambda n: n / cost_factor(n, contention, coherency))


def shares(instances: int, hottest: float | None) -> Values:
    """Return which share of the records each instance gets, shape ``(instances,)``; the first is the hottest.

    ``hottest`` below an even share changes nothing.
    """
    even = 1.0 / instances
    if hottest is None or hottest <= even:
        return np.full(instances, even)
    return np.concatenate(([hottest], np.full(instances - 1, (1.0 - hottest) / max(instances - 1, 1))))


def burst_factors(every_s: int, lasts_s: int, factor: float) -> Values:
    """Return how dear a record is in each second of a cycle, shape ``(every_s,)``; the mean is 1."""
    between = (every_s - lasts_s * factor) / (every_s - lasts_s)
    return np.concatenate((np.full(lasts_s, factor), np.full(every_s - lasts_s, between)))


def flow(
    wired: Wiring, wishes: Sequence[float], capacity: Sequence[float], held: Sequence[float], bounds: Sequence[float]
) -> tuple[list[float], list[float]]:
    """Return what is processed in one step, by operator, and what is taken from each edge's buffer.

    Nothing is taken that is not there, no operator works more than it can, and no buffer grows beyond its bound. Where
    more wants into a join than it can take, its inputs get a part each in proportion to what comes new, so that sources
    of different rates are held back alike.

    ``wishes``: records that each source would emit; not used for other operators. Shape ``(n,)``.
    ``capacity``: records that each operator can process in the step, ``(n,)``.
    ``held``, ``bounds``: records in each edge's buffer before the step, and how many fit, ``(m,)``.
    """
    processed, taken, offered = _forward(wired, wishes, capacity, held)
    if not _overflows(wired, processed, taken, held, bounds):
        return processed, taken
    quotas = [want - there for want, there in zip(offered, held, strict=True)]
    limits = list(capacity)
    for number in range(ROUNDS if wired.joins else 1):
        limits = _backward(wired, capacity, held, bounds, quotas, deal=number == 0)
        processed, taken, given = _forward(wired, wishes, limits, held, quotas)
        if not wired.joins or not _hand_on(
            wired, limits=limits, processed=processed, taken=taken, given=given, offered=offered, quotas=quotas
        ):
            break
    return processed, taken


def _forward(
    wired: Wiring,
    wishes: Sequence[float],
    limits: Sequence[float],
    held: Sequence[float],
    quotas: Sequence[float] | None = None,
) -> tuple[list[float], list[float], list[float]]:
    """Return processed by operator, and taken and offered by edge, when no operator does more than its limit."""
    processed = [0.0] * len(wired.names)
    taken, offered = [0.0] * len(held), [0.0] * len(held)
    for i, edges in enumerate(wired.inputs):
        if not edges:
            processed[i] = min(wishes[i], limits[i])
            continue
        for e in edges:
            offered[e] = held[e] + wired.gains[e] * processed[wired.edges[e][0]]
        if len(edges) == 1:
            processed[i] = taken[edges[0]] = min(offered[edges[0]], limits[i])
        else:
            _take(edges, offered, limits[i], quotas, taken)
            processed[i] = sum(taken[e] for e in edges)
    return processed, taken, offered


def _take(
    edges: Sequence[int], offered: Sequence[float], limit: float, quotas: Sequence[float] | None, taken: list[float]
) -> None:
    """Let a join take from its inputs: each up to its quota, then what is left in proportion to what still waits."""
    total = sum(offered[e] for e in edges)
    if total <= limit:
        for e in edges:
            taken[e] = offered[e]
        return
    for e in edges:
        taken[e] = 0.0 if quotas is None else min(offered[e], quotas[e])
    left = limit - sum(taken[e] for e in edges)
    waiting = total - sum(taken[e] for e in edges)
    if left > 0 and waiting > 0:
        for e in edges:
            taken[e] += (offered[e] - taken[e]) * min(left / waiting, 1.0)


def _overflows(
    wired: Wiring, processed: Sequence[float], taken: Sequence[float], held: Sequence[float], bounds: Sequence[float]
) -> bool:
    return any(held[e] + wired.gains[e] * processed[up] - taken[e] > bounds[e] for e, (up, _) in enumerate(wired.edges))


def _backward(
    wired: Wiring,
    capacity: Sequence[float],
    held: Sequence[float],
    bounds: Sequence[float],
    quotas: list[float],
    *,
    deal: bool,
) -> list[float]:
    """Return how much each operator may process so that no buffer overflows; sets the quotas of the edges.

    ``deal``: quotas come in as what comes new, and a join's limit is dealt out in proportion to it.
    """
    limits = list(capacity)
    for i in range(len(limits) - 1, -1, -1):
        for e in wired.outputs[i]:
            if wired.gains[e] > 0:
                room = bounds[e] - held[e]
                limits[i] = min(limits[i], (max(room, 0.0) + quotas[e]) / wired.gains[e])
        edges = wired.inputs[i]
        if len(edges) == 1:
            quotas[edges[0]] = limits[i]
        elif edges:
            total = sum(quotas[e] for e in edges)
            if deal or total > limits[i]:
                for e in edges:
                    even = limits[i] / len(edges)
                    quotas[e] = limits[i] * quotas[e] / total if total > 0 else even
    return limits


def _hand_on(
    wired: Wiring,
    *,
    limits: Sequence[float],
    processed: Sequence[float],
    taken: Sequence[float],
    given: Sequence[float],
    offered: Sequence[float],
    quotas: list[float],
) -> bool:
    """Give what a join's inputs left of their quotas to those that were held back; whether any was."""
    any_left = False
    for i, edges in enumerate(wired.inputs):
        if len(edges) < 2:
            continue
        left = limits[i] - processed[i]
        held_back = {e: offered[e] - given[e] for e in edges if offered[e] - given[e] > NOTHING * offered[e]}
        if left <= NOTHING * limits[i] or not held_back:
            continue
        any_left = True
        wanted = sum(held_back.values())
        for e in edges:
            quotas[e] = taken[e] + left * held_back.get(e, 0.0) / wanted
    return any_left

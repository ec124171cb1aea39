"""What past rescales teach: what a further instance is worth, whether scaling out helped, how long a restart takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from perdix.policies.flink_autoscaler.options import FlinkAutoscalerOptions
from perdix.policies.remembering import null_as_nan, number

RESTARTS_AGE_S = 86_400.0


class Rescale(NamedTuple):
    """A rescale of one vertex: its true rate (records/s) before, and the rate that was expected after it."""

    at_s: float
    before: int
    after: int
    true_per_s: float
    expected_per_s: float

    @classmethod
    def of_json(cls, values: Sequence[Any]) -> Rescale:
        """Return one that was kept as a list. Raises ``ValueError``, ``TypeError`` or ``LookupError`` for another."""
        true_per_s, expected_per_s = (null_as_nan(value) for value in values[3:5])
        return cls(number(values[0]), int(values[1]), int(values[2]), true_per_s, expected_per_s)


class Restart(NamedTuple):
    """How long a rescale took from the decision until the job ran again."""

    at_s: float
    took_s: float

    @classmethod
    def of_json(cls, values: Sequence[Any]) -> Restart:
        """Return one that was kept as a list. Raises ``ValueError`` or ``TypeError`` for another."""
        at_s, took_s = (number(value) for value in values)
        return cls(at_s, took_s)


def remembered(history: Sequence[Rescale], new: Rescale, options: FlinkAutoscalerOptions) -> tuple[Rescale, ...]:
    """Return the history with a rescale added, in the bounds of its age and length.

    A rescale that was decided and never carried out is replaced: it taught nothing.
    """
    kept = [rescale for rescale in history if rescale.at_s > new.at_s - options.history_age_s]
    if kept and kept[-1].before == new.before != kept[-1].after:
        kept = kept[:-1]
    return (*kept, new)[-options.history_count :]


def scalability(history: Sequence[Rescale], options: FlinkAutoscalerOptions) -> float:
    """Return what a further instance is worth of the first ones: least squares of rate on parallelism, at most 1.

    1 where too little is known, or the rates at the least parallelism are no basis (none, or not finite).
    """
    if len(history) < options.scalability_least:
        return 1.0
    smallest = min(rescale.before for rescale in history)
    basis = [rescale for rescale in history if rescale.before == smallest][-1]
    each_per_s = basis.true_per_s / basis.before
    rates = math.fsum(rescale.before * rescale.true_per_s for rescale in history)
    if not math.isfinite(rates) or not each_per_s > 0:
        return 1.0
    worth = rates / (each_per_s * math.fsum(rescale.before**2 for rescale in history))
    return math.ceil(round(100.0 * min(max(worth, options.scalability_min), 1.0), 9)) / 100.0


def gain(history: Sequence[Rescale], parallelism: int, true_per_s: float) -> float | None:
    """Return which share of its expected gain the last rescale brought; ``None`` where it was no scale-out to here."""
    if not history or history[-1].after != parallelism or history[-1].after <= history[-1].before:
        return None
    last = history[-1]
    expected = last.expected_per_s - last.true_per_s
    return (true_per_s - last.true_per_s) / expected if expected > 0 and math.isfinite(expected) else None


def restart_s(restarts: Sequence[Restart], now_s: float, options: FlinkAutoscalerOptions) -> float:
    """Return how long a restart is reckoned to take: as configured, or the longest of the last ones."""
    recent = [restart.took_s for restart in restarts if restart.at_s > now_s - RESTARTS_AGE_S][-options.history_count :]
    if not options.track_restarts or not recent:
        return options.restart_s
    return min(max(recent), options.restart_limit_s)

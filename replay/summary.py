"""What each policy came to over all its seeds: the mean of every figure and its spread, under names that say the unit.

The names, and their order, are those of tables, of MLflow's compare page and of Dagster's metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from replay.outcome import Outcome

_Reading = Callable[[Outcome], float | None]


def _percent(reading: _Reading) -> _Reading:
    def read(outcome: Outcome) -> float | None:
        value = reading(outcome)
        return None if value is None else 100.0 * value

    return read


FIGURES: Mapping[str, _Reading] = {
    "average_workers": lambda one: one.average_workers,
    "clairvoyant_ratio": lambda one: one.clairvoyant_ratio,
    "worker_hours": lambda one: one.worker_s / 3600.0,
    "latency_mean_ms": lambda one: one.latency_ms.mean,
    "latency_p50_ms": lambda one: one.latency_ms.p50,
    "latency_p95_ms": lambda one: one.latency_ms.p95,
    "latency_p99_ms": lambda one: one.latency_ms.p99,
    "above_objective_pct": _percent(lambda one: one.share_above_objective),
    "unprocessed_records": lambda one: one.unprocessed,
    "lag_max_records": lambda one: one.lag_maximum_records,
    "rescales": lambda one: one.rescales,
    "failures": lambda one: one.failures,
    "recovery_error_pct": _percent(lambda one: one.recovery_error),
    "forecast_wape_pct": _percent(lambda one: one.forecast_wape),
    "first_minute_wape_pct": _percent(lambda one: one.first_minute_wape),
    "capacity_error_pct": _percent(lambda one: one.capacity_error),
    "capacity_error_all_pct": _percent(lambda one: one.capacity_error_all),
    "retrains": lambda one: one.retrains,
    "wall_s": lambda one: one.wall_s,
}


@dataclass(frozen=True)
class Summary:
    """One policy on one trace.

    Attributes
    ----------
    mean
        Figure -> mean over the seeds that have it; a figure that no seed has is left out.
    spread
        Figure -> sample standard deviation over seeds, where at least two have it.
    """

    trace: str
    policy: str
    seeds: tuple[int, ...]
    hours: float
    mean: Mapping[str, float]
    spread: Mapping[str, float]


def summaries(outcomes: Iterable[Outcome]) -> list[Summary]:
    """Return a summary per trace and policy, in the order in which they first appear."""
    found: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in outcomes:
        found.setdefault((outcome.trace, outcome.policy), []).append(outcome)
    return [_summary(trace, policy, mine) for (trace, policy), mine in found.items()]


def _summary(trace: str, policy: str, outcomes: Sequence[Outcome]) -> Summary:
    mean, spread = {}, {}
    for name, reading in FIGURES.items():
        known = [float(value) for one in outcomes if (value := reading(one)) is not None and np.isfinite(value)]
        if known:
            mean[name] = float(np.mean(known))
        if len(known) > 1:
            spread[name] = float(np.std(known, ddof=1))
    hours = float(np.mean([one.hours for one in outcomes]))
    return Summary(trace, policy, tuple(one.seed for one in outcomes), hours, mean, spread)

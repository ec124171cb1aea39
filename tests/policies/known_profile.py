"""A profile to decide by: 1,000 records/s per worker, and a latency that is normal up to 65 % of that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from perdix.models.latency.contract import LatencyPredictions
from perdix.models.profiling.profiled import Profiled
from perdix.models.profiling.tmax import LINE, HighestRates

NORMAL_MS, OVERLOADED_MS = 500.0, 20_000.0


@dataclass(frozen=True)
class KnownLatency:
    """Normal up to a share of what the workers take."""

    normal_up_to: float = 0.65
    per_worker: float = 1_000.0
    asked: list[tuple[list[int], float]] = field(default_factory=list, compare=False, repr=False)

    family = "known"

    def predict(self, scale_outs: ArrayLike, rates_per_s: ArrayLike) -> LatencyPredictions:
        sizes, rates = np.broadcast_arrays(np.atleast_1d(scale_outs), np.atleast_1d(rates_per_s))
        self.asked.append((sizes.tolist(), float(rates[0])))
        normal = rates / (self.per_worker * sizes) <= self.normal_up_to
        return LatencyPredictions(np.where(normal, NORMAL_MS, OVERLOADED_MS), normal)

    def learned(self, scale_out: int, rate_per_s: float, latency_ms: float) -> Self:
        return self

    def with_rates(self, rates: HighestRates) -> Self:
        return self

    def to_state(self) -> Mapping[str, Any]:
        return {}


def profile_of(
    maximum_per_s: Mapping[int, float] | None = None, normal_up_to: float = 0.65, **changes: Any
) -> Profiled:
    """What a profile of four scale-outs taught."""
    most = {n: 1_000.0 * n for n in (2, 5, 8, 12)} if maximum_per_s is None else maximum_per_s
    return Profiled(KnownLatency(normal_up_to), HighestRates.fit(most, LINE), **changes)

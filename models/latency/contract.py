"""The contract of a latency model."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perdix.models.profiling.tmax import HighestRates
from perdix.telemetry.window import Values


@dataclass(frozen=True)
class LatencyPredictions:
    """Predictions for pairs of scale-out and rate; arrays of shape ``(n,)``."""

    latency_ms: Values  # mean of the p95 end-to-end latency, ms; NaN where the model only knows that it is not normal
    normal: NDArray[np.bool_]  # whether the latency belongs to the valid ones: the job keeps up


class LatencyModel(Protocol):
    """What was learned from a profile, and from the running job."""

    family: str

    def predict(self, scale_outs: ArrayLike, rates_per_s: ArrayLike) -> LatencyPredictions:
        """Predict for every pair; both broadcast to shape ``(n,)``, workers and records/s."""

    def learned(self, scale_out: int, rate_per_s: float, latency_ms: float) -> Self:
        """Return the model after one more measurement of the running job (Phoebe: models are updated at runtime)."""

    def with_rates(self, rates: HighestRates) -> Self:
        """Return the model with a newer T_max, where it reckons with one."""

    def to_state(self) -> Mapping[str, Any]:
        """Return a JSON-serialisable state."""

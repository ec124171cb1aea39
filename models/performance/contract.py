"""The contract of a performance model: cores and memory of a worker in, the highest rate it processes out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perdix.telemetry.window import Values


@dataclass(frozen=True)
class Sample:
    """What one sampling instance reached (QEScalor, 2.2: a correlation sample)."""

    # cpu_cores, memory_mb: what the instance was given, cores and MB
    cpu_cores: float
    memory_mb: float
    per_s: float  # records/s at which its performance converged
    took_s: float = 0.0  # seconds that sampling it took


@dataclass(frozen=True)
class Performances:
    """Predictions, arrays of shape ``(n,)``."""

    per_s: Values  # records/s of one worker
    # Whether the size lies outside what was sampled: a forest, for one, then returns its plateau
    extrapolated: NDArray[np.bool_]


class PerformanceModel(Protocol):
    """What was learned from the samples of one operator or job."""

    @property
    def family(self) -> str:
        """Name of the family."""

    def predict(self, cpu_cores: ArrayLike, memory_mb: ArrayLike) -> Performances:
        """Predict for every pair; both broadcast to shape ``(n,)``."""

    def to_state(self) -> Mapping[str, Any]:
        """Return a JSON-serialisable state."""

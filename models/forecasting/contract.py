"""The contract of a forecaster, and the forecast that it gives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Workload:
    """A job's workload on a regular grid.

    Attributes
    ----------
    start_s
        Epoch seconds at which the first step begins.
    step_s
        Length of a step in seconds.
    per_s
        Mean rate in each step, records/s, shape ``(n,)``; NaN where nothing was measured.
    """

    start_s: float
    step_s: float
    per_s: Values

    @property
    def end_s(self) -> float:
        """Epoch seconds at which the last step ends: the origin of a forecast made from this workload."""
        return self.start_s + self.step_s * len(self.per_s)

    def __len__(self) -> int:
        return len(self.per_s)


@dataclass(frozen=True)
class Forecast:
    """What a forecaster believes at ``origin_s`` about the steps that follow.

    Attributes
    ----------
    origin_s
        Epoch seconds of the origin; step ``k`` covers ``[origin_s + k step_s, origin_s + (k + 1) step_s)``.
    mean
        Records/s, shape ``(horizon,)``, never negative.
    quantiles
        Probability -> records/s, shape ``(horizon,)``; at least 0.5, 0.9 and 0.95.
    family, version
        The model that made it; version 0 is a fallback that no registry knows.
    wape
        WAPE of the model's recent forecasts (1.0 = 100 %), ``None`` when none has come true yet.
    """

    origin_s: float
    step_s: float
    mean: Values
    quantiles: Mapping[float, Values] = field(default_factory=dict)
    family: str = ""
    version: int = 0
    wape: float | None = None

    @property
    def horizon_s(self) -> float:
        """Seconds covered."""
        return self.step_s * len(self.mean)

    def maximum_per_s(self, until_s: float | None = None, quantile: float | None = None) -> float:
        """Return the highest rate within ``until_s`` seconds of the origin (the whole horizon when ``None``)."""
        values = self.mean if quantile is None else self.quantiles[quantile]
        steps = len(values) if until_s is None else max(1, int(np.ceil(until_s / self.step_s)))
        return float(np.max(values[:steps]))


class Forecaster(ABC):
    """Fitted to one job. Immutable: :meth:`update` returns another forecaster.

    Deterministic for a given history and seed. States hold numbers and strings only, so that nothing is unpickled.
    """

    family: ClassVar[str]

    @classmethod
    @abstractmethod
    def fit(cls, history: Workload, *, seed: int = 0) -> Self:
        """Fit to a history. Raises ``ValueError`` naming what is missing when the history is too short or empty."""

    @abstractmethod
    def update(self, observed: Workload) -> Self:
        """Return the forecaster after new observations, without refitting; what it has already seen is ignored."""

    @abstractmethod
    def forecast(self, horizon_s: float, step_s: float = 1.0) -> Forecast:
        """Forecast from the end of what was seen, ``ceil(horizon_s / step_s)`` steps."""

    @abstractmethod
    def to_state(self) -> dict[str, Any]:
        """Return a JSON-serialisable state of at most 1 MB."""

    @classmethod
    @abstractmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Rebuild from :meth:`to_state`. Raises ``ValueError`` when the state is not one of this family."""

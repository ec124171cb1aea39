"""The naive forecaster: the workload stays as it was last measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from models.forecasting.contract import Values, Workload
from models.forecasting.spread import Spread, measure
from models.forecasting.tail import Tail
from models.forecasting.tail_forecaster import TailForecaster


@dataclass(frozen=True)
class LastValue(TailForecaster):
    """Repeats the newest finite rate: the bar that every other family must clear."""

    family: ClassVar[str] = "last-value"
    keep_s: ClassVar[float] = 600.0

    @classmethod
    def fit(cls, history: Workload, *, seed: int = 0) -> Self:  # noqa: ARG003 -- nothing here is random
        """Fit to a history. Raises ``ValueError`` when it has no finite rate."""
        tail = Tail.of(history, cls.least_cell_s)
        return cls(tail.cut(cls.keep_s), measure(_repeat, tail, tail.cell_s))

    def project(self, tail: Tail, edges_s: Values) -> Values:
        """Return the newest finite rate at every step."""
        return _repeat(tail, edges_s)

    def parameters(self) -> dict[str, Any]:
        """Return nothing: there are none."""
        return {}

    @classmethod
    def with_parameters(cls, tail: Tail, spread: Spread, parameters: Mapping[str, Any]) -> Self:  # noqa: ARG003
        """Rebuild."""
        return cls(tail, spread)


def _repeat(tail: Tail, edges_s: Values) -> Values:
    finite = tail.per_s[np.isfinite(tail.per_s)]
    return np.full(len(edges_s) - 1, finite[-1])

"""The naive forecaster: the workload stays as it was last measured."""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from perdix.models.forecasting.contract import HORIZON_S, Workload
from perdix.models.forecasting.member import Member, stretched
from perdix.models.forecasting.tail import Tail
from perdix.telemetry.window import Values

KEEP_S = 600.0


@dataclass(frozen=True)
class LastValue(Member):
    """Repeats the newest finite rate: the bar that every other family must clear."""

    family: ClassVar[str] = "last-value"

    @classmethod
    def fit(cls, history: Workload, *, horizon_s: float = HORIZON_S, seed: int = 0) -> Self:  # noqa: ARG003
        """Fit to a history. Raises ``ValueError`` when it has no finite rate."""
        cell_s = Tail.of(history, stretched(1.0, horizon_s)).cell_s
        return cls(cell_s, stretched(KEEP_S, horizon_s))

    def project(self, tail: Tail, edges_s: Values) -> Values:
        """Return the newest finite rate at every step."""
        return np.full(len(edges_s) - 1, tail.newest_per_s)

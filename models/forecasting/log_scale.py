"""The logarithm of rates above their floor, standardised: the scale on which workloads of any size look alike."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from perdix.models.forecasting.failures import NotForecastableError
from perdix.models.forecasting.gaussian_process import LogGaussianProcess
from perdix.settings.stored import restored
from perdix.telemetry.window import Values


@dataclass(frozen=True)
class LogScale:
    """Learnt from a history; applied to what comes."""

    # floor_per_s, offset_per_s: of the logarithm
    # (:class:`~perdix.models.forecasting.gaussian_process.LogGaussianProcess`), records/s
    floor_per_s: float
    offset_per_s: float
    # centre, spread: mean and standard deviation of the logarithms
    centre: float
    spread: float

    @classmethod
    def of(cls, per_s: Values, who: str) -> Self:
        """Learn from finite rates. Raises ``ValueError`` when they do not vary; the message names ``who``."""
        floor_per_s, offset_per_s = LogGaussianProcess.shape(per_s)
        logarithms = LogGaussianProcess.transformed(per_s, floor_per_s, offset_per_s)
        centre, spread = float(logarithms.mean()), float(logarithms.std())
        if not spread > 1e-9 * max(1.0, abs(centre)):
            raise NotForecastableError(f"{who}: the workload does not vary; last-value says all there is to say")
        return cls(floor_per_s, offset_per_s, centre, spread)

    def apply(self, per_s: Values) -> Values:
        """Return standardised logarithms."""
        logarithms = LogGaussianProcess.transformed(per_s, self.floor_per_s, self.offset_per_s)
        return np.asarray((logarithms - self.centre) / self.spread)

    def undo(self, values: Values) -> Values:
        """Return rates, records/s."""
        return LogGaussianProcess.restored(self.centre + self.spread * values, self.floor_per_s, self.offset_per_s)

    def to_state(self) -> dict[str, float]:
        """Return a JSON-serialisable state."""
        return asdict(self)

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Rebuild. Raises ``ValueError`` when a number is not one, or what must be above zero is not."""
        made = restored(cls, state)
        if not (np.isfinite(list(asdict(made).values())).all() and made.offset_per_s > 0.0 and made.spread > 0.0):
            raise ValueError("a scale has offset and spread above zero")
        return made

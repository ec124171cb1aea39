"""The contract of a capacity model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Protocol

_HIGH = NormalDist().inv_cdf(0.95)  # intervals hold 90 %


@dataclass(frozen=True)
class Estimate:
    """The capacity of one scale-out.

    Attributes
    ----------
    scale_out
        Workers.
    per_s, low_per_s, high_per_s
        Records/s that can be processed, with a 90 % interval.
    seen
        True when the job was observed at this scale-out (Daedalus 3.1: observed values are preferred).
    basis
        How it is known, in words for a reader.
    """

    scale_out: int
    per_s: float
    low_per_s: float
    high_per_s: float
    seen: bool
    basis: str

    @property
    def usable(self) -> bool:
        """Whether all three values are finite and above 0."""
        return all(math.isfinite(value) and value > 0 for value in (self.low_per_s, self.per_s, self.high_per_s))

    @property
    def log_sd(self) -> float:
        """Standard deviation of the logarithm, of one that is :attr:`usable`."""
        return max(math.log(self.high_per_s / self.low_per_s) / (2.0 * _HIGH), 0.0)


class CapacityModel(Protocol):
    """Anything that can say what a scale-out can take."""

    def capacity(self, scale_out: int) -> Estimate:
        """Return the estimate for ``scale_out`` workers. Raises ``ValueError`` below 1."""
        ...

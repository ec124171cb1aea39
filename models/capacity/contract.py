"""What a capacity model says of a scale-out."""

import math
from dataclasses import dataclass
from typing import Self

# What an interval reaches on either side, in standard deviations, to hold the truth in nine cases of ten: measured
# (decision 58). A normal distribution would ask for 1.64; doubts that are added up are more than what comes of them.
REACH_SDS = 1.5
WIDEST = 100.0  # of an interval's reach in logarithms: all that could be, and a number still


@dataclass(frozen=True)
class Estimate:
    """The capacity of one scale-out."""

    scale_out: int  # workers
    # per_s, low_per_s, high_per_s: records/s that can be processed, with a 90 % interval
    per_s: float
    low_per_s: float
    high_per_s: float
    seen: bool  # true when the job was observed at this scale-out (Daedalus 3.1: observed values are preferred)
    basis: str  # how it is known, in words for a reader

    @classmethod
    def about(cls, scale_out: int, log_per_s: float, log_sd: float, *, seen: bool, basis: str) -> Self:
        """Return the estimate of a capacity by its logarithm and the standard deviation of that."""
        half = min(REACH_SDS * log_sd, WIDEST)
        per_s, low_per_s, high_per_s = math.exp(log_per_s), math.exp(log_per_s - half), math.exp(log_per_s + half)
        return cls(scale_out, per_s, low_per_s, high_per_s, seen, basis)

    @property
    def usable(self) -> bool:
        """Whether all three values are finite and above 0."""
        return 0.0 < self.low_per_s < math.inf and 0.0 < self.per_s < math.inf and 0.0 < self.high_per_s < math.inf

    @property
    def log_sd(self) -> float:
        """Standard deviation of the logarithm, of one that is :attr:`usable`."""
        return max(math.log(self.high_per_s / self.low_per_s) / (2.0 * REACH_SDS), 0.0)

    def at(self, deviations: float) -> float:
        """Return the capacity this many standard deviations above the estimate, records/s, of one that is usable."""
        return self.per_s * math.exp(deviations * self.log_sd)

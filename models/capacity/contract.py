"""The contract of a capacity model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


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


class CapacityModel(Protocol):
    """Anything that can say what a scale-out can take."""

    def capacity(self, scale_out: int) -> Estimate:
        """Return the estimate for ``scale_out`` workers. Raises ``ValueError`` below 1."""
        ...

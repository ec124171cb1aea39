"""The contract of a sampling rule: which points of one axis are tried, one after the other."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Wanted:
    """The next point."""

    index: int  # on the axis, from 0
    step: int  # units between it and the point before it in the direction of the step; of a midpoint, to its neighbours
    why: str  # in words


# A sweep yields what it wants, is sent the records/s there (None: the size failed), and returns why it ended.
Sweep = Generator[Wanted, float | None, str]


class SamplingRule(Protocol):
    """How one axis is swept. Pure: the same answers, the same wishes."""

    @property
    def name(self) -> str:
        """How it is called on the command line, for example ``fssa-3``."""

    @property
    def largest_first(self) -> bool:
        """Whether the largest size is sampled before all others."""

    def sweep(self, last: int, *, reaches_per_s: float | None = None) -> Sweep:
        """Return a new sweep over the indices 0 to ``last``, ascending amounts of the resource.

        ``reaches_per_s``: what the most of this resource is known to make possible, records/s. A sweep that stops where
        performance no longer grows does not do so before it has come near.
        """

"""FSSA: the fixed-step sampling that QEScalor's DSA is compared with (ICCS 2020, section 3)."""

from __future__ import annotations

from dataclasses import dataclass

from perdix.models.sampling.contract import Sweep, Wanted


@dataclass(frozen=True)
class FixedStep:
    """Every ``step``-th point from the smallest on, whatever comes of it; with step 1, the reference, all."""

    step: int = 1

    def __post_init__(self) -> None:
        if self.step < 1:
            raise ValueError(f"a step has at least one unit, found {self.step}")

    @property
    def largest_first(self) -> bool:
        """It does not: it knows its points beforehand."""
        return False

    @property
    def name(self) -> str:
        """``fssa-<step>``."""
        return f"fssa-{self.step}"

    def sweep(self, last: int, *, reaches_per_s: float | None = None) -> Sweep:
        """Return a new sweep; see :class:`perdix.models.sampling.contract.SamplingRule`."""
        del reaches_per_s  # it takes every step
        for index in range(0, last + 1, self.step):
            yield Wanted(index, self.step, "fixed step")
        return "the end of the range"

"""The sizes of worker that can be sampled: a grid of cores and memory."""

import math
from typing import Annotated, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from perdix.settings.strict import Strict

MOST_POINTS = 1_000
_WHOLE = 1e-9  # a range may miss a whole number of units by rounding


class Axis(Strict):
    """One resource, from ``least`` to ``most`` in units."""

    # least, most: smallest and largest amount: cores, or MB. What is left beyond the last whole unit is not sampled
    least: Annotated[float, Field(gt=0)]
    most: Annotated[float, Field(gt=0)]
    unit: Annotated[float, Field(gt=0)]  # the smallest step (d of QEScalor's step 1), in the same unit

    @model_validator(mode="after")
    def _a_range(self) -> Self:
        if self.least > self.most:
            raise ValueError(f"least {self.least:g} is above most {self.most:g}; swap or widen them")
        if self._steps >= MOST_POINTS:
            points = f"{self.last + 1} points" if math.isfinite(self._steps) else "points"
            raise ValueError(
                f"{points} from {self.least:g} to {self.most:g} are more than {MOST_POINTS}; "
                f"make the unit larger than {self.unit:g}"
            )
        return self

    @property
    def last(self) -> int:
        """Index of the largest point; the smallest has index 0."""
        return math.floor(self._steps)

    @property
    def _steps(self) -> float:
        return (self.most - self.least) / self.unit + _WHOLE

    def at(self, index: int) -> float:
        """Return the amount at an index. Raises ``ValueError`` where there is none."""
        if not 0 <= index <= self.last:
            raise ValueError(f"index {index} is outside 0..{self.last}")
        return round(self.least + index * self.unit, 9)

    def values(self) -> NDArray[np.float64]:
        """Return every amount, ascending, shape ``(last + 1,)``."""
        return np.array([self.at(index) for index in range(self.last + 1)])


class GridPoint(NamedTuple):
    """A size as indices on the two axes."""

    cpu: int
    memory: int


class Grid(Strict):
    """What a sampling instance can be given."""

    # cpu, memory: cores, and MB
    cpu: Axis
    memory: Axis

    @property
    def largest(self) -> GridPoint:
        """The point with the most of both."""
        return GridPoint(self.cpu.last, self.memory.last)

    def size(self, point: GridPoint) -> tuple[float, float]:
        """Return the cores and MB at a point. Raises ``ValueError`` where it is outside."""
        return self.cpu.at(point.cpu), self.memory.at(point.memory)

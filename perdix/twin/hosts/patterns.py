"""Arrival patterns: how many machines emit data at a time (Hochreiner et al., section 'Data arrival pattern')."""

from __future__ import annotations

from typing import Annotated, Self

import numpy as np
from pydantic import Field, model_validator

from perdix.settings.strict import Strict
from perdix.telemetry.window import Values

DOWN_BELOW, UP_ABOVE = 0.4, 0.6  # equation 6


class Walk(Strict):
    """A random walk (equation 6): a machine less below .4, one more above .6, the same in between."""

    seed: Annotated[int, Field(ge=0)]  # of the walk, not of the replay: a pattern is the same in every run
    start: Annotated[int, Field(ge=0)] = 4
    # lowest, highest: the paper chose walks that stay within them; so must this one
    lowest: Annotated[int, Field(ge=0)] = 1
    highest: Annotated[int, Field(ge=1)] = 8

    def machines(self, count: int) -> Values:
        """Return the first ``count`` values of the walk, held within its bounds."""
        drawn = np.random.default_rng(self.seed).random(max(count - 1, 0))
        moves = np.where(drawn < DOWN_BELOW, -1, np.where(drawn > UP_ABOVE, 1, 0))
        found = [self.start]
        for move in moves:
            found.append(int(np.clip(found[-1] + move, self.lowest, self.highest)))
        return np.array(found[:count], dtype=np.float64)


class Pattern(Strict):
    """How many machines there are: levels that are repeated, or a walk; each value holds for ``every_s`` seconds."""

    every_s: Annotated[int, Field(ge=1, le=86_400)]
    levels: Annotated[list[Annotated[float, Field(ge=0, le=10_000)]], Field(min_length=1)] | None = None
    walk: Walk | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.levels is None) == (self.walk is None):
            raise ValueError("give 'levels' or 'walk', one of both")
        return self

    def machines(self, seconds: int) -> Values:
        """Return the machines in each of the first ``seconds`` seconds, shape ``(seconds,)``."""
        count = -(-seconds // self.every_s)
        if self.walk is not None:
            values = self.walk.machines(count)
        else:
            values = np.resize(np.asarray(self.levels, dtype=np.float64), count)
        return np.repeat(values, self.every_s)[:seconds]

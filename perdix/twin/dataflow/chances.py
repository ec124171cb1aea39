"""Luck of a dataflow: noise per second, whatever the dataflow does, and how long a standstill takes."""

from __future__ import annotations

import math

import numpy as np

from perdix.telemetry.window import Values
from perdix.twin.observables import SLOWEST, Flicker
from perdix.twin.parameters import RandomTime

DRAWN_S = 600  # noise is drawn so many seconds at a time
_SPEED, _RATE, _STANDSTILL, _INSTRUMENTATION = 11, 12, 13, 14  # random streams


class Chances:
    """Two policies meet the same luck in the same second, however time is cut into steps.

    ``speed``, ``rate``: relative standard deviations, by operator, shape ``(n,)`` each; noise persists for ten seconds.
    """

    def __init__(self, seed: int, speed: Values, rate: Values) -> None:
        self.seed = seed
        self._spreads = (speed, rate)
        self._flickers = tuple(Flicker(np.random.default_rng([seed, k]), len(speed)) for k in (_SPEED, _RATE))
        self._rows: list[tuple[list[float], list[float]]] = []

    def next_second(self) -> tuple[list[float], list[float]]:
        """Return the relative speed and the relative rate of every operator in the next second."""
        if not self._rows:
            drawn = [
                np.maximum(1.0 + spread * flicker.draw(DRAWN_S), SLOWEST).tolist()
                for spread, flicker in zip(self._spreads, self._flickers, strict=True)
            ]
            self._rows = list(zip(*drawn, strict=True))[::-1]
        return self._rows.pop()

    def standstill_s(self, time: RandomTime, number: int) -> int:
        """Return how long the ``number``-th standstill takes, whole seconds."""
        rng = np.random.default_rng([self.seed, _STANDSTILL, number])
        return math.ceil(time.median_s * math.exp(time.spread * rng.standard_normal()))

    def instrumentation(self, since_s: int, until_s: int, operators: int, instances: int) -> Values:
        """Return standard normal numbers for what is measured in a window, shape ``(operators, instances)``."""
        rng = np.random.default_rng([self.seed, _INSTRUMENTATION, since_s, until_s])
        return rng.standard_normal((operators, instances))

"""How much of what its lines through CPU load promise a job really does while work waits."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from perdix.settings.durations import MINUTE_S

STALLED = 0.1  # share of what is believed and usual, below which the workers wait for something else than their CPU
IN_A_ROW = 3  # minutes that fall short by as much: one may be a hiccup of a broker or a sink
ALIKE = 0.8  # the least of them, as a share of the largest
LATEST_S = 150.0  # between two of them
MORE = 1.05  # times the share that was believed, that has to be done to disprove it
HALF_LIFE_S = 24 * 3600.0  # what held the workers up may be over without anybody seeing it


@dataclass(frozen=True)
class Reach:
    """A share of the lines: below 1 where workers are full before their CPU is.

    They may wait for a store, or have one busy thread on several cores; CPU load and throughput then stay on one line,
    whose end they never reach.
    """

    share: float = 1.0  # 0 to 1
    # Shares of the newest minutes in a row that fell short of it
    short: tuple[float, ...] = field(default=(), compare=False)
    short_s: float = field(default=-math.inf, compare=False)  # epoch seconds of the newest of them

    def fell_short(self, share: float, at_s: float) -> Reach:
        """Return the reach after a minute, up to ``at_s``, with work that waited, of so small a share of the lines."""
        if not share >= STALLED or at_s - self.short_s < MINUTE_S:
            return self
        earlier = self.short if at_s - self.short_s <= LATEST_S else ()
        short = (*earlier, share)[-IN_A_ROW:]
        if len(short) < IN_A_ROW or min(short) < ALIKE * max(short):
            return Reach(self.share, short, at_s)
        return Reach(float(np.mean(short)))

    def faded(self, elapsed_s: float) -> Reach:
        """Return the reach after some time: nearer to the whole of the lines."""
        if self.share == 1.0 or not 0.0 < elapsed_s < math.inf:
            return self
        return Reach(self.share**0.5 ** (elapsed_s / HALF_LIFE_S), self.short, self.short_s)

    def did(self, share: float) -> Reach:
        """Return the reach after a share of the lines was done; what was done can be done."""
        return Reach(min(share, 1.0)) if self.share < 1.0 and share > MORE * self.share else self

"""When the performance of a sampling instance has converged."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit


@dataclass(frozen=True)
class Convergence:
    """The mean of the later half of the windows is known well enough, and stands still."""

    tolerance: float = 0.03  # half-width of the mean's confidence interval, as a share of the mean
    # Of that interval. Windows are taken as independent: choose them longer than what noise persists
    confidence: float = 0.9
    fewest: int = 4  # windows that the later half must have

    def __post_init__(self) -> None:
        if not (self.tolerance > 0 and 0 < self.confidence < 1 and self.fewest >= 2):
            raise ValueError(f"tolerance above 0, confidence within 0 and 1, at least two windows; found {self}")

    def converged(self, throughputs_per_s: Sequence[float]) -> float | None:
        """Return the performance, records/s, or ``None`` when it has not converged.

        The earlier half of the windows is taken for the warm-up. A mean that still moves is known by its halves: they
        may differ by no more than twice the tolerance.

        ``throughputs_per_s``: means of windows of equal length, in order, since the instance was full.
        """
        later = np.asarray(throughputs_per_s[len(throughputs_per_s) // 2 :], float)
        if later.size < self.fewest or not np.isfinite(later).all():
            return None
        mean = float(later.mean())
        if mean <= 0.0:
            return None
        quantile = float(stdtrit(later.size - 1, 0.5 + self.confidence / 2.0))
        half_width = quantile * float(later.std(ddof=1)) / math.sqrt(later.size)
        first, second = later[: later.size // 2].mean(), later[later.size // 2 :].mean()
        still = abs(second - first) <= 2.0 * self.tolerance * mean
        return mean if still and half_width <= self.tolerance * mean else None

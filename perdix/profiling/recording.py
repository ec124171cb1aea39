"""What was recorded of the live workload, and how it is replayed at another rate (Phoebe, 3.3)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perdix.models.forecasting.contract import Workload
from perdix.telemetry.window import Values

COURSE_S = 31  # what lasts longer than half a minute is the load's course, which a profiling run must not have


@dataclass(frozen=True)
class Recording:
    """Records/s in each recorded second, shape ``(seconds,)``.

    Phoebe replays recorded events at a constant rate, deleting or repeating some of them at random. What is kept here
    is how the load flickers from second to second, relative to its slow course: a constant rate is calmer than any
    job's. Raises ``ValueError`` when less than ten seconds were recorded, or nothing arrived in them.
    """

    per_s: Values

    def __post_init__(self) -> None:
        known = self.per_s[np.isfinite(self.per_s)]
        if len(known) < 10:
            raise ValueError(f"{len(known)} seconds of workload were recorded; record ten at least")
        if not known.mean() > 0:
            raise ValueError("nothing arrived while the workload was recorded; record while the job has work")

    @classmethod
    def of(cls, workload: Workload) -> Recording:
        """Return what a workload recorded, whatever its step; raises as the class."""
        return cls(np.repeat(workload.per_s, max(1, round(workload.step_s))))

    def flicker(self) -> Values:
        """Return the recorded rates relative to their slow course, mean 1, shape ``(seconds,)``."""
        known = self.per_s[np.isfinite(self.per_s)]
        width = min(COURSE_S, len(known))
        near = np.convolve(np.ones(len(known)), np.ones(width), "same")
        course = np.convolve(known, np.ones(width), "same") / near
        busy = course >= known.mean() / 2.0  # where hardly anything arrives, the ratio says nothing
        flicker = known[busy] / course[busy]
        return np.asarray(flicker / flicker.mean())

    def at(self, rate_per_s: float, second: int, count: int) -> Values:
        """Return ``count`` seconds of arrivals of mean ``rate_per_s``, from ``second`` of the endless replay on."""
        flicker = self.flicker()
        return rate_per_s * flicker[(second + np.arange(count)) % len(flicker)]

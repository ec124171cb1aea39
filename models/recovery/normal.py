"""What is normal: running moments of workload minus throughput while the job does what it should (Daedalus 3.5)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from perdix.telemetry.window import Values

HALF_LIFE_S = 300.0
STOPPED = 0.5  # difference as a share of the workload that is not normal operation, whoever caused it


@dataclass(frozen=True)
class Moments:
    """Weighted count, mean and sum of squared deviations; exact to merge (Chan et al.)."""

    weight: float = 0.0
    mean: float = 0.0
    m2: float = 0.0

    @classmethod
    def of(cls, values: Values, weights: Values) -> Self:
        """Return the moments of values with their weights; both of shape ``(n,)``, all finite."""
        total = float(weights.sum())
        if total <= 0.0:
            return cls()
        mean = float(weights @ values) / total
        return cls(total, mean, float(weights @ (values - mean) ** 2))

    def merge(self, other: Moments) -> Moments:
        """Return the moments of both sets."""
        weight = self.weight + other.weight
        if weight == 0.0:
            return self
        delta = other.mean - self.mean
        mean = self.mean + delta * other.weight / weight
        return Moments(weight, mean, self.m2 + other.m2 + delta**2 * self.weight * other.weight / weight)

    def decayed(self, factor: float) -> Moments:
        """Return the moments with every weight multiplied by ``factor``."""
        return Moments(self.weight * factor, self.mean, self.m2 * factor)

    @property
    def sd(self) -> float:
        """Standard deviation; 0 when nothing was seen."""
        return math.sqrt(self.m2 / self.weight) if self.weight > 0 else 0.0


@dataclass(frozen=True)
class Normal:
    """The baseline of anomaly detection: feed it while the job is not recovering from anything."""

    difference: Moments = Moments()  # moments of workload minus throughput, records/s
    lag_s: Moments = Moments()  # moments of the consumer lag in seconds of workload
    newest_s: float = -math.inf  # epoch seconds of the newest sample that was fed

    def fed(
        self,
        times_s: ArrayLike,
        workload_per_s: ArrayLike,
        throughput_per_s: ArrayLike,
        lag_records: ArrayLike | None = None,
    ) -> Normal:
        """Return the baseline after a window of normal operation; arrays of shape ``(n,)``, NaN is missing.

        Samples up to :attr:`newest_s` were fed before and are left out, and so are those in which throughput and
        workload differ by more than half the workload: an unplanned outage must not become normal. Weights halve every
        5 minutes, because workload metrics that are averages lag by more on a slope than on the flat.
        """
        times, workload, throughput = (
            np.asarray(values, float) for values in (times_s, workload_per_s, throughput_per_s)
        )
        lag = np.full(times.shape, np.nan) if lag_records is None else np.asarray(lag_records, float)
        with np.errstate(invalid="ignore"):
            usable = (times > self.newest_s) & (np.abs(workload - throughput) <= STOPPED * workload) & (workload > 0)
        if not usable.any():
            return self
        newest = float(times[usable][-1])
        weights = 0.5 ** ((newest - times) / HALF_LIFE_S)
        lagged = usable & np.isfinite(lag)
        fade = 0.5 ** ((newest - self.newest_s) / HALF_LIFE_S) if math.isfinite(self.newest_s) else 0.0
        difference = Moments.of((workload - throughput)[usable], weights[usable])
        lag_s = Moments.of(lag[lagged] / workload[lagged], weights[lagged])
        return Normal(self.difference.decayed(fade).merge(difference), self.lag_s.decayed(fade).merge(lag_s), newest)

    def to_state(self) -> dict[str, Any]:
        """Return a JSON-serialisable state."""
        return {
            "difference": list(vars(self.difference).values()),
            "lag_s": list(vars(self.lag_s).values()),
            "newest_s": self.newest_s if math.isfinite(self.newest_s) else None,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Rebuild from :meth:`to_state`. Raises ``ValueError`` when a part is missing."""
        try:
            newest = state["newest_s"]
            return cls(
                Moments(*map(float, state["difference"])),
                Moments(*map(float, state["lag_s"])),
                -math.inf if newest is None else float(newest),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"not the state of a baseline: {error!r}") from None

"""What a job's profile taught, as the loop carries it along: latency, highest rates, downtime (Phoebe, 3.4)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from perdix.models.latency.contract import LatencyModel
from perdix.models.latency.state import latency_from_state
from perdix.models.profiling.tmax import HighestRates

KEPT = 20  # profiles whose failures are known to have been counted


@dataclass(frozen=True)
class Profiled:
    """The models that a profile trains."""

    latency: LatencyModel  # m_L: latency by scale-out and rate, and whether it is normal
    highest: HighestRates  # t_max by scale-out, which M_R reckons with
    # How long a deployment stood still after a failure, detection included: the mean of what profiling saw; ``None``
    # where no failure was tried
    downtime_s: float | None = None
    failures: int = 0  # how many it saw
    # Downtime and failures of the profiles that were in use before: what they saw was counted
    counted: tuple[tuple[float, int], ...] = ()

    def succeeding(self, former: "Profiled") -> Self:
        """Return the models that take the place of others."""
        seen = () if former.downtime_s is None else ((former.downtime_s, former.failures),)
        return replace(self, counted=tuple(dict.fromkeys((*former.counted, *seen)))[-KEPT:])

    def settled(self, scale_out: int, rate_per_s: float, latency_ms: float) -> Self:
        """Return the models after a measurement of the job in steady operation (Phoebe, 3.1)."""
        latency = self.latency.learned(scale_out, rate_per_s, latency_ms)
        return replace(self, latency=latency)._with(self.highest.learned(scale_out, rate_per_s, saturated=False))

    def caught_up(self, scale_out: int, throughput_per_s: float) -> Self:
        """Return the models after the job worked off a backlog: that throughput was all that it could do."""
        return self._with(self.highest.learned(scale_out, throughput_per_s))

    def _with(self, highest: HighestRates) -> Self:
        if highest is self.highest:
            return self
        return replace(self, highest=highest, latency=self.latency.with_rates(highest))

    def to_state(self) -> dict[str, Any]:
        """Return a JSON-serialisable state."""
        return {
            **self.latency.to_state(),
            "highest_rates": self.highest.to_state(),
            "downtime_s": self.downtime_s,
            "failures": self.failures,
            "counted": [list(seen) for seen in self.counted],
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Rebuild from :meth:`to_state`. Raises ``ValueError`` when a part is missing or damaged."""
        try:
            downtime_s = math.nan if state.get("downtime_s") is None else float(state["downtime_s"])
            return cls(
                latency_from_state(state),
                HighestRates.from_state(state["highest_rates"]),
                downtime_s if math.isfinite(downtime_s) and downtime_s >= 0.0 else None,
                int(state.get("failures", 0)),
                tuple((float(mean_s), int(count)) for mean_s, count in state.get("counted", ())),
            )
        except (KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"not what a profile taught: {error!r}") from None

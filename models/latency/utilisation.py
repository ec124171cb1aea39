"""The latency model by a limit of utilisation: what Phoebe's M_L is to say (3.4), from how a job works."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from perdix.models.latency.contract import LatencyPredictions
from perdix.models.latency.curve import LatencyCurve
from perdix.models.latency.limit import UtilisationLimit
from perdix.models.latency.overload import highest_rates_of, is_measured, measured, overload_factor, overloaded_points
from perdix.models.profiling.profile import ProfilePoint
from perdix.models.profiling.tmax import HighestRates
from perdix.telemetry.window import Values

STATE_FORMAT = "perdix-latency-utilisation-1"


@dataclass(frozen=True)
class UtilisationLatency:
    """Latency is normal up to a limit of utilisation, and below it a smooth curve.

    Utilisation is the rate over T_max of the scale-out, and T_max a regression over the scale-out rather than that one
    scale-out's own measurement, whose scatter of 5 % would cost more than it says.
    """

    family = "utilisation-limit"

    rates: HighestRates  # t_max over the scale-out
    limit: UtilisationLimit  # the highest utilisation whose latency is normal
    curve: LatencyCurve  # latency below it

    @classmethod
    def fit(cls, points: Sequence[ProfilePoint], maximum_per_s: Mapping[int, float], seed: int = 0) -> Self:  # noqa: ARG003  of every family
        """Fit to a profile.

        Raises ``ValueError`` when no point has a latency, or none kept up.

        ``points``: their offered rates and latencies; points without them are left out.
        ``maximum_per_s``: scale-out -> T_max, records/s; when empty, the highest throughput of each scale-out stands
        for it.
        ``seed``: nothing here is random.
        """
        known = measured(points)
        rates = highest_rates_of(known, dict(maximum_per_s))
        overloaded, curve = overloaded_points(known, rates)
        offered = np.array([point.rate_per_s for point in known])
        utilisations = offered / rates.per_s([point.scale_out for point in known])
        return cls(rates, UtilisationLimit.fit(utilisations, overloaded), curve)

    def predict(self, scale_outs: ArrayLike, rates_per_s: ArrayLike) -> LatencyPredictions:
        """Predict for pairs of workers and records/s; NaN above the limit, where latency grows for as long as it lasts.

        A rate that is not known is not normal.
        """
        sizes, offered = np.broadcast_arrays(np.atleast_1d(scale_outs), np.atleast_1d(rates_per_s))
        sizes, offered = sizes.astype(float), offered.astype(float)
        utilisations = self.utilisations(sizes, offered)
        normal = (utilisations <= self.limit.now) & (offered >= 0.0)
        latency_ms = np.full(normal.shape, np.nan)
        latency_ms[normal] = self.curve.latency_ms(utilisations[normal], offered[normal])
        return LatencyPredictions(latency_ms, normal)

    def utilisations(self, scale_outs: ArrayLike, rates_per_s: ArrayLike) -> Values:
        """Return rate over T_max of every pair, a share of 1; infinite where nothing can be processed."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.asarray(rates_per_s, float) / self.rates.per_s(scale_outs), float)

    def learned(self, scale_out: int, rate_per_s: float, latency_ms: float) -> Self:
        """Return the model after one more measurement of the running job, in some 0.1 ms.

        Whether that was an overload is judged by the curve. Feed steady operation: while a backlog is worked off,
        latency says nothing about the rate.
        """
        if scale_out < 1 or not is_measured(rate_per_s, latency_ms):
            return self
        used = float(self.utilisations(scale_out, rate_per_s))
        overloaded = latency_ms > overload_factor(self.curve) * float(self.curve.latency_ms(used, rate_per_s))
        limit = self.limit.learned(used, overloaded=overloaded)
        if overloaded:
            return replace(self, limit=limit)
        return replace(self, limit=limit, curve=self.curve.learned(used, rate_per_s, latency_ms))

    def with_rates(self, rates: HighestRates) -> Self:
        """Return the model with a newer T_max; the limit, being one of utilisation, stays."""
        return replace(self, rates=rates)

    def to_state(self) -> dict[str, Any]:
        """Return a JSON-serialisable state of some 2 kB, however long the job runs."""
        return {
            "format": STATE_FORMAT,
            "family": self.family,
            "rates": self.rates.to_state(),
            "limit": self.limit.to_state(),
            "curve": self.curve.to_state(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Rebuild from :meth:`to_state`. Raises ``ValueError`` when the state is not one of this model."""
        if state.get("format") != STATE_FORMAT:
            raise ValueError(f"not a latency state of format {STATE_FORMAT}: format is {state.get('format')!r}")
        parts = {name: state.get(name) for name in ("rates", "limit", "curve")}
        if missing := [name for name, part in parts.items() if not isinstance(part, Mapping)]:
            raise ValueError(f"a latency state of {STATE_FORMAT} lacks {', '.join(missing)}")
        return cls(
            HighestRates.from_state(state["rates"]),
            UtilisationLimit.from_state(state["limit"]),
            LatencyCurve.from_state(state["curve"]),
        )

"""The latency model by a limit of utilisation: what Phoebe's M_L is to say (3.4), from how a job works."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perdix.models.latency.contract import LatencyPredictions
from perdix.models.latency.overload import (
    LatencyCurve,
    highest_rates_of,
    is_measured,
    measured,
    overload_factor,
    overloaded_points,
)
from perdix.models.profiling.profile import ProfilePoint
from perdix.models.profiling.tmax import HighestRates
from perdix.settings.stored import restored
from perdix.telemetry.window import Values

STATE_FORMAT = "perdix-latency-utilisation-1"
MISSED_COSTS = 3.0  # false alarms: an overload goes on until somebody scales out, a false alarm is a worker more
FULL = 1.0  # the limit where no overload was seen: then only a rate above T_max is one
LOWEST, HIGHEST = 0.1, 1.25
MOST_DOWN = 0.05  # share by which one overload just below the limit lowers it
CREDIBLE = 0.2  # share below the limit at which an overload counts e times less: something else may be its cause
STEP_DOWN, STEP_UP = 0.25, 0.1
JUST_BELOW = 0.98  # of the utilisation at which an overload was measured
DRIFT = 0.005  # share of the way back to the profile's limit with each measurement that says nothing against it


@dataclass(frozen=True)
class UtilisationLimit:
    """The highest utilisation at which a job keeps up: learned from a profile, corrected by the running job."""

    profiled: float  # as the profile says
    now: float  # as the running job has moved it

    @classmethod
    def fit(
        cls, utilisations: NDArray[np.float64], overloaded: NDArray[np.bool_], missed_costs: float = MISSED_COSTS
    ) -> Self:
        """Return the limit that separates points at the lowest cost, in the middle of the widest such gap.

        ``utilisations``, ``overloaded``: shape ``(n,)``; without an overload the limit is 1, or the highest utilisation
        that was normal.
        ``missed_costs``: what an overload that is taken for normal costs, in false alarms.
        """
        if not overloaded.any():
            value = max(FULL, float(utilisations.max(initial=0.0)))
            return cls(value, value)
        order = np.argsort(utilisations, kind="stable")
        ordered, over = utilisations[order], overloaded[order]
        missed = np.concatenate([[0], np.cumsum(over)])
        alarms = np.count_nonzero(~over) - np.concatenate([[0], np.cumsum(~over)])
        cost = missed_costs * missed + alarms
        # Cut k lies behind the k lowest points; the ends have no gap to lie in the middle of.
        below = np.concatenate([[ordered[0] * JUST_BELOW], ordered])
        above = np.concatenate([ordered, [ordered[-1] / JUST_BELOW]])
        cheapest = np.flatnonzero(cost == cost.min())
        cut = cheapest[np.argmax((above - below)[cheapest])]
        value = float(np.clip((below[cut] + above[cut]) / 2.0, LOWEST, HIGHEST))
        return cls(value, value)

    def learned(self, utilisation: float, *, overloaded: bool) -> Self:
        """Return the limit after one measurement of the running job.

        An overload below the limit lowers it, the less the farther below (a failure elsewhere looks alike), normal
        operation above it raises it, and anything else lets it drift back to the profile's: what the running job once
        showed is forgotten.
        """
        if not math.isfinite(utilisation):
            return self
        if overloaded and utilisation < self.now:
            wanted = self.now + STEP_DOWN * (JUST_BELOW * utilisation - self.now)
            credible = math.exp((utilisation / self.now - 1.0) / CREDIBLE)
            moved = max(wanted, self.now * (1.0 - MOST_DOWN * credible))
        elif not overloaded and utilisation > self.now:
            moved = self.now + STEP_UP * (utilisation - self.now)
        else:
            moved = self.now + DRIFT * (self.profiled - self.now)
        return replace(self, now=float(np.clip(moved, LOWEST, HIGHEST)))

    def to_state(self) -> dict[str, float]:
        """Return a JSON-serialisable state."""
        return {"profiled": self.profiled, "now": self.now}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Rebuild from :meth:`to_state`. Raises ``ValueError`` when a limit is missing or cannot be."""
        limit = restored(cls, state)
        if not (limit.profiled > 0.0 and limit.now > 0.0):
            raise ValueError(f"a limit of utilisation is above 0, not {limit.profiled} and {limit.now}")
        return limit


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

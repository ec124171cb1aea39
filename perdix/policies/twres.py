"""TWRES, as Phoebe's paper compares itself with it (Phoebe, 4.3; Hu, Kang and Zheng, Algorithms 2019)."""

import math
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.optimize import nnls

from perdix.models.forecasting.projected_rate import projected_rate_per_s
from perdix.models.profiling.profiled import Profiled
from perdix.policies.contract import Candidate, Decision, Reason, Situation
from perdix.policies.evaluation_interval import evaluated, profile_or_hold
from perdix.policies.holding import hold
from perdix.policies.phoebe import within
from perdix.policies.wording import per_s, workers
from perdix.settings.strict import Strict
from perdix.telemetry.window import Values


class TwresOptions(Strict):
    """Options of the policy; the defaults are those of Phoebe's experiments."""

    latency_ms: Annotated[float, Field(gt=0)] = 2_000.0  # constraint of the latency: above it, one worker is added
    # evaluation_s, horizon_s, bins: as of the policy ``phoebe``: the paper gives both the same
    evaluation_s: Annotated[float, Field(gt=0, le=86_400)] = 600.0
    horizon_s: Annotated[float, Field(gt=0)] = 600.0
    bins: Annotated[int, Field(ge=1, le=100)] = 5


class Twres:
    """The smallest scale-out that can cope with the projected rate; one more where the latency is too high.

    It plans for full use and knows nothing of restarts, which is what Phoebe's paper shows.
    """

    name = "twres"
    learns = True

    def __init__(self, options: TwresOptions | None = None) -> None:
        self.options = options or TwresOptions()

    def decide(self, situation: Situation) -> Decision:
        """Choose a scale-out within the bounds, or hold what runs."""
        found = profile_or_hold(self.name, situation, self.options.evaluation_s)
        return found if isinstance(found, Decision) else self._search(situation, found)

    def _search(self, situation: Situation, profiled: Profiled) -> Decision:
        bounds = situation.bounds
        scale_outs = np.arange(bounds.minimum, bounds.maximum + 1)
        capacities = highest_rates_per_s(profiled, scale_outs)
        projected = projected_rate_per_s(within(situation.forecast, self.options.horizon_s), self.options.bins)
        copes = capacities >= projected
        best = int(scale_outs[np.argmax(copes)]) if copes.any() else bounds.maximum
        examined = tuple(
            Candidate(int(n), float(rate), None, None if rate >= projected else f"{per_s(rate)} do not cope")
            for n, rate in zip(scale_outs[: best - bounds.minimum + 1], capacities, strict=False)
        )
        said = f"{workers(best)} {'copes' if best == 1 else 'cope'} with the projected {per_s(projected)}"
        if not copes.any():
            said = f"No scale-out copes with the projected {per_s(projected)}; {workers(best)} are the most"
        current, most = situation.scale_out, not copes.any()
        latency_ms = situation.latency_p95_ms
        if latency_ms is None or math.isnan(latency_ms):
            if best < current:
                why = f"{said}; the latency is not measured, so there is no scaling in."
                return hold(
                    self.name, situation, Reason.HOLD_BLIND, why, candidates=examined, memory=evaluated(situation)
                )
        elif not most and best <= current and latency_ms > self.options.latency_ms:
            best = bounds.clamp(current + 1)
            said += f"; the latency of {latency_ms:,.0f} ms is above {self.options.latency_ms:,.0f} ms: one more"
            if best <= current:
                most, said = True, f"{said}, but {workers(best)} are the most"
        reason = Reason.SCALE_MAXIMUM if most else Reason.of_change(current, best)
        return Decision(self.name, best, reason, f"{said}.", examined, memory=evaluated(situation))


def highest_rates_per_s(profiled: Profiled, scale_outs: NDArray[np.int_]) -> Values:
    """Return what each scale-out can take: T_max by non-negative least squares on (1, n, 1/n, 1/n^2), as its program.

    The profile's own points where there are three; the profile's regression where there are fewer.
    """
    known = [rate for rate in profiled.highest.known if not rate.running]
    if len(known) < 3:
        return profiled.highest.per_s(scale_outs)
    at = np.array([float(profile.scale_out) for profile in known])
    weights, _ = nnls(_terms(at), np.array([profile.per_s for profile in known]))
    return np.asarray(_terms(scale_outs.astype(np.float64)) @ weights)


def _terms(scale_outs: Values) -> Values:
    return np.column_stack((np.ones_like(scale_outs), scale_outs, 1.0 / scale_outs, 1.0 / scale_outs**2))

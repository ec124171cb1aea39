"""When a policy must not act, and how a hold looks: what runs goes on running."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeGuard

import numpy as np

from perdix.models.forecasting.contract import Forecast
from perdix.policies.contract import Candidate, Decision, Reason, Situation
from perdix.policies.wording import workers

AHEAD_S = 120.0  # after now, where nothing was seen yet: what begins later is of a clock that has been set back


def hold(
    policy: str,
    situation: Situation,
    reason: Reason,
    sentence: str,
    *,
    candidates: tuple[Candidate, ...] = (),
    recovery_s: float | None = None,
    memory: Mapping[str, Any] | None = None,
) -> Decision:
    """Return the decision to leave the scale-out as it is, be it outside the bounds; what was remembered is kept."""
    kept = situation.memory if memory is None else memory
    return Decision(policy, situation.scale_out, reason, sentence, candidates, recovery_s, kept)


def held_back(proposed: Decision, situation: Situation, reason: Reason, why: str) -> Decision:
    """Return a proposal as a hold that says why, and what would have been done."""
    would = ""
    if proposed.rescales(situation):
        would = f" Without that, {workers(proposed.scale_out, proposed.mix)}: {proposed.sentence}"
    held = replace(proposed, scale_out=situation.scale_out, mix=situation.mix, recovery_s=None)
    return replace(held, reason=reason, sentence=f"{why}{would}")


def blindness(situation: Situation) -> str | None:
    """Return why the situation is no ground for a decision, or ``None`` when its load and forecast are usable."""
    loads = {
        "the mean workload": situation.workload_per_s,
        "the workload of the last checkpoint interval": situation.recent_workload_per_s,
    }
    for name, value in loads.items():
        if not usable(value):
            return f"{name} is {value}"
    if situation.lag_records is not None and not usable(situation.lag_records):
        return f"the consumer lag is {situation.lag_records}"
    if situation.scale_out < 1:
        return f"{situation.scale_out} workers are running"
    if math.isnan(situation.since_rescale_s):
        return "the time since the last rescale is not known"
    downtimes = situation.downtimes
    if not all(usable(value) for value in (downtimes.out_s, downtimes.in_s, downtimes.failure_s)):
        return f"the learned downtimes are not usable ({downtimes})"
    return _forecast_blindness(situation.forecast, situation.now_s)


def _forecast_blindness(forecast: Forecast, now_s: float) -> str | None:
    steps = len(forecast.mean)
    if steps == 0:
        return "the forecast has no steps"
    broken = steps - int(np.count_nonzero(np.isfinite(forecast.mean) & (forecast.mean >= 0)))
    if broken:
        return f"{broken} of {steps} forecast steps are negative or not finite"
    late_s = now_s - forecast.origin_s - forecast.horizon_s
    if not late_s < 0:
        return f"the forecast ended {late_s:,.0f} s ago"
    ahead_s = forecast.origin_s - now_s
    if ahead_s > AHEAD_S:
        return f"the forecast begins {ahead_s:,.0f} s after now"
    return None


def usable(value: float | None) -> TypeGuard[float]:
    """Whether something was measured, and can be."""
    return value is not None and math.isfinite(value) and value >= 0

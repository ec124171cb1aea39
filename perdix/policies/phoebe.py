"""Phoebe: the smallest scale-out that would recover from a failure in time, at a normal latency (paper 3.5)."""

import math
from collections.abc import Mapping
from dataclasses import replace
from statistics import NormalDist
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from perdix.models.forecasting.contract import Forecast
from perdix.models.forecasting.projected_rate import projected_rate_per_s
from perdix.models.profiling.profiled import Profiled
from perdix.models.recovery.prediction import geometric_recoveries_s
from perdix.policies.contract import Candidate, Decision, Reason, Situation
from perdix.policies.evaluation_interval import evaluated, profile_or_hold
from perdix.policies.forecast_quantile import ForecastQuantile
from perdix.policies.holding import hold
from perdix.policies.wording import per_s, recovery, seconds, workers
from perdix.settings.strict import Strict
from perdix.telemetry.window import Values

_NORMAL = NormalDist()
FAILURES_EVERY_S = 120.0


class PhoebeOptions(Strict):
    """Options of the policy. :data:`AS_PRINTED` are those with which it decides as the paper prints it.

    ``recovery_time_s``: target of the recovery time in seconds; the job's objective when absent.
    ``evaluation_s``: seconds between evaluations; a job that started later than that is left alone, because it recovers
    (paper 3.5).
    ``horizon_s``: how much of the forecast counts for the projected rate, seconds; recoveries are followed through all
    of it.
    ``bins``: averaging bins of the forecast; the highest is the projected rate.
    ``quantile``: decide on this quantile of the forecast; on the mean when ``None``, as the paper does.
    ``observed``: whether the capacity that was observed of the running deployment counts, where it is less than the
    profile's T_max: keys fall anew at each rescale, and the profile knows nothing of that.
    ``confidence``: probability with which a scale-out must reach the T_max that is counted on: keys fall anew at each
    deployment. The regression's value is 0.5.
    ``target_share``: share of the target that the predicted recovery may take; the rest is for what nobody can foresee,
    such as how long a restart takes. The paper plans for all of it.
    ``lasting_s``: a failure may come at any time until the next evaluation: the recovery is predicted for failures up
    to this many seconds from now, and the longest counts. The paper predicts for a failure that happens now.
    ``least_saving``: share of the workers that scaling in must save to be worth a stop, and.
    ``ignored_in``: more than this many of them. The paper's program ignores two workers, the paper none.
    """

    recovery_time_s: Annotated[float, Field(gt=0)] | None = None
    evaluation_s: Annotated[float, Field(gt=0, le=86_400)] = 600.0
    horizon_s: Annotated[float, Field(gt=0)] = 600.0
    bins: Annotated[int, Field(ge=1, le=100)] = 5
    quantile: ForecastQuantile | None = 0.8
    observed: bool = True
    confidence: Annotated[float, Field(ge=0.5, lt=1)] = 0.5
    target_share: Annotated[float, Field(gt=0, le=1)] = 0.97
    lasting_s: Annotated[float, Field(ge=0, le=86_400)] = 600.0
    least_saving: Annotated[float, Field(ge=0, lt=1)] = 0.3
    ignored_in: Annotated[int, Field(ge=0)] = 2


AS_PRINTED: Mapping[str, Any] = {
    "quantile": None,
    "observed": False,
    "confidence": 0.5,
    "target_share": 1.0,
    "lasting_s": 0.0,
    "least_saving": 0.0,
    "ignored_in": 0,
}


class Phoebe:
    """Algorithm 1, with its uptime rule. It never scales in on what was not measured."""

    name = "phoebe"
    learns = True

    def __init__(self, options: PhoebeOptions | None = None) -> None:
        self.options = options or PhoebeOptions()

    def decide(self, situation: Situation) -> Decision:
        """Choose a scale-out within the bounds, or hold what runs."""
        found = profile_or_hold(self.name, situation, self.options.evaluation_s)
        return found if isinstance(found, Decision) else self._search(situation, found)

    def _search(self, situation: Situation, profiled: Profiled) -> Decision:
        bounds = situation.bounds
        scale_outs = np.arange(bounds.minimum, bounds.maximum + 1)
        forecast = within(situation.forecast, self.options.horizon_s)
        projected = projected_rate_per_s(forecast, self.options.bins, quantile=self._quantile(forecast))
        capacities = self._capacities(situation, profiled, scale_outs)
        recoveries = self._recoveries_s(situation, capacities)
        latency = profiled.latency.predict(scale_outs, projected)
        examined: list[Candidate] = []
        for n, capacity, recovery_s, latency_ms, normal in zip(
            scale_outs.tolist(),
            capacities.tolist(),
            recoveries.tolist(),
            latency.latency_ms.tolist(),
            latency.normal.tolist(),
            strict=True,
        ):
            why = self._rejection(situation, recovery_s, latency_ms, projected, normal=normal)
            examined.append(Candidate(n, capacity, recovery_s if math.isfinite(recovery_s) else None, why))
            if why is None:
                return self._chosen(situation, tuple(examined), projected)
        return self._none_holds(situation, tuple(examined), projected)

    def _recoveries_s(self, situation: Situation, capacities: Values) -> Values:
        """Return the longest recovery of every candidate from a failure now, or until it is evaluated again."""
        interval_s, longest = situation.objectives.checkpoint_interval_s, np.zeros(len(capacities))
        for after_s in np.arange(0.0, self.options.lasting_s + 1.0, FAILURES_EVERY_S):
            later = from_then_on(situation.forecast, after_s)
            if later is None:
                break
            quantile = self._quantile(later)
            rates = later.mean if quantile is None else later.quantiles[quantile]
            found = geometric_recoveries_s(
                later,
                capacities,
                situation.downtimes.failure_s,
                interval_s,
                situation.recent_workload_per_s if after_s == 0.0 else float(rates[0]),
                lag_records=(situation.lag_records or 0.0) if after_s == 0.0 else 0.0,
                quantile=quantile,
            )
            longest = np.maximum(longest, found)
        return longest

    def _quantile(self, forecast: Forecast) -> float | None:
        """Return the quantile to decide on; ``None``, the mean, where the forecast has no such quantile to rely on."""
        chosen = self.options.quantile
        values = None if chosen is None else forecast.quantiles.get(chosen)
        return chosen if values is not None and bool(np.isfinite(values).all()) else None

    def _capacities(self, situation: Situation, profiled: Profiled, scale_outs: NDArray[np.int_]) -> Values:
        """Return the T_max that is counted on of every candidate, records/s."""
        unsure = 1.0 + _NORMAL.inv_cdf(self.options.confidence) * profiled.highest.relative_spread()
        found = np.asarray(profiled.highest.per_s(scale_outs) / unsure)
        seen = situation.capacities.get(situation.scale_out)
        if not self.options.observed or seen is None or not seen.seen or not seen.per_s > 0:
            return found
        return np.where(scale_outs == situation.scale_out, np.minimum(found, seen.per_s), found)

    def _rejection(
        self, situation: Situation, recovery_s: float, latency_ms: float, projected: float, *, normal: bool
    ) -> str | None:
        """Return the rule that rejects a candidate, in the paper's order."""
        target_s = self._target_s(situation)
        if not recovery_s <= target_s:
            return f"recovery from a failure {recovery(recovery_s)}, the target is {seconds(target_s)}"
        if not normal:
            said = "" if math.isnan(latency_ms) else f" ({latency_ms:,.0f} ms)"
            return f"the latency at {per_s(projected)} would not be normal{said}"
        return None

    def _chosen(self, situation: Situation, examined: tuple[Candidate, ...], projected: float) -> Decision:
        best, current = examined[-1], situation.scale_out
        below = f" {examined[-2].scale_out} would not: {examined[-2].rejected_by}." if len(examined) > 1 else ""
        holds = (
            f"{workers(best.scale_out)} would recover from a failure in {seconds(best.recovery_s or 0.0)} of "
            f"{seconds(self._target_s(situation))} allowed, at a normal latency, while {per_s(projected)} are projected"
        )
        fewer = current - best.scale_out
        if fewer > 0 and self._unworthy(current, fewer) and current <= situation.bounds.maximum:
            why = f"{holds}; {fewer} of {current} workers are not worth a stop.{below}"
            return self._held(situation, Reason.HOLD_GOOD, why, examined)
        if best.scale_out < current and situation.lag_records is None:
            why = f"{holds}; the consumer lag is not measured, so there is no scaling in."
            return self._held(situation, Reason.HOLD_BLIND, why, examined)
        reason = Reason.of_change(current, best.scale_out)
        return Decision(
            self.name,
            best.scale_out,
            reason,
            f"{holds}: the smallest.{below}",
            examined,
            best.recovery_s,
            memory=evaluated(situation),
        )

    def _unworthy(self, current: int, fewer: int) -> bool:
        return fewer <= self.options.ignored_in or fewer / current < self.options.least_saving - 1e-9

    def _none_holds(self, situation: Situation, examined: tuple[Candidate, ...], projected: float) -> Decision:
        """Take the most: line 1 of Algorithm 1."""
        most = examined[-1]
        why = (
            f"No candidate holds while {per_s(projected)} are projected; {workers(most.scale_out)}, the most, would "
            f"not either: {most.rejected_by}."
        )
        if most.scale_out < situation.scale_out and situation.lag_records is None:
            return self._held(situation, Reason.HOLD_BLIND, why, examined)
        return Decision(
            self.name, most.scale_out, Reason.SCALE_MAXIMUM, why, examined, most.recovery_s, memory=evaluated(situation)
        )

    def _held(self, situation: Situation, reason: Reason, why: str, examined: tuple[Candidate, ...]) -> Decision:
        return hold(self.name, situation, reason, why, candidates=examined, memory=evaluated(situation))

    def _target_s(self, situation: Situation) -> float:
        return self.options.target_share * (self.options.recovery_time_s or situation.objectives.recovery_time_s)


def from_then_on(forecast: Forecast, after_s: float) -> Forecast | None:
    """Return a forecast without its first ``after_s`` seconds; ``None`` when nothing is left of it."""
    first = round(after_s / forecast.step_s)
    if first == 0:
        return forecast
    if first >= len(forecast.mean):
        return None
    return _part(forecast, slice(first, None), forecast.origin_s + first * forecast.step_s)


def within(forecast: Forecast, horizon_s: float) -> Forecast:
    """Return the first ``horizon_s`` seconds of a forecast."""
    count = max(1, round(horizon_s / forecast.step_s))
    if count >= len(forecast.mean):
        return forecast
    return _part(forecast, slice(count), forecast.origin_s)


def _part(forecast: Forecast, steps: slice, origin_s: float) -> Forecast:
    quantiles = {p: values[steps] for p, values in forecast.quantiles.items()}
    return replace(forecast, origin_s=origin_s, mean=forecast.mean[steps], quantiles=quantiles, maxima={})

"""Daedalus: the smallest scale-out that carries the load, recovers in time and will last (paper 3.2, Algorithm 1)."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import NormalDist

import numpy as np

from perdix.models.forecasting.contract import Forecast
from perdix.models.recovery.prediction import forecast_rates, mean_delay_s, predict_recoveries_s, waiting_record_s
from perdix.policies.contract import Candidate, Decision, Reason, Situation
from perdix.policies.daedalus_options import KEPT_S, DaedalusOptions
from perdix.policies.holding import blindness, hold
from perdix.policies.wording import per_s, records, recovery, seconds, workers

_NORMAL = NormalDist()
WAITING_S = 1800.0  # how far what waits is compared where no scale-out holds: twice the paper's forecast
WITHOUT_END_S = 3600.0  # likewise, where what runs never catches up and another size does
BLOCK = 64  # candidates whose recovery is predicted at once: bounds may reach 10,000, and most end within one block
LONGEST_STAY_S = 1800.0  # for which a scale-out is expected to suit, however flat the load: twice the paper's forecast
HOPED_SDS = _NORMAL.inv_cdf(0.95)  # above its estimate, at which a size that never ran counts when overloaded
SLOPE_SHARE = 1 / 3  # of the horizon, its end: what the load goes on doing beyond it
SPARE_WORKERS = 1.5  # that a falling load leaves idle: then it is time to scale in again
LAG_UNKNOWN = "the consumer lag is not measured, so there is no scaling in"


class Daedalus:
    """Algorithm 1 with its order of checks and its comparisons, strict or not, as printed.

    It differs in one place: where no candidate holds, the paper takes the maximum; this takes the greatest capacity
    with the fewest workers, because the largest scale-out need not be the strongest, and hopes for the best of those
    that the job never had; with ``worth_delay_s``, only where that helps. And it never scales in on what was not
    measured.
    """

    name = "daedalus"
    learns = True

    def __init__(self, options: DaedalusOptions | None = None) -> None:
        self.options = options or DaedalusOptions()

    def decide(self, situation: Situation) -> Decision:
        """Choose a scale-out within the bounds, or hold what runs."""
        return self._refrain(situation) or self._search(situation)

    def _refrain(self, situation: Situation) -> Decision | None:
        """Return the hold that precedes any search: blind, unknown, grace, or the 600 s rule."""
        blind = blindness(situation)
        if blind is not None:
            return hold(self.name, situation, Reason.HOLD_BLIND, f"Blind: {blind}.")
        capacity = self._capacity(situation, situation.scale_out)
        within = situation.bounds.minimum <= situation.scale_out <= situation.bounds.maximum
        if not situation.capacities or (within and capacity is None):
            unknown = f"The capacity of {workers(situation.scale_out)} is not known yet."
            return hold(self.name, situation, Reason.HOLD_UNKNOWN, unknown)
        since_s = situation.since_rescale_s
        if since_s < self.options.grace_s:
            grace = f"Rescaled {seconds(since_s)} ago, within the grace period of {seconds(self.options.grace_s)}."
            return hold(self.name, situation, Reason.HOLD_GRACE, grace)
        if since_s < self.options.recent_s and within and capacity is not None:
            return self._recent(situation, capacity)
        return None

    def _recent(self, situation: Situation, capacity: float) -> Decision | None:
        """Lines 1-3: after a recent rescale, keep a scale-out that carries the load until the next loop."""
        soon = situation.forecast.maximum_per_s(situation.tick_interval_s, self.options.quantile)
        if not (capacity > situation.workload_per_s and capacity > soon):
            return None
        sentence = (
            f"Rescaled {seconds(situation.since_rescale_s)} ago, and {workers(situation.scale_out)} "
            f"({per_s(capacity)}) carry both the mean workload of {per_s(situation.workload_per_s)} and the "
            f"{per_s(soon)} forecast until the next tick."
        )
        return hold(self.name, situation, Reason.HOLD_RECENT_RESCALE, sentence)

    def _search(self, situation: Situation) -> Decision:
        """Lines 4-13: the first candidate, from the smallest, that no rule rejects; scaling out, the least of those."""
        examined: list[Candidate] = []
        best, least = None, math.inf
        for scale_out, recovery_s in self._recoveries(situation):
            if scale_out >= least:
                break  # its workers alone weigh more than the best with its delay
            candidate = self._examine(situation, scale_out, recovery_s)
            examined.append(candidate)
            if candidate.rejected_by is not None:
                continue
            if scale_out <= situation.scale_out or self.options.worth_delay_s is None:
                return self._chosen(situation, candidate, tuple(examined))
            weight = scale_out + self._in_workers(situation, candidate, self._delay_s(situation, candidate, KEPT_S))
            if weight < least:
                best, least = candidate, weight
        if best is None:
            return self._none_holds(situation, tuple(examined))
        first = next(candidate for candidate in examined if candidate.rejected_by is None)
        return self._chosen(situation, best, self._up_to(situation, best, examined), passed_over=first is not best)

    def _up_to(self, situation: Situation, best: Candidate, examined: Sequence[Candidate]) -> tuple[Candidate, ...]:
        """Return the candidates up to the best; with what speaks against those that hold as well."""
        delay_s = self._delay_s(situation, best, KEPT_S)

        def explained(candidate: Candidate) -> Candidate:
            if candidate is best or candidate.rejected_by is not None:
                return candidate
            delayed = _delayed(KEPT_S, self._delay_s(situation, candidate, KEPT_S))
            return replace(candidate, rejected_by=f"{delayed}, not by {delay_s:.1f} s")

        return tuple(explained(candidate) for candidate in examined if candidate.scale_out <= best.scale_out)

    def _examine(self, situation: Situation, scale_out: int, recovery_s: float) -> Candidate:
        capacity = self._capacity(situation, scale_out)
        if capacity is None:
            return Candidate(scale_out, math.nan, None, "its capacity is not known")
        if not capacity > situation.workload_per_s:
            load = f"{per_s(capacity)} do not exceed the mean workload of {per_s(situation.workload_per_s)}"
            return Candidate(scale_out, capacity, None, load)
        candidate = Candidate(scale_out, capacity, recovery_s, None)
        return replace(candidate, rejected_by=self._rejection(situation, candidate, recovery_s))

    def _rejection(self, situation: Situation, candidate: Candidate, recovery_s: float) -> str | None:
        """Return the first rule after ``capacity > mean workload`` that rejects a candidate, in the paper's order."""
        capacity, target_s = candidate.capacity_per_s, self._target_s(situation)
        if recovery_s > target_s:
            return f"recovery {recovery(recovery_s)}, the target is {seconds(target_s)}"
        meanwhile = situation.forecast.maximum_per_s(recovery_s, self.options.quantile)
        if capacity < meanwhile:
            return (
                f"{per_s(capacity)} are below the {per_s(meanwhile)} forecast within {seconds(recovery_s)} of recovery"
            )
        return None if candidate.scale_out == situation.scale_out else self._rejected_change(situation, candidate)

    def _rejected_change(self, situation: Situation, candidate: Candidate) -> str | None:
        """Return why it is too early to go to another scale-out, or not worth it."""
        capacity = candidate.capacity_per_s
        if candidate.scale_out < situation.scale_out:
            unworthy = self._unworthy(situation, candidate)
            if unworthy is not None:
                return unworthy
            lag = situation.lag_records
            if lag is None:
                return LAG_UNKNOWN
            if capacity < lag:
                return f"{per_s(capacity)} are below the consumer lag of {records(lag)}: catching up"
        horizon_s, highest = self._highest(situation)
        if self.options.long_lived and not capacity > highest:
            horizon = seconds(horizon_s)
            return f"{per_s(capacity)} do not exceed the {per_s(highest)} forecast within {horizon}: would not last"
        return None

    def _unworthy(self, situation: Situation, candidate: Candidate) -> str | None:
        """Return why scaling in is not worth a rescale; coming back into the bounds is no choice."""
        if self.options.worth_delay_s is None or situation.scale_out > situation.bounds.maximum:
            return None
        saved, stay_s = situation.scale_out - candidate.scale_out, self._stay_s(situation, candidate)
        delay_s = self._delay_s(situation, candidate, stay_s)
        if self._in_workers(situation, candidate, delay_s) <= saved:
            return None
        return f"{_delayed(stay_s, delay_s)}: not worth saving {workers(saved)}"

    def _in_workers(self, situation: Situation, candidate: Candidate, delay_s: float) -> float:
        """Return what a delay weighs beside workers: the busy ones, as many times as it is worth the delay."""
        assert self.options.worth_delay_s is not None
        busy = candidate.scale_out * situation.workload_per_s / candidate.capacity_per_s
        return busy * delay_s / self.options.worth_delay_s

    def _delay_s(self, situation: Situation, candidate: Candidate, stay_s: float) -> float:
        """Return by how much going there delays each record that arrives within ``stay_s``."""
        downtime_s = situation.downtimes.between(situation.scale_out, candidate.scale_out)
        assert candidate.recovery_s is not None
        return mean_delay_s(downtime_s, candidate.recovery_s, over_s=stay_s)

    def _stay_s(self, situation: Situation, candidate: Candidate) -> float:
        """Return for how long a smaller scale-out is expected to stay: until it is outgrown, or workers of it idle.

        A larger one counts as kept for :data:`KEPT_S`: how high a load will rise is what a forecast knows least.
        """
        low_per_s = situation.workload_per_s * (1.0 - SPARE_WORKERS / candidate.scale_out)
        quantile = self.options.quantile
        return max(KEPT_S, expected_stay_s(situation.forecast, low_per_s, candidate.capacity_per_s, quantile))

    def _recoveries(self, situation: Situation) -> Iterator[tuple[int, float]]:
        """Yield every scale-out within the bounds with its predicted recovery time in seconds, smallest first."""
        bounds, current = situation.bounds, situation.scale_out
        lag = (situation.lag_records or 0.0) if self.options.count_lag else 0.0
        for first in range(bounds.minimum, bounds.maximum + 1, BLOCK):
            block = range(first, min(first + BLOCK, bounds.maximum + 1))
            capacities = [self._capacity(situation, scale_out) for scale_out in block]
            found = predict_recoveries_s(
                situation.forecast,
                np.array([math.nan if capacity is None else capacity for capacity in capacities]),
                np.array([situation.downtimes.between(current, scale_out) for scale_out in block]),
                situation.objectives.checkpoint_interval_s,
                situation.recent_workload_per_s,
                lag_records=lag,
                quantile=self.options.quantile,
            )
            yield from zip(block, found.tolist(), strict=True)

    def _chosen(
        self, situation: Situation, chosen: Candidate, examined: tuple[Candidate, ...], *, passed_over: bool = False
    ) -> Decision:
        target = f"recovery in {seconds(chosen.recovery_s or 0.0)} of {seconds(self._target_s(situation))} allowed"
        holds = f"{workers(chosen.scale_out)} ({per_s(chosen.capacity_per_s)}, {target})"
        below = examined[-2] if len(examined) > 1 else None
        why = "the least that the bounds allow" if below is None else "the smallest that holds"
        limit = "" if below is None else f"; {below.scale_out} would not: {below.rejected_by}"
        if chosen.scale_out == situation.scale_out and below is not None:
            why = self._still_holds(situation, chosen.capacity_per_s) or why
        if below is not None and passed_over:
            why = "the least in workers and delay together"
            limit = f"; with {below.scale_out}, {below.rejected_by}"
        sentence, current = f"{holds}: {why}{limit}.", situation.scale_out
        if chosen.scale_out == current:
            unseen = below is not None and below.rejected_by == LAG_UNKNOWN
            reason = Reason.HOLD_BLIND if unseen else Reason.HOLD_GOOD
        else:
            reason = Reason.of_change(current, chosen.scale_out)
        return Decision(
            self.name, chosen.scale_out, reason, sentence, examined, chosen.recovery_s, memory=situation.memory
        )

    def _still_holds(self, situation: Situation, capacity: float) -> str | None:
        """Return in words that what runs is kept although another size with its capacity would not be chosen."""
        horizon_s, highest = self._highest(situation)
        if not self.options.long_lived or capacity > highest:
            return None
        last = f"last through the {per_s(highest)} forecast within {seconds(horizon_s)}"
        return f"what runs still holds, but a new size would have to {last}"

    def _highest(self, situation: Situation) -> tuple[float, float]:
        """Return for how many seconds a new size has to last, and the highest forecast of them in records/s."""
        horizon_s = min(self.options.horizon_s or math.inf, situation.forecast.horizon_s)
        return horizon_s, situation.forecast.maximum_per_s(horizon_s, self.options.quantile)

    def _none_holds(self, situation: Situation, examined: tuple[Candidate, ...]) -> Decision:
        """Line 14, with the greatest capacity at the least cost in place of the maximum.

        Here the estimates themselves count and not their safe ends: an overloaded job needs the most that there is.
        """
        known = [candidate for candidate in examined if not math.isnan(candidate.capacity_per_s)]
        if not known:
            unknown = "No scale-out within the bounds holds a known capacity."
            return hold(self.name, situation, Reason.HOLD_UNKNOWN, unknown, candidates=examined)
        believed = self._hoped_for(situation)
        runs = situation.scale_out
        best = max(
            known,
            key=lambda candidate: (believed[candidate.scale_out], candidate.scale_out == runs, -candidate.scale_out),
        )
        kept = self._kept(situation, best, believed[best.scale_out])
        if kept is not None:
            sentence = f"No candidate holds; {workers(situation.scale_out)} stay: {kept}."
            return hold(self.name, situation, Reason.SCALE_MAXIMUM, sentence, candidates=examined)
        cheaper = " with the fewest workers" if best.scale_out < situation.bounds.maximum else ""
        estimate, hope = situation.capacities[best.scale_out].per_s, believed[best.scale_out]
        have, most = ("may have", f"up to {per_s(hope)}, never tried") if hope > estimate else ("have", per_s(estimate))
        sentence = (
            f"No candidate holds; {workers(best.scale_out)} {have} the greatest capacity ({most}){cheaper}. "
            f"{best.scale_out} would not hold: {best.rejected_by}."
        )
        recovery_s = best.recovery_s if best.recovery_s is not None and math.isfinite(best.recovery_s) else None
        return Decision(
            self.name, best.scale_out, Reason.SCALE_MAXIMUM, sentence, examined, recovery_s, memory=situation.memory
        )

    def _hoped_for(self, situation: Situation) -> dict[int, float]:
        """Return the capacities in records/s to hope for when overloaded: more workers than the job ever had are tried.

        Their estimates are drawn from fewer workers, and often from unlucky ones. To hold back because they are no
        higher than what runs would leave the job overloaded for as long as the load lasts.
        """
        seen = [scale_out for scale_out, estimate in situation.capacities.items() if estimate.seen]
        tried = max([situation.scale_out, *seen])
        return {
            scale_out: estimate.at(HOPED_SDS) if scale_out > tried and estimate.usable else estimate.per_s
            for scale_out, estimate in situation.capacities.items()
        }

    def _kept(self, situation: Situation, best: Candidate, believed_per_s: float) -> str | None:
        """Return why no scale-out is worth a rescale although none holds, if so: with what runs, less will wait."""
        within = situation.bounds.minimum <= situation.scale_out <= situation.bounds.maximum
        if best.scale_out == situation.scale_out or not within:
            return None
        if best.scale_out < situation.scale_out and situation.lag_records is None:
            return LAG_UNKNOWN
        capacity = self._capacity(situation, situation.scale_out)
        if self.options.worth_delay_s is None or capacity is None:
            return None
        lag, interval_s = situation.lag_records or 0.0, situation.objectives.checkpoint_interval_s
        again = lag + interval_s * situation.recent_workload_per_s
        downtime_s = situation.downtimes.between(situation.scale_out, best.scale_out)
        forecast, quantile = situation.forecast, self.options.quantile
        finally_per_s = float(forecast_rates(forecast, quantile)[-1])
        over_s = WITHOUT_END_S if capacity <= finally_per_s < believed_per_s else WAITING_S
        as_it_is = waiting_record_s(forecast, capacity, 0.0, lag, over_s=over_s, quantile=quantile)
        rescaled = waiting_record_s(forecast, believed_per_s, downtime_s, again, over_s=over_s, quantile=quantile)
        if as_it_is > rescaled:
            return None
        return (
            f"over the next {seconds(over_s)}, {records(as_it_is / over_s)} would wait on average, "
            f"and {records(rescaled / over_s)} after a rescale to {best.scale_out}"
        )

    def _target_s(self, situation: Situation) -> float:
        return self.options.recovery_time_s or situation.objectives.recovery_time_s

    def _capacity(self, situation: Situation, scale_out: int) -> float | None:
        """Return a candidate's capacity in records/s, or ``None`` when it is not known or not a usable number."""
        estimate = situation.capacities.get(scale_out)
        if estimate is None or not estimate.per_s > 0:
            return None
        per_s = estimate.per_s
        if scale_out != situation.scale_out and self.options.confidence > 0.5:
            if not estimate.usable:
                return None
            per_s = estimate.at(-_NORMAL.inv_cdf(self.options.confidence))
        return per_s if math.isfinite(per_s) else None


def _delayed(over_s: float, delay_s: float) -> str:
    return f"over {seconds(over_s)}, the rescale would delay every record by {delay_s:.1f} s"


def expected_stay_s(forecast: Forecast, low_per_s: float, high_per_s: float, quantile: float | None = None) -> float:
    """Return how long the load stays between two rates, at most :data:`LONGEST_STAY_S`.

    Beyond its horizon the forecast goes on along the slope of its last third.

    Raises ``ValueError`` when the forecast is empty or has NaN.

    ``low_per_s``, ``high_per_s``: below the one a smaller scale-out will do, above the other a larger one is needed;
    records/s.
    """
    rates, step_s = forecast_rates(forecast, quantile), forecast.step_s
    half = max(1, round(SLOPE_SHARE * len(rates) / 2))
    before = rates[-2 * half : -half] if len(rates) > half else rates
    slope = float(rates[-half:].mean() - before.mean()) / half
    beyond = max(0, int(np.ceil(LONGEST_STAY_S / step_s)) - len(rates))
    path = np.concatenate([rates, rates[-1] + slope * np.arange(1, beyond + 1)])
    outside = np.flatnonzero((path < low_per_s) | (path > high_per_s))
    return min(LONGEST_STAY_S, float(outside[0]) * step_s) if len(outside) else LONGEST_STAY_S

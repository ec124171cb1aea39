"""The account of a decision: what was seen, believed and ruled out, small enough to keep for every tick."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from perdix.control.believe import Beliefs
from perdix.control.decide import Verdict
from perdix.control.observe import Observation
from perdix.control.rejections import Rejections
from perdix.models.capacity.contract import Estimate
from perdix.models.forecasting.contract import Forecast
from perdix.models.forecasting.known_events import Expected
from perdix.policies.contract import Candidate, Planned, Situation, SizedWorker

FORECAST_POINTS_S = (60.0, 300.0, 600.0, 900.0)
PLAN_AT_S = (0.0, 299.0, 899.0, 1_799.0, 3_599.0)  # of the plan, its stages then: now, in 5, 15, 30 and 60 min
PLAN_ROWS = 12  # of a plan that changes the workers all the time
MOST_CAPACITIES = 24
MOST_CANDIDATES = 24
MOST_EVENTS = 8
DOWNTIMES = ("out_s", "in_s", "failure_s", "lost_s", "failure_lost_s")
WHOLE_FROM = 1_000.0  # a number that a sentence gives to the last digit must not be another one in the table beside it


def account(
    observation: Observation,
    situation: Situation | None,
    verdict: Verdict | None,
    notes: Sequence[str],
    beliefs: Beliefs,
    *,
    rejected: Rejections,
) -> dict[str, Any]:
    """Return a JSON-serialisable account (about 2 kB for a job of 12 workers).

    Numbers have four significant digits, those from 1,000 on all before the point, as sentences of decisions have.
    """
    document: dict[str, Any] = {"seen": _seen(observation, situation), "notes": list(notes)}
    if rejected.of:
        document["rejected"] = rejected.to_state()
    if situation is not None:
        document["believed"] = {
            "forecast": _forecast(situation.forecast, beliefs),
            "capacities": _capacities(situation.capacities, situation),
            "downtimes_s": {kind: _short(getattr(situation.downtimes, kind)) for kind in DOWNTIMES},
            "since_rescale_s": _short(situation.since_rescale_s),
        }
        if beliefs.events:
            shown = sorted(beliefs.events, key=lambda event: (not event.changes, event.start_s))[:MOST_EVENTS]
            document["believed"]["events"] = [_event(event) for event in shown]
        if situation.sizes:
            document["believed"]["sizes"] = {name: _size(size) for name, size in situation.sizes.items()}
    if verdict is not None:
        document["candidates"] = [_candidate(item) for item in kept_candidates(verdict, situation)]
        if verdict.proposed.plan:
            document["plan"] = [_planned(stage) for stage in kept_stages(verdict.proposed.plan)]
        if verdict.proposed.budget_left is not None:
            document["error_budget_left"] = _short(verdict.proposed.budget_left)
        if verdict.proposed.against_fixed is not None:
            against = vars(verdict.proposed.against_fixed).items()
            document["against_fixed"] = {
                name: value if isinstance(value, bool) else _short(value) for name, value in against
            }
        if verdict.guarded:
            proposed = verdict.proposed
            document["proposed"] = {
                "scale_out": proposed.scale_out,
                "mix": dict(proposed.mix),
                "reason": proposed.reason,
                "sentence": proposed.sentence,
            }
    return document


def _seen(observation: Observation, situation: Situation | None) -> dict[str, Any]:
    window, quality = observation.window, observation.quality
    numbers = {
        "workload_per_s": observation.workload_per_s,
        "recent_workload_per_s": observation.recent_workload_per_s,
        "throughput_per_s": observation.throughput_per_s,
        "consumer_lag_records": observation.lag_records,
        "latency_p95_ms": observation.latency_p95_ms,
        "latency_objective_ms": None if situation is None else situation.objectives.latency_p95_ms,
        "cpu_load": observation.cpu_load,
        "memory_ratio": observation.memory_ratio,
        "age_s": quality.age_s,
    }
    seen: dict[str, Any] = {name: _short(value) for name, value in numbers.items()}
    seen["scale_out"] = observation.scale_out
    seen["problems"] = list(observation.problems)
    seen["coverage"] = {name: _short(value) for name, value in quality.coverage.items()}
    if window is not None:
        counts = window.counts
        seen["samples"] = {"read": counts.read, "masked": counts.masked, "duplicate": counts.duplicate}
        seen["samples"] |= {"out_of_order": counts.out_of_order, "resets": counts.resets}
    return seen


def _forecast(forecast: Forecast, beliefs: Beliefs) -> dict[str, Any]:
    document: dict[str, Any] = {
        "family": forecast.family,
        "version": forecast.version,
        "origin_s": forecast.origin_s,
        "wape": _short(forecast.wape),
        "horizon_wape": _short(beliefs.horizon_wape),
        "maximum_per_s": _short(forecast.maximum_per_s()),
    }
    for probability in (0.9, 0.95):
        if probability in forecast.quantiles:
            document[f"maximum_p{100 * probability:.0f}_per_s"] = _short(forecast.maximum_per_s(quantile=probability))
    ends = {s: end for s in FORECAST_POINTS_S if (end := min(int(s / forecast.step_s), len(forecast.mean))) > 0}
    document["mean_per_s"] = {f"{at_s:.0f} s": _short(float(forecast.mean[end - 1])) for at_s, end in ends.items()}
    if len(beliefs.members) > 1:
        document["members"] = [
            {"family": member.family, "weight": _short(member.weight), "wape": _short(member.wape)}
            for member in beliefs.members
        ]
    return document


def _capacities(capacities: Mapping[int, Estimate], situation: Situation) -> list[dict[str, Any]]:
    near = sorted(capacities, key=lambda n: (abs(n - situation.scale_out), n))[:MOST_CAPACITIES]
    return [
        {
            "scale_out": n,
            "per_s": _short(capacities[n].per_s),
            "low_per_s": _short(capacities[n].low_per_s),
            "high_per_s": _short(capacities[n].high_per_s),
            "seen": capacities[n].seen,
            "basis": capacities[n].basis,
        }
        for n in sorted(near)
    ]


def _event(event: Expected) -> dict[str, Any]:
    return {
        "name": event.name,
        "start_s": event.start_s,
        "end_s": event.end_s,
        "factor": _short(event.factor),
        "share": _short(event.share),
        "reckoned_with": event.changes,
    }


def _size(size: SizedWorker) -> dict[str, Any]:
    return {
        "cpu_cores": size.cpu_cores,
        "memory_mb": size.memory_mb,
        "price_per_h": _short(size.price_per_h),
        "per_s": _short(size.per_s),
        "extrapolated": size.extrapolated,
    }


def kept_candidates(verdict: Verdict, situation: Situation | None) -> list[Candidate]:
    """Return the candidates nearest to what runs, and to what the policy and the guards came to, in their order."""
    proposed = verdict.proposed
    asked = {proposed.scale_out, verdict.decision.scale_out}
    asked |= set() if situation is None else {situation.scale_out}
    apart = [min(abs(candidate.scale_out - n) for n in asked) for candidate in proposed.candidates]
    nearest = sorted(range(len(apart)), key=apart.__getitem__)[:MOST_CANDIDATES]
    return [proposed.candidates[k] for k in sorted(nearest)]


def kept_stages(plan: Sequence[Planned]) -> list[Planned]:
    """Return the stages at :data:`PLAN_AT_S`, the last one, and the first of those that change the workers."""
    ends_s = [stage.after_s + stage.lasts_s for stage in plan]
    always = {k for k, stage in enumerate(plan) if any(stage.after_s <= s < ends_s[k] for s in PLAN_AT_S)}
    always |= {len(plan) - 1} if plan else set()
    changes = [k for k in range(1, len(plan)) if k not in always and plan[k].scale_out != plan[k - 1].scale_out]
    return [plan[k] for k in sorted({*always, *changes[: PLAN_ROWS - len(always)]})]


def _planned(stage: Planned) -> dict[str, Any]:
    return {
        "after_s": stage.after_s,
        "lasts_s": stage.lasts_s,
        "load_per_s": _short(stage.load_per_s),
        "scale_out": stage.scale_out,
        "late_share": _short(stage.late_share),
        "worker_s": _short(stage.worker_s),
    }


def _candidate(candidate: Candidate) -> dict[str, Any]:
    document = {
        "scale_out": candidate.scale_out,
        "capacity_per_s": _short(candidate.capacity_per_s),
        "recovery_s": _short(candidate.recovery_s),
        "rejected_by": candidate.rejected_by,
    }
    return {**document, "mix": dict(candidate.mix)} if candidate.mix else document


def _short(value: float | None) -> float | None:
    if value is None or not math.isfinite(value):
        return None
    return float(round(value)) if abs(value) >= WHOLE_FROM else float(f"{value:.4g}")

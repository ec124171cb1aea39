"""Evaluate now and then, and never while a job recovers: what Phoebe and its baseline TWRES share (Phoebe, 3.5)."""

import math
from typing import Any

from perdix.models.profiling.profiled import Profiled
from perdix.policies.contract import Decision, Reason, Situation
from perdix.policies.holding import blindness, hold
from perdix.policies.wording import seconds

EVALUATED = "evaluated_s"
NOT_PROFILED = (
    "The job is not profiled: `perdix profile NAME --live` (or the Dagster job `profile`) measures it while it runs, "
    "`perdix profile TWIN --job NAME` a twin of it."
)


def profile_or_hold(policy: str, situation: Situation, evaluation_s: float) -> Profiled | Decision:
    """Return what the job's profile taught when it is time to evaluate, else the hold that says why it is not."""
    blind = blindness(situation)
    if blind is not None:
        return hold(policy, situation, Reason.HOLD_BLIND, f"Blind: {blind}.")
    if situation.profiled is None:
        return hold(policy, situation, Reason.HOLD_UNKNOWN, NOT_PROFILED)
    waits = within_interval(situation, evaluation_s)
    return situation.profiled if waits is None else hold(policy, situation, *waits)


def within_interval(situation: Situation, evaluation_s: float) -> tuple[Reason, str] | None:
    """Return why it is not yet time to evaluate, or ``None`` when it is.

    A job that started less than ``evaluation_s`` seconds ago was rescaled or has failed, and may still catch up: its
    metrics reflect that and not the job.
    """
    uptime_s = situation.uptime_s
    if uptime_s is None or math.isnan(uptime_s):
        uptime_s = situation.since_rescale_s
    if uptime_s < evaluation_s:
        why = f"Started {seconds(uptime_s)} ago: left alone for {seconds(evaluation_s)}, it may still recover."
        return Reason.HOLD_GRACE, why
    since_s = situation.now_s - _evaluated_s(situation)
    if 0 <= since_s < evaluation_s - situation.tick_interval_s / 2.0:
        why = f"Evaluated {seconds(since_s)} ago; the next evaluation comes after {seconds(evaluation_s)}."
        return Reason.HOLD_GOOD, why
    return None


def evaluated(situation: Situation) -> dict[str, Any]:
    """Return what to remember once a situation was evaluated."""
    return {EVALUATED: situation.now_s}


def _evaluated_s(situation: Situation) -> float:
    found = situation.memory.get(EVALUATED)
    usable = isinstance(found, int | float) and not isinstance(found, bool) and math.isfinite(found)
    return float(found) if usable and found is not None else -math.inf

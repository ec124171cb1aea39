"""Evaluate now and then, and never while a job recovers: what Phoebe and its baseline TWRES share (Phoebe, 3.5)."""

from __future__ import annotations

import math
from typing import Any

from policies.contract import Reason, Situation
from policies.wording import seconds

EVALUATED = "evaluated_s"


def within_interval(situation: Situation, evaluation_s: float) -> tuple[Reason, str] | None:
    """Return why it is not yet time to evaluate, or ``None`` when it is.

    A job that started less than ``evaluation_s`` seconds ago was rescaled or has failed, and may still catch up: its
    metrics tell of that and not of the job.
    """
    measured = situation.uptime_s is not None and not math.isnan(situation.uptime_s)
    uptime_s = situation.uptime_s if measured and situation.uptime_s is not None else situation.since_rescale_s
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

"""How an estimate is known, in words for a reader."""

from __future__ import annotations

import math

from models.capacity.evidence import OBSERVED, Curve, Evidence


def of_evidence(evidence: Evidence, now_s: float, notes: tuple[str, ...] = ()) -> str:
    """Return the basis of a scale-out that was observed, or that a regressor spoke of."""
    if evidence.source != OBSERVED:
        return f"learnt by {evidence.source} from other scale-outs, not seen"
    workers = "1 worker" if evidence.scale_out == 1 else f"{evidence.scale_out} workers"
    reach = f"CPU up to about {min(evidence.cpu_reach, 1.0):.2f}"
    return "; ".join([f"observed {age(now_s - evidence.at_s)} at {workers}, {reach}", *notes])


LITTLE_LOST = 0.02


def of_curve(curve: Curve, scale_out: int) -> str:
    """Return the basis of a scale-out that was not seen: the average per worker, and what being many costs."""
    mean = math.exp(curve.log_value(scale_out)) / scale_out
    text = f"{scale_out} x mean worker of {mean:,.0f}/s, not seen"
    if curve.points > 1 and curve.exponent < -0.005:
        text += f" (workers lose {100 * (1 - 2**curve.exponent):.0f} % per doubling)"
    return text


def limited(text: str, lost: float) -> str:
    """Return a basis with what the busiest worker costs, where that is ``lost`` of the logarithm of the capacity."""
    if lost < LITTLE_LOST:
        return text
    return f"{text}; {1 - math.exp(-lost):.0%} less, because a key group or partition is one worker's"


def age(seconds: float) -> str:
    """Return an age in the unit that a reader would choose."""
    if seconds < 90:
        return "just now"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min ago"
    return f"{seconds / 3600:.0f} h ago" if seconds < 2 * 86_400 else f"{seconds / 86_400:.0f} days ago"

"""How an estimate is known, in words for a reader."""

import math

from perdix.models.capacity.evidence import OBSERVED, Curve, Evidence
from perdix.settings.counting import counted
from perdix.settings.moments import moment

EXTRAPOLATED = "extrapolated: never ran at this size"


def of_evidence(evidence: Evidence, now_s: float | None, notes: tuple[str, ...] = ()) -> str:
    """Return the basis of a scale-out that was observed, or that a regressor spoke of.

    ``now_s``: epoch seconds of the decision, from which its age counts; ``None``: its date stands there instead, as
    exports may be of any year.
    """
    if evidence.source != OBSERVED:
        return f"learnt by {evidence.source} from other scale-outs, {EXTRAPOLATED}"
    reach = f"CPU up to about {min(evidence.cpu_reach, 1.0):.2f}"
    when = f"until {moment(evidence.at_s)}" if now_s is None else age(now_s - evidence.at_s)
    return "; ".join([f"observed {when} at {counted(evidence.scale_out, 'worker')}, {reach}", *notes])


LITTLE_LOST = 0.02


def of_curve(curve: Curve, scale_out: int) -> str:
    """Return the basis of a scale-out that was not seen: the average per worker, and what being many costs."""
    mean = math.exp(curve.log_value(scale_out)) / scale_out
    text = f"{scale_out} x mean worker of {mean:,.0f}/s, {EXTRAPOLATED}"
    if curve.points > 1 and curve.exponent < -0.005:
        text += f" (workers lose {100 * (1 - 2**curve.exponent):.0f} % per doubling)"
    return text


def of_fewer(per_s: float, scale_out: int, smallest: int) -> str:
    """Return the basis of a scale-out below the smallest one that was seen."""
    each = f"{scale_out} x mean worker of {per_s / scale_out:,.0f}/s"
    return f"{each}, extrapolated from {smallest} workers: never ran at this size"


def of_key_groups(per_s: float, scale_out: int) -> str:
    """Return the basis of a scale-out that was not seen, by the key groups of its hottest subtask."""
    return f"by the loads of its key groups, {per_s / scale_out:,.0f}/s per worker, {EXTRAPOLATED}"


def limited(text: str, lost: float) -> str:
    """Return a basis with what the busiest worker costs, where that is ``lost`` of the logarithm of the capacity."""
    if lost < LITTLE_LOST:
        return text
    return f"{text}; {1 - math.exp(-lost):.0%} less, because a key group or partition is one worker's"


def age(seconds: float) -> str:
    """Return how long before a decision something was, in the unit that a reader would choose."""
    if seconds < 90:
        return "in the minute before"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min before"
    return f"{seconds / 3600:.0f} h before" if seconds < 2 * 86_400 else f"{seconds / 86_400:.0f} days before"

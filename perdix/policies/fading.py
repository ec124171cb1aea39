"""Sums over time that fade: what was counted long ago weighs little."""

import math

FORGOTTEN_S = 1.0  # of a sum that faded: less is as good as nothing, also where nothing is allowed


def since(at_s: float | None, now_s: float, *, memory_s: float, longest_s: float) -> tuple[float, float]:
    """Return the factor by which sums have faded since they were last counted, and the seconds to count now.

    Time beyond ``longest_s`` was not observed and is not counted. A clock that steps back counts nothing.

    ``at_s``: epoch seconds of the last count; ``None`` before the first.
    ``memory_s``: after which a second weighs 1 / e.
    """
    passed_s = 0.0 if at_s is None else max(now_s - at_s, 0.0)
    return math.exp(-passed_s / memory_s), min(passed_s, longest_s)

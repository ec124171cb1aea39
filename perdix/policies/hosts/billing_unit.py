"""When the end of a billing time unit must be looked at."""

import math

UNIT_SHARE = 0.05  # "within the last 5 % of the BTU"
SETTLE_S = 30.0  # containers start in 5 to 10 s, and their images must come first


def end_of_unit_s(paid_until_s: float, unit_s: float, now_s: float) -> float:
    """Return when the unit that runs now ends: an end that has passed is followed by as many units as it takes."""
    if paid_until_s > now_s:
        return paid_until_s
    return paid_until_s + unit_s * (math.floor((now_s - paid_until_s) / unit_s) + 1)


def margin_s(unit_s: float, check_interval_s: float, share: float = UNIT_SHARE, settle_s: float = SETTLE_S) -> float:
    """Return how long before the end of a unit its host must be decided about.

    That is the paper's share of the unit, or as early as the last look that leaves ``settle_s`` to carry out what is
    decided, whichever is earlier: with a margin shorter than the interval between looks, ends pass unseen.
    """
    return max(share * unit_s, check_interval_s + settle_s)


def is_due(end_s: float, now_s: float, margin: float) -> bool:
    """Return whether a host must be decided about at this look."""
    return end_s - now_s <= margin + 1e-6

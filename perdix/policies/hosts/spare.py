"""What may be taken away from an operator type."""

import math
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Spare:
    """How many instances of a type may go at one look, which type first (the highest rank), and why."""

    most: int
    rank: float
    why: str


def capped(instances: int, share: float, least: int = 1) -> int:
    """Return how many instances of a type may go at once: a share of them, rounded down, but one of two or more.

    The paper's 20 % avoid major changes of a type. Rounded down alone they would forbid any change of a type with fewer
    than five instances, which Algorithm 3 allows from two on; one instance is the smallest change there is. Never so
    many that fewer than ``least`` are left.
    """
    if instances < 2 or share <= 0:
        return 0
    return max(0, min(max(1, math.floor(share * instances + 1e-9)), instances - max(least, 1)))


def ranked(spares: Mapping[str, Spare]) -> list[str]:
    """Return the types of which any may go, best first."""
    return sorted((name for name in spares if spares[name].most > 0), key=lambda name: (-spares[name].rank, name))

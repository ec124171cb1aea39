"""Whether what a job holds in memory fits onto fewer workers. Pure.

Belongs here: what is expected of their memory. Does not belong here: what a guard makes of it
(:mod:`perdix.control.decide`).
"""

from __future__ import annotations

from collections.abc import Mapping

from perdix.policies.contract import Situation

OWN = 0.1  # of a worker's heap, at most, that is there whatever it holds
SETTLES_S = 120.0  # after a rescale: what is measured may still be of the workers before it


def total(scale_out: int, mix: Mapping[str, int], situation: Situation) -> float | None:
    """Return the memory of so many workers: in MB where their sizes are known, else in workers.

    ``None`` where they have sizes and not all of them are known.
    """
    if not mix:
        return None if situation.mix else float(scale_out)
    if any(size not in situation.sizes for size in mix):
        return None
    return sum(count * situation.sizes[size].memory_mb for size, count in mix.items())


def expected_ratio(used: float, before: float, after: float) -> float:
    """Return the share of its heap that the fullest worker will use, with ``after`` of memory in all for ``before``.

    What workers hold spreads over those that stay, as evenly as before; a part of it is each worker's own.
    """
    own = min(used, OWN)
    return own + (used - own) * before / after

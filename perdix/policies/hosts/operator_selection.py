"""Algorithm 3: which operator type can be scaled down first (Hochreiner et al., PeerJ CS 2018)."""

from collections.abc import Mapping
from dataclasses import dataclass

from perdix.policies.holding import usable

QUEUE_LOAD = 100.0  # QL
PENALTY = 0.0001  # P, of one late data item; the program has 0.01
NEEDED = -1.0


@dataclass(frozen=True)
class Weights:
    """W1 to W4, the emphasis on each aspect."""

    instances: float = 1.0
    queue_load: float = 1.0
    delay: float = 1.0
    scalings: float = 1.0


@dataclass(frozen=True)
class Standing:
    """How an operator type stands."""

    instances: int  # ``o#``
    # duration_s, objective_s: ``o_d`` and ``o_slo``; the duration is ``None`` where it is not measured
    duration_s: float | None
    objective_s: float
    scalings: int  # ``o_s``, of this type alone
    queue_items: float | None  # ``None`` where it is not measured


def utilities(
    standings: Mapping[str, Standing],
    weights: Weights | None = None,
    *,
    queue_load: float = QUEUE_LOAD,
    penalty: float = PENALTY,
) -> dict[str, float]:
    """Return operator -> utility of scaling it down: the highest is best, none that is not positive may be.

    A type with fewer than two instances, or of which not all is measured, has -1: it is needed. The delay is greater
    than 1 where the objective is missed (the paper's text says less than 1: its line 6 does not).
    """
    given, counts = weights or Weights(), [standing.instances for standing in standings.values()]
    least, most = min(counts, default=0), max(counts, default=0)
    in_all = sum(standing.scalings for standing in standings.values())
    found = {}
    for name, standing in standings.items():
        if standing.instances < 2 or not usable(standing.duration_s) or not usable(standing.queue_items):
            found[name] = NEEDED
            continue
        instances = (standing.instances - least) / (most - least) if most > least else 0.0
        delay = standing.duration_s / standing.objective_s * (1.0 + penalty)
        scalings = standing.scalings / in_all if in_all else 0.0
        idle = queue_load if standing.queue_items < 1 else 0.0
        found[name] = (
            1.0
            + given.instances * instances
            + given.queue_load * idle
            - given.delay * delay
            - given.scalings * scalings
        )
    return found

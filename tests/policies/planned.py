"""A day that was steady, and what perdix decides after it."""

import numpy as np

from perdix.policies.planning.policy import Perdix

DAY = np.full(720, 3_500.0)


def decide(situate, **changes):
    given = {"minutes": DAY, "latency_p95_ms": 800.0, **changes}
    return Perdix().decide(situate(**given))


def lost(situate, stands_until_s=-1.0):
    """What is remembered of plans that needed 14 workers where fewer would have held."""
    rival = {"worker_s": 2e5, "late_s": 900.0, "seen_s": 1.4e4, "stands_until_s": stands_until_s, "defeats": 0.0}
    return {"rival": {**rival, "at_s": situate().now_s - 60.0}}

"""A day that was steady, and what perdix decides after it."""

import math
from dataclasses import replace

import numpy as np

from perdix.models.capacity.contract import Estimate
from perdix.models.recovery.downtime import Downtimes
from perdix.policies.planning.policy import Perdix
from perdix.settings.stream_job import Objectives

DAY = np.full(720, 3_500.0)


def decide(situate, **changes):
    given = {"minutes": DAY, "latency_p95_ms": 800.0, **changes}
    return Perdix().decide(situate(**given))


def in_place(situate, load, *, minutes, unsure, **changes):
    """A job that is rescaled in place, under a load that was the same for ``minutes``.

    ``unsure``: workers -> standard deviation of the log of what they take, 1,000 records/s each.
    """
    given = {
        "bounds": (1, len(unsure)),
        "load": load,
        "minutes": np.full(minutes, load),
        "objectives": Objectives(recovery_time_s=600.0, checkpoint_interval_s=180.0),
        "checkpointed": True,
        "downtimes": Downtimes.assumed(3.0, 3.0, 30.0, 1.0),
    }
    known = {n: Estimate.about(n, math.log(1e3 * n), sd, seen=True, basis="test") for n, sd in unsure.items()}
    return replace(situate(**given, **changes), capacities=known)


def lost(situate, stands_until_s=-1.0):
    """What is remembered of plans that needed 14 workers where fewer would have held."""
    rival = {"worker_s": 2e5, "late_s": 900.0, "seen_s": 1.4e4, "stands_until_s": stands_until_s, "defeats": 0.0}
    return {"rival": {**rival, "at_s": situate().now_s - 60.0}}

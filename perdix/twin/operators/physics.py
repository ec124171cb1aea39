"""How fast an operator instance is with its cores and memory. Pure, and the truth that benchmarks judge by."""

import numpy as np
from numpy.typing import ArrayLike

from perdix.telemetry.window import Values
from perdix.twin.operators.parameters import Compute, Memory, OperatorTwinParameters

_TRAFFIC_BEND = 4.0  # how sharply the rate bends towards what the bandwidth allows


def true_performance(operator: OperatorTwinParameters, cpu_cores: ArrayLike, memory_mb: ArrayLike) -> Values:
    """Return the records/s of a warm instance of mean speed; 0 where it dies or starves.

    ``cpu_cores``, ``memory_mb``: cores and MB; both broadcast, and the result has their shape.
    """
    cores, given = np.broadcast_arrays(np.asarray(cpu_cores, float), np.asarray(memory_mb, float))
    dearer = memory_cost(operator.memory, given)
    per_s = useful_cores(operator.compute, cores) * 1e6 / (operator.compute.cost_us * dearer)
    limit = operator.memory.traffic_limit_per_s
    if limit is not None:
        per_s = per_s / (1.0 + (per_s / limit) ** _TRAFFIC_BEND) ** (1.0 / _TRAFFIC_BEND)
    return np.asarray(per_s)


def useful_cores(compute: Compute, cpu_cores: Values) -> Values:
    """Return to how many cores of one thread the given cores come, same shape."""
    left = np.minimum(np.maximum(cpu_cores - compute.idle_cores, 0.0), compute.threads)
    whole = np.maximum(left, 1.0)
    speed_up = np.where(left < 1.0, left, 1.0 / (compute.serial + (1.0 - compute.serial) / whole))
    part = left % 1.0
    throttled = np.where(left < compute.threads, 4.0 * compute.throttling * part * (1.0 - part), 0.0)
    return np.asarray(speed_up * (1.0 - throttled))


def memory_cost(memory: Memory, memory_mb: Values) -> Values:
    """Return how many times as dear a record is with so much memory, same shape; infinite where it does not fit."""
    spare = memory_mb - memory.live_mb
    fits = spare > 0.0
    collecting = memory.collecting * memory.live_mb / np.where(fits, spare, np.inf)
    held = np.clip(spare / memory.working_set_mb, 0.0, 1.0) if memory.working_set_mb > 0 else 1.0
    cost = 1.0 + collecting + (memory.miss_factor - 1.0) * (1.0 - held)
    return np.asarray(np.where(fits, cost, np.inf))

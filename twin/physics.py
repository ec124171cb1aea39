"""What happens in one job, as pure functions: scaling, skew, backlog, latency."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
SATURATED = 0.98  # utilisation above which waiting is counted as backlog, no longer as queueing
EARLIEST_SHARE = 0.05  # the oldest twentieth of what is processed in a second stands for the 95th percentile


def efficiency(scale_out: int, contention: float, coherency: float) -> float:
    """Return what a worker among ``scale_out`` is worth of one alone (Gunther's universal scalability law)."""
    others = scale_out - 1
    return 1.0 / (1.0 + contention * others + coherency * scale_out * others)


def worker_speeds(workers: int, spread: float, rng: np.random.Generator) -> Values:
    """Return relative speeds with mean 1 (log-normal), shape ``(workers,)``."""
    return np.asarray(np.exp(spread * rng.standard_normal(workers) - 0.5 * spread**2))


def key_shares(scale_out: int, spread: float, rng: np.random.Generator, draws: int = 1) -> Values:
    """Return how the keys fall onto the workers: rows of shares that sum to 1, shape ``(draws, scale_out)``."""
    weights = np.exp(spread * rng.standard_normal((draws, scale_out)))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def bottleneck_per_s(capacities: Values, shares: Values) -> Values:
    """Return the job's capacity: the first worker to be full stops all, ``min_i c_i / share_i``.

    ``capacities`` has shape ``(workers,)``, ``shares`` ``(..., workers)``; the result has shape ``(...)``.
    """
    return np.asarray(np.min(capacities / shares, axis=-1))


def backlog(before: float, arrived: Values, capacity: Values) -> Values:
    """Return the backlog at the end of each step: ``b_t = max(0, b_{t-1} + arrived_t - capacity_t)`` (Lindley).

    In one pass, and exact for whole numbers: with ``s`` the running sum of arrivals less capacity,
    ``b_t = s_t - min(-before, min_{u <= t} s_u)``.
    """
    surplus = np.cumsum(arrived - capacity)
    return np.asarray(surplus - np.minimum(-before, np.minimum.accumulate(surplus)))


def queueing_factor(utilisation: Values, weight: float) -> Values:
    """Return the factor on the base latency: ``1 + weight u / (1 - u)``, as in an M/M/1 queue, up to saturation."""
    bounded = np.minimum(utilisation, SATURATED)
    return np.asarray(1.0 + weight * bounded / (1.0 - bounded))


def waited_s(
    times_s: Values, arrived_total: Values, ends_s: Values, progress_before: Values, processed: Values
) -> Values:
    """Return how long the oldest records of each step had waited, first come first served, shape of ``ends_s``.

    Parameters
    ----------
    times_s, arrived_total
        Records that had arrived by each time, not decreasing, shape ``(m,)``.
    ends_s
        End of each one-second step, shape ``(n,)``.
    progress_before, processed
        Records finished before the step, and in it, shape ``(n,)``.
    """
    finished_s = ends_s - 1.0 + EARLIEST_SHARE
    arrived_s = np.interp(progress_before + EARLIEST_SHARE * processed, arrived_total, times_s)
    return np.maximum(finished_s - arrived_s, 0.0)


def warm_up(uptime_s: Values, warm_up_s: int, speed: float) -> Values:
    """Return the speed after a start: from ``speed`` in a line to 1 in ``warm_up_s`` seconds."""
    if warm_up_s == 0:
        return np.ones(len(uptime_s))
    return 1.0 - (1.0 - speed) * np.clip(1.0 - uptime_s / warm_up_s, 0.0, 1.0)

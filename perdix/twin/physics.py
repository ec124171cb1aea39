"""What happens in one job, as pure functions: scaling, skew, backlog, latency."""

import numpy as np

from perdix.telemetry.window import Values

SATURATED = 0.98  # utilisation above which waiting is counted as backlog, no longer as queueing
EARLIEST_SHARE = 0.05  # the oldest twentieth of what is processed in a second stands for the 95th percentile


def efficiency(scale_out: int, contention: float, coherency: float) -> float:
    """Return the throughput of one of ``scale_out`` workers as a share of that of a single worker."""
    return 1.0 / cost_factor(scale_out, contention, coherency)


def cost_factor(count: int, contention: float, coherency: float) -> float:
    """Return what a record costs at a number of workers or instances, as a multiple of its cost at one.

    Gunther's universal scalability law.
    """
    return 1.0 + contention * (count - 1) + coherency * count * (count - 1)


def worker_speeds(workers: int, spread: float, rng: np.random.Generator) -> Values:
    """Return relative speeds with mean 1 (log-normal), shape ``(workers,)``."""
    return np.asarray(np.exp(spread * rng.standard_normal(workers) - 0.5 * spread**2))


def key_shares(scale_out: int, spread: float, rng: np.random.Generator, draws: int = 1) -> Values:
    """Return how the work falls onto the workers: rows of shares that sum to 1, shape ``(draws, scale_out)``.

    The log of a share has the standard deviation ``spread`` at any scale-out.
    """
    return _summing_to_one(np.exp(spread * rng.standard_normal((draws, scale_out))))


def counted_key_shares(scale_out: int, keys: int, keyed: float, rng: np.random.Generator, draws: int = 1) -> Values:
    """Return how ``keys`` equally frequent keys, hashed onto the workers, share the work, as :func:`key_shares`.

    Only the part ``keyed`` of the work follows the keys; the rest (reading, parsing) is even. The relative spread is
    ``keyed * sqrt((scale_out - 1) / keys)``: it grows with the scale-out.
    """
    counts = rng.multinomial(keys, np.full(scale_out, 1.0 / scale_out), size=draws)
    return _summing_to_one((1.0 - keyed) / scale_out + keyed * counts / keys)


def key_group_loads(groups: int, keys: int, zipf: float, rng: np.random.Generator) -> Values:
    """Return how ``keys`` keys, hashed onto ``groups`` key groups, share the work, shape ``(groups,)``; sums to 1.

    The key of rank ``r`` is as frequent as ``r ** -zipf``; 0: all are equally frequent.
    """
    frequencies = np.arange(1.0, keys + 1.0) ** -zipf
    loads = np.bincount(rng.integers(0, groups, keys), weights=frequencies, minlength=groups)
    return _summing_to_one(loads.astype(np.float64))


def key_group_shares(loads: Values, scale_out: int, keyed: float) -> Values:
    """Return what each worker gets of the key groups that Flink deals it, shape ``(scale_out,)``; sums to 1.

    Subtask ``i`` of ``p`` gets the range from ``ceil(i G / p)`` on, up to where the next one begins
    (``KeyGroupRangeAssignment``). Only the part ``keyed`` of the work follows it; the rest is even.
    """
    begins = -(-np.arange(scale_out + 1) * len(loads) // scale_out)
    upto = np.concatenate(([0.0], np.cumsum(loads)))
    return _summing_to_one((1.0 - keyed) / scale_out + keyed * np.diff(upto[begins]))


def partition_shares(partitions: int, scale_out: int) -> Values:
    """Return which share of equally filled partitions each worker reads, shape ``(scale_out,)``; sums to 1.

    Each reads whole partitions, the first ones one more than the others; who comes beyond them reads nothing.
    """
    each, more = divmod(partitions, scale_out)
    return np.asarray((each + (np.arange(scale_out) < more)) / partitions)


def binding(capacities: Values, shares: Values, others: Values) -> Values:
    """Return of two stages the shares of the one that binds: whose busiest worker is full first.

    ``capacities`` and ``others`` have shape ``(workers,)``, ``shares`` and the result ``(..., workers)``.
    """
    first = bottleneck_per_s(capacities, shares) <= bottleneck_per_s(capacities, others)
    return np.where(first[..., None], shares, others)


def together(shares: Values, others: Values) -> Values:
    """Return shares in which two causes of skew meet; rows sum to 1."""
    return _summing_to_one(shares * others)


def towards_quick(shares: Values, speeds: Values, slope: float) -> Values:
    """Return shares that lean to quicker workers: the log of a share grows by ``slope`` times the log of the speed."""
    return _summing_to_one(shares * speeds**slope)


def _summing_to_one(weights: Values) -> Values:
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def bottleneck_per_s(capacities: Values, shares: Values) -> Values:
    """Return the job's capacity: the first worker to be full stops all, ``min_i c_i / share_i``.

    ``capacities`` has shape ``(workers,)``, ``shares`` ``(..., workers)``; the result has shape ``(...)``.
    """
    return np.asarray(1.0 / np.max(shares / capacities, axis=-1))  # a worker may have no keys at all


def backlog(before: float, arrived: Values, capacity: Values) -> Values:
    """Return the backlog at the end of each step: ``b_t = max(0, b_{t-1} + arrived_t - capacity_t)`` (Lindley).

    In one pass, and exact for multiples of a power of two: with ``s`` the running sum of arrivals less capacity,
    ``b_t = s_t - min(-before, min_{u <= t} s_u)``.
    """
    surplus = np.cumsum(arrived - capacity)
    return np.asarray(surplus - np.minimum(-before, np.minimum.accumulate(surplus)))


def queueing_factor(utilisation: Values, weight: float) -> Values:
    """Return the factor on the base latency: ``1 + weight u / (1 - u)``, as in an M/M/1 queue, up to saturation."""
    bounded = np.minimum(utilisation, SATURATED)
    return np.asarray(1.0 + weight * bounded / (1.0 - bounded))


def bent(busy: Values, weight: float) -> Values:
    """Return the busy share with more spent on a record while there is little to do: ``b + weight b (1 - b)``."""
    return np.asarray(busy + weight * busy * np.maximum(1.0 - busy, 0.0))


def fill_ms(rate_per_s: Values, records: float, at_most_ms: float) -> Values:
    """Return how long a worker's buffer of ``records`` takes to fill at ``rate_per_s``; a time-out hands it on sooner.

    This is why latency is highest when there is least to do (Daedalus 3.1, windows that wait for records).
    """
    return np.asarray(np.minimum(1_000.0 * records / np.maximum(rate_per_s, 1e-9), at_most_ms))


def waited_s(
    times_s: Values,
    arrived_total: Values,
    ends_s: Values,
    progress_before: Values,
    processed: Values,
    *,
    step_s: float = 1.0,
) -> Values:
    """Return how long the oldest records of each step had waited, first come first served, shape of ``ends_s``.

    ``times_s``, ``arrived_total``: records that had arrived by each time, not decreasing, shape ``(m,)``.
    ``ends_s``: end of each step, shape ``(n,)``.
    ``progress_before``, ``processed``: records finished before the step, and in it, shape ``(n,)``.
    ``step_s``: length of a step in seconds.
    """
    finished_s = ends_s - step_s + EARLIEST_SHARE * step_s
    arrived_s = np.interp(progress_before + EARLIEST_SHARE * processed, arrived_total, times_s)
    return np.maximum(finished_s - arrived_s, 0.0)


def warm_up(uptime_s: Values, warm_up_s: int, speed: float) -> Values:
    """Return the speed after a start: from ``speed`` in a line to 1 in ``warm_up_s`` seconds."""
    if warm_up_s == 0 or uptime_s.min(initial=np.inf) >= warm_up_s:
        return np.ones(len(uptime_s))
    return 1.0 - (1.0 - speed) * np.clip(1.0 - uptime_s / warm_up_s, 0.0, 1.0)

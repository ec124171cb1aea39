"""Workers onto hosts: how many fit, how many hosts are needed, and how far that is from the least there can be.

Workers of one size are packed exactly. Workers of several sizes are packed first-fit decreasing, in several orders of
"decreasing" (two resources have no single one), of which the one with the fewest hosts is taken. How far that can be
from the best is shown by a lower bound: Martello and Toth's L2 (Discrete Applied Mathematics 28, 1990), of cores, of
memory and of the mean of both.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

TOLERANCE = 1e-9  # relative: 0.1 + 0.2 cores fit into 0.3


@dataclass(frozen=True)
class Resources:
    """Cores and MB: what a worker needs, or what a host has for workers."""

    cores: float
    memory_mb: float

    def __post_init__(self) -> None:
        for what, value in (("cores", self.cores), ("memory", self.memory_mb)):
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{what} must be a number above 0, found {value:g}")

    def __str__(self) -> str:
        """Return both with their units, for messages."""
        return f"{self.cores:g} core{'' if self.cores == 1 else 's'} and {self.memory_mb:,.0f} MB"


class DoesNotFitError(ValueError):
    """A worker is larger than an empty host."""


@dataclass(frozen=True)
class Packing:
    """Workers on hosts of one kind."""

    hosts: tuple[Mapping[str, int], ...]  # of each host, size -> workers of it
    lower_bound: int  # no packing needs fewer hosts; equal to ``len(hosts)`` where this one is surely the best


def per_host(worker: Resources, host: Resources) -> int:
    """Return how many equal workers one host takes.

    Raises ``DoesNotFitError`` when not even one fits; it names both sizes and what is short.
    """
    count = _fitting(worker, host.cores, host.memory_mb, host)
    if count < 1:
        short = [
            what
            for what, needed, there in (
                ("cores", worker.cores, host.cores),
                ("memory", worker.memory_mb, host.memory_mb),
            )
            if needed > there
        ]
        raise DoesNotFitError(
            f"a worker of {worker} fits on no host that has {host} for workers ({' and '.join(short)} too small)"
        )
    return count


def pack(workers: Mapping[str, int], sizes: Mapping[str, Resources], host: Resources) -> Packing:
    """Pack workers of several sizes onto as few hosts as is found.

    Raises ``DoesNotFitError`` when a worker is larger than an empty host; ``ValueError`` when a number of workers is
    negative, or a size is not known.

    ``workers``: size -> how many; zeros need no size.
    """
    counts = {name: count for name, count in workers.items() if count}
    for name, count in counts.items():
        if count < 0:
            raise ValueError(f"{count} workers of size '{name}'; the number must not be negative")
        if name not in sizes:
            raise ValueError(f"size '{name}' is not known; known: {', '.join(sizes) or 'none'}")
        try:
            per_host(sizes[name], host)
        except DoesNotFitError as error:
            raise DoesNotFitError(f"size '{name}': {error}") from None
    if not counts:
        return Packing((), 0)
    packed = min((_first_fit(counts, sizes, host, order) for order in _ORDERS), key=len)
    return Packing(packed, lower_bound(counts, sizes, host))


def lower_bound(workers: Mapping[str, int], sizes: Mapping[str, Resources], host: Resources) -> int:
    """Return a number of hosts that no packing goes below."""
    counts = [count for count in workers.values() if count]
    shares = [_shares(sizes[name], host) for name, count in workers.items() if count]
    if len(counts) == 1:  # exact where all are equal
        size = next(sizes[name] for name, count in workers.items() if count)
        return -(-counts[0] // per_host(size, host))
    relaxations = (
        [cores for cores, _ in shares],
        [memory for _, memory in shares],
        [sum(share) / 2 for share in shares],
    )
    return max((_martello_toth(counts, weights) for weights in relaxations), default=0)


def _shares(size: Resources, host: Resources) -> tuple[float, float]:
    return size.cores / host.cores, size.memory_mb / host.memory_mb


_ORDERS: Sequence[Callable[[tuple[float, float]], float]] = (max, sum, lambda share: share[0], lambda share: share[1])


def _first_fit(
    counts: Mapping[str, int],
    sizes: Mapping[str, Resources],
    host: Resources,
    order: Callable[[tuple[float, float]], float],
) -> tuple[Mapping[str, int], ...]:
    """Put the largest first, each onto the first host that has room; equal ones at once, which is the same."""
    hosts: list[dict[str, int]] = []
    free: list[tuple[float, float]] = []
    for name in sorted(counts, key=lambda name: (-order(_shares(sizes[name], host)), name)):
        size, left = sizes[name], counts[name]
        for k, (cores, memory_mb) in enumerate(free):
            taken = min(left, _fitting(size, cores, memory_mb, host))
            if taken:
                hosts[k][name] = taken
                free[k] = (cores - taken * size.cores, memory_mb - taken * size.memory_mb)
                left -= taken
            if not left:
                break
        most = per_host(size, host)
        while left:
            taken = min(left, most)
            hosts.append({name: taken})
            free.append((host.cores - taken * size.cores, host.memory_mb - taken * size.memory_mb))
            left -= taken
    return tuple(hosts)


def _fitting(worker: Resources, cores: float, memory_mb: float, host: Resources) -> int:
    """Return how many workers fit into what is free; the tolerance is relative to the whole host."""
    by_cores = (cores + TOLERANCE * host.cores) / worker.cores
    by_memory = (memory_mb + TOLERANCE * host.memory_mb) / worker.memory_mb
    return max(0, math.floor(min(by_cores, by_memory)))


def _martello_toth(counts: Sequence[int], weights: Sequence[float]) -> int:
    """Return L2 of items with these weights, each this many times, in bins of 1."""
    best = 0
    for least in {0.0, *(weight for weight in weights if weight <= 0.5)}:
        alone, large, small, large_number = 0, 0.0, 0.0, 0
        for count, weight in zip(counts, weights, strict=True):
            if weight > 1.0 - least + TOLERANCE:
                alone += count
            elif weight > 0.5 + TOLERANCE:
                large += count * weight
                large_number += count
            elif weight >= least:
                small += count * weight
        more = math.ceil(small - (large_number - large) - len(counts) * TOLERANCE * sum(counts))
        best = max(best, alone + large_number + max(0, more))
    return best

"""What is to be carried, second by second: how many workers of which sizes, and so how many hosts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perdix.models.billing.packing import Resources, pack, per_host

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Demand:
    """The workers of one job, second by second, where every change of their number restarts the job."""

    starts_s: Counts  # seconds from the start at which the workers change, rising; the first is 0. Shape ``(runs,)``
    counts: Counts  # workers of each size from then on, shape ``(runs, sizes)``
    sizes: tuple[Resources, ...]
    seconds: int  # length of the whole

    @classmethod
    def of_workers(cls, workers: ArrayLike, size: Resources) -> Demand:
        """Return the demand of equal workers, ``workers`` of shape ``(seconds,)``; raises as :meth:`of_mixes`."""
        return cls.of_mixes(np.asarray(workers, dtype=np.float64).reshape(-1, 1), (size,))

    @classmethod
    def of_mixes(cls, workers: ArrayLike, sizes: tuple[Resources, ...]) -> Demand:
        """Return the demand of workers of several sizes, ``workers`` of shape ``(seconds, sizes)``.

        Raises ``ValueError`` when a number of workers is negative, not whole or not finite, or shapes differ.
        """
        given = np.asarray(workers, dtype=np.float64)
        if given.ndim != 2 or given.shape[1] != len(sizes):
            raise ValueError(
                f"workers of {len(sizes)} sizes must be of shape (seconds, {len(sizes)}), found {given.shape}"
            )
        if not np.isfinite(given).all() or (given < 0).any() or (given != np.rint(given)).any():
            raise ValueError("workers must be whole numbers from 0 on in every second")
        counts = given.astype(np.int64)
        changed = np.flatnonzero((counts[1:] != counts[:-1]).any(axis=1)) + 1
        starts = np.concatenate([[0], changed]).astype(np.int64) if len(counts) else np.empty(0, dtype=np.int64)
        return cls(starts, counts[starts], sizes, len(counts))

    @property
    def lengths_s(self) -> Counts:
        """Seconds that each run of equal workers lasts, shape ``(runs,)``."""
        return np.diff(np.append(self.starts_s, self.seconds))

    @property
    def core_s(self) -> float:
        """Core-seconds that the workers are given in all."""
        cores = np.array([size.cores for size in self.sizes])
        return float(((self.counts @ cores) * self.lengths_s).sum())

    def hosts(self, host: Resources) -> Counts:
        """Return how many hosts of one kind carry each run, shape ``(runs,)``.

        Packed anew at each change, because a rescale restarts every worker anyhow; in between none moves.

        Raises ``DoesNotFitError`` when a worker that is needed is larger than an empty host.
        """
        if len(self.sizes) == 1:
            return np.asarray(-(-self.counts[:, 0] // per_host(self.sizes[0], host)), dtype=np.int64)
        sizes = {str(number): size for number, size in enumerate(self.sizes, start=1)}
        known: dict[tuple[int, ...], int] = {}
        for row in self.counts:
            mix = tuple(int(count) for count in row)
            if mix not in known:
                known[mix] = len(pack(dict(zip(sizes, mix, strict=True)), sizes, host).hosts)
        return np.array([known[tuple(int(count) for count in row)] for row in self.counts], dtype=np.int64)

"""The workers of one scale-out: a line each, proportional skew, and what they can take together (Daedalus 3.1)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from models.capacity.hottest import STRANGERS, hottest_capacity
from models.capacity.line import IdleShare, Line

Values = NDArray[np.float64]

KEPT_IN_STATE = 144  # workers whose lines are stored; more are represented by these


@dataclass(frozen=True)
class Worker:
    """One worker's line, and the means over the same samples of the hottest CPU load and of the job's throughput."""

    line: Line
    hottest_cpu: float
    total_per_s: float

    def merge(self, other: Worker) -> Worker:
        """Return the worker with both sets of samples."""
        line = self.line.merge(other.line)
        share = other.line.weight / line.weight if line.weight else 0.0
        return Worker(
            line,
            self.hottest_cpu + share * (other.hottest_cpu - self.hottest_cpu),
            self.total_per_s + share * (other.total_per_s - self.total_per_s),
        )

    def decayed(self, factor: float) -> Worker:
        """Return the worker with its samples' weights multiplied by ``factor``."""
        return Worker(self.line.decayed(factor), self.hottest_cpu, self.total_per_s)


@dataclass(frozen=True)
class Total:
    """What all workers of a scale-out can take together.

    Attributes
    ----------
    per_s, sd_per_s
        Capacity and its standard deviation, records/s.
    cpu_reach
        Highest CPU load of the hottest worker that the lines rest on (mean + 1.5 sd).
    reporting
        Workers that have a line.
    warnings
        What the reader should know, in words.
    """

    per_s: float
    sd_per_s: float
    cpu_reach: float
    reporting: int
    warnings: tuple[str, ...] = ()
    idle: IdleShare = STRANGERS


@dataclass(frozen=True)
class Workers:
    """Lines of the workers at one scale-out. Immutable; merges and forgets exactly, as its lines do."""

    workers: Mapping[str, Worker] = field(default_factory=dict)

    @classmethod
    def of(cls, names: tuple[str, ...], cpu: Values, throughput_per_s: Values, weight: float = 1.0) -> Self:
        """Return the workers of aligned samples; NaN is missing.

        Parameters
        ----------
        cpu, throughput_per_s
            Shape ``(n, len(names))``, columns in the order of ``names``.
        weight
            Weight of one row, in minutes. Within it a sample counts by its CPU load: CPU per record is higher on a
            nearly idle worker, and it is the loaded end that is extrapolated (sine run below 70 %: -5.8 % to -4.0 %).
        """
        paired = np.isfinite(cpu) & np.isfinite(throughput_per_s) & (cpu > 0)
        x, y = np.where(paired, cpu, np.nan), np.where(paired, throughput_per_s, np.nan)
        weights = np.where(paired, x, 0.0) * weight
        hottest = np.where(paired, x, -np.inf).max(axis=1, initial=-np.inf)
        counts = paired.sum(axis=1)
        # The job's total in a row with missing workers is scaled up, else their absence would raise others' shares.
        total = np.where(paired, y, 0.0).sum(axis=1) * len(names) / np.maximum(counts, 1)
        found: dict[str, Worker] = {}
        for column, name in enumerate(names):
            rows = paired[:, column]
            if not rows.any():
                continue
            w = weights[rows, column]
            line = Line.of(x[rows, column], y[rows, column], w)
            found[name] = Worker(
                line, float(np.average(hottest[rows], weights=w)), float(np.average(total[rows], weights=w))
            )
        return cls(found)

    def __len__(self) -> int:
        return len(self.workers)

    @property
    def weight(self) -> float:
        """Weight of the worker that was seen longest, in minutes at full CPU load."""
        return max((worker.line.weight for worker in self.workers.values()), default=0.0)

    def merge(self, other: Workers) -> Workers:
        """Return the workers of both sets of samples."""
        merged = dict(self.workers)
        for name, worker in other.workers.items():
            merged[name] = merged[name].merge(worker) if name in merged else worker
        return Workers(merged)

    def decayed(self, factor: float, floor: float = 1e-3) -> Workers:
        """Return the workers with weights multiplied by ``factor``; one whose weight falls below ``floor`` is gone."""
        decayed = {name: worker.decayed(factor) for name, worker in self.workers.items()}
        return Workers({name: worker for name, worker in decayed.items() if worker.line.weight >= floor})

    def only(self, names: set[str]) -> Workers:
        """Return the workers that are among ``names``."""
        return Workers({name: worker for name, worker in self.workers.items() if name in names})

    def against(self, fresh: Workers) -> tuple[float, float, float, float]:
        """Return what the lines believe of fresh samples, what was done, the lines' doubt, and what was usual.

        Records/s in all; only workers that are known to both count.
        """
        believed = done = doubt = usual = 0.0
        for name, worker in fresh.workers.items():
            if name in self.workers:
                fit = self.workers[name].line.fit()
                believed += fit.predict(worker.line.cpu_mean)
                doubt += fit.sd(worker.line.cpu_mean)
                done += worker.line.throughput_mean
                usual += self.workers[name].line.throughput_mean
        return believed, done, doubt, usual

    def cpu_shares(self) -> dict[str, float]:
        """Return each worker's CPU load as a share of the hottest worker's over the same samples; the hottest has 1."""
        shares = {
            name: worker.line.cpu_mean / worker.hottest_cpu
            for name, worker in self.workers.items()
            if worker.hottest_cpu
        }
        highest = max(shares.values(), default=1.0)
        return {name: share / highest for name, share in shares.items()}

    def total(self, scale_out: int, idle: IdleShare | None = None) -> Total:
        """Return what ``scale_out`` workers can take, these among them.

        The hottest worker decides: the CPU load above the idle share is proportional to the job's throughput, so the
        job is full when the hottest worker is. What the idle share is, nobody knows for sure: the capacity is averaged
        (in logs) over what it may be, given what the workers' lines say of it. Workers that are missing count as the
        mean of those that report, and are named in a warning: they never lower the estimate, as a division by another
        count would.

        Raises
        ------
        ValueError
            When no worker has a line.
        """
        if not self.workers:
            raise ValueError("no worker has paired CPU and throughput samples yet")
        loaded = [
            worker for worker in self.workers.values() if worker.total_per_s > 0 and worker.line.throughput_mean > 0
        ]
        if not loaded:
            return Total(0.0, 0.0, 0.0, len(self.workers), self._warnings(scale_out))
        shares = np.array([worker.line.throughput_mean / worker.total_per_s for worker in loaded])
        hottest_cpu = np.array([worker.hottest_cpu for worker in loaded])
        found = hottest_capacity([worker.line for worker in loaded], shares, hottest_cpu, idle or STRANGERS)
        scale = scale_out / len(self.workers)
        relative = math.hypot(found.log_sd, 0.2 * max(0.0, scale - 1.0))  # workers never seen may be slower
        reach = max(worker.line.reach for worker in loaded)
        per_s = scale * found.per_s
        return Total(per_s, per_s * relative, reach, len(self.workers), self._warnings(scale_out), found.idle)

    def _warnings(self, scale_out: int) -> tuple[str, ...]:
        if len(self.workers) < scale_out:
            return (
                f"{scale_out - len(self.workers)} of {scale_out} workers not reporting: counted as the mean worker",
            )
        if len(self.workers) > scale_out:
            return (f"{len(self.workers)} workers report at scale-out {scale_out}: the mean worker is taken",)
        return ()

    def to_state(self) -> dict[str, list[float]]:
        """Return a JSON-serialisable state; of more than 144 workers, 144 evenly spaced by CPU share."""
        ranked = sorted(self.cpu_shares().items(), key=lambda item: (-item[1], item[0]))
        keep = np.unique(np.linspace(0, len(ranked) - 1, min(len(ranked), KEPT_IN_STATE)).round().astype(int))
        names = [ranked[index][0] for index in keep]
        return {
            name: [*self.workers[name].line.to_state(), self.workers[name].hottest_cpu, self.workers[name].total_per_s]
            for name in names
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Rebuild from :meth:`to_state`. Raises ``ValueError`` naming the worker whose numbers are not usable."""
        workers = {}
        for name, numbers in state.items():
            if len(numbers) != 8:
                raise ValueError(f"worker {name!r}: eight numbers expected, found {len(numbers)}")
            workers[name] = Worker(Line.from_state(numbers[:6]), float(numbers[6]), float(numbers[7]))
        return cls(workers)

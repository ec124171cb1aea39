"""The workers of one scale-out: a line each, proportional skew, and what they can take together (Daedalus 3.1)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from perdix.models.capacity.hottest import STRANGERS, hottest_capacity
from perdix.models.capacity.line import IdleShare, Line, lines_of, merged, refuse_unusable
from perdix.settings.stream_job import MOST_WORKERS
from perdix.telemetry.window import Values

LINE = 6  # statistics of a line
ROWS = LINE + 2
FORGET = [0, 3, 4, 5]  # rows that forget: the others hold means
LEAST_WORK = 0.08  # mean CPU load above the idle share, from which its shares tell
KEPT_IN_STATE = 144  # workers whose lines are stored; more are represented by these


@dataclass(frozen=True)
class Total:
    """What all workers of a scale-out can take together."""

    # per_s, sd_per_s: capacity and its standard deviation, records/s
    per_s: float
    sd_per_s: float
    cpu_reach: float  # highest CPU load of the hottest worker that the lines rest on (mean + 1.5 sd)
    reporting: int  # workers that have a line
    warnings: tuple[str, ...] = ()  # what the reader should know, in words
    idle: IdleShare = STRANGERS
    # Share of the job's records of the worker that is full first; ``None`` where it is not known
    hottest_share: float | None = None
    hottest_speed: float | None = None  # records per CPU of that worker, as a multiple of the mean worker's


@dataclass(frozen=True, eq=False)
class Workers:
    """Lines of the workers at one scale-out. Immutable; merges and forgets exactly, as its lines do."""

    names: tuple[str, ...] = ()  # of the workers
    # Shape ``(8, workers)``: the six statistics of a :class:`~perdix.models.capacity.line.Line`, and the means over the
    # same samples of the hottest CPU load and of the job's throughput
    table: Values = field(default_factory=lambda: np.zeros((ROWS, 0)))
    # How many reported, where these are only those of them that a state holds: the job's throughput is that of all
    stand_for: int = 0

    @classmethod
    def of(
        cls,
        names: tuple[str, ...],
        cpu: Values,
        throughput_per_s: Values,
        weight: float = 1.0,
        at_most: int = MOST_WORKERS,
    ) -> Self:
        """Return the workers of aligned samples; NaN is missing.

        ``cpu``, ``throughput_per_s``: shape ``(n, len(names))``, columns in the order of ``names``.
        ``weight``: weight of one row, in minutes. Within it a sample counts by its CPU load: CPU per record is higher
        on a nearly idle worker, and it is the loaded end that is extrapolated (sine run below 70 %: -5.8 % to -4.0 %).
        ``at_most``: workers of the job: others that report, as TaskManagers without a task do, have no part in its
        total.
        """
        paired: NDArray[np.bool_] = np.isfinite(cpu) & np.isfinite(throughput_per_s) & (cpu > 0)
        hottest = np.where(paired, cpu, -np.inf).max(axis=1, initial=-np.inf)
        counts = paired.sum(axis=1)
        # The job's total in a row with missing workers is scaled up, else their absence would raise others' shares.
        missing = np.maximum(min(len(names), at_most) / np.maximum(counts, 1), 1.0)
        total = np.where(paired, throughput_per_s, 0.0).sum(axis=1) * missing
        table = np.zeros((ROWS, len(names)))
        for rows, columns in _alike(paired):  # nearly always one or two sets of workers
            x, y = cpu[rows][:, columns].T, throughput_per_s[rows][:, columns].T
            w = np.ascontiguousarray(x * weight)
            lines = lines_of(x, y, w)
            table[:LINE, columns] = lines
            table[LINE, columns] = (hottest[rows] * w).sum(axis=1) / lines[0]
            table[LINE + 1, columns] = (total[rows] * w).sum(axis=1) / lines[0]
        return cls(names, table)._kept(table[0] > 0)

    @property
    def lines(self) -> dict[str, Line]:
        """Name of each worker -> its line."""
        return {name: Line(*numbers) for name, numbers in zip(self.names, self.table[:LINE].T.tolist(), strict=True)}

    def __len__(self) -> int:
        return len(self.names)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Workers) and self.names == other.names and np.array_equal(self.table, other.table)

    __hash__ = None  # type: ignore[assignment]

    @property
    def reporting(self) -> int:
        """How many workers reported: these, or more that they stand for."""
        return max(len(self), self.stand_for)

    @property
    def weight(self) -> float:
        """Weight of the worker that was seen longest, in minutes at full CPU load."""
        return float(self.table[0].max(initial=0.0))

    @property
    def highest_per_s(self) -> float:
        """Mean throughput of the worker that did most, records/s; 0 without any."""
        return float(self.table[2].max(initial=0.0))

    def merge(self, other: Workers) -> Workers:
        """Return the workers of both sets of samples; each has samples in one of them at least."""
        names = self.names if self.names == other.names else tuple(dict.fromkeys((*self.names, *other.names)))
        mine, theirs = self._among(names), other._among(names)
        lines = merged(mine[:LINE], theirs[:LINE])
        means = mine[LINE:] + theirs[0] / lines[0] * (theirs[LINE:] - mine[LINE:])
        return Workers(names, np.concatenate([lines, means]))

    def decayed(self, factor: float, floor: float = 1e-3) -> Workers:
        """Return the workers with weights multiplied by ``factor``; one whose weight falls below ``floor`` is gone."""
        if not 0.0 <= factor <= 1.0:
            raise ValueError(f"decay factor {factor} is outside 0..1")
        table = self.table.copy()
        table[FORGET] *= factor
        return Workers(self.names, table)._kept(table[0] >= floor)

    def only(self, names: set[str]) -> Workers:
        """Return the workers that are among ``names``."""
        return self._kept(np.array([name in names for name in self.names], dtype=np.bool_))

    def _kept(self, kept: NDArray[np.bool_]) -> Self:
        if kept.all():
            return self
        return type(self)(
            tuple(name for name, stays in zip(self.names, kept, strict=True) if stays), self.table[:, kept]
        )

    def _among(self, names: tuple[str, ...]) -> Values:
        """Return the table in the order of ``names``, which hold all of these and more; zeros for the others."""
        if names == self.names:
            return self.table
        at = {name: k for k, name in enumerate(names)}
        table = np.zeros((ROWS, len(names)))
        table[:, [at[name] for name in self.names]] = self.table
        return table

    def against(self, fresh: Workers) -> Against:
        """Return what the lines believe of fresh samples; only workers that are known to both count."""
        believed = done = doubt = usual = cpu_load = usual_cpu = 0.0
        known, workers = self.lines, 0
        for name, cpu, throughput_per_s in zip(fresh.names, *fresh.table[1:3].tolist(), strict=True):
            if name in known:
                line = known[name]
                fit = line.fit()
                believed += fit.predict(cpu)
                doubt += fit.sd(cpu)
                done += throughput_per_s
                usual += line.throughput_mean
                cpu_load += cpu
                usual_cpu += line.cpu_mean
                workers += 1
        return Against(believed, done, doubt, usual, cpu_load, usual_cpu, workers)

    def cpu_shares(self) -> dict[str, float]:
        """Return each worker's CPU load as a share of the hottest worker's over the same samples; the hottest has 1."""
        measured = self.table[LINE] > 0
        shares = self.table[1, measured] / self.table[LINE, measured]
        names = [name for name, there in zip(self.names, measured, strict=True) if there]
        return dict(zip(names, (shares / shares.max(initial=-np.inf)).tolist(), strict=True))

    def shares(self, names: tuple[str, ...], idle: IdleShare) -> Values | None:
        """Return each one's share of the CPU load above the idle share, in this order.

        ``None`` where one has no samples, or where they are too little busy to tell.
        """
        at = {name: k for k, name in enumerate(self.names)}
        if not all(name in at for name in names):
            return None
        worked = np.maximum(self.table[1, [at[name] for name in names]] - idle.cpu, 0.0)
        return worked / worked.sum() if worked.mean() > LEAST_WORK else None

    def total(self, scale_out: int, idle: IdleShare | None = None) -> Total:
        """Return what ``scale_out`` workers can take, these among them.

        The hottest worker decides: the CPU load above the idle share is proportional to the job's throughput, so the
        job is full when the hottest worker is. What the idle share is, nobody knows for sure: the capacity is averaged
        (in logs) over what it may be, given what the workers' lines say of it. Workers that are missing count as the
        mean of those that report, and are named in a warning: they never lower the estimate, as a division by another
        count would. Raises ``ValueError`` when no worker has a line.
        """
        if not len(self):
            raise ValueError("no worker has paired CPU and throughput samples yet")
        asked = scale_out, idle or STRANGERS
        if asked not in self._totals:
            self._totals[asked] = self._total(*asked)
        return self._totals[asked]

    @cached_property
    def _totals(self) -> dict[tuple[int, IdleShare], Total]:
        """What was worked out before: a model that learns something else keeps its workers."""
        return {}

    def _total(self, scale_out: int, idle: IdleShare) -> Total:
        loaded = self.table[:, (self.table[LINE + 1] > 0) & (self.table[2] > 0)]
        if not loaded.size:
            return Total(0.0, 0.0, 0.0, self.reporting, self._warnings(scale_out))
        lines, hottest_cpu, total_per_s = loaded[:LINE], loaded[LINE], loaded[LINE + 1]
        shares = lines[2] / total_per_s
        found = hottest_capacity(lines, shares, hottest_cpu, idle)
        scale = scale_out / self.reporting
        relative = math.hypot(found.log_sd, 0.2 * max(0.0, scale - 1.0))  # workers never seen may be slower
        per_s, warnings = scale_out / len(self) * found.per_s, self._warnings(scale_out)
        share = min(max(float(shares[lines[1].argmax()]) / max(scale, 1.0), 1e-9), 1.0)
        speed = found.hottest_speed
        return Total(per_s, per_s * relative, found.cpu_reach, self.reporting, warnings, found.idle, share, speed)

    def _warnings(self, scale_out: int) -> tuple[str, ...]:
        if self.reporting < scale_out:
            return (f"{scale_out - self.reporting} of {scale_out} workers not reporting: counted as the mean worker",)
        if self.reporting > scale_out:
            return (f"{self.reporting} workers report at scale-out {scale_out}: the mean worker is taken",)
        return ()

    def to_state(self) -> list[list[str | float]]:
        """Return a JSON-serialisable state, a row each; of more than 144 workers, 144 evenly spaced by CPU share.

        In the order in which they are, as sums of the same numbers in another order differ in their last digits.
        """
        kept = self.cpu_shares()
        if len(kept) > KEPT_IN_STATE:
            ranked = sorted(kept.items(), key=lambda item: (-item[1], item[0]))
            kept = dict(ranked[round(k)] for k in np.linspace(0, len(ranked) - 1, KEPT_IN_STATE).tolist())
        rows = zip(self.names, self.table.T.tolist(), strict=True)
        return [[name, *numbers] for name, numbers in rows if name in kept]

    @classmethod
    def from_state(cls, state: Mapping[str, Any] | Sequence[Any], stand_for: int = 0) -> Self:
        """Rebuild from :meth:`to_state`, or from numbers by name as they were stored until version 0.1.

        Raises ``ValueError`` naming the worker whose numbers are not usable.

        ``stand_for``: :attr:`reporting` of what was stored, where that is known.
        """
        found = state.items() if isinstance(state, Mapping) else ((row[0], row[1:]) for row in state)
        by_name = {str(name): numbers for name, numbers in found}
        for name, numbers in by_name.items():
            if len(numbers) != ROWS:
                raise ValueError(f"worker {name!r}: eight numbers expected, found {len(numbers)}")
            refuse_unusable(numbers[:LINE])
        if not by_name:
            return cls()
        table = np.array([[float(number) for number in numbers] for numbers in by_name.values()]).T
        return cls(tuple(by_name), table, stand_for)


@dataclass(frozen=True)
class Against:
    """Fresh samples against the lines of the same workers."""

    # believed_per_s, done_per_s, doubt_per_s: what the lines say of their CPU load, what was done at it, and the lines'
    # standard deviation; records/s in all
    believed_per_s: float
    done_per_s: float
    doubt_per_s: float
    usual_per_s: float  # mean of what the lines were made of, records/s in all
    # cpu_load, usual_cpu_load: sums over workers of the fresh CPU load and of the mean behind the lines, ratios
    cpu_load: float
    usual_cpu_load: float
    workers: int  # how many there are

    def explained_per_s(self, idle_cpu: float) -> float:
        """Return what the fresh CPU load stands for at this idle share; infinite where all of it is idle."""
        idle = idle_cpu * self.workers
        if self.usual_cpu_load <= idle:
            return math.inf
        return self.usual_per_s * max(self.cpu_load - idle, 0.0) / (self.usual_cpu_load - idle)


def _alike(paired: NDArray[np.bool_]) -> list[tuple[Any, Any]]:
    """Return indexes of rows, and of the columns that have samples in the very same rows: these, and no others.

    Columns without any sample are left out.
    """
    if paired.size and paired.all():
        return [(slice(None), slice(None))]
    found: dict[bytes, list[int]] = {}
    for column, rows in enumerate(np.packbits(paired, axis=0).T):
        found.setdefault(rows.tobytes(), []).append(column)
    return [(paired[:, columns[0]], columns) for rows, columns in found.items() if any(rows)]

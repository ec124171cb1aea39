"""The loads of a job's key groups, from what each subtask did at the scale-outs that ran: so what others would have.

Flink deals a job's key groups in contiguous ranges: subtask ``i`` of ``p`` has those from ``ceil(i G / p)`` to
``ceil((i + 1) G / p)`` (``KeyGroupRangeAssignment``). At the same scale-out each subtask has the same again, and every
scale-out that ran gives other sums of the same loads. What a single key group has is not known: several loads that fit
all that was seen are drawn, and the spread between them is how well another scale-out is foreseen.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from perdix.telemetry.window import Values

GROUPS = 128  # Flink's maximum parallelism, unless somebody set another
FINEST = 1_024  # ranges that loads are kept of
DRAWS = 24
ROUNDS = 12  # in which each draw is fitted to each scale-out: sums then agree to some thousandths
SHARE_SD = 0.02  # relative sd of a measured share
UNEVEN = 0.3  # relative variance of a key group's load before subtasks were seen that differ
SURELY = np.geomspace(0.35, 2.5, DRAWS)  # times the variance that was found: few subtasks tell little of it
REMEMBERED = 12  # scale-outs, those that ran last
DIGITS = 5  # of a share
LEAST = 1e-9  # share of the work: no subtask has less
BEFORE = -1.0  # log odds before anything speaks for or against key groups
ONE_STAY = 4.0  # what one stay says of them at most
LEAST_ODDS, MOST_ODDS = -4.0, 6.0  # what was found can still be found wrong


@dataclass(frozen=True)
class Subtasks:
    """Which worker has which subtask."""

    workers: tuple[str, ...]  # in the order of their subtasks, as metrics name them
    key_groups: int = GROUPS  # of the job: its maximum parallelism

    @property
    def cells(self) -> int:
        """Key groups, at most :data:`FINEST`: neighbours of more are taken as one."""
        return min(self.key_groups, FINEST)


@dataclass(frozen=True, eq=False)
class KeyGroups:
    """What is known of how a job's key groups share its work."""

    # Scale-out -> share of each subtask of the work, in their order; those that ran last are at the end
    seen: Mapping[int, Values] = field(default_factory=dict)
    # Logarithm of the odds that key groups are behind the shares: not slow hosts, nor keys that are dealt anew
    log_odds: float = BEFORE
    count: int = GROUPS  # key groups of the job

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeyGroups) and self.to_state() == other.to_state()

    __hash__ = None  # type: ignore[assignment]

    def after(self, scale_out: int, shares: Values, *, judged: bool) -> Self:
        """Return what is known after a stay in which each subtask had this share of the work, shape ``(scale_out,)``.

        ``judged``: whether the shares are held against what was foreseen: once a stay.
        """
        highest = float(shares.max(initial=0.0))
        if not (1 <= scale_out <= self.count and np.isfinite(shares).all() and highest > 0.0):
            return self
        shares = shares / highest
        shares = np.round(shares / shares.sum(), DIGITS)  # as they are stored, so that a restart changes nothing
        odds = self.log_odds + self._evidence(shares) if judged else self.log_odds
        kept = {n: seen_shares for n, seen_shares in self.seen.items() if n != scale_out} | {scale_out: shares}
        newest = dict(list(kept.items())[-REMEMBERED:])
        return replace(self, seen=newest, log_odds=min(max(odds, LEAST_ODDS), MOST_ODDS))

    @cached_property
    def likely(self) -> float:
        """How likely it is that key groups are behind the shares; 0 where no two subtasks were seen."""
        return 1.0 / (1.0 + math.exp(-self.log_odds)) if max(self.seen, default=0) > 1 else 0.0

    def hottest(self, most: int) -> tuple[Values, Values]:
        """Return the logarithm of the hottest subtask's share at 1 .. ``most``, and its variance; ``(most,)`` each.

        Beyond :attr:`count` there are none: workers without a key group do nothing.
        """
        most = min(most, self.count)
        if len(self._hottest) < most:
            logs = np.log([self._shares(n).max(axis=1) for n in range(len(self._hottest) + 1, most + 1)])
            self._hottest.extend(zip(logs.mean(axis=1).tolist(), logs.var(axis=1).tolist(), strict=True))
        mean, variance = np.array(self._hottest[:most]).T
        return mean, variance

    @cached_property
    def _hottest(self) -> list[tuple[float, float]]:
        """Of each scale-out that was asked for so far."""
        return []

    def _evidence(self, shares: Values) -> float:
        """Return by how much shares speak for key groups: as these foresaw them, or as if keys were dealt anew."""
        scale_out = len(shares)
        if not self.seen or scale_out < 2:
            return 0.0
        noise = (SHARE_SD / scale_out) ** 2
        anew = noise + float(((shares - 1.0 / scale_out) ** 2).mean())
        foreseen = noise + float(((shares - self._shares(scale_out).mean(axis=0)) ** 2).mean())
        gained = 0.5 * (scale_out - 1) * math.log(anew / foreseen)
        # That a size is dealt alike again says nothing of others: hosts may be slow wherever keys go.
        return min(max(gained, -ONE_STAY), 0.0 if scale_out in self.seen else ONE_STAY)

    def _shares(self, scale_out: int) -> Values:
        """Return the share of each subtask in each draw, shape ``(draws, scale_out)``."""
        return np.asarray(np.add.reduceat(self._loads, begins(scale_out, self.count), axis=1))

    @cached_property
    def _loads(self) -> Values:
        """Loads of the key groups that fit all that was seen, shape ``(draws, count)``: each draw sums to 1."""
        shapes = 1.0 / (self._uneven * SURELY)
        loads = np.random.default_rng(self.count).gamma(shapes[:, None], 1.0, (DRAWS, self.count)) + LEAST
        loads /= loads.sum(axis=1, keepdims=True)
        dealt = [(first := begins(n, self.count), owners(first, self.count), shares) for n, shares in self.seen.items()]
        for _ in range(ROUNDS):
            for first, of_group, shares in dealt:
                factors = shares / np.maximum(np.add.reduceat(loads, first, axis=1), LEAST)
                loads *= factors.take(of_group, axis=1)  # half of what indexing takes
        loads = np.maximum(loads, LEAST)
        return np.asarray(loads / loads.sum(axis=1, keepdims=True))

    @property
    def _uneven(self) -> float:
        """The relative variance of a key group's load, by how much the shares of subtasks differ."""
        sizes = np.array([n for n in self.seen if n > 1], dtype=np.float64)
        if not len(sizes):
            return UNEVEN
        between = np.array([float((n * shares).var(ddof=1)) for n, shares in self.seen.items() if n > 1])
        each = self.count / sizes * np.maximum(between - SHARE_SD**2, 0.0)
        return float(np.clip(each @ sizes / sizes.sum(), 0.02, 10.0))

    def to_state(self) -> dict[str, Any]:
        """Return a JSON-serialisable state."""
        seen = [shares.tolist() for shares in self.seen.values()]  # a list: their order counts
        return {"seen": seen, "log_odds": self.log_odds, "count": self.count}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Rebuild from :meth:`to_state`. Raises ``ValueError`` where shares cannot be."""
        count, odds = int(state["count"]), float(state["log_odds"])
        found = state["seen"]
        by_size = found.items() if isinstance(found, Mapping) else ((len(shares), shares) for shares in found)
        seen = {int(n): np.array(shares, dtype=np.float64) for n, shares in by_size}
        if not 1 <= count <= FINEST or not math.isfinite(odds):
            raise ValueError(f"a job has 1 to {FINEST} key groups, and odds are finite: {count}, {odds}")
        for n, shares in seen.items():
            if not 1 <= n <= count or len(shares) != n or not (np.isfinite(shares) & (shares >= 0)).all():
                raise ValueError(f"not the shares of {n} subtasks: {shares[:5].tolist()}")
            if not shares.sum() > 0:
                raise ValueError(f"the shares of {n} subtasks sum to 0")
        return cls(seen, odds, count)


def begins(scale_out: int, count: int) -> NDArray[np.intp]:
    """Return the first key group of each subtask, shape ``(scale_out,)``."""
    return np.asarray(-(-np.arange(scale_out) * count // scale_out), dtype=np.intp)


def owners(first: NDArray[np.intp], count: int) -> NDArray[np.intp]:
    """Return the subtask that has each key group, shape ``(count,)``; ``first`` is what :func:`begins` says."""
    return np.repeat(np.arange(len(first)), np.diff(first, append=count))

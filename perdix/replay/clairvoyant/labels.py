"""Plans as labels, many at once: what each has cost so far, what waits, and by when that must be gone."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Self

import numpy as np
from numpy.typing import NDArray

from perdix.telemetry.window import Values

Whole = NDArray[np.int64]
CALM = -1  # recovering from nothing: the latency objective is in force


@dataclass(frozen=True)
class Labels:
    """Beginnings of plans that have come to the same decision instant, one per row of every array."""

    cost: Whole  # worker-seconds so far
    backlog: Values  # records that wait
    scale_out: Whole  # index of the scale-out that runs
    since: Whole  # decision instant of the first rescale that has not been recovered from; ``CALM`` without one
    # from_instant, from_row: the label that this one goes on from; ``from_row`` is -1 at the start
    from_instant: Whole
    from_row: Whole

    @classmethod
    def start(cls, scale_outs: int) -> Self:
        """Return a plan for every scale-out: caught up, and at no cost yet."""
        none, unknown = np.zeros(scale_outs, dtype=np.int64), np.full(scale_outs, -1)
        return cls(none, np.zeros(scale_outs), np.arange(scale_outs), np.full(scale_outs, CALM), none, unknown)

    @classmethod
    def together(cls, parts: Sequence[Self]) -> Self:
        """Return all labels of some parts."""
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)))

    def __len__(self) -> int:
        return len(self.cost)

    def take(self, rows: Whole | NDArray[np.bool_]) -> Self:
        """Return some of the labels."""
        return type(self)(*(getattr(self, field.name)[rows] for field in fields(self)))

    def undominated(self) -> Self:
        """Return the labels that no other makes needless.

        A label is needless beside one at the same scale-out that costs no more, has no more waiting, and no less time
        for it: whatever the first goes on to do, the second can do as well. Recovering and calm labels do not compare:
        the one may let more wait, the other has nothing to finish.
        """
        best = self.take(_least_waiting(self.scale_out, self.since, self.cost, self.backlog))
        needless = np.zeros(len(best), dtype=np.bool_)
        for scale_out in np.unique(best.scale_out):
            rows = np.flatnonzero((best.scale_out == scale_out) & (best.since != CALM))
            cost, backlog, since = best.cost[rows], best.backlog[rows], best.since[rows]
            later = since[:, None] > since  # of one instant, only the best are left
            needless[rows] = np.any(later & (cost[:, None] <= cost) & (backlog[:, None] <= backlog), axis=0)
        return best.take(~needless)


def _least_waiting(scale_out: Whole, since: Whole, cost: Whole, backlog: Values) -> Whole:
    """Return the rows that, among those of their scale-out and instant, none undercuts in cost and backlog."""
    group = scale_out * (int(since.max(initial=0)) + 2) + since - CALM
    order = np.lexsort((backlog, cost, group))
    number = np.cumsum(np.diff(group[order], prepend=group[order][:1]) != 0)
    waiting = np.unique(backlog, return_inverse=True)[1][order]
    # Ranks that fall from group to group by more than any of them: one running minimum serves all groups.
    rank = waiting - number * (len(order) + 1)
    before = np.concatenate(([len(order) + 1], np.minimum.accumulate(rank)[:-1]))
    return np.asarray(order[rank < before])

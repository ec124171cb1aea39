"""The exact plan: dynamic programming over (epoch, candidate), backwards from the last epoch (QEScalor, Algorithm 2).

``value_t(x)`` is the least that epochs ``t ..`` cost when ``x`` runs in epoch ``t``. A candidate ``y`` is dominated by
``z`` in the same epoch when ``change(y, z) + value(z) <= value(y)``: whoever would come to ``y`` comes to ``z`` at no
greater cost, because changing is never dearer in one step than in two. Dominated candidates are
dropped before the epoch before is looked at.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from perdix.models.mixes.candidates import Candidates, needed
from perdix.models.mixes.problem import Mixes, Problem
from perdix.telemetry.window import Values

DOMINATORS = 64  # the cheapest candidates of an epoch that others are held against
BLOCK_CELLS = 1 << 22  # changes that are priced at once
EARLIER = np.tri(DOMINATORS, k=-1, dtype=bool)


@dataclass(frozen=True)
class Found:
    """What a dynamic programme found."""

    mixes: Mixes  # the cheapest plan, shape ``(epochs, sizes)``
    # first, first_costs: the mixes that may run in the first epoch, shape ``(n, sizes)``, cheapest first, and what the
    # best plan from each on costs
    first: Mixes
    first_costs: Values


def exact(problem: Problem, among: Candidates) -> Found:
    """Return a cheapest plan. Of plans that cost the same, the one whose mixes come first among the candidates."""
    runs = needed(problem, among)
    return cheapest(problem, lambda epoch: among.mixes[runs[epoch]])


def cheapest(problem: Problem, candidates_at: Callable[[int], Mixes]) -> Found:
    """Return the cheapest plan that runs one of ``candidates_at(epoch)``, shape ``(n, sizes)``, in each epoch.

    There must be one for each epoch, and all must cover it.
    """
    changes = _Changes(problem)
    kept: list[tuple[Mixes, Values]] = []  # of each epoch from the last on: candidates that are not dominated, values
    for epoch in range(len(problem) - 1, -1, -1):
        mixes = candidates_at(epoch)
        value = mixes @ problem.sizes.running
        if kept:
            value = value + changes.cheapest_next(mixes, *kept[-1])
        if epoch > 0:
            left = changes.not_dominated(mixes, value)
            mixes, value = mixes[left], value[left]
        kept.append((mixes, value))
    return _followed(problem, changes, kept)


class _Changes:
    """Prices of changes between mixes, so split that a matrix is filled once only.

    With ``d = after - before``: ``start max(0, d) + stop max(0, -d) = (start + stop) / 2 |d| + (start - stop) / 2 d``,
    and the second part is a difference of what ``after`` and ``before`` have for themselves.
    """

    def __init__(self, problem: Problem) -> None:
        sizes, self.any = problem.sizes, problem.change
        self.both, self.tilt = (sizes.start + sizes.stop) / 2.0, (sizes.start - sizes.stop) / 2.0

    def tilted(self, mixes: Mixes, value: Values) -> Values:
        return np.asarray(value + mixes @ self.tilt)

    def apart(self, before: Mixes, after: Mixes) -> Values:
        distance = cdist(before * self.both, after * self.both, "cityblock")
        if self.any > 0.0:
            distance += self.any * (cdist(before, after, "chebyshev") > 0.0)
        return np.asarray(distance)

    def cheapest_next(self, mixes: Mixes, after: Mixes, value: Values) -> Values:
        """Return, for each of ``mixes``, the least of ``change(mix, y) + value(y)`` over ``y`` of ``after``."""
        rows, then = max(1, BLOCK_CELLS // len(after)), self.tilted(after, value)
        least = np.empty(len(mixes))
        for begin in range(0, len(mixes), rows):
            through = self.apart(mixes[begin : begin + rows], after)
            through += then
            least[begin : begin + rows] = through.min(axis=1)
        return np.asarray(least - mixes @ self.tilt)

    def not_dominated(self, mixes: Mixes, value: Values) -> Mixes:
        """Return the places of candidates that none of the cheapest dominates."""
        order = np.argsort(value, kind="stable")
        own, best = self.tilted(mixes, value), order[:DOMINATORS]
        through = self.apart(mixes[order], mixes[best])
        through += own[best]
        dominated = through <= own[order][:, None]
        # Only a candidate that comes before may dominate, so that of two that dominate each other one is left.
        dominated[: len(best)] &= EARLIER[: len(best), : len(best)]
        return np.sort(order[~dominated.any(axis=1)])

    def onward(self, mix: Mixes, after: Mixes, value: Values) -> Values:
        """Return the cost of going from one mix to each of ``after`` and on from there."""
        return np.asarray(self.apart(mix[None, :], after)[0] + self.tilted(after, value) - mix @ self.tilt)


def _followed(problem: Problem, changes: _Changes, kept: list[tuple[Mixes, Values]]) -> Found:
    first, value = kept.pop()
    costs = problem.change_cost(problem.begin, first) + value
    order = np.argsort(costs, kind="stable")
    path = [first[order[0]]]
    for mixes, value in reversed(kept):
        path.append(mixes[int(np.argmin(changes.onward(path[-1], mixes, value)))])
    return Found(np.stack(path), first[order], costs[order])

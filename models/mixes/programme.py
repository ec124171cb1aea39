"""The exact plan: dynamic programming over (epoch, candidate), backwards from the last epoch (QEScalor, Algorithm 2).

``value_t(x)`` is the least that epochs ``t ..`` cost when ``x`` runs in epoch ``t``. A candidate ``y`` is dominated by
``z`` in the same epoch when ``change(y, z) + value(z) <= value(y)``: whoever would come to ``y`` comes to ``z`` at no
greater cost, because changing is never dearer in one step than in two. Dominated candidates
are dropped before the epoch before is looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from models.mixes.candidates import Candidates, needed
from models.mixes.problem import Mixes, Problem, Sizes, Values

DOMINATORS = 64  # the cheapest candidates of an epoch that others are held against
BLOCK_CELLS = 1 << 22  # changes that are priced at once


@dataclass(frozen=True)
class Found:
    """What a dynamic programme found.

    Attributes
    ----------
    mixes
        The cheapest plan, shape ``(epochs, sizes)``.
    first, first_costs
        The mixes that may run in the first epoch, shape ``(n, sizes)``, cheapest first, and what the best plan from
        each on costs.
    """

    mixes: Mixes
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
    sizes = problem.sizes
    kept: list[tuple[Mixes, Values]] = []  # of each epoch from the last on: candidates that are not dominated, values
    for epoch in range(len(problem) - 1, -1, -1):
        mixes = candidates_at(epoch)
        value = mixes @ sizes.running
        if kept:
            value = value + _cheapest_next(sizes, mixes, *kept[-1])
        if epoch > 0:
            left = _not_dominated(sizes, mixes, value)
            mixes, value = mixes[left], value[left]
        kept.append((mixes, value))
    return _followed(problem, kept)


def change_costs(sizes: Sizes, before: Mixes, after: Mixes) -> Values:
    """Return the price of going from each of ``before`` to each of ``after``, shape ``(len(before), len(after))``.

    With ``d = after - before``: ``start max(0, d) + stop max(0, -d) = (start + stop) / 2 |d| + (start - stop) / 2 d``.
    """
    both, tilt = (sizes.start + sizes.stop) / 2.0, (sizes.start - sizes.stop) / 2.0
    distance = cdist(before * both, after * both, "cityblock")
    return np.asarray(distance + (after @ tilt)[None, :] - (before @ tilt)[:, None])


def _cheapest_next(sizes: Sizes, mixes: Mixes, after: Mixes, value: Values) -> Values:
    """Return, for each of ``mixes``, the least of ``change(mix, y) + value(y)`` over ``y`` of ``after``."""
    rows = max(1, BLOCK_CELLS // len(after))
    parts = [
        (change_costs(sizes, mixes[begin : begin + rows], after) + value).min(axis=1)
        for begin in range(0, len(mixes), rows)
    ]
    return np.concatenate(parts)


def _not_dominated(sizes: Sizes, mixes: Mixes, value: Values) -> Mixes:
    """Return the places of candidates that none of the cheapest dominates."""
    order = np.argsort(value, kind="stable")
    best = order[:DOMINATORS]
    through = change_costs(sizes, mixes[order], mixes[best]) + value[best]
    # Only a candidate that comes before may dominate, so that of two that dominate each other one is left.
    earlier = np.arange(len(best))[None, :] < np.arange(len(order))[:, None]
    return np.sort(order[~((through <= value[order][:, None]) & earlier).any(axis=1)])


def _followed(problem: Problem, kept: list[tuple[Mixes, Values]]) -> Found:
    first, value = kept.pop()
    costs = problem.sizes.change_cost(problem.begin, first) + value
    order = np.argsort(costs, kind="stable")
    path = [first[order[0]]]
    for mixes, value in reversed(kept):
        onward = change_costs(problem.sizes, path[-1][None, :], mixes)[0] + value
        path.append(mixes[int(np.argmin(onward))])
    return Found(np.stack(path), first[order], costs[order])

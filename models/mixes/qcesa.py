"""QCESA: the mix of each epoch of a horizon at least cost (QEScalor, 2.4, Algorithm 2), and how sure that is.

Few candidates: the exact programme. Many: a linear programme gives the least that any plan could cost, its rounded plan
is improved in a corridor, and the result says that it is not proven to be the cheapest, and by how much it may be off.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from perdix.models.mixes.candidates import candidates
from perdix.models.mixes.corridor import improved, rounded
from perdix.models.mixes.problem import Costs, Mixes, Problem
from perdix.models.mixes.programme import Found, exact
from perdix.models.mixes.relaxation import relaxed
from perdix.telemetry.window import Values

EXACT_CANDIDATES = (
    2_500  # of one epoch; about a second for 1,000 epochs where starts are cheap, 20 s where they are dear
)
EXACT_EPOCH_CANDIDATES = 2_500_000
SWEEPS = 8
INDIFFERENCE = 0.02


@dataclass(frozen=True)
class MixPlan:
    """A mix for each epoch."""

    problem: Problem
    mixes: Mixes  # workers of each size, shape ``(epochs, sizes)``
    exact: bool  # whether it is certain that no plan is cheaper
    lower_bound: float  # what no plan can cost less than; the plan's own cost where it is exact
    candidates: int  # mixes that were examined for an epoch at most
    # first, first_costs: mixes for the first epoch, shape ``(n, sizes)``, cheapest first, and the least cost of a plan
    # from each on. Where the plan is not exact, only those near it
    first: Mixes
    first_costs: Values
    dearer: float = 0.0  # share by which it costs more than another that was found and not taken (:func:`steadied`)

    @cached_property
    def costs(self) -> Costs:
        """What the plan costs, by what for."""
        return self.problem.costs(self.mixes)

    @cached_property
    def shortfall_per_s(self) -> Values:
        """Records/s that are not covered because the bounds do not allow it, shape ``(epochs,)``."""
        return self.problem.shortfall_per_s(self.mixes)

    @property
    def gap(self) -> float:
        """By what share of the lower bound the plan may be too dear; 0 where it is exact."""
        above = self.costs.total - self.lower_bound
        return above / self.lower_bound if above > 0.0 < self.lower_bound else 0.0

    def cost_of_keeping(self) -> float:
        """Return the least cost of a plan whose first mix is what runs; infinite where that does not hold."""
        problem, begin = self.problem, self.problem.begin
        if not (problem.allows(begin) and problem.covers(begin, problem.demanded_per_s[0])):
            return float("inf")
        same = np.flatnonzero((self.first == begin).all(axis=1))
        if len(same):
            return float(self.first_costs[same[0]])
        left = problem.after(begin)
        then = 0.0 if left is None else plan(left).costs.total
        return float(begin @ problem.sizes.running) + then


def plan(problem: Problem, *, exact_candidates: int = EXACT_CANDIDATES, sweeps: int = SWEEPS) -> MixPlan:
    """Return a plan at least cost; levels that the bounds do not allow to cover are covered as far as possible.

    ``exact_candidates``: most candidates for an epoch with which the exact programme is used; 0: never.
    ``sweeps``: most sweeps of the corridor otherwise.
    """
    among = candidates(problem, min(exact_candidates, EXACT_EPOCH_CANDIDATES // len(problem)))
    if among is not None:
        return _exactly(problem, exact(problem, among), len(among))
    bound, split = relaxed(problem)
    found = improved(problem, rounded(problem, split), sweeps)
    alone = _cheaper_alone(problem, problem.costs(found.mixes).total)
    if alone is not None:
        found = improved(problem, alone, sweeps)
    return MixPlan(problem, found.mixes, False, bound, len(found.first), found.first, found.first_costs)


def single(problem: Problem, index: int) -> MixPlan:
    """Return the cheapest plan with one size only; always exact.

    Raises ``ValueError`` when that size's own bound is below the minimum of workers.
    """
    limited = problem.limited_to(index)
    among = candidates(limited, limited.maximum + 1)
    assert among is not None  # there are no more mixes of one size than numbers of workers
    return _exactly(limited, exact(limited, among), len(among))


def steadied(found: MixPlan, indifference: float = INDIFFERENCE) -> MixPlan:
    """Return the plan with the smallest size only, where it carries as much and costs hardly more; else what was found.

    A forecast is never certain. What small workers cost more in starts they save when less is to be carried than was
    forecast, because they can be stopped one by one; a large one that was started to save starts cannot
    (docs/decisions/0019-mixes-of-sizes.md).

    ``indifference``: share of the plan's cost that is too small to decide; 0: what was found. It is no reason to change
    what runs.
    """
    problem, sizes = found.problem, found.problem.sizes
    usable = np.flatnonzero((sizes.per_s > 0.0) & (sizes.most > 0))
    if indifference <= 0.0 or len(usable) < 2 or (found.mixes[0] == problem.begin).all():
        return found
    smallest = int(usable[np.argmin(sizes.per_s[usable])])
    if min(int(sizes.most[smallest]), problem.maximum) < problem.minimum:
        return found
    alone = single(problem, smallest)
    short = float(alone.shortfall_per_s.sum()) > float(found.shortfall_per_s.sum()) + 1e-9
    dearer = alone.costs.total / found.costs.total - 1.0 if found.costs.total > 0.0 else 0.0
    return found if short or dearer > indifference else replace(alone, dearer=max(dearer, 0.0))


def _exactly(problem: Problem, found: Found, examined: int) -> MixPlan:
    cost = problem.costs(found.mixes).total
    return MixPlan(problem, found.mixes, True, cost, examined, found.first, found.first_costs)


def _cheaper_alone(problem: Problem, cost: float) -> Mixes | None:
    """Return a plan of one size that covers all and is cheaper than ``cost``, if there is one."""
    sizes, levels = problem.sizes, problem.demanded_per_s
    best = None
    for index in np.flatnonzero(sizes.per_s > 0.0).tolist():
        most = min(int(sizes.most[index]), problem.maximum)
        least = np.ceil(levels / sizes.per_s[index] * (1.0 - 1e-9))
        if most < max(float(least.max()), problem.minimum) or float(least.sum()) * sizes.running[index] >= cost:
            continue
        alone = single(problem, index)
        if alone.costs.total < cost:
            best, cost = alone.mixes, alone.costs.total
    return best

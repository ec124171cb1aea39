"""QCESA: the mix of each epoch of a horizon at least cost (QEScalor, 2.4, Algorithm 2), and how sure that is.

Few candidates: the exact programme. Many: a linear programme gives the least that any plan could cost, its rounded plan
is improved in a corridor, and the result says that it is not proven to be the cheapest, and by how much it may be off.

The corridor: in each epoch only mixes that differ from the plan's by a few workers are candidates; the cheapest plan
among them is the next plan, until none is cheaper. Every sweep looks at all epochs together, so that a change of many
epochs at once is found, and none makes the plan dearer. What is given up is the certainty that no distant plan is
cheaper.
"""

from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import block_array, coo_array, csr_array, diags_array, eye_array, kron

from perdix.models.mixes.candidates import candidates
from perdix.models.mixes.problem import Costs, Mixes, Problem
from perdix.models.mixes.programme import Found, cheapest, exact
from perdix.telemetry.window import Values

EXACT_CANDIDATES = (
    2_500  # of one epoch; about a second for 1,000 epochs where starts are cheap, 20 s where they are dear
)
EXACT_EPOCH_CANDIDATES = 2_500_000
SWEEPS = 8
NEIGHBOURS = 1_000  # candidates in each epoch, at most: mixes that differ by ever more workers, up to this number
MOST_APART = 3
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


def plan(problem: Problem, *, exact_candidates: int = EXACT_CANDIDATES) -> MixPlan:
    """Return a plan at least cost; levels that the bounds do not allow to cover are covered as far as possible.

    ``exact_candidates``: most candidates for an epoch with which the exact programme is used; 0: never.
    """
    among = candidates(problem, min(exact_candidates, EXACT_EPOCH_CANDIDATES // len(problem)))
    if among is not None:
        return _exactly(problem, exact(problem, among), len(among))
    bound, split = relaxed(problem)
    found = improved(problem, rounded(problem, split))
    alone = _cheaper_alone(problem, problem.costs(found.mixes).total)
    if alone is not None:
        found = improved(problem, alone)
    return MixPlan(problem, found.mixes, False, bound, len(found.first), found.first, found.first_costs)


def single(problem: Problem, index: int) -> MixPlan:
    """Return the cheapest plan with one size only; always exact. That is CBA, the baseline (QEScalor, 3.1).

    Workers of other sizes that run at the beginning are stopped, and paid for.

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


def relaxed(problem: Problem) -> tuple[float, Values]:
    """Return a lower bound of the cost of every plan, and the split workers that reach it, shape ``(epochs, sizes)``.

    What a change costs as such is left out, which only lowers the bound.

    Stops need no variables: what is stopped is what was started less what is left, so
    ``stops_r = begin_r - n[-1, r] + starts_r``. Raises ``RuntimeError`` when the solver (HiGHS) fails.
    """
    sizes, epochs, kinds = problem.sizes, len(problem), len(problem.sizes)
    running = np.tile(sizes.running, (epochs, 1))
    running[-1] -= sizes.stop
    prices = np.concatenate((running.ravel(), np.tile(sizes.start + sizes.stop, epochs)))
    each_epoch = eye_array(epochs, format="csr")
    cover = kron(each_epoch, csr_array(sizes.per_s[None, :]))
    count = kron(each_epoch, csr_array(np.ones((1, kinds))))
    none = coo_array((epochs, epochs * kinds))
    steps = kron(diags_array([1.0, -1.0], offsets=[0, -1], shape=(epochs, epochs)), eye_array(kinds))
    rows = block_array(
        [[-cover, none], [count, none], [-count, none], [steps, -eye_array(epochs * kinds)]], format="csr"
    )
    before = np.zeros((epochs, kinds))
    before[0] = problem.begin
    limits = np.concatenate(
        (-problem.demanded_per_s, np.full(epochs, problem.maximum), np.full(epochs, -problem.minimum), before.ravel())
    )
    most = np.tile(np.minimum(sizes.most, problem.maximum), epochs)
    bounds = np.column_stack((np.zeros(2 * len(most)), np.concatenate((most, np.full(len(most), np.inf)))))
    found = linprog(prices, A_ub=rows, b_ub=limits, bounds=bounds, method="highs")
    if found.x is None:
        raise RuntimeError(f"no linear programme for {epochs} epochs and {kinds} sizes: {found.message}")
    stopped_anyway = float(problem.begin @ sizes.stop)
    return float(found.fun) + stopped_anyway, found.x[: epochs * kinds].reshape(epochs, kinds)


def improved(problem: Problem, mixes: Mixes) -> Found:
    """Return the cheapest plan that :data:`SWEEPS` sweeps lead to from ``mixes``, which must hold all bounds."""
    apart = neighbours(len(problem.sizes))
    cost = problem.costs(mixes).total
    found = None
    for _ in range(SWEEPS):
        centre = mixes if found is None else found.mixes
        found = cheapest(problem, partial(_around, problem, centre, apart))
        now = problem.costs(found.mixes).total
        if not now < cost * (1.0 - 1e-12):
            break
        cost = now
    assert found is not None
    return found


def neighbours(sizes: int) -> Mixes:
    """Return by what a neighbour may differ, shape ``(n, sizes)``: by three workers, or by fewer for many sizes."""
    steps = np.vstack((np.eye(sizes, dtype=np.int64), -np.eye(sizes, dtype=np.int64)))
    made = np.zeros((1, sizes), dtype=np.int64)
    for _ in range(MOST_APART):
        wider = np.unique(np.vstack([made + step for step in steps] + [made]), axis=0)
        if len(wider) > NEIGHBOURS:
            break
        made = wider
    return made


def _around(problem: Problem, centre: Mixes, apart: Mixes, epoch: int) -> Mixes:
    mixes = centre[epoch] + apart
    fits = problem.allows(mixes) & problem.covers(mixes, problem.demanded_per_s[epoch])
    return np.asarray(mixes[fits])


def rounded(problem: Problem, split: Values) -> Mixes:
    """Return a plan of whole workers near one of split workers, shape ``(epochs, sizes)``, that holds all bounds."""
    whole = np.minimum(np.floor(split + 1e-6).astype(np.int64), problem.sizes.most)
    return np.stack([_repaired(problem, mix, epoch) for epoch, mix in enumerate(whole)])


def _repaired(problem: Problem, mix: Mixes, epoch: int) -> Mixes:
    """Add workers until a mix covers its epoch, at the least price per record; then exchange small ones for large."""
    sizes, level, mix = problem.sizes, problem.demanded_per_s[epoch], mix.copy()
    while not (problem.covers(mix, level) and mix.sum() >= problem.minimum):
        room = mix < sizes.most
        if mix.sum() < problem.maximum:
            lacking = max(level - float(mix @ sizes.per_s), 0.0)
            gain = np.minimum(sizes.per_s, lacking) if lacking > 0.0 else np.ones(len(sizes))
            with np.errstate(divide="ignore", invalid="ignore"):
                worth = np.where(room & (gain > 0.0), gain / np.maximum(sizes.running, 1e-300), -np.inf)
            mix[int(np.argmax(worth))] += 1
        else:
            given = int(np.argmin(np.where(mix > 0, sizes.per_s, np.inf)))
            mix[given] -= 1
            mix[int(np.argmax(np.where(room, sizes.per_s, -np.inf)))] += 1
    return mix

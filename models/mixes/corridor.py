"""A good plan where there are too many candidates for the exact one: the programme within a corridor around a plan.

In each epoch only mixes that differ from the plan's by a few workers are candidates; the cheapest plan among them is
the next plan, until none is cheaper. Every sweep looks at all epochs together, so that a change of many epochs at once
is found, and none makes the plan dearer. What is given up is the certainty that no distant plan is cheaper.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from perdix.models.mixes.problem import Mixes, Problem
from perdix.models.mixes.programme import Found, cheapest
from perdix.telemetry.window import Values

NEIGHBOURS = 1_000  # candidates in each epoch: all that differ by so many workers that there are no more
MOST_APART = 3


def improved(problem: Problem, plan: Mixes, sweeps: int) -> Found:
    """Return the cheapest plan that ``sweeps`` sweeps lead to from ``plan``, which must hold all bounds."""
    apart = neighbours(len(problem.sizes))
    cost = problem.costs(plan).total
    found = None
    for _ in range(max(1, sweeps)):
        centre = plan if found is None else found.mixes
        found = cheapest(problem, partial(_around, problem, centre, apart))
        now = problem.costs(found.mixes).total
        if not now < cost * (1.0 - 1e-12):
            break
        cost = now
    assert found is not None
    return found


def neighbours(sizes: int) -> Mixes:
    """Return by what a neighbour may differ, shape ``(n, sizes)``: by three workers, or by fewer for many sizes."""
    single = np.vstack((np.eye(sizes, dtype=np.int64), -np.eye(sizes, dtype=np.int64)))
    made = np.zeros((1, sizes), dtype=np.int64)
    for _ in range(MOST_APART):
        wider = np.unique(np.vstack([made + step for step in single] + [made]), axis=0)
        if len(wider) > NEIGHBOURS:
            break
        made = wider
    return made


def _around(problem: Problem, plan: Mixes, apart: Mixes, epoch: int) -> Mixes:
    mixes = plan[epoch] + apart
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

"""The least that any plan could cost, from a linear programme in which workers may be split."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import block_array, coo_array, csr_array, diags_array, eye_array, kron

from perdix.models.mixes.problem import Problem
from perdix.telemetry.window import Values


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
        (
            -problem.demanded_per_s,
            np.full(epochs, problem.maximum),
            np.full(epochs, -problem.minimum),
            before.ravel(),
        )
    )
    most = np.tile(np.minimum(sizes.most, problem.maximum), epochs)
    bounds = np.column_stack((np.zeros(2 * len(most)), np.concatenate((most, np.full(len(most), np.inf)))))
    found = linprog(prices, A_ub=rows, b_ub=limits, bounds=bounds, method="highs")
    if found.x is None:
        raise RuntimeError(f"no linear programme for {epochs} epochs and {kinds} sizes: {found.message}")
    stopped_anyway = float(problem.begin @ sizes.stop)
    return float(found.fun) + stopped_anyway, found.x[: epochs * kinds].reshape(epochs, kinds)

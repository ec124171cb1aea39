"""CBA, the baseline: the plan at least cost with workers of one size (Cost-Balance-Algorithm; QEScalor, 3.1)."""

from __future__ import annotations

from perdix.models.mixes.problem import Problem
from perdix.models.mixes.qcesa import MixPlan, single


def cba(problem: Problem, size: str) -> MixPlan:
    """Return the cheapest plan with workers of ``size`` only: the same programme with one size, always exact.

    Workers of other sizes that run at the beginning are stopped, and paid for.

    Raises ``ValueError`` when there is no such size, or its own bound is below the minimum of workers.
    """
    if size not in problem.sizes.names:
        raise ValueError(f"no size is called '{size}'; known: {', '.join(problem.sizes.names)}")
    return single(problem, problem.sizes.names.index(size))

"""That no plan is cheaper: against all plans there are, and against an integer programme."""

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp

from perdix.models.mixes.candidates import candidates, dominated, most_needed
from perdix.models.mixes.problem import Mixes, Problem, Sizes
from perdix.models.mixes.qcesa import plan, relaxed, single

SURPLUS = 2  # workers of each size beyond what the candidate rule says may be needed


@st.composite
def problems(draw: st.DrawFn, most_sizes: int = 3, most_epochs: int = 5) -> Problem:
    """Small ones: prices that do not grow with performance, free or dear starts, begins that are too large."""
    count = draw(st.integers(1, most_sizes))
    price = st.one_of(st.just(0.0), st.integers(1, 8).map(float), st.floats(0.05, 9.0))

    def each(kind: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(kind, min_size=count, max_size=count))

    maximum = draw(st.one_of(st.integers(1, 5), st.just(10_000)))
    sizes = Sizes.of(
        tuple("abc"[:count]),
        each(st.one_of(st.sampled_from([0.0, 60.0, 100.0, 200.0]), st.floats(40.0, 300.0))),
        each(price),
        start=each(price) if draw(st.booleans()) else draw(price),
        stop=each(price) if draw(st.booleans()) else draw(price),
        most=each(st.one_of(st.just(10_000), st.integers(0, 3))),
    )
    most = int(np.minimum(sizes.most, maximum).sum())
    levels = draw(st.lists(st.one_of(st.just(0.0), st.floats(0.0, 400.0)), min_size=1, max_size=most_epochs))
    least, change = draw(st.integers(0, min(2, most, maximum))), draw(st.one_of(st.just(0.0), price))
    return Problem.of(sizes, levels, each(st.integers(0, 3)), least, maximum, change=change)


def all_plans_cost(problem: Problem) -> float:
    """Return the least cost over all plans, by trying each pair of mixes of each two epochs."""
    beyond = most_needed(problem) + SURPLUS
    enough = np.where(problem.sizes.per_s > 0, np.ceil(400.0 / np.maximum(problem.sizes.per_s, 1.0)), 0) + SURPLUS
    counts = np.minimum(np.maximum(beyond, enough.astype(int)), np.minimum(problem.sizes.most, problem.maximum))
    mixes = np.array(list(product(*(range(int(count) + 1) for count in counts))))
    mixes = mixes[problem.allows(mixes)]
    change = problem.change_cost(mixes[:, None, :], mixes[None, :, :])
    running = mixes @ problem.sizes.running
    cost = problem.change_cost(problem.begin, mixes)
    for level in problem.demanded_per_s:
        cost = np.where(problem.covers(mixes, level), cost + running, np.inf)
        cost = (cost[:, None] + change).min(axis=0)  # staying is a change at no price
    return float(cost.min())


def holds(problem: Problem, mixes: Mixes) -> bool:
    return bool(problem.allows(mixes).all() and problem.covers(mixes, problem.demanded_per_s).all())


@settings(max_examples=200, deadline=None)
@given(problems())
@example(
    Problem.of(
        Sizes.of(("a", "b"), [100.0, 280.0], [1.0, 2.5], start=5.0, stop=5.0), [100.0, 270.0, 100.0, 100.0], [1, 0]
    )
)
@example(Problem.of(Sizes.of(("a", "b"), [100.0, 100.0], [1.0, 1.0]), [350.0], [0, 3]))
@example(Problem.of(Sizes.of(("a",), [60.0], [0.0]), [0.0, 5e-324], [0]))
def test_no_plan_is_cheaper_than_the_exact_one(problem: Problem) -> None:
    found = plan(problem)
    assert found.exact
    assert holds(problem, found.mixes)
    assert found.costs.total == pytest.approx(all_plans_cost(problem), rel=1e-6, abs=1e-6)


@settings(max_examples=50, deadline=None)
@given(problems())
def test_the_corridor_holds_all_bounds_and_lies_between_the_optimum_and_any_single_size(problem: Problem) -> None:
    near, best = plan(problem, exact_candidates=0), plan(problem)
    assert not near.exact
    assert holds(problem, near.mixes)
    slack = 1e-6 * max(best.costs.total, 1.0)
    assert near.lower_bound - slack <= best.costs.total <= near.costs.total + slack
    for index in range(len(problem.sizes)):
        try:
            alone = single(problem, index)
        except ValueError:  # its own bound is below the minimum
            continue
        if holds(problem, alone.mixes):
            assert near.costs.total <= alone.costs.total + slack


@settings(max_examples=50, deadline=None)
@given(problems())
def test_one_size_is_never_cheaper_where_it_covers_all(problem: Problem) -> None:
    best = plan(problem).costs.total
    for index in range(len(problem.sizes)):
        if problem.minimum <= min(int(problem.sizes.most[index]), problem.maximum):
            alone = single(problem, index)
            if holds(problem, alone.mixes):
                assert best <= alone.costs.total + 1e-6 * max(best, 1.0)


@settings(max_examples=40, deadline=None)
@given(problems())
def test_each_first_mix_is_told_with_the_cost_of_the_best_plan_from_it(problem: Problem) -> None:
    found = plan(problem)
    assert found.first_costs[0] == pytest.approx(found.costs.total, abs=1e-6)
    assert (np.diff(found.first_costs) >= 0).all()
    for mix, cost in list(zip(found.first, found.first_costs, strict=True))[:4]:
        left = problem.after(mix)
        now = float(problem.change_cost(problem.begin, mix)) + float(mix @ problem.sizes.running)
        assert cost == pytest.approx(now + (0.0 if left is None else plan(left).costs.total), rel=1e-6, abs=1e-6)


@settings(max_examples=40, deadline=None)
@given(problems())
def test_sizes_that_are_dominated_may_be_left_out(problem: Problem) -> None:
    most = np.where(dominated(problem), np.minimum(problem.begin, problem.sizes.most), problem.sizes.most)
    sizes = replace(problem.sizes, most=most)
    fewer = replace(problem, sizes=sizes)
    assert all_plans_cost(fewer) == pytest.approx(all_plans_cost(problem), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("seed", range(8))
def test_an_integer_programme_finds_nothing_cheaper_on_longer_horizons(seed: int) -> None:
    random = np.random.default_rng(seed)
    sizes = Sizes.of(
        tuple("abcd"),
        random.uniform(80, 400, 4),
        random.uniform(0.5, 3.0, 4),
        start=random.uniform(0, 3, 4),
        stop=random.uniform(0, 2, 4),
    )
    problem = Problem.of(sizes, random.uniform(100, 900, 12), random.integers(0, 4, 4), 2, 8)
    assert plan(problem).costs.total == pytest.approx(integer_programme_cost(problem), rel=1e-6)


def integer_programme_cost(problem: Problem) -> float:
    """The cost model once more, written as an integer programme over counts, starts and stops."""
    epochs, kinds = len(problem), len(problem.sizes)
    cells = epochs * kinds
    counts, one = np.eye(cells), np.kron(np.eye(epochs), np.ones((1, kinds)))
    rates = np.kron(np.eye(epochs), problem.sizes.per_s[None, :])
    steps = counts - np.eye(cells, k=-kinds)
    before = np.concatenate((problem.begin, np.zeros(cells - kinds)))
    wide = np.zeros((epochs, 2 * cells))
    found = milp(
        np.concatenate([np.tile(v, epochs) for v in (problem.sizes.running, problem.sizes.start, problem.sizes.stop)]),
        integrality=np.concatenate((np.ones(cells), np.zeros(2 * cells))),
        bounds=Bounds(0, np.inf),
        constraints=[
            LinearConstraint(np.hstack((rates, wide)), problem.demanded_per_s, np.inf),
            LinearConstraint(np.hstack((one, wide)), problem.minimum, problem.maximum),
            LinearConstraint(np.hstack((steps, -np.eye(cells), np.eye(cells))), before, before),
        ],
        options={"mip_rel_gap": 0.0},
    )
    assert found.success
    return float(found.fun)


@settings(max_examples=50, deadline=None)
@given(problems())
def test_split_workers_never_cost_more(problem: Problem) -> None:
    bound, _ = relaxed(problem)
    best = plan(problem).costs.total
    assert bound <= best + 1e-6 * max(best, 1.0)


@settings(max_examples=40)
@given(problems(most_sizes=2, most_epochs=3))
def test_candidates_beyond_a_limit_are_not_listed(problem: Problem) -> None:
    listed = candidates(problem, 10_000)
    assert listed is not None
    assert candidates(problem, len(listed)) is not None
    assert candidates(problem, len(listed) - 1) is None


def test_a_large_case_is_near_its_bound_and_says_so() -> None:
    """8 sizes, 200 workers, 120 epochs: `python -m benchmarks.mixes --large` measures 1,000."""
    cores = 0.6 * np.arange(1, 9)
    sizes = Sizes.of(tuple("abcdefgh"), 100.0 * (cores / 0.6) ** 0.85, cores, start=0.3, stop=0.1)
    levels = 19_600.0 * (0.55 + 0.45 * np.sin(np.arange(120) / 40.0))
    problem = Problem.of(sizes, levels, 0, 1, 200)
    found = plan(problem)
    assert not found.exact
    assert holds(problem, found.mixes)
    assert 0.0 < found.gap < 0.01

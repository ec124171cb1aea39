"""The cost model of mixes, and what QCESA and CBA make of the reconstructed example (QEScalor, 2.4)."""

import numpy as np
import pytest

from perdix.models.mixes.problem import Problem, Sizes
from perdix.models.mixes.qcesa import plan, single, steadied

R1, R2 = 0, 1


def example(**changes: object) -> Problem:
    """100/s at 1.0 and 180/s at 1.6 per epoch, 0.5 to start and 0.2 to stop; one small worker runs."""
    sizes = Sizes.of(("r1", "r2"), [100.0, 180.0], [1.0, 1.6], start=0.5, stop=0.2)
    given = {"levels_per_s": [90.0, 170.0, 260.0, 120.0], "begin": [1, 0], **changes}
    return Problem.of(sizes, **given)  # type: ignore[arg-type]


def test_the_example_costs_8_2_with_both_sizes() -> None:
    found = plan(example())
    assert found.mixes.tolist() == [[1, 0], [0, 1], [1, 1], [0, 1]]
    assert found.costs.running == pytest.approx(6.8)
    assert found.costs.starts + found.costs.stops == pytest.approx(1.4)
    assert found.costs.total == pytest.approx(8.2)
    assert found.exact
    assert found.lower_bound == pytest.approx(8.2)


@pytest.mark.parametrize(("size", "cost"), [("r1", 9.2), ("r2", 9.4)])
def test_the_example_costs_more_with_one_size(size: str, cost: float) -> None:
    found = single(example(), example().sizes.names.index(size))
    assert found.exact
    assert found.costs.total == pytest.approx(cost)


def test_the_peak_is_covered_although_no_mix_lies_in_the_published_range() -> None:
    # 200 and 280/s are the sums around 260/s: the range [260, 260] of the paper is empty.
    found = plan(example(levels_per_s=[260.0]))
    assert found.mixes.tolist() == [[1, 1]]


def test_a_worker_is_kept_idle_through_a_peak_where_that_is_cheaper_than_starting_it_anew() -> None:
    # 380/s are no least cover of any level: taking the small one away still leaves 280/s.
    sizes = Sizes.of(("small", "large"), [100.0, 280.0], [1.0, 2.5], start=5.0, stop=5.0)
    found = plan(Problem.of(sizes, [100, 270, 100, 100, 100, 100, 100], [1, 0]))
    assert found.mixes[:3].tolist() == [[1, 0], [1, 1], [1, 0]]


def test_what_runs_need_not_cover_the_load_nor_lie_within_the_bounds() -> None:
    assert plan(example(begin=[0, 0])).mixes[0].tolist() == [0, 1]
    crowded = plan(example(begin=[9, 9], maximum=2))
    assert crowded.problem.allows(crowded.mixes).all()


def test_a_change_that_stops_the_whole_job_is_made_once_and_for_all_that_comes() -> None:
    rising = {"levels_per_s": [90.0, 170.0, 260.0, 260.0]}
    assert plan(example(**rising)).mixes.tolist() == [[1, 0], [0, 1], [1, 1], [1, 1]]
    once = plan(example(**rising, change=2.0))
    assert once.mixes.tolist() == [[1, 0], [1, 1], [1, 1], [1, 1]]
    assert once.costs.changes == 2.0


def test_stopping_too_dear_keeps_what_is_not_needed() -> None:
    sizes = Sizes.of(("only",), [100.0], [1.0], stop=100.0)
    assert plan(Problem.of(sizes, [50.0, 50.0], [4])).mixes.tolist() == [[4], [4]]


def test_bounds_that_are_too_small_give_the_most_performance_and_say_what_is_missing() -> None:
    found = plan(example(levels_per_s=[90.0, 900.0], maximum=3))
    assert found.mixes[1].tolist() == [0, 3]
    assert found.shortfall_per_s.tolist() == pytest.approx([0.0, 360.0])


def test_a_size_may_have_its_own_bound_and_prices() -> None:
    sizes = Sizes.of(("a", "b"), [100.0, 200.0], [1.0, 1.5], start=[0.1, 9.0], stop=[0.1, 9.0], most=[9, 1])
    found = plan(Problem.of(sizes, [600.0], [0, 0]))
    assert found.mixes.tolist() == [[6, 0]]
    only_one_more = plan(Problem.of(sizes, [1_100.0], [0, 0]))
    assert only_one_more.mixes.tolist() == [[9, 1]]


def test_the_least_number_of_workers_is_made_up_of_the_cheapest() -> None:
    found = plan(example(levels_per_s=[170.0, 170.0], begin=[0, 0], minimum=3))
    assert found.mixes.sum(axis=1).tolist() == [3, 3]
    assert found.mixes[0].tolist() == [3, 0]


def test_rounding_never_asks_for_one_worker_more() -> None:
    sizes = Sizes.of(("tenth",), [0.1], [1.0])
    assert plan(Problem.of(sizes, [0.3], [0])).mixes.tolist() == [[3]]


def test_the_cost_of_keeping_what_runs_is_that_of_the_best_plan_from_there() -> None:
    kept = plan(example())
    assert kept.cost_of_keeping() == pytest.approx(8.2)
    assert plan(example(begin=[0, 2])).cost_of_keeping() == pytest.approx(3.2 + plan_from([0, 2]))
    assert plan(example(begin=[0, 0])).cost_of_keeping() == float("inf")


def plan_from(begin: list[int]) -> float:
    return plan(example(levels_per_s=[170.0, 260.0, 120.0], begin=begin)).costs.total


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"levels_per_s": []}, "no epoch"),
        ({"levels_per_s": [1.0, np.nan]}, "not finite"),
        ({"levels_per_s": [-1.0]}, "negative"),
        ({"begin": [-1, 0]}, "fewer than 0"),
        ({"minimum": 3, "maximum": 2}, "swap or widen"),
        ({"change": -1.0}, "the price of a change is -1.0"),
    ],
)
def test_what_cannot_be_planned_is_refused(changes: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        example(**changes)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"per_s": [1.0, np.nan]}, r"size 'b': its records/s is nan"),
        ({"running": [-1.0, 1.0]}, "size 'a': its price is -1.0"),
        ({"start": np.inf}, "size 'a': its price of starting"),
        ({"most": [1, -1]}, "size 'b': at most -1 workers"),
        ({"names": ("a", "a")}, "each once"),
        ({"names": ()}, "none"),
    ],
)
def test_sizes_that_cannot_be_are_refused(changes: dict[str, object], said: str) -> None:
    given = {"names": ("a", "b"), "per_s": 1.0, "running": 1.0, "start": 0.0, "stop": 0.0, "most": 9, **changes}
    with pytest.raises(ValueError, match=said):
        Sizes.of(**given)  # type: ignore[arg-type]


def test_sizes_that_allow_fewer_workers_than_the_minimum_are_refused() -> None:
    sizes = Sizes.of(("a", "b"), [1.0, 2.0], 1.0, most=[2, 1])
    with pytest.raises(ValueError, match="the sizes allow 3 in all"):
        Problem.of(sizes, [1.0], [0, 0], minimum=4)


def alike() -> Problem:
    """A large worker does what three small ones do, for hardly less; a start costs little."""
    sizes = Sizes.of(("small", "large"), [100.0, 300.0], [1.0, 2.97], start=0.01, stop=0.01)
    return Problem.of(sizes, [300.0, 300.0, 300.0], [1, 0])


def test_small_workers_alone_are_taken_where_they_cost_hardly_more() -> None:
    found = plan(alike())
    assert found.mixes[0].tolist() == [0, 1]
    steady = steadied(found, 0.02)
    assert steady.mixes.tolist() == [[3, 0]] * 3
    assert steady.dearer == pytest.approx(steady.costs.total / found.costs.total - 1.0)
    assert 0.0 < steady.dearer < 0.02
    assert steadied(found, 0.005) is found
    assert steadied(found, 0.0) is found


def test_small_workers_are_no_reason_to_change_what_runs_nor_to_carry_less() -> None:
    kept = plan(Problem.of(alike().sizes, [300.0], [0, 1]))
    assert steadied(kept, 1.0) is kept
    few = plan(Problem.of(alike().sizes, [300.0], [0, 0], 1, 2))
    assert steadied(few, 1.0) is few, "two small workers would not do"

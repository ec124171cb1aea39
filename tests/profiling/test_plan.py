"""Which scale-outs are profiled at which rates."""

from __future__ import annotations

from typing import Any

import pytest

from perdix.profiling.plan import Plan, equidistant, plan_for


def test_the_papers_plan_is_the_default() -> None:
    plan = Plan(equidistant(2, 24, 8))
    assert [plan.rate_per_s(step) for step in range(3)] == [20_000.0, 40_000.0, 60_000.0]
    assert (plan.settle_s, plan.measure_s) == (300, 120)


def test_the_largest_scale_out_is_profiled_too() -> None:
    """The published program rounds the distance to 3: 2, 5, ... 23, and nothing is known of 24."""
    assert equidistant(2, 24, 8) == (2, 5, 8, 11, 15, 18, 21, 24)


@pytest.mark.parametrize(
    ("asked", "found"),
    [((1, 4, 8), (1, 2, 3, 4)), ((3, 3, 8), (3,)), ((2, 12, 1), (12,)), ((1, 12, 2), (1, 12))],
)
def test_a_narrow_range_has_fewer_scale_outs_and_none_twice(
    asked: tuple[int, int, int], found: tuple[int, ...]
) -> None:
    assert equidistant(*asked) == found


@pytest.mark.parametrize("asked", [(0, 4, 2), (5, 4, 2), (1, 4, 0)])
def test_an_empty_range_is_refused(asked: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="expected 1 <= minimum <= maximum"):
        equidistant(*asked)


def test_rates_go_up_in_tenths_of_the_peak() -> None:
    plan = plan_for(2, 24, 200_000.0)
    assert plan.scale_outs == equidistant(2, 24, 8)
    assert (plan.rate_per_s(0), plan.rate_per_s(9)) == (20_000.0, 200_000.0)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"scale_outs": ()}, "different numbers of workers"),
        ({"scale_outs": (2, 2)}, "different numbers of workers"),
        ({"scale_outs": (0, 2)}, "different numbers of workers"),
        ({"first_per_s": 0.0}, "rates must be above 0"),
        ({"step_per_s": float("nan")}, "rates must be above 0"),
        ({"measure_s": 0}, "must be positive"),
        ({"settle_s": -1}, "must be positive"),
        ({"most_steps": 0}, "must be positive"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Plan(**{"scale_outs": (2, 4), **changes})

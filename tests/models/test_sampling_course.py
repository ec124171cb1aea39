"""Which sizes are sampled: the fixed and the dynamic step, and what holds for any rule and any operator."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from perdix.models.sampling.contract import SamplingRule
from perdix.models.sampling.course import FixedStep, next_size, rule_called
from perdix.models.sampling.dynamic_step import DynamicStep
from perdix.settings.size_grid import Axis, Grid, GridPoint

Performance = Callable[[int], float | None]


def swept(rule: SamplingRule, performance: Performance, last: int = 39, reaches: float | None = None) -> list[int]:
    """Return the indices that a sweep wants, in order."""
    return [index for index, _ in told(rule, performance, last, reaches)[0]]


def told(
    rule: SamplingRule, performance: Performance, last: int = 39, reaches: float | None = None
) -> tuple[list[tuple[int, str]], str]:
    """Return what a sweep wants and why, and why it ended."""
    found, sweep = [], rule.sweep(last, reaches_per_s=reaches)
    try:
        wanted = next(sweep)
        while True:
            found.append((wanted.index, wanted.why))
            wanted = sweep.send(performance(wanted.index))
    except StopIteration as ended:
        return found, ended.value


def grid(cpu: int = 39, memory: int = 28) -> Grid:
    return Grid(
        cpu=Axis(least=0.1, most=0.1 + 0.1 * cpu, unit=0.1), memory=Axis(least=32.0, most=32.0 + 8.0 * memory, unit=8.0)
    )


def sampled(rule: SamplingRule, sizes: Grid, performance: Callable[[GridPoint], float | None]) -> list[GridPoint]:
    known: dict[GridPoint, float | None] = {}
    while (wanted := next_size(rule, sizes, known)).point is not None:
        assert wanted.point not in known, "no size is wanted twice"
        known[wanted.point] = performance(wanted.point)
    return list(known)


class TestFixedStep:
    @pytest.mark.parametrize(("step", "points"), [(1, 40), (2, 20), (3, 14), (4, 10), (5, 8)])
    def test_takes_every_point_of_its_step_from_the_smallest_on(self, step: int, points: int) -> None:
        assert swept(FixedStep(step), lambda _: 1.0) == list(range(0, 40, step))
        assert len(swept(FixedStep(step), lambda _: 1.0)) == points

    def test_nothing_that_it_finds_makes_it_stop(self) -> None:
        assert swept(FixedStep(4), lambda _: None) == list(range(0, 40, 4))


class TestDynamicStep:
    """Golden courses of one sweep; the scale is known from the largest size."""

    def test_a_line_is_walked_with_the_step_that_its_gradient_asks_for(self) -> None:
        # 2.5 % of the scale per unit: (0.25 / 0.025) ** (2/3) = 4.6 units: 5
        wanted = swept(DynamicStep(evenness=0.25), lambda x: float(x + 1), reaches=40.0)
        assert wanted == [0, 2, 6, 11, 16, 21, 26, 31, 36, 39]

    @given(gradient=st.floats(0.002, 0.2), evenness=st.floats(0.05, 0.5))
    def test_intervals_of_any_line_add_the_same_to_the_squared_error(self, gradient: float, evenness: float) -> None:
        wanted = np.array(swept(DynamicStep(evenness=evenness, gain=0.0), lambda x: 1.0 + gradient * x, last=400))
        steps = np.diff(wanted)
        best = 1.0 + gradient * wanted[1:-1]  # the scale where each step but the first was chosen
        asked = np.clip((evenness * best / gradient) ** (2.0 / 3.0), 1, 16)
        settled = slice(6, -1)  # after the doublings from one unit, before the end of the range
        assert np.abs(steps[1:][settled] - asked[settled]).max(initial=0.0) <= 0.5 + 1e-6

    def test_a_steep_line_is_walked_with_short_steps(self) -> None:
        steep = swept(DynamicStep(), lambda x: min(x + 1.0, 10.0), reaches=10.0)
        assert max(np.diff([index for index in steep if index < 10])) <= 2

    def test_where_it_is_flat_the_step_is_doubled_up_to_the_longest_and_the_sweep_ends(self) -> None:
        assert swept(DynamicStep(), lambda _: 100.0) == [0, 2, 6]
        assert swept(DynamicStep(patience=9, longest=8), lambda _: 100.0) == [0, 2, 6, 14, 22, 30, 38, 39]

    def test_a_knee_is_re_sampled_and_the_plateau_behind_it_is_not(self) -> None:
        wanted, _ = told(DynamicStep(evenness=0.8, fluctuation=0.1), lambda x: min(x + 1, 17) * 10.0, reaches=170.0)
        re_sampled = {index for index, why in wanted if why == "re-sampling where it fluctuates"}
        assert {14, 15} <= re_sampled, "beside the knee at 16"
        assert max(index for index, _ in wanted) < 30

    def test_a_fall_is_resolved_to_its_unit(self) -> None:
        wanted, _ = told(DynamicStep(patience=9), lambda x: 100.0 if x < 10 else 60.0)
        assert {9, 10} <= {index for index, _ in wanted}
        assert "re-sampling where it fluctuates" in dict(wanted).values()

    def test_a_jump_up_is_resolved_to_its_unit(self) -> None:
        wanted = swept(DynamicStep(), lambda x: 10.0 if x < 10 else 100.0, reaches=100.0)
        assert {9, 10} <= set(wanted)

    def test_it_does_not_end_on_a_low_plateau_when_more_is_known_to_be_possible(self) -> None:
        # a cache that is of no use until all of it fits
        def cliff(x: int) -> float:
            return 10.0 if x < 25 else 100.0

        assert max(swept(DynamicStep(), cliff)) < 25
        assert {24, 25} <= set(swept(DynamicStep(), cliff, reaches=100.0))

    def test_sizes_that_fail_are_passed_in_growing_steps_and_the_smallest_that_works_is_found(self) -> None:
        wanted = swept(DynamicStep(), lambda x: None if x < 11 else 100.0)
        assert wanted[:5] == [0, 2, 6, 14, 10]
        assert {10, 11} <= set(wanted)

    def test_after_a_size_that_fails_the_first_step_is_one_unit(self) -> None:
        assert swept(DynamicStep(), lambda x: None if x < 2 else 50.0 + x, reaches=100.0)[:4] == [0, 2, 1, 3]
        assert swept(DynamicStep(), lambda x: 50.0 + x, reaches=100.0)[:2] == [0, 2]

    def test_where_nothing_works_it_comes_to_the_end_of_the_range(self) -> None:
        wanted, why = told(DynamicStep(), lambda _: None)
        assert why == "the end of the range"
        assert len(wanted) <= 8

    def test_it_says_why(self) -> None:
        wanted, why = told(DynamicStep(), lambda x: min(x + 1.0, 12.0), reaches=12.0)
        assert wanted[0] == (0, "the smallest size")
        assert why == "performance no longer grows: 2 steps gained less than 5% each"


RULES = st.one_of(
    st.builds(FixedStep, st.integers(1, 9)),
    st.builds(
        DynamicStep,
        longest=st.integers(1, 16),
        evenness=st.floats(0, 1),
        fluctuation=st.floats(0, 0.5),
        gain=st.floats(0, 0.2),
        patience=st.integers(1, 4),
    ),
)
ANSWERS = st.one_of(st.none(), st.floats(0, 1e9), st.sampled_from([0.0, 1.0, 5e-324, 1e300]))


class TestAnyRule:
    @settings(max_examples=150)
    @given(rule=RULES, cpu=st.integers(0, 30), memory=st.integers(0, 30), answers=st.lists(ANSWERS, min_size=1))
    def test_whatever_comes_of_it_it_ends_stays_inside_and_wants_nothing_twice(
        self, rule: SamplingRule, cpu: int, memory: int, answers: list[float | None]
    ) -> None:
        sizes = grid(cpu, memory)
        points = sampled(rule, sizes, lambda point: answers[(7 * point.cpu + 3 * point.memory) % len(answers)])
        assert len(points) <= cpu + memory + 1
        for point in points:
            cores, mb = sizes.size(point)
            assert 0.1 <= cores <= 0.1 + 0.1 * cpu + 1e-9
            assert 32.0 <= mb <= 32.0 + 8.0 * memory + 1e-9

    @given(rule=RULES, seed=st.integers(0, 1_000))
    def test_one_that_is_cut_goes_on_as_if_it_had_not_been(self, rule: SamplingRule, seed: int) -> None:
        noise = np.random.default_rng(seed).uniform(0.8, 1.2, (40, 29))
        first = sampled(rule, grid(), lambda p: float(noise[p]) * min(p.cpu + 1, 20))
        known = {p: float(noise[p]) * min(p.cpu + 1, 20) for p in first[: len(first) // 2]}
        assert next_size(rule, grid(), known).point == first[len(first) // 2]


class TestCourse:
    def test_cores_are_swept_with_the_most_memory_and_memory_with_the_most_cores(self) -> None:
        points = sampled(FixedStep(1), grid(), lambda _: 1.0)
        assert points[:40] == [GridPoint(cpu, 28) for cpu in range(40)]
        assert points[40:] == [GridPoint(39, memory) for memory in range(28)]

    def test_constant_performance_takes_few_samples(self) -> None:
        assert len(sampled(DynamicStep(), grid(), lambda _: 100.0)) == 7

    def test_the_dynamic_one_samples_the_largest_size_first_for_the_scale(self) -> None:
        points = sampled(DynamicStep(), grid(), lambda point: float(point.cpu + 1))
        assert points[0] == GridPoint(39, 28)
        assert points[1] == GridPoint(0, 28)

    def test_it_goes_on_without_a_scale_when_the_largest_size_fails(self) -> None:
        points = sampled(DynamicStep(), grid(), lambda p: None if p == GridPoint(39, 28) else min(p.cpu + 1.0, 20.0))
        assert len(points) > 10

    def test_why_it_is_over_is_told_of_both_sweeps(self) -> None:
        over = next_size(FixedStep(1), grid(0, 0), {GridPoint(0, 0): 1.0})
        assert (over.point, over.why) == (None, "cores: the end of the range; memory: the end of the range")


class TestNames:
    def test_rules_are_called_by_name(self) -> None:
        assert (rule_called("dsa"), rule_called("fssa-3")) == (DynamicStep(), FixedStep(3))
        assert rule_called("fssa-3").name == "fssa-3"

    @pytest.mark.parametrize("name", ["", "fssa", "fssa-0", "fssa--1", "fssa-x", "fssa-²", "dsa-2"])
    def test_others_are_not_known(self, name: str) -> None:
        with pytest.raises(ValueError, match=r"there are 'dsa', and 'fssa-1'"):
            rule_called(name)


class TestSizes:
    def test_an_axis_has_whole_units(self) -> None:
        axis = Axis(least=0.1, most=4.05, unit=0.1)
        assert axis.last == 39
        assert axis.values()[[0, 5, 39]].tolist() == [0.1, 0.6, 4.0]

    @pytest.mark.parametrize("index", [-1, 40])
    def test_outside_there_is_nothing(self, index: int) -> None:
        with pytest.raises(ValueError, match=r"outside 0\.\.39"):
            Axis(least=0.1, most=4.0, unit=0.1).at(index)

    @pytest.mark.parametrize("wrong", [{"least": 5.0}, {"unit": 0.0}, {"unit": 1e-5}, {"most": float("inf")}])
    def test_impossible_ranges_are_refused(self, wrong: dict[str, float]) -> None:
        with pytest.raises(ValidationError):
            Axis(**{"least": 0.1, "most": 4.0, "unit": 0.1, **wrong})

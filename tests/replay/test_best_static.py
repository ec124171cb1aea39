"""The best fixed size: the fewest workers that hold the objective, found on the very case that policies meet."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from perdix.replay.best_static import best_static, certainly_late, of_contender
from perdix.replay.case import Case, Contender
from perdix.replay.outcome import Course, Played
from perdix.replay.run import play
from perdix.settings.stream_job import Bounds, Objectives, PolicySettings
from perdix.twin.emission import Scraping
from tests.control.rig import HIGH, LOW, constant, parameters

HOURS = 0.5
SECONDS = round(3_600 * HOURS)
OF_BELIEFS = ("forecast_per_s",)  # nobody forecasts for a fixed size


def case(arrivals: np.ndarray, hours: float = HOURS) -> Case:
    contender = Contender("daedalus", PolicySettings(name="daedalus"))
    return Case(contender, "load", parameters(), 5, hours, forecaster=None, arrivals=arrivals)


def waves(**changes: object) -> Case:
    """One slow wave, from a load for one worker to one for seven and back; ten minutes more to catch up."""
    turns = 2 * np.pi * np.arange(SECONDS + 600) / SECONDS
    return replace(case(LOW + (HIGH - LOW) * 0.5 * (1 - np.cos(turns))), **changes)  # type: ignore[arg-type]


def by_the_tick(asked: Case, size: int) -> Played:
    return play(
        replace(asked, contender=Contender("fixed", PolicySettings(name="static", options={"scale_out": size})))
    )


@cache
def late_by_the_tick(size: int) -> tuple[float, float]:
    """Return the share of time that this many workers are late, and what they leave unprocessed, of the plain waves."""
    outcome = by_the_tick(waves(), size).outcome
    return outcome.share_above_objective, outcome.unprocessed


def holds(size: int, error_budget: float) -> bool:
    late, unprocessed = late_by_the_tick(size)
    return late <= error_budget and unprocessed <= 0


@pytest.mark.parametrize(("failures", "hours"), [(0, HOURS), (2, HOURS), (1, HOURS + 37 / 3600)])
def test_it_is_what_the_tick_would_have_played_with_so_many_workers(failures: int, hours: float) -> None:
    asked = waves(failures=failures, hours=hours)
    found = best_static(asked)
    played = by_the_tick(asked, found.scale_out)
    for name in set(Course.__dataclass_fields__) - set(OF_BELIEFS):
        np.testing.assert_array_equal(getattr(found.played.course, name), getattr(played.course, name))
    one, other = found.played.outcome, played.outcome
    for name in ("worker_s", "share_above_objective", "unprocessed", "latency_ms", "failures", "rescales", "hours"):
        assert getattr(one, name) == getattr(other, name), name
    assert [recovery.true_s for recovery in one.recoveries] == [recovery.true_s for recovery in other.recoveries]
    assert one.failures == failures


def test_in_coarse_time_too_it_is_what_the_tick_would_have_played_and_no_smaller_size_holds() -> None:
    step_s = 10
    asked = waves(step_s=step_s, scraping=Scraping(30.0), failures=1, objectives=Objectives(error_budget=0.2))
    found = best_static(asked)
    played = by_the_tick(asked, found.scale_out)
    assert len(found.played.course.times_s) == SECONDS // step_s
    for name in set(Course.__dataclass_fields__) - set(OF_BELIEFS):
        np.testing.assert_array_equal(getattr(found.played.course, name), getattr(played.course, name))
    one, other = found.played.outcome, played.outcome
    assert (one.held, one.failures, one.hours) == (True, 1, HOURS)
    assert one.worker_s == other.worker_s == found.scale_out * SECONDS
    assert one.share_above_objective == other.share_above_objective
    assert not by_the_tick(asked, found.scale_out - 1).outcome.held


@pytest.mark.parametrize("options", [{"scale_out": 2}, {"scale_out": 6}, {"scale_out": 6.0}, {}])
def test_a_static_contender_in_coarse_time_comes_to_the_same_without_its_ticks(options: dict[str, float]) -> None:
    fixed = Contender("fixed", PolicySettings(name="static", options=options), 120)
    asked = waves(step_s=10, scraping=Scraping(30.0), failures=2, contender=fixed, beliefs=False)
    found, played = of_contender(asked), play(asked)
    for name in Course.__dataclass_fields__:
        np.testing.assert_array_equal(getattr(found.course, name), getattr(played.course, name))
    assert replace(found.outcome, wall_s=0, twin_s=0) == replace(played.outcome, wall_s=0, twin_s=0)
    assert found.deployments == played.deployments


def test_hours_that_end_within_a_step_are_cut_to_whole_ones() -> None:
    found = best_static(waves(step_s=10, hours=55 / 3600))
    assert found.played.outcome.hours == pytest.approx(50 / 3600)


@pytest.mark.parametrize("error_budget", [0.0, 0.4])
def test_no_smaller_size_holds_the_objective(error_budget: float) -> None:
    asked = waves(objectives=Objectives(error_budget=error_budget))
    found = best_static(asked)
    assert found.held
    assert by_the_tick(asked, found.scale_out).outcome.held
    assert not any(holds(size, error_budget) for size in range(1, found.scale_out))


def test_a_larger_budget_needs_fewer_workers() -> None:
    sizes = [best_static(waves(objectives=Objectives(error_budget=share))).scale_out for share in (0.0, 0.7, 0.95)]
    assert sizes[0] > sizes[1] > sizes[2]


def test_a_job_that_is_nearly_idle_needs_one_worker() -> None:
    found = best_static(case(constant(0.02 * LOW, HOURS)))
    assert (found.scale_out, found.held) == (1, True)
    assert found.played.outcome.policy == "best-static"
    assert found.played.outcome.scale_out == 1
    assert found.played.outcome.ticks == 0


def test_the_policy_of_the_case_makes_no_difference() -> None:
    one, other = (
        best_static(waves()),
        best_static(replace(waves(), contender=Contender("hpa", PolicySettings(name="hpa"), 15))),
    )
    assert replace(one.played.outcome, wall_s=0, twin_s=0) == replace(other.played.outcome, wall_s=0, twin_s=0)


def test_where_none_holds_it_is_the_size_that_is_late_least() -> None:
    asked = waves(bounds=Bounds(minimum=1, maximum=3))
    found = best_static(asked)
    assert not found.held
    shares = [by_the_tick(asked, size).outcome.share_above_objective for size in (1, 2, 3)]
    assert found.played.outcome.share_above_objective == min(shares)
    assert found.scale_out == 1 + shares.index(min(shares))


def test_of_sizes_that_are_equally_late_the_fewest_workers_are_taken() -> None:
    """Nothing is ever as quick as a millisecond, so all are late all the time."""
    found = best_static(waves(objectives=Objectives(latency_p95_ms=1.0)))
    assert not found.held
    assert found.played.outcome.share_above_objective == pytest.approx(1.0)
    assert found.scale_out == min(size for size in range(1, 5) if late_by_the_tick(size)[1] == 0)


def test_bounds_are_kept() -> None:
    assert best_static(waves(bounds=Bounds(minimum=7, maximum=8))).scale_out == 7


def test_what_waits_behind_too_little_capacity_is_late_whatever_the_luck() -> None:
    """100 records/s against 50: after 10 s the head of the queue has waited 5 s."""
    late = certainly_late(np.full(60, 100.0), 50.0, 5_000.0)
    assert not late[:9].any()
    assert late[12:].all()
    assert not certainly_late(np.full(60, 100.0), 100.0, 5_000.0).any()
    assert certainly_late(np.full(60, 100.0), 100.0, 5_000.0, base_ms=5_001.0).all()
    in_steps = certainly_late(np.full(60, 100.0), 50.0, 5_000.0, step_s=5)
    assert in_steps.shape == (12,)
    assert not in_steps[:1].any()
    assert in_steps[3:].all()


@pytest.mark.parametrize("step_s", [1, 10])
def test_the_quick_look_never_rules_out_a_second_that_is_in_time(step_s: int) -> None:
    asked = waves(step_s=step_s, scraping=Scraping(30.0))
    for size in (2, 3, 4):
        course = by_the_tick(asked, size).course
        most = float(course.capacity_per_s.max())
        sure = certainly_late(np.repeat(course.workload_per_s, step_s), most, 5_000.0, step_s=step_s)
        truly = np.where(np.isfinite(course.latency_p95_ms), course.latency_p95_ms > 5_000.0, course.lag_records > 0)
        assert not (sure & ~truly).any()


def test_hours_that_cover_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="do not cover a second"):
        best_static(case(constant(HIGH, 1.0), hours=0.0001))

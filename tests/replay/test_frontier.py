"""The frontier: no plan is cheaper at its lateness, and what is said of its plans comes true on the twin."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest

from benchmarks.frontier_plan import played, without_luck
from perdix.replay.campaign import frontier_of
from perdix.replay.case import Case, Contender
from perdix.replay.frontier.curve import Frontier, corners
from perdix.replay.frontier.known import known
from perdix.replay.frontier.programme import Plan
from perdix.settings.stream_job import Bounds, Objectives, PolicySettings
from perdix.twin.job import JobTwin
from perdix.twin.parameters import TwinParameters, load_twin
from perdix.twin.regimes import under

HOURS = 1.0
OBJECTIVES = Objectives()
BOUNDS = Bounds(minimum=1, maximum=6)


def checkpointing_always(name: str) -> TwinParameters:
    """A twin without luck whose restarts do nothing again: all there is to know can be known exactly."""
    parameters = without_luck(load_twin(name))
    restart = parameters.restart.model_copy(update={"checkpoint_interval_s": 1})
    return parameters.model_copy(update={"restart": restart})


def case_of(parameters: TwinParameters, share: np.ndarray, *, bounds: Bounds = BOUNDS, failures: int = 0) -> Case:
    """A case whose load is some share of what the most workers can take, second by second."""
    seed = 3
    per_s = JobTwin(parameters, seed).true_capacity(bounds.maximum)
    noise = np.random.default_rng(1).normal(1.0, 0.02, len(share))
    return Case(
        Contender("frontier", PolicySettings(name="static")),
        "trace",
        parameters,
        seed,
        len(share) / 3600.0,
        bounds=bounds,
        failures=failures,
        arrivals=np.pad(per_s * share * noise, (0, 600)),
    )


def hill(seconds: int = int(3600 * HOURS)) -> np.ndarray:
    """A load that rises and falls once."""
    return 0.15 + 0.65 * np.sin(np.pi * np.arange(seconds) / seconds) ** 2


@pytest.mark.parametrize(("name", "per_s"), [("wordcount", None), ("ads", None), ("traffic", None), ("traffic", 1.0)])
def test_what_is_said_of_a_plan_comes_true_on_the_twin_to_the_second(name: str, per_s: float | None) -> None:
    parameters = checkpointing_always(name)
    if per_s is not None:
        workers = parameters.workers.model_copy(update={"capacity_per_s": per_s})
        parameters = parameters.model_copy(update={"workers": workers})
    case = case_of(parameters, hill())
    found = frontier_of(case)
    assert len(found.plans) > 5
    for plan in found.plans[::3]:
        outcome = played(case, plan).outcome
        assert outcome.worker_s == plan.worker_s
        assert outcome.share_above_objective * found.seconds == pytest.approx(plan.late_s, abs=1)
        assert outcome.rescales == len(plan.changes)


def test_with_luck_the_workers_are_within_two_percent_and_lateness_is_close() -> None:
    case = case_of(load_twin("wordcount"), hill())
    found = frontier_of(case)
    for plan in found.plans[::2]:
        outcome = played(case, plan).outcome
        assert outcome.worker_s == pytest.approx(plan.worker_s, rel=0.02)
        assert outcome.share_above_objective == pytest.approx(plan.late_s / found.seconds, abs=0.05)


def test_no_plan_that_is_played_on_the_twin_lies_below_the_frontier() -> None:
    share = np.repeat([0.3, 0.9, 0.8, 0.35, 0.3], 60)
    case = case_of(checkpointing_always("wordcount"), share, bounds=Bounds(minimum=1, maximum=3))
    found = frontier_of(case)
    every = []
    for sizes in product((1, 2, 3), repeat=5):
        changes = tuple((60 * k, to) for k, (was, to) in enumerate(pairwise(sizes), 1) if was != to)
        outcome = played(case, Plan(0, 0, sizes[0], changes)).outcome
        every.append((outcome.share_above_objective, outcome.worker_s))
        left = outcome.lag_at_end_records > 0
        assert left or outcome.worker_s >= found.worker_s_at(outcome.share_above_objective) - 1e-6
    for plan in found.plans[:-1]:  # and each corner is one of those plans
        assert any(worker_s == plan.worker_s and late == plan.late_s / 300 for late, worker_s in every)


def test_a_crash_that_all_policies_meet_is_known_to_the_plans() -> None:
    case = case_of(checkpointing_always("traffic"), hill(), failures=2)
    calm = frontier_of(replace(case, failures=0))
    found = frontier_of(case)
    assert found.worker_s_at(0.05) > calm.worker_s_at(0.05)
    for plan in found.plans[::4]:
        outcome = played(case, plan).outcome
        assert outcome.share_above_objective * found.seconds == pytest.approx(plan.late_s, abs=3)


def test_a_crash_does_again_what_the_twin_does_in_any_regime() -> None:
    own, rate = load_twin("wordcount"), np.full(1_200, 10_000.0)
    found, in_place = (
        known(parameters, 1, rate, OBJECTIVES, BOUNDS, crashes_s=[1_000])
        for parameters in (own, under(own, "in-place"))
    )
    assert in_place.again[1_000] == found.again[1_000] > 0


def test_fewer_late_seconds_never_cost_less() -> None:
    found = frontier_of(case_of(checkpointing_always("ads"), hill()))
    late, paid = (np.array([getattr(plan, name) for plan in found.plans]) for name in ("late_s", "worker_s"))
    assert (np.diff(late) > 0).all()
    assert (np.diff(paid) < 0).all()
    slopes = np.diff(paid) / np.diff(late)
    assert (np.diff(slopes) > 0).all(), "each second that is saved costs more than the one before"


def test_between_corners_it_is_a_line_and_beyond_them_it_is_level() -> None:
    found = Frontier((Plan(1_000, 10, 2, ()), Plan(600, 30, 1, ())), 100)
    assert [found.worker_s_at(late) for late in (0.0, 0.1, 0.2, 0.3, 0.9)] == [1_000, 1_000, 800, 600, 600]


def test_the_cheapest_plan_within_a_budget_is_the_latest_that_it_allows() -> None:
    rarely, often = Plan(1_000, 10, 2, ()), Plan(600, 30, 1, ())
    found = Frontier((rarely, often), 100)
    assert [found.within(late) for late in (0.05, 0.1, 0.29, 0.3, 0.9)] == [rarely, rarely, rarely, often, often]


def test_where_no_plan_is_late_so_rarely_no_workers_are_told() -> None:
    found = Frontier((Plan(1_000, 10, 2, ()), Plan(600, 30, 1, ())), 100)
    assert found.least_late == 0.1
    assert [found.workers_at(late) for late in (0.05, 0.1, 0.2)] == [None, 10.0, 8.0]


def test_corners_leave_out_what_lies_above_the_line() -> None:
    plans = [
        Plan(worker_s, late_s, 1, ()) for worker_s, late_s in ((900, 0), (800, 10), (100, 20), (100, 30), (50, 40))
    ]
    assert [(corner.worker_s, corner.late_s) for corner in corners(plans)] == [(900, 0), (100, 20), (50, 40)]


def test_a_load_that_never_changes_needs_no_rescale() -> None:
    found = frontier_of(case_of(checkpointing_always("wordcount"), np.full(1_800, 0.4)))
    assert found.plans[0].changes == ()
    assert found.plans[0].late_s <= 5


def test_what_cannot_be_a_trace_is_refused() -> None:
    with pytest.raises(ValueError, match="not finite or negative"):
        known(load_twin("wordcount"), 1, np.array([1.0, -1.0]), OBJECTIVES, BOUNDS)

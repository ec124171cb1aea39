"""The clairvoyant bound: the cheapest of all plans that hold the objectives, and never above one of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from benchmarks.clairvoyant import instantaneous_minimum
from perdix.replay.clairvoyant.bound import (
    Clairvoyant,
    Impossible,
    Physics,
    clairvoyant,
    physics_of,
)
from perdix.settings.stream_job import Bounds, Objectives
from perdix.twin.job import JobTwin
from perdix.twin.parameters import Keys, RandomTime, Restart, TwinParameters, Workers
from perdix.twin.workloads import WorkloadSpec, arrivals_from, read_trace

LINEAR = Physics({n: 100.0 * n for n in range(1, 13)}, out_s=28, in_s=16, failure_s=28, checkpoint_interval_s=10)
OBJECTIVES, BOUNDS = Objectives(), Bounds()


# ---- the rules once more, second by second and plan by plan ----------------------------------------------------------


@dataclass(frozen=True)
class Question:
    trace: tuple[int, ...]
    physics: Physics
    objectives: Objectives
    interval_s: int

    @property
    def bounds(self) -> Bounds:
        return Bounds(minimum=min(self.physics.capacities_per_s), maximum=max(self.physics.capacities_per_s))

    @property
    def instants(self) -> int:
        return math.ceil(len(self.trace) / self.interval_s)

    def answer(self) -> Clairvoyant | Impossible:
        return clairvoyant(
            np.array(self.trace, dtype=float),
            self.physics,
            self.objectives,
            self.bounds,
            decision_interval_s=self.interval_s,
        )

    def least_of_all_plans(self) -> float:
        plans = product(self.physics.capacities_per_s, repeat=self.instants)
        return min(cost_of(self, plan) for plan in plans)


def cost_of(question: Question, plan: tuple[int, ...], *, strict: bool = False) -> float:
    """Return the worker-seconds of a plan, which names a scale-out for each instant; infinite if it breaks a rule.

    ``strict`` is how a run would be judged: a recovery is over as soon as nothing waits, work is repeated after a
    rescale, and a failure is met with what waits at the time.
    """
    physics, objectives, capacities = question.physics, question.objectives, question.physics.capacities_per_s
    recovery_s = int(objectives.recovery_time_s)
    running = target = plan[0]
    backlog, cost, restarted_s = 0.0, 0.0, 0
    pending: set[int | None] = {None}  # when a recovery may have begun that is not over; None is calm
    for second, arrived in enumerate(question.trace):
        running = target if second >= restarted_s else running
        replay = sum(question.trace[max(second - physics.checkpoint_interval_s, 0) : second])
        if second % question.interval_s == 0:
            wanted = plan[second // question.interval_s]
            if second < restarted_s:
                if wanted != target:
                    return math.inf
            elif not recovers(question, second, replay + (backlog if strict and None in pending else 0.0), wanted):
                return math.inf
            elif wanted != running:
                backlog += replay if strict else 0.0
                down_s = physics.out_s if wanted > running else physics.in_s
                target, restarted_s = wanted, second + down_s
                pending = {second if began is None else began for began in pending}
        down = second < restarted_s
        running = running if down else target  # a restart may take no time
        cost += running
        backlog = max(0.0, backlog + arrived - (0 if down else capacities[running]))
        gone = backlog == 0 and not down
        after: set[int | None] = set()
        for began in pending:
            if began is None:
                after |= {None} if backlog <= capacities[target] * objectives.latency_p95_ms / 1_000.0 else set()
            elif second + 1 - began <= recovery_s:
                after |= {None} if gone else set()
                after |= {began} if second + 1 - began < recovery_s and not (gone and strict) else set()
        pending = after
    return cost if None in pending and backlog == 0 else math.inf


def recovers(question: Question, second: int, waiting: float, scale_out: int) -> bool:
    """Whether a failure that meets so much waiting, work to repeat included, is recovered from in time."""
    for after_s in range(int(question.objectives.recovery_time_s)):
        waiting += question.trace[second + after_s] if second + after_s < len(question.trace) else 0
        if after_s >= question.physics.failure_s:
            waiting -= question.physics.capacities_per_s[scale_out]
            if waiting <= 0:
                return True
    return False


@st.composite
def questions(draw: st.DrawFn) -> Question:
    interval_s = draw(st.integers(2, 4))
    calm, busy = draw(st.integers(0, 6)), draw(st.integers(4, 14))
    rate = st.sampled_from((calm, busy, busy, busy + 1, 0))
    capacities = draw(st.lists(st.integers(3, 24), min_size=3, max_size=3))
    return Question(
        trace=tuple(draw(st.lists(rate, min_size=interval_s * 2, max_size=interval_s * 5))),
        physics=Physics(
            {n + 1: float(per_s) for n, per_s in enumerate(sorted(capacities) if draw(st.booleans()) else capacities)},
            out_s=draw(st.integers(0, 6)),
            in_s=draw(st.integers(0, 6)),
            failure_s=draw(st.integers(0, 3)),
            checkpoint_interval_s=draw(st.integers(0, 2)),
        ),
        objectives=Objectives(
            recovery_time_s=draw(st.integers(3, 14)), latency_p95_ms=draw(st.sampled_from((1.0, 500.0, 2_000.0)))
        ),
        interval_s=interval_s,
    )


def worker_s(answer: Clairvoyant | Impossible) -> float:
    return answer.worker_s if isinstance(answer, Clairvoyant) else math.inf


@hypothesis_settings(deadline=None, max_examples=150)
@given(questions())
def test_it_is_the_least_of_all_plans(question: Question) -> None:
    assert worker_s(question.answer()) == question.least_of_all_plans()


@hypothesis_settings(deadline=None, max_examples=150)
@given(questions())
def test_its_plan_holds_the_rules_at_the_price_that_it_says(question: Question) -> None:
    found = question.answer()
    if isinstance(found, Impossible):
        return
    changes = dict(found.changes)
    plan = [int(found.scale_outs[0])]
    for instant in range(1, question.instants):
        plan.append(changes.get(instant * question.interval_s, plan[-1]))
    assert cost_of(question, tuple(plan)) == found.worker_s == found.scale_outs.sum()
    assert found.rescales == sum(old != new for old, new in pairwise(plan))


@hypothesis_settings(deadline=None, max_examples=50)
@given(questions(), st.data())
def test_what_makes_life_easier_never_costs_more(question: Question, data: st.DataObject) -> None:
    physics, objectives = question.physics, question.objectives
    # Beyond a decision interval a longer standstill also spares the plan a check; a shorter scale-out pays new workers
    # sooner. Neither is a matter of what can be held.
    physics = replace(physics, in_s=min(physics.in_s, question.interval_s))
    base = replace(question, physics=physics)
    which = data.draw(st.sampled_from(sorted(physics.capacities_per_s)))
    stronger = dict(physics.capacities_per_s) | {which: physics.capacities_per_s[which] + 3.0}
    easier = {
        "more time": replace(base, objectives=objectives.model_copy(update={"recovery_time_s": 16.0})),
        "more latency": replace(base, objectives=objectives.model_copy(update={"latency_p95_ms": 3_000.0})),
        "more capacity": replace(base, physics=replace(physics, capacities_per_s=stronger)),
        "quicker scale-in": replace(base, physics=replace(physics, in_s=max(physics.in_s - 1, 0))),
        "quicker failure": replace(base, physics=replace(physics, failure_s=max(physics.failure_s - 1, 0))),
        "less to repeat": replace(base, physics=replace(physics, checkpoint_interval_s=0)),
    }
    least = worker_s(base.answer())
    assert {
        name: worker_s(question_of.answer())
        for name, question_of in easier.items()
        if worker_s(question_of.answer()) > least
    } == {}


# ---- at the size of a real job ---------------------------------------------------------------------------------------


def wave(hours: float = 1.0, low: float = 150.0, high: float = 850.0) -> np.ndarray:
    seconds = np.arange(int(3_600 * hours))
    rng = np.random.default_rng(3)
    noise = 1.0 + 0.02 * rng.standard_normal(len(seconds))
    return np.rint((low + (high - low) * 0.5 * (1.0 - np.cos(2.0 * np.pi * seconds / 3_600.0))) * noise)


def test_no_plan_that_a_run_would_be_praised_for_is_cheaper() -> None:
    trace = wave()
    question = Question(tuple(int(load) for load in trace), LINEAR, OBJECTIVES, 60)
    bound = worker_s(question.answer())
    rng = np.random.default_rng(7)
    costs = []
    for _ in range(60):
        headroom, ahead_s, patience = rng.uniform(1.05, 1.4), int(rng.integers(120, 900)), int(rng.integers(1, 12))
        plan: list[int] = []
        for instant in range(question.instants):
            wanted = math.ceil(headroom * trace[instant * 60 :][:ahead_s].max() / 100.0)
            steady = len(plan) < patience or len(set(plan[-patience:])) == 1
            plan.append(min(wanted, 12) if not plan or steady else plan[-1])
        costs.append(cost_of(question, tuple(plan), strict=True))
    holding = [cost for cost in costs if math.isfinite(cost)]
    assert len(holding) >= 10
    assert bound <= min(holding)
    assert min(holding) < 1.3 * bound  # so the bound says something


def test_a_constant_load_needs_what_recovers_from_a_failure() -> None:
    most = (600.0 - 28.0) / (600.0 + 10.0) * 400.0  # downtime + (downtime + checkpoint) r / (1 - r) = 600 s
    for load, workers in ((0.0, 1), (most - 1.0, 4), (most + 7.0, 5)):
        found = clairvoyant(np.full(3_600, load), LINEAR, OBJECTIVES, BOUNDS)
        assert isinstance(found, Clairvoyant)
        # In the last ten minutes fewer are enough: nothing arrives after the end, so there is time to catch up.
        assert set(found.scale_outs[:3_000]) == {workers}, load


def test_a_step_is_awaited_with_few_workers_and_met_with_many() -> None:
    found = clairvoyant(np.repeat([90.0, 500.0], 1_800), LINEAR, OBJECTIVES, BOUNDS)
    assert isinstance(found, Clairvoyant)
    # One worker that fails has caught up after 28 s + (28 + 10) s * 90 / (100 - 90) = 370 s. From 1,440 s on that would
    # be after the step; two have 110 /s to spare. Five could carry the step, but would never catch up.
    assert found.changes[:2] == ((1_440, 2), (1_800, 6))
    assert [found.scale_outs[second] for second in (0, 1_467, 1_468, 1_827, 1_828)] == [1, 1, 2, 2, 6]


def test_a_noiseless_twin_does_what_the_plan_foresees() -> None:
    none = {"spread": 0.0}
    quick = RandomTime(median_s=20.0, **none)
    parameters = TwinParameters(
        name="exact",
        workers=Workers(capacity_per_s=100.0, speed_spread=0.0, contention=0.02, capacity_noise=0.0),
        keys=Keys(skew_spread=0.0, wobble=0.0),
        restart=Restart(
            **{"out": quick, "in": RandomTime(median_s=12.0, **none), "failure": quick, "detection": quick},
            checkpoint_interval_s=1,
            warm_up_s=0,
        ),
        workload=WorkloadSpec(shape="constant", peak_per_s=1.0),
    )
    trace = wave(1.0, 100.0, 700.0)
    twin = JobTwin(parameters, 1, arrivals=arrivals_from(trace, 0))
    physics = physics_of(twin)
    assert (physics.out_s, physics.in_s, physics.failure_s) == (20, 12, 40)
    whole = {n: float(math.floor(per_s)) for n, per_s in physics.capacities_per_s.items()}  # as the twin processes
    found = clairvoyant(trace, replace(physics, capacities_per_s=whole), OBJECTIVES, BOUNDS)
    assert isinstance(found, Clairvoyant)
    assert found.rescales > 4
    twin = JobTwin(parameters, 1, arrivals=arrivals_from(trace, 0), scale_out=int(found.scale_outs[0]))
    for at_s, workers in found.changes:
        twin.step(at_s - twin.now_s)
        twin.rescale(workers, f"at {at_s}")
    twin.step(len(trace) - twin.now_s)
    np.testing.assert_array_equal(twin.history.column("scale_out"), found.scale_outs)
    assert twin.totals.lag == 0.0
    assert all((twin.recovery_time_s(outage) or math.inf) <= OBJECTIVES.recovery_time_s for outage in twin.outages)


def test_the_instantaneous_minimum_is_what_the_traces_are_known_for(shared_data: Path) -> None:
    files = {"sine_60000_6h": 6.7, "advertising_6h_550K_max": 4.9, "tm_6h_100K_max": 4.0}
    for file, workers in files.items():
        trace = read_trace(shared_data / "workloads" / f"{file}.csv")
        fewest = instantaneous_minimum(trace * (0.95 * 1_200.0 / trace.max()), LINEAR, BOUNDS)
        assert fewest.mean() == pytest.approx(workers, abs=0.05)


def test_the_instantaneous_minimum_takes_the_strongest_where_none_carries_the_load() -> None:
    humped = Physics({1: 10.0, 2: 30.0, 3: 20.0}, 1, 1, 1, 1)
    fewest = instantaneous_minimum(np.array([0.0, 10.0, 25.0, 99.0]), humped, Bounds(maximum=3))
    assert fewest.tolist() == [1.0, 1.0, 2.0, 2.0]


# ---- where there is no plan, or no question --------------------------------------------------------------------------


def test_an_overload_has_no_plan_and_says_where_and_why() -> None:
    trace = np.full(3_600, 500.0)
    trace[1_800:2_700] = 1_300.0
    found = clairvoyant(trace, LINEAR, OBJECTIVES, BOUNDS, guard_where_possible=True)
    assert isinstance(found, Impossible)
    assert 1_800 <= found.at_s <= 2_700
    assert "1,300 records/s" in found.why
    assert "1,200 can be processed" in found.why


def test_a_peak_that_no_scale_out_could_recover_in_may_be_left_unguarded() -> None:
    trace = np.full(3_600, 500.0)
    trace[1_800:2_700] = 1_150.0
    strict = clairvoyant(trace, LINEAR, OBJECTIVES, BOUNDS)
    assert isinstance(strict, Impossible)
    assert "recover from a failure in second" in strict.why
    assert "from 1 to 12" in strict.why
    lenient = clairvoyant(trace, LINEAR, OBJECTIVES, BOUNDS, guard_where_possible=True)
    assert isinstance(lenient, Clairvoyant)
    assert lenient.unguarded > 0
    assert lenient.scale_outs[2_000] == 12


def test_what_is_left_at_the_end_is_a_reason() -> None:
    trace = np.append(np.full(599, 100.0), 5_000.0)
    found = clairvoyant(trace, LINEAR, OBJECTIVES, BOUNDS)
    assert isinstance(found, Impossible)
    assert "left at the end" in found.why


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -1.0])
def test_a_second_that_is_no_load_is_named(wrong: float) -> None:
    trace = np.full(600, 100.0)
    trace[[42, 77]] = wrong
    named = r"2 of 600 seconds.*the first is second 42"
    with pytest.raises(ValueError, match=named):
        clairvoyant(trace, LINEAR, OBJECTIVES, BOUNDS)
    with pytest.raises(ValueError, match=named):
        instantaneous_minimum(trace, LINEAR, BOUNDS)


@pytest.mark.parametrize("shape", [(0,), (2, 3)])
def test_a_trace_is_a_line_of_numbers(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="one number per second"):
        clairvoyant(np.zeros(shape), LINEAR, OBJECTIVES, BOUNDS)


def test_bounds_beyond_what_is_known_are_refused() -> None:
    with pytest.raises(ValueError, match=r"the bounds 1\.\.24 allow scale-out 13.*narrow the bounds"):
        clairvoyant(np.ones(60), LINEAR, OBJECTIVES, Bounds(maximum=24))


@pytest.mark.parametrize("capacity", [0.0, -5.0, math.nan, math.inf])
def test_a_capacity_is_above_nothing(capacity: float) -> None:
    with pytest.raises(ValueError, match="capacity of scale-out 2"):
        Physics({1: 10.0, 2: capacity}, 1, 1, 1, 1)


@pytest.mark.parametrize("name", ["out_s", "in_s", "failure_s", "checkpoint_interval_s"])
def test_times_are_whole_seconds(name: str) -> None:
    for wrong in (-1, 1.5, math.nan):
        with pytest.raises(ValueError, match=name):
            replace(LINEAR, **{name: wrong})


def test_decisions_are_whole_seconds_apart() -> None:
    with pytest.raises(ValueError, match="decisions"):
        clairvoyant(np.ones(60), LINEAR, OBJECTIVES, BOUNDS, decision_interval_s=0)

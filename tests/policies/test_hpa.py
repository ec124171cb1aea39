"""The HPA's published formula, its tolerance, stabilisation and scaling policies, in numbers worked out by hand."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from perdix.policies.contract import Decision, Reason, Situation
from perdix.policies.hpa import Hpa, HpaOptions

Situate = Callable[..., Situation]


def decide(situation: Situation, **options: Any) -> Decision:
    return Hpa(HpaOptions(**options)).decide(situation)


def remembering(situation: Situation, *recommendations: tuple[float, int]) -> Situation:
    """Recommendations as (seconds ago, workers)."""
    kept = [[situation.now_s - ago_s, workers] for ago_s, workers in recommendations]
    return replace(situation, memory={"recommendations": kept})


@pytest.mark.parametrize(
    ("scale_out", "cpu", "target", "wanted"),
    [
        (4, 1.00, 0.80, 5),  # ceil(4 * 1.25)
        (10, 0.96, 0.80, 12),  # exactly 12, not ceil(12.000000000000002)
        (10, 0.40, 0.80, 5),
        (7, 0.41, 0.80, 4),  # ceil(3.5875)
        (3, 0.01, 0.80, 1),  # ceil(0.0375)
        (5, 0.00, 0.80, 1),  # nothing to do: the least of the bounds
        (6, 0.88, 0.80, 6),  # 10 % above: within the tolerance
        (6, 0.8801, 0.80, 7),
        (6, 0.72, 0.80, 6),  # 10 % below: within the tolerance
        (6, 0.7199, 0.80, 6),  # ceil(5.399)
        (10, 0.7199, 0.80, 9),
        (9, 0.90, 0.60, 12),  # 13.5 -> 14, the bounds allow 12
    ],
)
def test_the_formula(situate: Situate, scale_out: int, cpu: float, target: float, wanted: int) -> None:
    decision = decide(situate(scale_out=scale_out, cpu_load=cpu), target_cpu=target, in_window_s=0.0)
    assert decision.scale_out == wanted
    assert decision.candidates[-1].scale_out == wanted
    assert decision.candidates[-1].rejected_by is None


@pytest.mark.parametrize(
    ("scale_out", "cpu", "request_", "wanted"),
    [
        (4, 0.80, 1.00, 4),  # on target
        (4, 0.80, 0.50, 8),  # 160 % of the request
        (8, 0.40, 0.50, 8),  # 80 % of the request: on target, at half the CPU load
        (8, 0.44, 0.50, 8),  # 10 % above: the tolerance counts against the target, too
        (8, 0.45, 0.50, 9),
        (10, 0.35, 0.50, 9),  # ceil(8.75)
        (10, 0.20, 0.25, 10),
    ],
)
def test_use_is_measured_against_what_is_requested(
    situate: Situate, scale_out: int, cpu: float, request_: float, wanted: int
) -> None:
    """Kubernetes divides by the request: a worker that may use twice of it is at 200 % when it is full."""
    decision = decide(situate(scale_out=scale_out, cpu_load=cpu), cpu_request=request_, in_window_s=0.0)
    assert decision.scale_out == wanted


def test_a_request_below_the_limit_is_the_same_as_a_lower_target(situate: Situate) -> None:
    for percent in range(5, 100, 5):
        situation = situate(scale_out=6, cpu_load=percent / 100.0)
        by_request = decide(situation, target_cpu=0.8, cpu_request=0.75, in_window_s=0.0)
        by_target = decide(situation, target_cpu=0.6, in_window_s=0.0)
        assert by_request.scale_out == by_target.scale_out


def test_the_sentence_tells_the_use_of_the_request_where_it_differs(situate: Situate) -> None:
    situation = situate(scale_out=4, cpu_load=0.6)
    assert "(120.0% of the request)" in decide(situation, cpu_request=0.5).sentence
    assert "request" not in decide(situation).sentence


@pytest.mark.parametrize("cpu_request", [0.0, -0.5, 1.01, math.nan, math.inf])
def test_a_request_is_a_share_of_what_may_be_used(cpu_request: float) -> None:
    with pytest.raises(ValueError, match="cpu_request"):
        HpaOptions(cpu_request=cpu_request)


def test_scaling_in_waits_for_the_maximum_of_300_s(situate: Situate) -> None:
    situation = situate(scale_out=8, cpu_load=0.3)  # asks for 3
    assert decide(remembering(situation, (299.0, 8), (60.0, 5))).scale_out == 8
    later = decide(remembering(situation, (300.0, 8), (60.0, 5)))
    assert (later.scale_out, later.reason) == (5, Reason.SCALE_IN)
    assert "the stabilisation window makes it 5" in later.sentence
    assert later.candidates[0].rejected_by == "the stabilisation window asks for 5"


def test_scaling_out_does_not_wait_by_default_but_does_as_the_papers_ran_it(situate: Situate) -> None:
    situation = remembering(situate(scale_out=4, cpu_load=1.0), (240.0, 4), (60.0, 5))
    assert decide(situation).scale_out == 5
    assert decide(situation, stabilisation="paper").scale_out == 4
    grown = remembering(situate(scale_out=4, cpu_load=1.0), (299.0, 6), (60.0, 5))
    assert decide(grown, stabilisation="paper").scale_out == 5
    assert decide(situation, stabilisation="paper", out_window_s=0.0).scale_out == 5


def test_a_fresh_controller_does_not_scale_in_at_once(situate: Situate) -> None:
    first = decide(situate(scale_out=8, cpu_load=0.3))
    assert (first.scale_out, first.reason) == (8, Reason.HOLD_GOOD)


def test_the_memory_carries_a_run_of_ticks(situate: Situate) -> None:
    situation = situate(scale_out=8, cpu_load=0.3)
    chosen = []
    for tick in range(11):
        now = replace(situation, now_s=situation.now_s + 60.0 * tick)
        decision = decide(now)
        chosen.append(decision.scale_out)
        situation = replace(situation, memory=decision.memory, scale_out=decision.scale_out)
        assert len(decision.memory["recommendations"]) <= 7, "bounded by the window"
    # 8 workers ask for 3 from the first tick on; 3 ask for ceil(1.125) = 2 as soon as they run.
    assert chosen == [8] * 5 + [3] * 5 + [2]


@pytest.mark.parametrize(
    ("tick_interval_s", "highest"),
    [(15.0, 8), (29.0, 8), (30.0, 16), (60.0, 64), (5.0, 8)],  # 4 -> 8 -> 16 -> 32 -> 64
)
def test_scaling_out_is_limited_per_15_s(situate: Situate, tick_interval_s: float, highest: int) -> None:
    situation = situate(scale_out=4, cpu_load=1.0, bounds=(1, 1_000), tick_interval_s=tick_interval_s)
    assert decide(situation, target_cpu=0.01).scale_out == highest


def test_the_greater_of_the_two_policies_limits(situate: Situate) -> None:
    situation = situate(scale_out=1, cpu_load=1.0, bounds=(1, 1_000), tick_interval_s=15.0)
    limited = decide(situation, target_cpu=0.01)
    assert limited.scale_out == 5  # 4 workers more than 1; 100 % would be 2
    assert limited.candidates[0].rejected_by == "the rate limit asks for 5"
    assert decide(situation, target_cpu=0.01, out_workers=0).scale_out == 2
    assert decide(situation, target_cpu=0.01, out_workers=0, out_percent=0.0).scale_out == 1


def test_scaling_in_can_be_limited(situate: Situate) -> None:
    situation = situate(scale_out=10, cpu_load=0.1, tick_interval_s=15.0)
    assert decide(situation, in_window_s=0.0, in_percent=20.0).scale_out == 8
    assert decide(situation, in_window_s=0.0).scale_out == 2  # ceil(1.25)


@pytest.mark.parametrize("cpu", [None, math.nan, math.inf, -0.1])
def test_without_a_cpu_load_nothing_changes_and_nothing_is_recommended(situate: Situate, cpu: float | None) -> None:
    situation = remembering(situate(scale_out=8, cpu_load=cpu), (60.0, 2))
    decision = decide(situation, in_window_s=0.0)
    assert (decision.scale_out, decision.reason, decision.memory) == (8, Reason.HOLD_BLIND, situation.memory)


@pytest.mark.parametrize(
    "memory", [None, "x", 7, [1, 2], [["x", 1]], [[1.0, math.inf]], [[math.nan, 2]], [[9e99, 1]], {}]
)
def test_a_memory_that_cannot_be_read_is_no_memory(situate: Situate, memory: object) -> None:
    situation = situate(scale_out=8, cpu_load=0.3, memory={"recommendations": memory})
    assert decide(situation) == decide(replace(situation, memory={}))


def test_a_nonsense_load_stays_within_the_bounds(situate: Situate) -> None:
    assert decide(situate(scale_out=8, cpu_load=1e308)).scale_out == 12


def test_outside_the_bounds_it_comes_back(situate: Situate) -> None:
    assert decide(situate(scale_out=15, cpu_load=0.8)).scale_out == 12
    assert decide(situate(scale_out=1, cpu_load=0.8, bounds=(3, 12))).scale_out == 3

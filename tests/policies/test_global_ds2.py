"""DS2's rule on a job as one operator, in numbers worked out by hand."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from perdix.policies.contract import Decision, Reason, Situation
from perdix.policies.global_ds2 import GlobalDs2, GlobalDs2Options

Situate = Callable[..., Situation]


def measured(situate: Situate, scale_out: int = 5, busy: float = 0.8, **changes: Any) -> Situation:
    """``scale_out`` workers that process 3,600/s, each useful for the same share of its time."""
    given = {"throughput_per_s": 3_600.0, "worker_busy": (busy,) * scale_out, "uptime_s": 600.0, "load": 3_600.0}
    return situate(scale_out=scale_out, **{**given, **changes})


def decide(situation: Situation, **options: Any) -> Decision:
    return GlobalDs2(GlobalDs2Options(**{"ignored_in": 0, **options})).decide(situation)


def later(situation: Situation, decision: Decision, **changes: Any) -> Situation:
    memory = json.loads(json.dumps(dict(decision.memory), allow_nan=False))
    now_s = situation.now_s + situation.tick_interval_s
    return replace(situation, memory=memory, now_s=now_s, **changes)


@pytest.mark.parametrize(
    ("busy", "load", "wanted"),
    [
        (0.8, 3_600.0, 4),  # 900/s of useful time per instance: exactly 4, and no rounding error makes it 5
        (0.8, 3_601.0, 5),
        (0.6, 3_600.0, 3),  # 1,200/s each
        (1.0, 7_100.0, 10),  # 720/s each: 9.86
        (1.0, 99_000.0, 12),  # 137.5, the bounds allow 12
        (0.8, 0.0, 1),
    ],
)
def test_target_rate_over_true_rate(situate: Situate, busy: float, load: float, wanted: int) -> None:
    decision = decide(measured(situate, busy=busy, load=load), target_rate_ratio=None)
    assert decision.scale_out == wanted
    assert decision.candidates[-1].scale_out == wanted


def test_the_sentence_and_the_candidates_tell_the_sum(situate: Situate) -> None:
    decision = decide(measured(situate, busy=1.0, load=14_000.0))
    assert (
        decision.sentence
        == "14,000/s at 720/s of useful time per instance take 20 workers; the bound of the job makes it 12."
    )
    first, last = decision.candidates
    assert (first.scale_out, first.rejected_by) == (20, "the bound of the job")
    assert (last.scale_out, last.capacity_per_s, last.rejected_by) == (12, 12 * 720.0, None)


def test_workers_that_differ_are_averaged_as_published(situate: Situate) -> None:
    skewed = measured(situate, worker_busy=(1.0, 0.5, 0.5, 0.5, 0.5), load=5_000.0)
    assert decide(skewed, target_rate_ratio=None).scale_out == 5  # 1,200/s each: skew is not seen


def test_what_useful_time_does_not_show_raises_the_result(situate: Situate) -> None:
    # 1,200/s each, so 4 would do for 4,200/s; but only 3,600/s are processed: 3.5 * 4,200 / 3,600 = 4.08
    short = measured(situate, worker_busy=(0.6,) * 5, load=4_200.0)
    assert decide(short, target_rate_ratio=None).scale_out == 4
    raised = decide(short, target_rate_ratio=1.1)
    assert raised.scale_out == 5
    assert "raised by 1.17, as so much more arrives than is processed" in raised.sentence
    assert decide(short, target_rate_ratio=1.2).scale_out == 4
    assert decide(replace(short, scale_out=3)).scale_out == 4, "not beside a scale-out"


def test_head_room(situate: Situate) -> None:
    assert decide(measured(situate, busy=0.8), rate_factor=0.3).scale_out == 6  # 4 * 1.3 = 5.2


def test_small_changes_are_ignored(situate: Situate) -> None:
    one_fewer = measured(situate)
    assert decide(one_fewer, ignored_in=1).reason is Reason.HOLD_GOOD
    assert "ignoring so small a change makes it 5" in decide(one_fewer, ignored_in=1).sentence
    assert decide(one_fewer, ignored_in=0).scale_out == 4
    assert decide(measured(situate, load=4_600.0), target_rate_ratio=None, ignored_out=1).scale_out == 5
    assert GlobalDs2().decide(one_fewer).scale_out == 5, "by default one instance fewer"


def test_the_means_of_a_whole_policy_interval_count(situate: Situate) -> None:
    options = {"policy_interval_s": 60.0, "target_rate_ratio": None}
    situation = measured(situate, tick_interval_s=20.0, load=2_000.0)
    first = decide(situation, **options)
    assert (first.reason, first.sentence) == (Reason.HOLD_GOOD, "20 s of the policy interval of 60 s passed.")
    second = decide(second_situation := later(situation, first, workload_per_s=4_000.0), **options)
    third = decide(later(second_situation, second, workload_per_s=6_000.0), **options)
    assert third.sentence.startswith("4,000/s at 900/s")
    assert third.scale_out == 5
    assert third.memory["epoch"] == [0.0] * 4, "the next interval starts afresh"


@pytest.mark.parametrize(("combine", "wanted"), [("last", 3), ("max", 7), ("median", 4)])
def test_several_results_are_gathered_before_one_is_acted_on(situate: Situate, combine: str, wanted: int) -> None:
    situation, answers = measured(situate), []
    for load in (6_300.0, 3_600.0, 2_700.0):
        situation = replace(situation, workload_per_s=load)
        answers.append(decide(situation, activation=3, combine=combine, target_rate_ratio=None))
        situation = later(situation, answers[-1])
    assert [answer.reason for answer in answers[:2]] == [Reason.HOLD_GOOD] * 2
    assert answers[0].sentence.endswith("1 of 3 results until one is acted on.")
    assert answers[-1].scale_out == wanted


def test_a_rescale_and_the_warm_up_forget_what_was_measured(situate: Situate) -> None:
    situation = measured(situate)
    first = decide(situation, activation=3)
    assert first.memory["results"] == [4]
    other = decide(later(situation, first, scale_out=6, worker_busy=(0.8,) * 6), activation=3)
    assert len(other.memory["results"]) == 1
    warming = decide(later(situation, first, uptime_s=20.0), activation=3)
    assert (warming.reason, warming.memory["results"]) == (Reason.HOLD_GRACE, [])
    assert warming.sentence == "Started 20 s ago, within the warm-up of 30 s."


def test_without_an_uptime_the_last_rescale_counts(situate: Situate) -> None:
    assert decide(measured(situate, uptime_s=None, since_rescale_s=10.0)).reason is Reason.HOLD_GRACE
    assert decide(measured(situate, uptime_s=None, since_rescale_s=math.inf)).scale_out == 4


def test_an_idle_job_tells_nothing(situate: Situate) -> None:
    idle = decide(measured(situate, throughput_per_s=0.0, worker_busy=(0.0,) * 5))
    assert (idle.scale_out, idle.reason) == (5, Reason.HOLD_UNKNOWN)


@pytest.mark.parametrize(
    ("missing", "says"),
    [
        ({"throughput_per_s": None}, "the throughput is None"),
        ({"load": math.nan}, "the mean workload is nan"),
        ({"worker_busy": (0.5, math.nan)}, "neither the busy time nor the CPU load of every worker is known"),
        ({"worker_busy": ()}, "neither the busy time nor the CPU load of every worker is known"),
        ({"tick_interval_s": 0.0}, "the time between ticks is 0.0 s"),
    ],
)
def test_blind_it_holds(situate: Situate, missing: dict[str, Any], says: str) -> None:
    decision = decide(measured(situate, **missing))
    assert (decision.scale_out, decision.reason) == (5, Reason.HOLD_BLIND)
    assert decision.sentence == f"Blind: {says}."


def test_cpu_load_stands_for_busy_time_and_the_sentence_says_so(situate: Situate) -> None:
    decision = decide(measured(situate, worker_busy=(), worker_cpu=(0.8,) * 5))
    assert decision.scale_out == 4
    assert decision.sentence.endswith(" Busy time is not measured; the CPU load stands for it.")


@pytest.mark.parametrize("memory", [{}, {"epoch": 3}, {"scale_out": 5, "epoch": [1, 2, 3, None], "results": []}])
def test_a_memory_that_cannot_be_read_is_a_fresh_start(situate: Situate, memory: dict[str, Any]) -> None:
    assert decide(measured(situate, memory=memory)).scale_out == 4

"""The Flink Autoscaler's rule on every operator: the samples it is given, and where it differs from the original."""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from perdix.models.dataflow.graph import Dataflow, Operator
from perdix.policies.contract import Reason
from perdix.policies.dataflow.contract import DataflowDecision, DataflowSituation
from perdix.policies.dataflow.flink_autoscaler import FlinkAutoscaler, Memory
from perdix.policies.flink_autoscaler.options import FlinkAutoscalerOptions
from tests.policies.steady_dataflow import NOW_S, Steady, Truth, chain, configurations, follow, heron_word_count

ONE_EACH = {"source": 1, "split": 1, "count": 1}
LOG = {"lag_records": {"source": 0.0}}


def autoscaler(**options: Any) -> FlinkAutoscaler:
    """The rule with a window of one minute, no stabilisation, and neither restarts nor backlogs to reckon with."""
    quick = {"window_s": 60.0, "stabilisation_s": 0.0, "scale_down_interval_s": 0.0, "catch_up_s": 0.0}
    return FlinkAutoscaler(FlinkAutoscalerOptions(**{**quick, **options}))


def behind(
    steady: Steady, runs: Mapping[str, int], policy: FlinkAutoscaler, intervals: int, **changes: Any
) -> list[DataflowDecision]:
    """Follow a dataflow whose source is a log: what is not emitted waits before it."""
    emitted, _ = steady.emitted(runs)
    missing_per_s = steady.source_per_s["source"] - emitted["source"]
    situation = steady.situation(runs, lag_records={"source": 0.0}, **changes)
    decisions = []
    for k in range(1, intervals + 1):
        decision = policy.decide(situation)
        decisions.append(decision)
        if decision.changes(situation):
            break
        lag = {"source": missing_per_s * 10.0 * k}
        memory = json.loads(json.dumps(dict(decision.memory), allow_nan=False))
        situation = replace(situation, now_s=situation.now_s + 10.0, lag_records=lag, memory=memory)
    return decisions


def test_every_operator_is_sized_for_what_arrives_at_the_target_utilisation() -> None:
    # 1,000,000 sentences a minute take 10 and 20 instances at full use: 15 and 29 at 70 %. The source is sized too: it
    # was seen to emit while it was held back for most of its time.
    decisions = behind(heron_word_count(), ONE_EACH, autoscaler(), 12)
    assert decisions[-1].parallelism == {"source": 2, "split": 15, "count": 29}
    assert decisions[-1].reason is Reason.SCALE_OUT
    assert decisions[-1].sentence == "count 1 to 29, split 1 to 15, source 1 to 2, for 70% of the true rates."
    assert {decision.reason for decision in decisions[:-1]} == {Reason.HOLD_UNKNOWN}


def test_a_generator_tells_no_lag_so_only_what_is_emitted_is_seen() -> None:
    """DS2 is told what sources should emit; this rule infers it from lag, and stops where what is emitted saturates."""
    decisions = follow(autoscaler(), heron_word_count(), ONE_EACH, intervals=60)
    assert decisions[-1].reason is Reason.HOLD_GOOD
    assert decisions[-1].parallelism["count"] < 20


def test_scaling_in_needs_to_know_that_nothing_waits() -> None:
    steady, large = heron_word_count(), {"source": 1, "split": 40, "count": 80}
    seen = follow(autoscaler(), steady, large, intervals=10, **LOG)
    assert configurations(large, seen)[1] == {"source": 1, "split": 16, "count": 32}, "60 % at most"
    emits_all = follow(autoscaler(), steady, large, intervals=10)
    assert configurations(large, emits_all)[1] == {"source": 1, "split": 16, "count": 32}
    unknown = follow(autoscaler(), steady, large, intervals=10, source_per_s={})
    assert configurations(large, unknown) == [large]
    assert unknown[-1].reason is Reason.HOLD_BLIND
    assert "it is not known whether records wait before source" in unknown[-1].sentence


def test_scaling_in_waits_and_takes_the_most_that_was_wanted() -> None:
    steady, large = heron_word_count(), {"source": 1, "split": 30, "count": 60}
    decisions = follow(autoscaler(scale_down_interval_s=60.0, max_down_factor=0.9), steady, large, intervals=14, **LOG)
    assert [decision.parallelism["count"] for decision in decisions] == [60] * 12 + [29, 29]


def test_the_window_fills_again_after_a_rescale() -> None:
    decisions = behind(heron_word_count(), ONE_EACH, autoscaler(), 12)
    memory = Memory.from_json(decisions[-1].memory, NOW_S + 1e6, list(ONE_EACH))
    assert memory.asked is not None
    assert len(memory.samples) == 7
    runs = decisions[-1].parallelism
    after = heron_word_count().situation(
        runs, memory=decisions[-1].memory, now_s=NOW_S + 130.0, since_rescale_s=20.0, **LOG
    )
    decision = autoscaler().decide(after)
    assert (decision.reason, decision.sentence) == (
        Reason.HOLD_UNKNOWN,
        "No decision for another 60 s: the window fills.",
    )
    kept = Memory.from_json(decision.memory, NOW_S + 131.0, list(ONE_EACH))
    assert (len(kept.samples), kept.asked, kept.parallelism) == (1, None, runs)
    assert [round(restart.took_s) for restart in kept.state.restarts] == [50]
    assert kept.state.history["count"][0].after == runs["count"]


def test_while_it_stabilises_nothing_is_decided() -> None:
    decision = autoscaler(stabilisation_s=300.0).decide(heron_word_count().situation(ONE_EACH, since_rescale_s=20.0))
    assert (decision.reason, decision.sentence) == (
        Reason.HOLD_GRACE,
        "No decision for another 340 s: the job stabilises.",
    )


def test_partitions_and_key_groups_are_fitted() -> None:
    graph = Dataflow((Operator("source", maximum=4, scalable=False), Operator("work", ("source",), 24, key_groups=24)))
    steady = Steady(graph, {"source": 1_000.0}, {"work": Truth(100.0)})
    runs = {"source": 1, "work": 2}
    assert behind(steady, runs, autoscaler(), 12)[-1].parallelism["work"] == 24, "15 instances would be uneven"
    even = behind(steady, runs, autoscaler(alignment="OFF"), 12)[-1]
    assert even.parallelism == {"source": 1, "work": 15}


@pytest.mark.parametrize("slots", [12, 13, 16, 128])
def test_slots_bound_a_vertex_and_are_no_key_groups(slots: int) -> None:
    graph = Dataflow((Operator("source", scalable=False), Operator("work", ("source",), 128, key_groups=128)))
    steady = Steady(graph, {"source": 480.0}, {"work": Truth(100.0)})
    shared = {"slots": slots, "slots_shared": True}
    decisions = behind(steady, {"source": 1, "work": 2}, autoscaler(), 12, **shared)
    assert decisions[-1].parallelism["work"] == 8, "7 instances would share 128 key groups unevenly"


@pytest.mark.parametrize("slots", [3, 4, 8, 16, 40, 46, 128])
def test_vertices_that_share_no_slot_share_those_that_are_left(slots: int) -> None:
    """Each asked for all that were left, together for 30 of 16, which no cluster can run: nothing changed."""
    decision = behind(heron_word_count(), ONE_EACH, autoscaler(), 12, slots=slots)[-1]
    assert sum(decision.parallelism.values()) == min(slots, 46)
    assert decision.sentence.endswith(f"46 slots are wanted, {slots} are there.") is (slots < 46)
    learned = Memory.from_json(decision.memory, NOW_S + 500.0, list(ONE_EACH)).state.history
    for name, (rescale,) in learned.items():
        # what is expected is of what was asked for: else no effect of a scale-out that slots cut short is ever checked
        assert rescale.after == decision.parallelism[name]
        assert rescale.expected_per_s == pytest.approx(rescale.true_per_s * rescale.after)


def test_slots_that_one_vertex_gives_up_are_there_for_another_at_once() -> None:
    runs = {"source": 1, "split": 30, "count": 9}
    decision = behind(heron_word_count(), runs, autoscaler(), 12, slots=46)[-1]
    assert decision.parallelism == {"source": 2, "split": 15, "count": 29}


def test_operators_that_are_too_small_and_can_have_no_more_are_not_within_their_band() -> None:
    full = behind(heron_word_count(), ONE_EACH, autoscaler(), 12, slots=3)[-1]
    assert full.reason is Reason.HOLD_AVOIDED
    assert full.sentence.startswith(
        "Too small, and left alone: source: it cannot have more instances; split: it cannot"
    )
    fixed = heron_word_count()
    graph = Dataflow(tuple(replace(operator, scalable=False) for operator in fixed.graph))
    decision = behind(replace(fixed, graph=graph), ONE_EACH, autoscaler(), 12)[-1]
    assert (decision.reason, "count: it is not to be scaled" in decision.sentence) == (Reason.HOLD_AVOIDED, True)


@pytest.mark.parametrize(("partitions", "wanted"), [(None, 7), (16, 8)])
def test_a_source_is_aligned_to_partitions_that_are_known_and_not_to_what_it_may_have(
    partitions: int | None, wanted: int
) -> None:
    graph = Dataflow((Operator("source", maximum=128, key_groups=partitions), Operator("work", ("source",), 128)))
    steady = Steady(graph, {"source": 480.0}, {"work": Truth(1_000.0)}, source_true_per_s=100.0)
    decisions = behind(steady, {"source": 5, "work": 1}, autoscaler(utilisation_max=0.9), 12)
    assert decisions[-1].parallelism["source"] == wanted


@pytest.mark.parametrize(("waited_s", "working"), [((10.0, 0.0), 0.5), ((4.0, 2.0), 0.7), ((math.nan, 2.0), 0.8)])
def test_a_source_waited_as_long_as_its_subtasks_did_in_the_mean(waited_s: tuple[float, float], working: float) -> None:
    """Flink averages back-pressured time over subtasks: one that waits throughout does not hide what the others do."""
    now = heron_word_count().situation({**ONE_EACH, "source": 2}, lag_records={"source": 1e9})
    source = replace(now.windows["source"], back_pressured_s=np.array(waited_s))
    decision = autoscaler().decide(replace(now, windows={**now.windows, "source": source}))
    seen = Memory.from_json(decision.memory, NOW_S + 1.0, list(ONE_EACH)).samples[-1].vertices["source"]
    assert seen.observed_per_s == pytest.approx(seen.in_per_s / working)


def test_what_is_not_to_be_scaled_stays() -> None:
    steady = heron_word_count()
    fixed = Dataflow(tuple(replace(operator, scalable=operator.name == "split") for operator in steady.graph))
    decisions = behind(replace(steady, graph=fixed), ONE_EACH, autoscaler(), 12)
    assert decisions[-1].parallelism == {"source": 1, "split": 15, "count": 1}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda now: {"windows": {}}, "no operator reported"),
        (lambda now: {"windows": {k: v for k, v in now.windows.items() if k != "count"}}, "count did not report"),
        (
            lambda now: {"parallelism": {**now.parallelism, "count": 0}},
            "it is not known how many instances of count run",
        ),
        (lambda now: {"since_rescale_s": math.nan}, "it is not known when the last rescale was"),
        (
            lambda now: {
                "windows": {**now.windows, "split": replace(now.windows["split"], useful_s=np.array([math.nan]))}
            },
            "neither records nor useful time of split were measured",
        ),
        (
            lambda now: {"windows": {**now.windows, "split": replace(now.windows["split"], window_s=0.0)}},
            "split did not report",
        ),
        (
            lambda now: {"parallelism": ONE_EACH, "windows": heron_word_count().windows({**ONE_EACH, "split": 3})},
            "split reported 3 instances, more than run",
        ),
    ],
)
def test_blind(change: Any, says: str) -> None:
    now = heron_word_count().situation(ONE_EACH)
    decision = autoscaler().decide(replace(now, **change(now)))
    assert decision.reason is Reason.HOLD_BLIND
    assert says in decision.sentence


def test_memory_may_be_broken() -> None:
    now: DataflowSituation = heron_word_count().situation(ONE_EACH, **LOG)
    good = dict(autoscaler().decide(now).memory)
    for key in good:
        for broken in (None, 7, "x", [], [[]], {"count": "x"}, {"count": 0}, [[1.0, {"count": [1]}]], {"count": [[1]]}):
            decision = autoscaler().decide(replace(now, memory={**good, key: broken}, now_s=NOW_S + 10.0))
            assert decision.parallelism == ONE_EACH


def test_a_source_whose_rates_are_not_known_is_named() -> None:
    policy = autoscaler()
    now: DataflowSituation = heron_word_count().situation(ONE_EACH, **LOG)
    for k in range(1, 7):
        memory = json.loads(json.dumps(dict(policy.decide(now).memory)))
        now = replace(now, now_s=NOW_S + 10.0 * k, memory=memory)
    for _, vertices in now.memory["samples"]:
        vertices["source"] = [None] * len(vertices["source"])  # of what was not finite nothing is known afterwards
    decision = policy.decide(now)
    assert decision.parallelism == ONE_EACH
    assert decision.operators[0].why == "its rates are not known"


def test_of_operators_that_are_gone_nothing_is_kept() -> None:
    """Names change with each edit of a job; what was remembered of each would pile up."""
    now: DataflowSituation = heron_word_count().situation(ONE_EACH, **LOG)
    gone = {"history": {"old": [[NOW_S - 900.0, 1, 2, 10.0, 20.0]], "split": [[NOW_S - 900.0, 2, 1, 10.0, 5.0]]}}
    assert list(autoscaler().decide(replace(now, memory=gone)).memory["history"]) == ["split"]


def test_after_a_clock_that_was_ahead_is_set_back_the_window_fills_as_ever() -> None:
    now: DataflowSituation = heron_word_count().situation(ONE_EACH, **LOG)
    ahead = autoscaler().decide(now)
    back = autoscaler().decide(replace(now, now_s=NOW_S - 86_400.0, memory=ahead.memory))
    assert back.sentence == "No decision for another 60 s: the window fills."


def test_twice_the_work_through_a_branch_is_counted() -> None:
    steady = chain(("a", Truth(100.0, selectivity=2.0)), ("b", Truth(100.0)), source_per_s=70.0)
    decisions = behind(steady, {"source": 1, "a": 1, "b": 1}, autoscaler(), 12)
    assert decisions[-1].parallelism == {"source": 1, "a": 1, "b": 2}

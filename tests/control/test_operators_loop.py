"""Policies that size operators, on a job that does what its load and its parallelism make of it."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest

from perdix.control.operators.situation import situation_between
from perdix.policies.contract import Reason
from perdix.policies.dataflow.build import build_dataflow_policy
from perdix.policies.dataflow.contract import DataflowDecision, DataflowSituation
from perdix.settings.stream_job import Bounds
from perdix.targets.contract import TargetError
from tests.control.operators_rig import WORDS_PER_LINE, Job, ds2, looked, looking


def test_ds2_reaches_what_the_load_needs_in_one_step() -> None:
    job = Job(lines_per_s=200.0)  # 600 words/s: six subtasks
    found = looked(job, 4)
    assert job.asked == [{"count": 6}]
    assert job.parallelism == {"source": 2, "count": 6}
    assert found[0].done
    assert found[1].problem == "the job was redeployed since the last look; the next one counts"
    assert "count 1 to 6" in (found[0].decision.sentence if found[0].decision else "")


def test_what_arrives_is_what_was_emitted_and_what_was_left_waiting_in_the_sources_own_output() -> None:
    job = Job(lines_per_s=200.0, pending=50.0)
    before = job.read_dataflow()
    job.sleep(30.0)
    situation = situation_between(before, job.read_dataflow(), most=12, memory={})
    assert situation.source_per_s["source"] == pytest.approx(600.0)
    assert situation.lag_records["source"] == pytest.approx(WORDS_PER_LINE * job.pending)
    assert situation.windows["count"].window_s == pytest.approx(30.0)
    assert situation.windows["count"].useful_s.tolist() == pytest.approx([30.0])
    assert (situation.parallelism, situation.slots, situation.slots_shared) == ({"source": 2, "count": 1}, 12, True)


def test_key_groups_are_those_of_keyed_operators_and_no_partitions() -> None:
    job = Job(lines_per_s=200.0)
    before = job.read_dataflow()
    job.sleep(30.0)
    after = job.read_dataflow()
    graph = situation_between(before, after, most=12, memory={}).graph
    assert [(vertex.maximum, vertex.key_groups) for vertex in graph] == [(128, None), (128, 128)]
    spread = {name: replace(operator, keyed=False) for name, operator in after.operators.items()}
    graph = situation_between(before, replace(after, operators=spread), most=12, memory={}).graph
    assert [vertex.key_groups for vertex in graph] == [None, None]


def test_it_scales_in_what_is_too_much() -> None:
    job = Job(lines_per_s=80.0, parallelism={"source": 2, "count": 10})
    looked(job, 4)
    assert job.asked == [{"count": 3}]


@pytest.mark.parametrize(("lines_per_s", "wanted"), [(20.0, 1), (200.0, 4)])
def test_a_source_that_does_not_tell_what_waits_scales_in_only_where_it_surely_emits_all(
    lines_per_s: float, wanted: int
) -> None:
    """At 200 lines/s four subtasks are too few; the source waits for room, and what arrives is not known."""
    job = Job(lines_per_s=lines_per_s, parallelism={"source": 2, "count": 4}, tells_pending=False)
    looked(job, 1)
    assert job.parallelism["count"] == wanted


@pytest.mark.parametrize("policy", ["ds2", "dhalion", "flink-autoscaler"])
def test_records_that_are_lost_before_they_were_read_are_no_fall_of_the_load(policy: str) -> None:
    """Kafka deletes what is older than its retention; what arrives was taken for none, and a full job scaled in."""
    job = Job(lines_per_s=200.0, parallelism={"source": 2, "count": 4}, pending=1_000_000.0)
    looking_at = looking(job, build_dataflow_policy(policy, {}), act=False)
    next(looking_at)
    for _ in range(4):
        job.pending -= 100_000.0
        look = next(looking_at)
        assert look.situation is not None
        assert look.situation.source_per_s == {}
        assert look.changes.get("count", 4) >= 4


def test_a_source_of_which_not_all_subtasks_report_does_not_tell_what_arrives() -> None:
    job = Job(lines_per_s=80.0, parallelism={"source": 2, "count": 10})
    before = job.read_dataflow()
    job.sleep(30.0)
    after = job.read_dataflow()
    for counters in vars(after.operators["source"].counters).values():
        counters[1] = math.nan
    situation = situation_between(before, after, most=12, memory={})
    assert situation.source_per_s == {}
    decision = build_dataflow_policy("ds2", {"warm_up_s": 0.0}).decide(situation)
    assert decision.parallelism["count"] >= 10, "nothing is scaled in on what is missing"


def test_without_apply_nothing_is_asked_for_and_nothing_is_remembered_as_done() -> None:
    job = Job(lines_per_s=200.0)
    found = looked(job, 3, act=False)
    assert job.asked == []
    assert [dict(look.changes) for look in found] == [{"count": 6}] * 3
    assert not any(look.done for look in found)


def test_bounds_and_slots_hold() -> None:
    job = Job(lines_per_s=1_000.0)
    looked(job, 1, bounds=Bounds(minimum=1, maximum=5))
    assert job.parallelism["count"] == 5
    job = Job(lines_per_s=1_000.0, slots=4)
    looked(job, 1)
    assert job.parallelism["count"] == 4
    job = Job(lines_per_s=10.0, parallelism={"source": 2, "count": 8})
    looked(job, 1, bounds=Bounds(minimum=3, maximum=12))
    assert job.parallelism["count"] == 3


@pytest.mark.parametrize("policy", ["ds2", "dhalion"])
def test_operators_of_several_slot_sharing_groups_take_slots_of_their_own(policy: str) -> None:
    """Flink was asked for ten slots of eight, accepted that, and ran no more than before."""
    job = Job(lines_per_s=400.0, parallelism={"source": 2, "count": 4}, slots=8, groups=("ingest", "count"))
    looked(job, 4, policy)
    assert job.parallelism == {"source": 2, "count": 6}


def test_operators_of_one_group_share_slots_also_where_others_do_not() -> None:
    """What a group's widest operator does not take of its slots is not counted as taken from the others."""
    job = Job(lines_per_s=400.0, parallelism={"source": 2, "count": 4})
    before = job.read_dataflow()
    job.sleep(30.0)
    after = job.read_dataflow()
    count = after.operators["count"]
    after = replace(after, slots=10, operators={**after.operators, "heavy": replace(count, group="heavy")})
    before = replace(before, operators={**before.operators, "heavy": before.operators["count"]})
    situation = situation_between(before, after, most=12, memory={})
    assert situation.most_instances("heavy") == 6
    assert situation.most_instances("count") == 6


@pytest.mark.parametrize("policy", ["ds2", "dhalion", "flink-autoscaler", "static"])
def test_bounds_that_were_lowered_below_what_runs_are_reached(policy: str) -> None:
    job = Job(lines_per_s=100.0, parallelism={"source": 2, "count": 8})
    loop = looking(job, build_dataflow_policy(policy, {}), Bounds(minimum=1, maximum=4))
    found = list(islice(loop, 60))
    assert job.parallelism["count"] <= 4
    assert all(look.decision.reason is not Reason.HOLD_INVALID for look in found if look.decision)
    moved = next(look.decision for look in found if look.decision and look.changes)
    assert moved.reason is Reason.SCALE_IN
    assert "count 8 to" in moved.sentence


def test_a_full_disk_costs_the_loop_no_more_than_what_it_remembers() -> None:
    def full(_: float, __: Mapping[str, Any]) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    job = Job(lines_per_s=20.0, parallelism={"source": 2, "count": 4})
    dhalion = build_dataflow_policy("dhalion", {})
    found = list(islice(looking(job, dhalion, remember=full), 130))
    assert any("cannot be stored: database or disk is full" in str(look.problem) for look in found)
    assert job.asked, "after an hour of calm, which it has in mind"


def test_a_job_that_cannot_be_read_for_a_while_is_left_alone_meanwhile() -> None:
    job = Job(lines_per_s=200.0)
    loop = looking(job, ds2())
    job.broken = "cannot be reached"
    with pytest.raises(TargetError, match="cannot be reached"):
        next(loop)  # at the beginning it is a mistake of the user
    job.broken = None
    loop = looking(job, ds2())
    next(loop)
    job.broken = "cannot be reached"
    assert [look.problem for look in islice(loop, 2)] == ["cannot be reached"] * 2
    job.broken = None
    next(loop)
    assert job.parallelism["count"] == 6


def test_what_the_policy_remembers_goes_on_where_a_former_loop_ended() -> None:
    """Dhalion scales in what has been idle for an hour: two loops of forty minutes are one of eighty."""

    def for_minutes(minutes: int, job: Job, memory: Mapping[str, Any]) -> dict[str, Any]:
        kept: list[Mapping[str, Any]] = [memory]
        policy = build_dataflow_policy("dhalion", {"scale_in_after_s": 3_600.0})
        loop = looking(job, policy, interval_s=60.0, memory=memory, remember=lambda _, new: kept.append(new))
        list(islice(loop, minutes))
        return json.loads(json.dumps(kept[-1]))

    going_on, afresh = (Job(lines_per_s=20.0, parallelism={"source": 2, "count": 6}) for _ in range(2))
    memory = for_minutes(40, going_on, {})
    assert going_on.asked == []
    for_minutes(40, going_on, memory)
    assert going_on.asked != []
    for_minutes(40, afresh, {})
    for_minutes(40, afresh, {})
    assert afresh.asked == [], "one that forgets waits for its hour in vain"


def test_what_was_not_carried_out_is_not_remembered() -> None:
    job, kept = Job(lines_per_s=200.0), list[Mapping[str, Any]]()
    loop = looking(job, ds2(), act=False, remember=lambda _, memory: kept.append(memory))
    assert all(look.changes for look in islice(loop, 3))
    assert kept == []


def test_advice_stays_the_same_while_the_load_does() -> None:
    """What is advised and not done changes nothing of what was seen."""
    job = Job(lines_per_s=130.0, parallelism={"source": 2, "count": 4})
    policy = build_dataflow_policy("flink-autoscaler", {"preset": "tuned"})
    advice = [look.changes.get("count") for look in islice(looking(job, policy, act=False), 60)]
    begins = next(k for k, count in enumerate(advice) if count)
    assert advice[begins:] == [8] * (60 - begins)


def test_the_sensor_of_back_pressure_goes_on_while_only_advice_is_given() -> None:
    job = Job(lines_per_s=200.0, parallelism={"source": 2, "count": 4})
    advice = [dict(look.changes) for look in islice(looking(job, build_dataflow_policy("dhalion", {}), act=False), 60)]
    assert advice[-1] == {"count": 12}, "90 % of the time is lost: more than the first 30 s in 300 s show"


def test_the_autoscaler_goes_on_where_a_former_loop_ended_minutes_ago() -> None:
    job, kept = Job(lines_per_s=110.0, parallelism={"source": 2, "count": 4}), [dict[str, Any]()]
    policy = build_dataflow_policy("flink-autoscaler", {})
    for _ in range(60):
        next(looking(job, policy, memory=kept[-1], remember=lambda _, memory: kept.append(dict(memory))))
        assert job.parallelism["count"] >= 4, "330 words/s arrive"
        job.sleep(270.0)


def test_a_restart_between_two_looks_is_not_a_window() -> None:
    job = Job(lines_per_s=30.0)
    loop = looking(job, ds2())
    next(loop)
    job.restart()
    assert "redeployed" in (next(loop).problem or "")
    assert next(loop).decision is not None


@pytest.mark.parametrize("policy", ["ds2", "dhalion", "flink-autoscaler"])
def test_a_job_that_began_before_flinks_clock_was_set_back_is_scaled_today(policy: str) -> None:
    job = Job(lines_per_s=200.0, now_s=1e6, started_s=1e6 + 86_400.0)
    looks = looking(job, build_dataflow_policy(policy, {}))
    assert any(look.done for look in islice(looks, 60))


def test_a_policy_that_fails_holds_what_runs() -> None:
    class Broken:
        name = "broken"

        def decide(self, situation: DataflowSituation) -> DataflowDecision:
            raise ValueError(f"no answer at {situation.now_s:g} s")

    job = Job(lines_per_s=200.0)
    look = next(looking(job, Broken()))
    assert look.decision is not None
    assert look.decision.sentence == "Held: ValueError: no answer at 1030 s."
    assert (look.decided, dict(look.changes), job.asked) == (False, {}, [])


def test_waiting_for_a_warm_up_is_no_decision() -> None:
    job = Job(lines_per_s=200.0)
    policy = build_dataflow_policy("ds2", {"warm_up_s": 30.0})
    first, second = islice(looking(job, policy), 2)
    assert first.decision is not None
    assert (first.decided, first.decision.reason) == (False, Reason.HOLD_GRACE)
    assert second.decided


@pytest.mark.parametrize("policy", ["dhalion", "flink-autoscaler"])
def test_other_policies_run_on_it_too(policy: str) -> None:
    job = Job(lines_per_s=200.0)
    looked(job, 60, policy)
    assert job.parallelism["count"] >= 6
    assert math.isclose(job.pending, 0.0, abs_tol=1e4)


@pytest.mark.parametrize("policy", ["ds2", "dhalion", "flink-autoscaler"])
def test_with_fewer_slots_than_the_load_needs_all_of_them_are_taken(policy: str) -> None:
    job = Job(lines_per_s=200.0, slots=4)
    looked(job, 60, policy)
    assert job.parallelism["count"] == 4

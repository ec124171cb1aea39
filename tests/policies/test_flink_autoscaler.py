"""The rule as a policy of the tick: what it waits for, what it remembers, and what it refuses to do blind."""

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from perdix.policies.build import build_policy
from perdix.policies.contract import Decision, Reason, Situation
from perdix.policies.flink_autoscaler.memory import MOST_SAMPLES
from perdix.policies.flink_autoscaler.options import FlinkAutoscalerOptions
from perdix.policies.flink_autoscaler.policy import FlinkAutoscaler
from perdix.settings.yaml_files import SettingsError

Situate = Callable[..., Situation]
EAGER = {"utilisation_max": 0.8}  # by default nothing happens before a worker is saturated and a lag grows
QUICK = {"stabilisation_s": 0.0, "window_s": 60.0, "scale_down_interval_s": 0.0, "catch_up_s": 0.0}


class Played:
    """A policy asked every ``tick_s``, remembering through JSON as the state store does; nobody acts on its answers."""

    def __init__(self, situation: Situation, tick_s: float = 10.0, **options: Any) -> None:
        self.policy = FlinkAutoscaler(FlinkAutoscalerOptions(**options))
        self.situation = replace(situation, tick_interval_s=tick_s)
        self.began_s = situation.now_s
        self.running_s = 10_000.0

    def tick(self, **changes: Any) -> Decision:
        now = replace(self.situation, **{"uptime_s": self.running_s, **changes})
        decision = self.policy.decide(now)
        memory = json.loads(json.dumps(dict(decision.memory), allow_nan=False))
        self.running_s += now.tick_interval_s
        self.situation = replace(now, now_s=now.now_s + now.tick_interval_s, memory=memory)
        return decision

    def ticks(self, count: int, **changes: Any) -> list[Decision]:
        return [self.tick(**changes) for _ in range(count)]

    def until(self, reason: Reason, at_most: int = 1_000, **changes: Any) -> float:
        """Seconds from the first tick until a decision has this reason."""
        for _ in range(at_most):
            at_s = self.situation.now_s
            if self.tick(**changes).reason is reason:
                return at_s - self.began_s
        raise AssertionError(f"never {reason}")


def rates(per_s: float, busy: float, **changes: Any) -> dict[str, Any]:
    """A throughput and the busiest worker's share, on five workers."""
    shares = {"worker_busy": (busy, *(0.9 * busy for _ in range(4)))}
    return {"throughput_per_s": per_s, "workload_per_s": per_s, **shares, **changes}


def test_the_first_decision_takes_a_stable_job_and_a_full_window(situate: Situate) -> None:
    played = Played(situate(scale_out=5), **EAGER)
    played.running_s = 10.0
    assert played.until(Reason.SCALE_OUT, **rates(5_000.0, 0.99)) == 300.0 - 10.0 + 900.0


def test_why_it_waits(situate: Situate) -> None:
    played = Played(situate(scale_out=5))
    played.running_s = 10.0
    first = played.tick(**rates(5_000.0, 0.99))
    assert (first.reason, first.sentence) == (
        Reason.HOLD_GRACE,
        "No decision for another 1,190 s: the job stabilises.",
    )
    later = played.ticks(40, **rates(5_000.0, 0.99))[-1]
    assert (later.reason, later.sentence) == (Reason.HOLD_UNKNOWN, "No decision for another 790 s: the window fills.")


def test_it_sizes_for_the_target_utilisation_of_the_busiest_worker(situate: Situate) -> None:
    # 5,000/s at 0.9 busy: 5,556/s can be processed. 5,000 / 0.7 = 7,143 -> 5 * 7,143 / 5,556 = 6.4
    decision = Played(situate(scale_out=5), **QUICK, **EAGER).ticks(8, **rates(5_000.0, 0.9))[-1]
    assert (decision.scale_out, decision.reason) == (7, Reason.SCALE_OUT)
    assert decision.sentence == (
        "5,000/s are due, 5 workers can process 5,556/s; 7 workers are wanted, "
        "outside the band from 6,250/s to 12,500/s."
    )
    rejected, chosen = decision.candidates
    assert (rejected.scale_out, rejected.rejected_by) == (5, "the utilisation is outside its band")
    assert (chosen.scale_out, chosen.rejected_by) == (7, None)
    assert chosen.capacity_per_s == pytest.approx(7 * 5_556 / 5, rel=1e-3)


def test_by_default_it_scales_out_only_once_a_worker_is_saturated(situate: Situate) -> None:
    decision = Played(situate(scale_out=5), **QUICK).ticks(8, **rates(5_000.0, 0.9))[-1]
    assert (decision.scale_out, decision.reason) == (5, Reason.HOLD_GOOD)
    assert "7 workers would meet the target, but this is within the band" in decision.sentence


def test_a_growing_lag_is_demand_too(situate: Situate) -> None:
    played = Played(situate(scale_out=5), **QUICK)
    for second in range(0, 80, 10):  # 5,000/s are processed at full use, 2,000/s more arrive
        decision = played.tick(**rates(5_000.0, 1.0, lag_records=2_000.0 * second))
    assert decision.scale_out == 10  # 7,000 / 0.7 = 10,000 -> 5 * 10,000 / 5,000
    assert decision.sentence.startswith("7,000/s are due")


def test_scaling_in_waits_and_takes_the_most_that_was_wanted(situate: Situate) -> None:
    played = Played(situate(scale_out=5), **{**QUICK, "scale_down_interval_s": 600.0})
    waiting = played.ticks(20, **rates(1_000.0, 0.2))[-1]
    assert (waiting.reason, waiting.scale_out) == (Reason.HOLD_GOOD, 5)
    assert "scaling in has been wanted for 130 of 600 s" in waiting.sentence
    played.ticks(10, **rates(2_000.0, 0.4))  # 3 workers for a while
    assert played.until(Reason.SCALE_IN, **rates(1_000.0, 0.2)) == 60.0 + 600.0
    again = played.tick(**rates(1_000.0, 0.2))
    assert (again.scale_out, again.reason) == (3, Reason.SCALE_IN), "what a guard holds up is proposed again"


def test_a_rescale_stops_the_timer_and_empties_the_window(situate: Situate) -> None:
    played = Played(situate(scale_out=5), **{**QUICK, "scale_down_interval_s": 600.0})
    played.ticks(30, **rates(1_000.0, 0.2))
    played.running_s = 5.0
    first = played.tick(scale_out=6, **rates(1_000.0, 0.2))
    assert (first.reason, len(first.memory["samples"]), first.memory["pending"]) == (Reason.HOLD_UNKNOWN, 1, None)


def test_a_failure_empties_the_window_but_stops_no_timer(situate: Situate) -> None:
    played = Played(situate(scale_out=5), **{**QUICK, "scale_down_interval_s": 600.0})
    played.ticks(30, **rates(1_000.0, 0.2))
    played.running_s = 5.0
    first = played.tick(**rates(1_000.0, 0.2))
    assert len(first.memory["samples"]) == 1
    assert first.memory["pending"][0] == played.began_s + 60.0


def test_where_no_uptime_is_measured_the_last_rescale_tells_when_the_job_started(situate: Situate) -> None:
    played = Played(situate(scale_out=5))
    started = played.tick(uptime_s=None, since_rescale_s=60.0, **rates(5_000.0, 0.9))
    assert started.sentence == "No decision for another 1,140 s: the job stabilises."
    always = Played(situate(scale_out=5)).tick(uptime_s=None, since_rescale_s=math.inf, **rates(5_000.0, 0.9))
    assert always.sentence == "No decision for another 900 s: the window fills."


def test_a_rescale_is_remembered_once_however_often_it_is_proposed(situate: Situate) -> None:
    played = Played(situate(scale_out=5), **QUICK, **EAGER)
    asked = [tick for tick in played.ticks(20, **rates(5_000.0, 0.99)) if tick.reason is Reason.SCALE_OUT]
    assert len(asked) > 5
    (rescale,) = asked[-1].memory["history"]
    assert rescale[1:3] == [5, 8]


def test_restarts_are_timed_from_the_decision_to_the_start(situate: Situate) -> None:
    played = Played(situate(scale_out=5), **QUICK, **EAGER, track_restarts=True)
    asked_s = played.began_s + played.until(Reason.SCALE_OUT, **rates(5_000.0, 0.99))
    played.situation = replace(played.situation, now_s=asked_s + 100.0, scale_out=8)
    played.running_s = 60.0
    (restart,) = played.tick(**rates(5_000.0, 0.6)).memory["restarts"]
    assert restart[1] == pytest.approx(40.0)


def test_a_scale_out_that_did_not_help_blocks_the_next(situate: Situate) -> None:
    played = Played(situate(scale_out=5), **QUICK, **EAGER, detect_ineffective=True)
    assert played.ticks(10, **rates(5_000.0, 1.0))[-1].scale_out == 8
    played.running_s = 5.0
    last = played.ticks(10, scale_out=8, **rates(5_050.0, 1.0))[-1]
    assert (last.reason, last.scale_out) == (Reason.HOLD_GOOD, 8)
    assert "the last scale-out brought" in last.sentence


@pytest.mark.parametrize("tick_s", [1.0, 10.0, 60.0])
def test_the_memory_stays_small(situate: Situate, tick_s: float) -> None:
    played = Played(situate(scale_out=5), tick_s)
    for k in range(int(1_200 / tick_s)):
        decision = played.tick(**rates(1_000.0 + math.sin(k), 0.2))
    samples = decision.memory["samples"]
    assert len(samples) <= MOST_SAMPLES
    assert samples[-1][0] - samples[0][0] == pytest.approx(900.0, abs=max(tick_s, 10.0))
    assert len(json.dumps(decision.memory)) < 25_000
    assert decision.reason is Reason.HOLD_GOOD


def test_counted_records_give_the_same_rate_however_often_it_looks(situate: Situate) -> None:
    wanted = set()
    for tick_s in (5.0, 10.0, 20.0):
        played = Played(situate(scale_out=5), tick_s, **QUICK, **EAGER)
        wanted.add(played.ticks(30, **rates(5_000.0, 0.9))[-1].scale_out)
    assert wanted == {7}


def test_cpu_load_stands_for_busy_time_and_the_sentence_says_so(situate: Situate) -> None:
    played = Played(situate(scale_out=5), **QUICK, **EAGER)
    without = rates(5_000.0, 0.0, worker_busy=(), worker_cpu=(0.9, 0.7, 0.8, 0.8, 0.8))
    decision = played.ticks(8, **without)[-1]
    assert decision.scale_out == 7
    assert decision.sentence.endswith(" Busy time is not measured; the CPU load stands for it.")


@pytest.mark.parametrize(
    ("missing", "says"),
    [
        ({"throughput_per_s": None}, "the throughput is None"),
        ({"throughput_per_s": math.nan}, "the throughput is nan"),
        ({"worker_busy": (), "worker_cpu": ()}, "neither the busy time nor the CPU load of every worker is known"),
        ({"worker_busy": (0.5, math.nan)}, "neither the busy time nor the CPU load of every worker is known"),
        ({"lag_records": math.nan}, "the consumer lag is nan"),
        ({"uptime_s": -1.0}, "the uptime is -1.0"),
        ({"scale_out": 0}, "0 workers are running"),
    ],
)
def test_blind_it_holds_and_forgets_nothing(situate: Situate, missing: dict[str, Any], says: str) -> None:
    played = Played(situate(scale_out=5), **QUICK)
    before = played.ticks(8, **rates(1_000.0, 0.2))[-1]
    decision = played.policy.decide(replace(played.situation, **missing))
    assert (decision.scale_out, decision.reason) == (missing.get("scale_out", 5), Reason.HOLD_BLIND)
    assert decision.sentence == f"Blind: {says}."
    assert dict(decision.memory) == json.loads(json.dumps(dict(before.memory)))


def test_without_the_lag_it_scales_out_but_never_in(situate: Situate) -> None:
    options = {**QUICK, **EAGER}
    down = Played(situate(scale_out=5), **options).ticks(8, lag_records=None, **rates(1_000.0, 0.2))[-1]
    assert (down.scale_out, down.reason) == (5, Reason.HOLD_BLIND)
    assert down.sentence == "2 workers would do, but the consumer lag is not measured, so there is no scaling in."
    up = Played(situate(scale_out=5), **options).ticks(8, lag_records=None, **rates(5_000.0, 0.9))[-1]
    assert up.scale_out == 7


def test_an_idle_job_goes_as_far_down_as_one_step_may(situate: Situate) -> None:
    decision = Played(situate(scale_out=10), **QUICK).ticks(8, **rates(0.0, 0.0))[-1]
    assert (decision.scale_out, decision.reason) == (4, Reason.SCALE_IN)
    assert "nothing came in to measure by" in decision.sentence


@pytest.mark.parametrize(("running", "becomes"), [(15, 12), (1, 3)])
def test_what_runs_outside_the_bounds_is_moved_into_them_at_once(situate: Situate, running: int, becomes: int) -> None:
    decision = Played(situate(scale_out=running, bounds=(3, 12))).tick(**rates(1_000.0, 0.2))
    assert decision.scale_out == becomes


def test_partitions_are_shared_out_evenly_where_they_are_known(situate: Situate) -> None:
    options = {**QUICK, **EAGER, "partitions": 24, "alignment": "EVENLY_SPREAD"}
    decision = Played(situate(scale_out=5), **options).ticks(8, **rates(5_000.0, 0.9))[-1]
    assert decision.scale_out == 8
    assert "8 workers (aligned from 7) are wanted" in decision.sentence
    first = decision.candidates[0]
    assert (first.scale_out, first.rejected_by) == (7, "alignment asks for 8")


def test_the_tuned_preset_and_what_is_given_beside_it() -> None:
    tuned = FlinkAutoscalerOptions(preset="tuned")
    assert (tuned.window_s, tuned.utilisation_bounds(), tuned.scale_down_interval_s) == (180.0, (0.4, 0.8), 600.0)
    assert tuned.stabilisation_s == FlinkAutoscalerOptions().stabilisation_s == 300.0
    assert FlinkAutoscalerOptions(preset="tuned", window_s=60.0).window_s == 60.0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"preset": "tune"}, "option 'preset': Input should be 'default' or 'tuned'"),
        ({"utilisation_max": 0.6}, "utilisation_target 0.7 is not between utilisation_min"),
        ({"vertex_min": 9, "vertex_max": 3}, "vertex_min 9 is above vertex_max 3; swap or widen them"),
        ({"window": 60}, "unknown option 'window'; did you mean 'window_s'?"),
    ],
)
def test_options_that_cannot_be_are_refused_with_the_mend(options: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(says)):
        build_policy("flink-autoscaler", options)
    with pytest.raises(ValidationError):
        FlinkAutoscalerOptions(**options)

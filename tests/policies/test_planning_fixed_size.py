"""The best fixed size of the last hours: who did worse than it goes back to it."""

import numpy as np
import pytest

from perdix.models.forecasting.contract import Forecast
from perdix.policies.contract import Reason
from perdix.policies.planning.rival import Rival
from perdix.settings.stream_job import Objectives
from tests.policies.planned import DAY, decide, lost


def test_a_job_whose_plans_lost_against_a_fixed_size_goes_back_to_it_and_not_below(situate):
    decision = decide(situate, scale_out=8, memory=lost(situate))
    assert "did better than the plans for hours" in decision.sentence
    assert 4 <= decision.scale_out <= 5
    held = decide(situate, scale_out=decision.scale_out, memory=decision.memory)
    assert (held.scale_out, held.reason) == (decision.scale_out, Reason.HOLD_FIXED)
    off = {"load": 10.0, "minutes": np.concatenate((DAY, np.full(60, 10.0)))}
    assert decide(situate, **off).scale_out == 1
    assert decide(situate, **off, memory=lost(situate, situate().now_s + 3_600.0)).scale_out >= 4


def test_what_grows_beyond_the_fixed_size_is_gone_after_all_the_same(situate):
    memory = lost(situate, situate().now_s + 3_600.0)
    decision = decide(situate, load=6_000.0, lag_records=50_000.0, memory=memory)
    assert (decision.reason, decision.scale_out >= 7) == (Reason.SCALE_OUT, True)


def test_what_ran_is_told_against_the_best_fixed_size_of_the_last_hours(situate):
    told = decide(situate, scale_out=8, memory=lost(situate)).against_fixed
    assert (told.workers, told.late_share) == (pytest.approx(14.3, abs=0.1), pytest.approx(0.064, abs=0.001))
    assert told.fixed_workers in (4, 5)
    assert told.loses
    even = {"rival": {**lost(situate)["rival"], "worker_s": 1.09 * told.fixed_workers * 1.4e4}}
    assert not decide(situate, memory=even).against_fixed.loses
    assert decide(situate).against_fixed is None, "before an hour was counted"


@pytest.mark.parametrize(("runs", "goes"), [(10, False), (12, True)])
def test_the_fixed_size_is_gone_to_where_that_gives_back_a_tenth(situate, runs, goes):
    """Zoo 60001-33: 21 -> 20 -> 28 -> 27 -> 44 workers, each step inwards to save one, and dealt worse by it."""
    rival = {**lost(situate, situate().now_s + 3_600.0)["rival"], "size": 10.0}
    given = {"load": 8_300.0, "minutes": np.full(720, 8_300.0), "since_rescale_s": 3_600.0}
    decision = decide(situate, **given, scale_out=runs, memory={"rival": rival})
    assert (decision.scale_out < runs) is goes, decision.sentence


def test_the_fixed_size_is_not_gone_back_to_while_as_much_arrives_as_when_it_was_left(situate):
    """Zoo 67001-13: 12 -> 9 -> 32 -> 12 workers twice an hour, because two minutes at nine taught nothing of them."""
    rival = {**lost(situate, situate().now_s + 3_600.0)["rival"], "size": 10.0}
    given = {"load": 8_300.0, "minutes": np.full(720, 8_300.0), "since_rescale_s": 3_600.0, "scale_out": 12}
    left = {"size": 11.0, "per_s": 8_300.0, "at_s": situate().now_s - 1_800.0}
    assert decide(situate, **given, memory={"rival": rival, "outgrown": left}).scale_out == 12
    less = {**left, "per_s": 9_300.0}
    assert decide(situate, **given, memory={"rival": rival, "outgrown": less}).scale_out < 12


@pytest.mark.parametrize(("left_s", "goes"), [(1_400.0, True), (100.0, False)])
def test_the_fixed_size_is_gone_to_as_far_as_the_budget_has_room_for_the_way(situate, left_s, goes):
    """Zoo 58001-26: 40 -> 13 workers, late for minutes of catching up, 13 -> 40, and so on every half an hour."""
    now_s, day = situate().now_s, np.full(720, 3_400.0)
    late_s = 0.05 * 28_800.0 - left_s
    spent = {"late_s": late_s, "seen_s": 28_800.0, "at_s": now_s - 60.0, "usual": 3.0, "ours_s": late_s}
    given = {
        "load": 3_400.0,
        "minutes": day,
        "scale_out": 8,
        "since_rescale_s": 3_600.0,
        "objectives": Objectives(recovery_time_s=600.0, checkpoint_interval_s=90.0),
        "memory": {**lost(situate, now_s + 3_600.0), "spent": spent},
    }
    assert (decide(situate, **given).scale_out < 8) is goes


@pytest.mark.parametrize("ahead", [15, 60])
def test_as_little_may_be_late_of_an_hour_as_of_a_quarter_where_the_fixed_size_is_gone_to(situate, ahead):
    """Zoo 88001-28: 13 workers stood for three hours where 10 do, for 20 s of an hour that they would be late."""
    now_s, place = situate().now_s, np.arange(12)
    rarely = [np.full(12, 2_000.0).tolist(), np.where(place >= 8, 8.0, 0.0).tolist()]
    spent = {"late_s": 40.0, "seen_s": 28_800.0, "at_s": now_s - 60.0, "usual": 3.0, "ours_s": 40.0}
    given = {"load": 3_400.0, "minutes": np.full(720, 3_400.0), "scale_out": 5, "since_rescale_s": 3_600.0}
    given |= {"memory": {**lost(situate, now_s + 3_600.0), "spent": spent, "lateness": rarely}}
    given |= {"objectives": Objectives(recovery_time_s=600.0, checkpoint_interval_s=90.0)}
    further = Forecast(now_s, 300.0, np.full(ahead // 5, 3_400.0), {}, "daily", 0)
    decision = decide(situate, **given, further=further)
    assert f"for {ahead} minutes; 4 workers would be late for" in decision.sentence


def test_while_nothing_may_be_given_back_what_runs_says_nothing_against_plans(situate):
    """A job that went to all workers in its first hour was held to ten for six hours (the sine, seed 41)."""
    for minutes, counted in ((30, False), (200, True)):
        first = decide(situate, load=1_500.0, scale_out=12, minutes=np.full(minutes, 1_500.0))
        later = {"now_s": situate().now_s + 60.0, "memory": first.memory, "minutes": np.full(minutes, 1_500.0)}
        rival = Rival.of_memory(decide(situate, load=1_500.0, scale_out=12, **later).memory)
        assert (rival.worker_s > 0.0) is counted
        assert rival.at_s == situate().now_s + 60.0


def test_where_plans_did_worse_a_forecast_makes_no_load_new(situate):
    """Zoo 68001-0: at each new tooth of a saw 9 -> 19 -> 26 -> 40 -> 19 -> 9 workers, where 9 had carried the last."""
    teeth = np.tile(np.linspace(4_000.0, 500.0, 60), 12)
    given = {"load": 4_100.0, "forecast": np.linspace(4_100.0, 7_000.0, 900), "minutes": teeth, "scale_out": 5}
    assert decide(situate, **given).scale_out > 6
    stands = decide(situate, **given, memory=lost(situate, situate().now_s + 3_600.0))
    assert stands.scale_out <= 6
    new = decide(situate, **{**given, "load": 4_900.0}, memory=lost(situate, situate().now_s + 3_600.0))
    assert new.scale_out > 6, "what arrives is new"


STEPS = np.concatenate((np.full(400, 1_000.0), np.full(70, 3_500.0)))


def test_plans_are_held_against_a_fixed_size_over_the_hours_that_were_counted(situate):
    """Zoo 91001-6: what ran in the last hour, under thrice the load, lost against what had done for hours before."""
    now_s = situate().now_s
    rival = {"worker_s": 5.5 * 3_900.0, "late_s": 200.0, "seen_s": 3_900.0, "stands_until_s": -1.0, "defeats": 0.0}
    rival |= {"at_s": now_s - 60.0, "since_s": now_s - 4_200.0, "fewest": 1}
    when_full = [np.full(12, 2_000.0).tolist(), np.where(np.arange(12) >= 8, 200.0, 0.0).tolist()]
    given = {"load": 3_500.0, "scale_out": 5, "minutes": STEPS}
    long_ago = {**rival, "since_s": now_s - 28_200.0}
    before = decide(situate, **given, memory={"rival": long_ago, "lateness": when_full}).against_fixed
    assert before.fixed_workers < 5
    assert before.loses
    since = decide(situate, **given, memory={"rival": rival, "lateness": when_full}).against_fixed
    assert since.fixed_workers >= 5
    assert not since.loses


def test_plans_that_never_went_below_the_fixed_size_may_do_so_after_a_defeat(situate):
    """Zoo 91001-6: six workers stood where five do, lost by that, and might then not go to the two that do later."""
    now_s = situate().now_s
    lost_by = {**lost(situate, now_s + 3_600.0)["rival"], "size": 4.0}
    off = {"load": 10.0, "minutes": np.concatenate((DAY, np.full(60, 10.0))), "scale_out": 8}
    below, never = (decide(situate, **off, memory={"rival": {**lost_by, "binds": binds}}) for binds in (True, False))
    assert (below.scale_out, never.scale_out) == (4, 1)
    assert "not below 4" in below.sentence
    assert "did better than the plans" not in never.sentence


def test_the_fixed_size_is_gone_to_also_where_plans_may_go_below_it(situate):
    rival = {**lost(situate, situate().now_s + 3_600.0)["rival"], "size": 10.0, "binds": False}
    given = {"load": 8_300.0, "minutes": np.full(720, 8_300.0), "since_rescale_s": 3_600.0}
    decision = decide(situate, **given, scale_out=12, memory={"rival": rival})
    assert decision.scale_out < 12, decision.sentence
    assert "; 9 did better than the plans for hours." in decision.sentence
    assert decision.candidates[11].rejected_by == "9 did better than the plans for hours"


@pytest.mark.parametrize("load", [1_500.0, 3_500.0])
def test_fewer_workers_that_cost_less_need_no_fixed_size_as_a_reason(situate, load):
    rival = {**lost(situate, situate().now_s + 3_600.0)["rival"], "size": 4.0, "binds": False}
    given = {"load": load, "minutes": np.full(720, load), "since_rescale_s": 3_600.0, "scale_out": 10}
    decision = decide(situate, **given, memory={"rival": rival})
    assert decision.scale_out < 10
    assert decision.candidates[9].rejected_by.endswith("worker-hours more")
    assert "did better than the plans" not in decision.sentence


def test_where_the_bounds_do_not_allow_what_runs_that_is_why_it_is_left(situate):
    rival = {**lost(situate, situate().now_s + 3_600.0)["rival"], "size": 4.0, "binds": False}
    given = {"load": 6_000.0, "minutes": np.full(720, 6_000.0), "capacities": {n: 900.0 * n for n in range(1, 13)}}
    given |= {"since_rescale_s": 3_600.0, "scale_out": 10, "bounds": (1, 8)}
    decision = decide(situate, **given, memory={"rival": rival})
    assert (decision.scale_out, decision.candidates[-1].rejected_by) == (8, "the bounds do not allow it")
    assert "did better than the plans" not in decision.sentence

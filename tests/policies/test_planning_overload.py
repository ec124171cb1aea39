"""Loads that no size carries, or none for sure."""

from dataclasses import replace

import numpy as np
import pytest

from perdix.models.capacity.contract import Estimate
from perdix.models.recovery.downtime import Downtimes
from perdix.policies.contract import Reason
from perdix.policies.planning.policy import Perdix
from tests.policies.planned import decide, lost


@pytest.mark.parametrize("foreseen", [12_500.0, 20_000.0, 60_000.0, 1e12])
def test_what_no_size_would_carry_is_no_reason_to_stay_small(situate, foreseen):
    """Seen on a real Flink: 4 of 8 workers stood at a CPU load of 0.96, for a line rose above what 8 take."""
    rising = np.linspace(4_900.0, foreseen, 900)
    for minutes in (np.full(4, 4_000.0), np.full(200, 4_000.0)):
        decision = decide(situate, load=4_900.0, forecast=rising, minutes=minutes, latency_p95_ms=3_900.0)
        assert decision.scale_out >= 11, decision.sentence


def test_a_load_above_what_the_most_workers_take_keeps_them(situate):
    assert decide(situate, load=14_000.0, scale_out=12, lag_records=90_000.0).scale_out == 12


def test_what_no_size_carries_is_explained_as_late(situate):
    """The plan reckons with no more than the most workers take; who reads it wants to know what is to be expected."""
    rising = np.linspace(9_000.0, 24_000.0, 900)
    decision = decide(situate, load=9_000.0, forecast=rising, minutes=np.full(720, 9_000.0), scale_out=12)
    assert [stage.scale_out for stage in decision.plan] == [12] * 15
    assert decision.plan[-1].load_per_s > 23_000.0
    assert [round(stage.late_share, 1) for stage in decision.plan[4:]] == [1.0] * 11, "12 take 12,000/s"
    late_s = sum(stage.late_share * stage.lasts_s for stage in decision.plan)
    assert f"12 workers would be late for {late_s:.0f} s of it" in decision.sentence
    assert all(stage.worker_s > 10 * 12 * 60.0 for stage in decision.plan[4:]), "what is late is paid for"


HOPELESS = {"load": 1_000.0, "lag_records": 3e6, "minutes": np.full(720, 1_000.0), "bounds": (4, 6), "scale_out": 6}


def overloaded(situate, spread_of_four, unit=1.0, **changes):
    """Six workers take 990/s of 1,000; four are believed to take 960, within a spread."""
    four, six = 960.0 * unit, 990.0 * unit
    known = {
        4: Estimate(4, four, four / spread_of_four, four * spread_of_four, False, "test"),
        6: Estimate(6, six, 985.0 * unit, 995.0 * unit, False, "test"),
    }
    given = {**HOPELESS, "since_rescale_s": 3_600.0, **changes}
    return Perdix().decide(replace(situate(**given, latency_p95_ms=900_000.0), capacities=known))


def test_where_nothing_holds_the_size_that_may_is_tried(situate):
    """Zoo 65001-2: with four partitions three workers take no more than two; two were never seen at such a load."""
    decision = overloaded(situate, 1.2)
    assert (decision.scale_out, decision.reason) == (4, Reason.SCALE_MAXIMUM)
    assert "no size is sure to catch up, 4 workers most likely" in decision.sentence


@pytest.mark.parametrize("binds", [False, True])
def test_what_is_tried_is_told_as_that_though_a_fixed_size_did_better(situate, binds):
    rival = {**lost(situate, situate().now_s + 3_600.0)["rival"], "size": 4.0, "binds": binds}
    decision = overloaded(situate, 1.2, memory={"rival": rival})
    assert (decision.scale_out, decision.reason) == (4, Reason.SCALE_MAXIMUM)
    assert decision.candidates[1].rejected_by == "it would not catch up"
    assert binds or "did better than the plans" not in decision.sentence


def test_what_may_hold_is_tried_however_small_the_load(situate):
    """The very same job counted in other units: one of a record in ten seconds."""
    minutes, lag = 1e-4 * HOPELESS["minutes"], 1e-4 * HOPELESS["lag_records"]
    decision = overloaded(situate, 1.2, unit=1e-4, load=0.1, lag_records=lag, minutes=minutes)
    assert (decision.scale_out, decision.reason) == (4, Reason.SCALE_MAXIMUM)


def test_a_size_that_surely_fails_or_that_just_began_is_not_left_for_another(situate):
    assert overloaded(situate, 1.01).scale_out == 6
    assert overloaded(situate, 1.2, since_rescale_s=600.0).scale_out == 6


def test_who_will_catch_up_is_not_disturbed(situate):
    assert overloaded(situate, 1.2, load=700.0, lag_records=20_000.0, minutes=np.full(720, 700.0)).scale_out == 6


def beyond_all(situate, scale_out, **changes):
    """Far more arrives than the most workers take, and has for an hour."""
    given = {"load": 12_000.0, "lag_records": 3e7, "minutes": np.full(720, 12_000.0), "bounds": (1, 8), **changes}
    return decide(situate, **given, scale_out=scale_out, latency_p95_ms=900_000.0)


def test_a_load_beyond_every_size_is_met_with_the_largest(situate):
    """Three of eight workers stood for three hours: late all the time as eight would be, so none seemed worth it."""
    decision = beyond_all(situate, 3)
    assert (decision.scale_out, decision.reason) == (8, Reason.SCALE_MAXIMUM)
    assert "no size catches up within it, 8 workers take the most" in decision.sentence
    assert decision.candidates[2].rejected_by == "it would not catch up"
    kept = beyond_all(situate, 8)
    assert (kept.scale_out, kept.reason) == (8, Reason.HOLD_GOOD)
    assert "no size catches up within it, 8 workers take the most" in kept.sentence


def test_beyond_every_size_one_that_takes_hardly_more_is_no_reason_to_stand_still(situate):
    capacities = {n: min(1_000.0 * n, 6_200.0) for n in range(1, 9)}
    assert beyond_all(situate, 6, capacities=capacities).scale_out == 6
    slow = Downtimes.assumed(out_s=600.0, in_s=600.0)
    assert beyond_all(situate, 7, downtimes=slow).scale_out == 7
    assert beyond_all(situate, 4, downtimes=slow).scale_out == 8

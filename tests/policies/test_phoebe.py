"""Algorithm 1 of Phoebe, branch by branch, and what perdix adds to it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from perdix.models.capacity.contract import Estimate
from perdix.models.forecasting.contract import Forecast
from perdix.models.recovery.downtime import Downtimes
from perdix.policies.contract import Decision, Reason, Situation
from perdix.policies.evaluation_interval import NOT_PROFILED
from perdix.policies.phoebe import AS_PRINTED, Phoebe, PhoebeOptions
from tests.policies.known_profile import KnownLatency, profile_of

Situate = Callable[..., Situation]
TARGET_S = 180.0  # the paper's


def decide(situation: Situation, **options: Any) -> Decision:
    """Decide as the paper prints it, but for the options that are given."""
    return Phoebe(PhoebeOptions(**{**AS_PRINTED, "recovery_time_s": TARGET_S, **options})).decide(situation)


def rejections(decision: Decision) -> dict[int, str | None]:
    return {candidate.scale_out: candidate.rejected_by for candidate in decision.candidates}


def rising(load: float, peak: float, from_s: int) -> np.ndarray[Any, Any]:
    rates = np.full(900, load)
    rates[from_s:] = peak
    return rates


class TestAlgorithm1:
    def test_the_smallest_that_recovers_in_time_at_a_normal_latency_is_taken(self, situate: Situate) -> None:
        # 30 s stopped, 10 s replayed: R = 30 + 40 r / (1 - r); 4 workers: 310 s; 5: 123 s, but at 70 % of T_max
        decision = decide(situate(load=3_500.0, scale_out=9, profiled=profile_of()))
        assert (decision.scale_out, decision.reason) == (6, Reason.SCALE_IN)
        assert decision.recovery_s == pytest.approx(30 + 40 * 7 / 5, abs=1.5)
        found = rejections(decision)
        assert found[3] == "recovery from a failure would never catch up, the target is 180 s"
        assert str(found[4]).startswith("recovery from a failure would take 3")
        assert found[5] == "the latency at 3,500/s would not be normal (20,000 ms)"
        assert found[6] is None
        assert list(found) == [1, 2, 3, 4, 5, 6], "it stops at the first that holds"
        assert "6 workers would recover from a failure in" in decision.sentence
        assert "5 would not: the latency at 3,500/s would not be normal" in decision.sentence

    def test_recovery_is_asked_before_latency(self, situate: Situate) -> None:
        decision = decide(situate(load=3_500.0, profiled=profile_of(normal_up_to=0.01)))
        assert "recovery from a failure" in str(rejections(decision)[4]), "its latency would not be normal either"
        assert "latency" in str(rejections(decision)[12])

    def test_a_recovery_equal_to_the_target_passes(self, situate: Situate) -> None:
        situation = situate(load=3_500.0, profiled=profile_of(normal_up_to=1.0))
        exact = decide(situation).recovery_s
        assert exact is not None
        assert decide(situation, recovery_time_s=exact).scale_out == 5
        assert decide(situation, recovery_time_s=exact - 1e-6).scale_out == 6

    def test_where_none_holds_the_most_is_taken(self, situate: Situate) -> None:
        decision = decide(situate(load=30_000.0, profiled=profile_of()))
        assert (decision.scale_out, decision.reason) == (12, Reason.SCALE_MAXIMUM)
        assert len(decision.candidates) == 12
        assert "No candidate holds while 30,000/s are projected; 12 workers, the most" in decision.sentence

    def test_the_current_one_is_kept_where_it_is_the_smallest(self, situate: Situate) -> None:
        decision = decide(situate(load=3_500.0, scale_out=6, profiled=profile_of()))
        assert (decision.scale_out, decision.reason) == (6, Reason.HOLD_GOOD)

    def test_a_rise_is_planned_for_by_its_furthest_bin_and_a_fall_by_its_nearest(self, situate: Situate) -> None:
        for forecast in (rising(1_000.0, 3_500.0, 480), rising(3_500.0, 1_000.0, 120)):
            profiled = profile_of()
            decide(situate(load=float(forecast[0]), forecast=forecast, profiled=profiled))
            assert isinstance(profiled.latency, KnownLatency)
            ((scale_outs, projected),) = profiled.latency.asked
            assert scale_outs == list(range(1, 13))
            assert projected == pytest.approx(3_500.0)

    def test_what_lies_beyond_the_horizon_is_not_projected(self, situate: Situate) -> None:
        profiled = profile_of()
        decide(situate(load=1_000.0, forecast=rising(1_000.0, 9_000.0, 600), profiled=profiled))
        assert isinstance(profiled.latency, KnownLatency)
        assert profiled.latency.asked[0][1] == pytest.approx(1_000.0)

    def test_the_objective_of_the_job_is_the_target_where_none_is_given(self, situate: Situate) -> None:
        decision = decide(situate(load=3_500.0, profiled=profile_of(normal_up_to=1.0)), recovery_time_s=None)
        assert decision.scale_out == 4, "310 s of the 600 s that the job allows"


class TestWhenItEvaluates:
    def test_a_job_that_started_within_the_interval_is_left_alone(self, situate: Situate) -> None:
        situation = situate(load=9_000.0, uptime_s=599.0, profiled=profile_of())
        decision = decide(situation)
        assert (decision.scale_out, decision.reason) == (5, Reason.HOLD_GRACE)
        assert decision.sentence == "Started 599 s ago: left alone for 600 s, it may still recover."
        assert decide(situate(load=9_000.0, uptime_s=600.0, profiled=profile_of())).scale_out == 12

    @pytest.mark.parametrize("uptime_s", [None, math.nan])
    def test_without_an_uptime_the_last_rescale_counts(self, situate: Situate, uptime_s: float | None) -> None:
        changes = {"uptime_s": uptime_s, "profiled": profile_of()}
        assert decide(situate(since_rescale_s=100.0, **changes)).reason is Reason.HOLD_GRACE
        assert decide(situate(since_rescale_s=700.0, **changes)).reason is not Reason.HOLD_GRACE

    def test_it_evaluates_every_ten_minutes_and_remembers_when(self, situate: Situate) -> None:
        first = decide(situate(load=3_500.0, scale_out=6, profiled=profile_of()))
        later = {"load": 9_000.0, "scale_out": 6, "profiled": profile_of(), "memory": first.memory}
        now_s = situate().now_s
        held = decide(situate(now_s=now_s + 540.0, **later))
        assert (held.scale_out, held.reason) == (6, Reason.HOLD_GOOD)
        assert held.sentence == "Evaluated 540 s ago; the next evaluation comes after 600 s."
        assert held.memory == first.memory
        again = decide(situate(now_s=now_s + 599.0, **{**later, "forecast": 9_000.0}))
        assert again.scale_out == 12, "ticks come a little early or late"

    @pytest.mark.parametrize("broken", ["soon", True, math.nan, None, [1.0], 2e9])
    def test_a_damaged_memory_is_no_reason_to_wait(self, situate: Situate, broken: object) -> None:
        situation = situate(load=3_500.0, scale_out=9, profiled=profile_of(), memory={"evaluated_s": broken})
        assert decide(situation).scale_out == 6

    def test_a_job_without_a_profile_is_held_and_told_how_to_get_one(self, situate: Situate) -> None:
        decision = decide(situate(load=9_000.0))
        assert (decision.scale_out, decision.reason) == (5, Reason.HOLD_UNKNOWN)
        assert decision.sentence == NOT_PROFILED


class TestBlind:
    def test_without_the_lag_there_is_no_scaling_in_but_scaling_out(self, situate: Situate) -> None:
        held = decide(situate(load=3_500.0, scale_out=9, lag_records=None, profiled=profile_of()))
        assert (held.scale_out, held.reason) == (9, Reason.HOLD_BLIND)
        assert "the consumer lag is not measured, so there is no scaling in" in held.sentence
        assert decide(situate(load=3_500.0, scale_out=4, lag_records=None, profiled=profile_of())).scale_out == 6

    def test_nor_to_the_most_where_none_holds_and_more_run(self, situate: Situate) -> None:
        situation = situate(load=30_000.0, scale_out=20, lag_records=None, profiled=profile_of())
        assert (decide(situation).scale_out, decide(situation).reason) == (20, Reason.HOLD_BLIND)

    def test_a_load_that_is_not_known_holds(self, situate: Situate) -> None:
        decision = decide(situate(workload_per_s=math.nan, profiled=profile_of()))
        assert decision.reason is Reason.HOLD_BLIND


class TestWhatPerdixAdds:
    """Each option on its own; with :data:`AS_PRINTED` none of them has an effect."""

    def test_few_workers_less_are_not_worth_a_stop(self, situate: Situate) -> None:
        eight = situate(load=3_500.0, scale_out=8, profiled=profile_of())
        assert decide(eight).scale_out == 6, "the paper scales in by two"
        held = decide(eight, ignored_in=2)
        assert (held.scale_out, held.reason) == (8, Reason.HOLD_GOOD)
        assert "2 of 8 workers are not worth a stop" in held.sentence
        assert decide(situate(load=3_500.0, scale_out=9, profiled=profile_of()), ignored_in=2).scale_out == 6

    def test_a_small_share_less_is_not_worth_a_stop(self, situate: Situate) -> None:
        situation = situate(load=3_500.0, scale_out=9, profiled=profile_of())
        assert decide(situation, least_saving=1 / 3).scale_out == 6, "3 of 9 are a third"
        assert decide(situation, least_saving=0.34).reason is Reason.HOLD_GOOD

    def test_more_than_the_bounds_allow_is_scaled_in_whatever_it_saves(self, situate: Situate) -> None:
        situation = situate(load=6_500.0, scale_out=13, profiled=profile_of(), bounds=(1, 12))
        assert decide(situation, ignored_in=4).scale_out <= 12

    def test_scaling_out_is_never_too_little(self, situate: Situate) -> None:
        situation = situate(load=3_500.0, scale_out=5, profiled=profile_of())
        assert decide(situation, ignored_in=9, least_saving=0.9).scale_out == 6

    def test_a_failure_that_comes_later_counts_while_it_may_come_before_the_next_evaluation(
        self, situate: Situate
    ) -> None:
        # 3,000/s, and 4,500/s from 700 s on: a failure now is over by then, one just before meets the peak.
        forecast = rising(3_000.0, 4_500.0, 700)
        situation = situate(load=3_000.0, scale_out=5, forecast=forecast, profiled=profile_of(normal_up_to=1.0))
        assert decide(situation).scale_out == 4
        later = decide(situation, lasting_s=720.0)
        assert later.scale_out == 6
        assert "recovery from a failure would take" in str(rejections(later)[5])
        assert decide(situation, lasting_s=360.0).scale_out == 4

    def test_a_quantile_of_the_forecast_may_be_decided_on(self, situate: Situate) -> None:
        likely = Forecast(situate().now_s, 1.0, np.full(900, 3_000.0), {0.9: np.full(900, 3_500.0)})
        situation = replace(situate(load=3_000.0, profiled=profile_of()), forecast=likely)
        assert decide(situation).scale_out == 5
        assert decide(situation, quantile=0.9).scale_out == 6
        for unusable in ({}, {0.9: np.full(900, math.nan)}):
            without = replace(situation, forecast=replace(likely, quantiles=unusable))
            assert decide(without, quantile=0.9).scale_out == 5, "the mean stands in"

    def test_what_the_regression_is_unsure_of_is_not_counted_on(self, situate: Situate) -> None:
        scattered = profile_of({2: 2_400.0, 5: 4_000.0, 8: 9_600.0, 12: 10_800.0}, normal_up_to=1.0)
        situation = situate(load=3_500.0, profiled=scattered)
        bold, careful = decide(situation), decide(situation, confidence=0.95)
        assert careful.scale_out > bold.scale_out
        assert careful.candidates[0].capacity_per_s < bold.candidates[0].capacity_per_s

    def test_what_the_running_deployment_showed_limits_what_is_counted_on(self, situate: Situate) -> None:
        slow = {n: Estimate(n, 700.0 * n, 650.0 * n, 750.0 * n, n == 6, "test") for n in range(1, 13)}
        situation = situate(load=3_500.0, scale_out=6, profiled=profile_of())
        situation = replace(situation, capacities=slow)
        assert decide(situation).scale_out == 6
        observed = decide(situation, observed=True)
        assert observed.scale_out == 7, "6 workers take 4,200/s as their keys fell; of 7 only the profile knows"
        assert observed.candidates[5].capacity_per_s == pytest.approx(4_200.0)

    def test_a_share_of_the_target_may_be_kept_back(self, situate: Situate) -> None:
        situation = situate(load=3_500.0, profiled=profile_of(normal_up_to=1.0))
        assert decide(situation, target_share=0.6).scale_out == 6, "123 s are more than 60 % of 180 s"

    def test_the_learned_downtime_of_failures_decides(self, situate: Situate) -> None:
        slow = situate(
            load=3_500.0,
            profiled=profile_of(normal_up_to=1.0),
            downtimes=Downtimes.assumed(30.0, 15.0, failure_s=110.0),
        )
        assert decide(slow).scale_out == 10, "D = 110 s: r may be .368 at most"

    def test_a_lag_is_worked_off_too(self, situate: Situate) -> None:
        situation = situate(load=3_500.0, lag_records=200_000.0, profiled=profile_of(normal_up_to=1.0))
        assert decide(situation).scale_out == 6, "200,000 records take 133 s more of five workers' spare 1,500/s"


class TestDefectsOfThePublishedProgram:
    def test_a_job_that_never_catches_up_does_not_recover_by_the_end_of_the_horizon(self, situate: Situate) -> None:
        """There the recursion ends with the forecast: a target beyond it would let too few workers pass."""
        decision = decide(situate(load=3_500.0, profiled=profile_of(normal_up_to=2.0)), recovery_time_s=50_000.0)
        assert decision.scale_out == 4
        assert "would never catch up" in str(rejections(decision)[3])

    def test_a_true_rate_of_nothing_is_no_missing_one(self, situate: Situate) -> None:
        decision = decide(situate(load=0.0, scale_out=5, profiled=profile_of()))
        assert (decision.scale_out, decision.reason) == (1, Reason.SCALE_IN)

    def test_a_rising_workload_is_heeded(self, situate: Situate) -> None:
        """There its slope is read from a service that never sends one."""
        steady, rises = (
            decide(situate(load=2_000.0, scale_out=4, forecast=forecast, profiled=profile_of()))
            for forecast in (2_000.0, rising(2_000.0, 4_000.0, 300))
        )
        assert (steady.scale_out, rises.scale_out) == (4, 7)

    def test_a_failure_is_known_by_the_uptime_and_by_no_oracle(self, situate: Situate) -> None:
        """There the program that makes workers fail tells the optimiser of it."""
        failed = situate(load=9_000.0, since_rescale_s=math.inf, uptime_s=45.0, profiled=profile_of())
        assert decide(failed).reason is Reason.HOLD_GRACE

    def test_one_or_two_workers_more_are_taken_where_they_are_needed(self, situate: Situate) -> None:
        assert decide(situate(load=3_500.0, scale_out=5, profiled=profile_of())).reason is Reason.SCALE_OUT


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"quantile": 0.42}, "forecasts have the quantiles"),
        ({"evaluation_s": 0}, "greater than 0"),
        ({"confidence": 0.4}, "greater than or equal to 0.5"),
        ({"recovery_time_s": math.inf}, "finite"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        PhoebeOptions(**options)


def test_a_forecast_that_falls_below_zero_holds(situate: Situate) -> None:
    forecast = np.r_[np.linspace(2_000.0, 0.0, 100), np.full(800, -1.0)]
    decision = decide(situate(load=2_000.0, scale_out=4, forecast=forecast, profiled=profile_of()), lasting_s=600.0)
    assert decision.reason is Reason.HOLD_BLIND
    assert "800 of 900 forecast steps are negative or not finite" in decision.sentence

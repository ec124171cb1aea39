"""Algorithm 1 of Daedalus, branch by branch, in the paper's order and with its comparisons."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from perdix.models.capacity.contract import Estimate
from perdix.models.forecasting.contract import Forecast
from perdix.models.recovery.downtime import Downtimes
from perdix.policies.contract import Reason, Situation
from perdix.policies.daedalus import Daedalus
from perdix.policies.daedalus_options import AS_PRINTED, DaedalusOptions
from tests.policies.as_printed import decide, rejections

Situate = Callable[..., Situation]


def late_peak(load: float, peak: float, from_step: int) -> np.ndarray[Any, Any]:
    rates = np.full(900, load)
    rates[from_step:] = peak
    return rates


class TestTheSearch:
    def test_it_takes_the_smallest_that_holds_and_names_what_binds(self, situate: Situate) -> None:
        # 4,000/s against 3,500/s: backlog (10 + 15) * 3,500 drained at 500/s, after 15 s -> 190 s
        decision = decide(situate(load=3_500.0, scale_out=8))
        assert (decision.scale_out, decision.reason) == (4, Reason.SCALE_IN)
        assert decision.recovery_s == pytest.approx(190.0)
        assert rejections(decision) == {
            1: "1,000/s do not exceed the mean workload of 3,500/s",
            2: "2,000/s do not exceed the mean workload of 3,500/s",
            3: "3,000/s do not exceed the mean workload of 3,500/s",
            4: None,
        }
        assert decision.sentence == (
            "4 workers (4,000/s, recovery in 190 s of 600 s allowed): the smallest that holds; "
            "3 would not: 3,000/s do not exceed the mean workload of 3,500/s."
        )

    def test_a_scale_out_is_taken_ahead_of_a_forecast_rise(self, situate: Situate) -> None:
        decision = decide(situate(load=3_500.0, scale_out=4, forecast=late_peak(3_500.0, 5_500.0, 60)))
        assert (decision.scale_out, decision.reason) == (6, Reason.SCALE_OUT)
        assert rejections(decision)[5] == "recovery would never catch up, the target is 600 s"

    def test_the_current_scale_out_is_kept_where_it_is_the_smallest_that_holds(self, situate: Situate) -> None:
        decision = decide(situate(load=4_500.0, scale_out=5))
        assert (decision.scale_out, decision.reason) == (5, Reason.HOLD_GOOD)
        assert decision.candidates[-1].scale_out == 5

    def test_the_current_scale_out_need_not_carry_the_whole_forecast(self, situate: Situate) -> None:
        # Line order: "i = current -> return" stands before the check of the whole forecast.
        far_peak = late_peak(4_000.0, 9_000.0, 800)
        assert decide(situate(load=4_000.0, scale_out=5, forecast=far_peak)).reason is Reason.HOLD_GOOD
        assert decide(situate(load=4_000.0, scale_out=8, forecast=far_peak)).scale_out == 8

    def test_what_runs_is_not_called_the_smallest_that_holds_beside_a_higher_forecast(self, situate: Situate) -> None:
        kept = decide(situate(load=4_000.0, scale_out=5, forecast=late_peak(4_000.0, 9_000.0, 800)))
        assert kept.sentence == (
            "5 workers (5,000/s, recovery in 190 s of 600 s allowed): what runs still holds, but a new size would have "
            "to last through the 9,000/s forecast within 900 s; 4 would not: 4,000/s do not exceed the mean workload "
            "of 4,000/s."
        )
        assert "what runs" not in decide(situate(load=4_500.0, scale_out=5)).sentence

    def test_a_new_scale_out_must_carry_the_whole_forecast(self, situate: Situate) -> None:
        situation = situate(load=4_000.0, scale_out=12, forecast=late_peak(4_000.0, 7_500.0, 800))
        decision = decide(situation)
        assert decision.scale_out == 8
        assert rejections(decision)[5] == ("5,000/s do not exceed the 7,500/s forecast within 900 s: would not last")
        assert decide(situation, long_lived=False).scale_out == 5

    @pytest.mark.parametrize(("horizon_s", "scale_out"), [(799.0, 5), (801.0, 8), (900.0, 8), (7_200.0, 8)])
    def test_how_far_ahead_it_must_last_can_be_told(self, situate: Situate, horizon_s: float, scale_out: int) -> None:
        situation = situate(load=4_000.0, scale_out=12, forecast=late_peak(4_000.0, 7_500.0, 800))
        assert decide(situation, horizon_s=horizon_s).scale_out == scale_out

    def test_the_least_of_the_bounds_is_called_so(self, situate: Situate) -> None:
        decision = decide(situate(load=100.0, scale_out=5, bounds=(3, 12)))
        assert decision.scale_out == 3
        assert "the least that the bounds allow" in decision.sentence

    def test_the_recovery_time_rejects(self, situate: Situate) -> None:
        # 3,950/s on 4,000/s: (10 + 15) * 3,950 / 50 s to drain
        decision = decide(situate(load=3_950.0, scale_out=8))
        assert decision.scale_out == 5
        assert rejections(decision)[4] == "recovery would take 1,990 s, the target is 600 s"

    def test_a_forecast_within_the_recovery_rejects(self, situate: Situate) -> None:
        # A short rise above capacity that is drained again in time: recovery passes, the load meanwhile does not.
        rates = np.full(900, 2_000.0)
        rates[20:40] = 4_500.0
        decision = decide(situate(load=2_000.0, scale_out=9, forecast=rates))
        assert decision.scale_out == 5
        assert "are below the 4,500/s forecast within" in str(rejections(decision)[4])
        assert "of recovery" in str(rejections(decision)[4])

    def test_candidates_end_with_the_chosen_one(self, situate: Situate) -> None:
        decision = decide(situate(load=3_500.0, scale_out=8))
        assert [candidate.scale_out for candidate in decision.candidates] == [1, 2, 3, 4]
        assert [candidate.recovery_s is None for candidate in decision.candidates] == [True, True, True, False]

    def test_the_search_goes_on_beyond_one_block_of_predictions(self, situate: Situate) -> None:
        decision = decide(situate(load=150_500.0, scale_out=400, bounds=(1, 1_000)), recovery_time_s=3_600.0)
        # 25 s of load drained in 3,585 s at most: at least 25 / 3,585 of 150,500/s to spare -> 152,000/s
        assert decision.scale_out == 152
        assert len(decision.candidates) == 152


class TestComparisonsAsPrinted:
    def test_capacity_must_exceed_the_mean_workload(self, situate: Situate) -> None:
        calm = np.full(900, 100.0)
        assert decide(situate(load=4_000.0, forecast=calm, scale_out=8, recent_workload_per_s=0.0)).scale_out == 5
        assert decide(situate(load=3_999.0, forecast=calm, scale_out=8, recent_workload_per_s=0.0)).scale_out == 4

    def test_a_recovery_equal_to_the_target_passes(self, situate: Situate) -> None:
        situation = situate(load=3_500.0, scale_out=8)
        exact = decide(situation).recovery_s
        assert exact is not None
        assert decide(situation, recovery_time_s=exact).scale_out == 4
        assert decide(situation, recovery_time_s=exact - 1e-6).scale_out == 5

    def test_capacity_equal_to_the_forecast_meanwhile_passes_for_the_current(self, situate: Situate) -> None:
        rates = np.full(900, 2_000.0)
        rates[5:10] = 4_000.0
        assert decide(situate(load=2_000.0, forecast=rates, scale_out=4)).reason is Reason.HOLD_GOOD
        rates[5:10] = 4_001.0
        assert decide(situate(load=2_000.0, forecast=rates, scale_out=4)).reason is Reason.SCALE_OUT

    def test_capacity_must_exceed_the_maximum_of_the_whole_forecast(self, situate: Situate) -> None:
        assert decide(situate(load=2_000.0, forecast=late_peak(2_000.0, 4_000.0, 800), scale_out=8)).scale_out == 5
        assert decide(situate(load=2_000.0, forecast=late_peak(2_000.0, 3_999.0, 800), scale_out=8)).scale_out == 4

    def test_a_lag_equal_to_the_capacity_lets_scale_in(self, situate: Situate) -> None:
        assert decide(situate(load=1_500.0, lag_records=3_000.0, scale_out=8, bounds=(3, 12))).scale_out == 3
        assert decide(situate(load=1_500.0, lag_records=3_000.1, scale_out=8, bounds=(3, 12))).scale_out == 4


class TestTheLag:
    def test_a_job_that_catches_up_is_not_scaled_in(self, situate: Situate) -> None:
        decision = decide(situate(load=2_000.0, lag_records=100_000.0, scale_out=8))
        assert (decision.scale_out, decision.reason) == (8, Reason.HOLD_GOOD)
        assert rejections(decision)[7] == "7,000/s are below the consumer lag of 100,000 records: catching up"
        assert "consumer lag of 100,000 records" in decision.sentence

    def test_the_lag_does_not_stop_a_scale_out(self, situate: Situate) -> None:
        decision = decide(situate(load=2_000.0, lag_records=1_000_000.0, scale_out=3))
        assert (decision.scale_out, decision.reason) == (4, Reason.SCALE_OUT)

    def test_whether_the_lag_is_work_to_catch_up_is_an_option(self, situate: Situate) -> None:
        situation = situate(load=2_000.0, lag_records=1_000_000.0, scale_out=3)
        assert decide(situation, count_lag=False).reason is Reason.HOLD_GOOD

    def test_without_a_measured_lag_there_is_no_scaling_in_but_scaling_out(self, situate: Situate) -> None:
        kept = decide(situate(load=1_000.0, lag_records=None, scale_out=8))
        assert (kept.scale_out, kept.reason) == (8, Reason.HOLD_BLIND)
        assert "the consumer lag is not measured" in kept.sentence
        assert decide(situate(load=7_000.0, lag_records=None, scale_out=4)).reason is Reason.SCALE_OUT
        good = decide(situate(load=3_500.0, lag_records=None, scale_out=4))
        assert (good.scale_out, good.reason) == (4, Reason.HOLD_GOOD)


class TestAfterARescale:
    @pytest.mark.parametrize("since_s", [0.0, 179.9, -5.0])
    def test_nothing_happens_within_the_grace_period(self, situate: Situate, since_s: float) -> None:
        decision = decide(situate(load=9_000.0, scale_out=3, since_rescale_s=since_s))
        assert (decision.scale_out, decision.reason) == (3, Reason.HOLD_GRACE)
        assert "180 s" in decision.sentence

    def test_after_grace_an_overloaded_job_may_be_rescaled_at_once(self, situate: Situate) -> None:
        decision = decide(situate(load=5_500.0, scale_out=3, since_rescale_s=180.0))
        assert (decision.scale_out, decision.reason) == (6, Reason.SCALE_OUT)

    @pytest.mark.parametrize(
        ("load", "soon", "reason"),
        [
            (4_000.0, 4_000.0, Reason.HOLD_RECENT_RESCALE),
            (7_999.0, 7_999.0, Reason.HOLD_RECENT_RESCALE),
            (8_000.0, 7_000.0, Reason.SCALE_OUT),  # strictly above the mean workload
            (4_000.0, 8_000.0, Reason.HOLD_GOOD),  # and strictly above the forecast until then, or the search decides
        ],
    )
    def test_within_600_s_what_carries_the_load_is_kept(
        self, situate: Situate, load: float, soon: float, reason: Reason
    ) -> None:
        rates = np.full(900, load)
        rates[:60] = soon
        situation = situate(load=load, forecast=rates, scale_out=8, since_rescale_s=400.0, recent_workload_per_s=0.0)
        assert decide(situation).reason is reason

    def test_the_forecast_beyond_the_next_tick_does_not_matter_within_600_s(self, situate: Situate) -> None:
        situation = situate(load=4_000.0, forecast=late_peak(4_000.0, 11_000.0, 60), scale_out=8, since_rescale_s=400.0)
        assert decide(situation).reason is Reason.HOLD_RECENT_RESCALE
        sooner = replace(situation, tick_interval_s=61.0)
        assert decide(sooner).reason is Reason.SCALE_OUT

    def test_the_rule_ends_at_600_s(self, situate: Situate) -> None:
        assert decide(situate(scale_out=8, since_rescale_s=599.9)).reason is Reason.HOLD_RECENT_RESCALE
        assert decide(situate(scale_out=8, since_rescale_s=600.0)).reason is Reason.SCALE_IN

    def test_both_periods_are_options(self, situate: Situate) -> None:
        situation = situate(scale_out=8, since_rescale_s=100.0)
        assert decide(situation, grace_s=60.0).reason is Reason.HOLD_RECENT_RESCALE
        assert decide(situation, grace_s=60.0, recent_s=60.0).reason is Reason.SCALE_IN


class TestBlindness:
    @pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0])
    @pytest.mark.parametrize("name", ["workload_per_s", "recent_workload_per_s", "lag_records"])
    def test_a_number_that_is_none_holds(self, situate: Situate, name: str, bad: float) -> None:
        decision = decide(situate(load=100.0, scale_out=9, **{name: bad}))
        assert (decision.scale_out, decision.reason) == (9, Reason.HOLD_BLIND)
        assert decision.sentence.startswith("Blind: the ")

    @pytest.mark.parametrize("rates", [[], [100.0, math.nan], [math.inf, 100.0]])
    def test_a_broken_forecast_holds(self, situate: Situate, rates: list[float]) -> None:
        decision = decide(situate(load=100.0, scale_out=9, forecast=np.array(rates)))
        assert (decision.scale_out, decision.reason) == (9, Reason.HOLD_BLIND)

    def test_a_forecast_that_has_ended_holds(self, situate: Situate) -> None:
        situation = situate(load=100.0, scale_out=9)
        old = Forecast(situation.now_s - 900.0, 1.0, np.full(900, 100.0))
        decision = decide(replace(situation, forecast=old))
        assert decision.sentence == "Blind: the forecast ended 0 s ago."
        assert decide(replace(situation, forecast=replace(old, origin_s=situation.now_s - 899.0))).scale_out == 1

    @pytest.mark.parametrize("ahead_s", [3_600.0, 86_400.0])
    def test_a_forecast_that_has_not_begun_holds(self, situate: Situate, ahead_s: float) -> None:
        situation = situate(load=100.0, scale_out=9)
        foreseen = Forecast(situation.now_s + ahead_s, 1.0, np.full(900, 100.0))
        decision = decide(replace(situation, forecast=foreseen))
        assert (decision.scale_out, decision.reason) == (9, Reason.HOLD_BLIND)
        assert decision.sentence == f"Blind: the forecast begins {ahead_s:,.0f} s after now."
        assert decide(replace(situation, forecast=replace(foreseen, origin_s=situation.now_s + 60.0))).scale_out == 1

    def test_unusable_downtimes_or_rescale_times_hold(self, situate: Situate) -> None:
        assert decide(situate(since_rescale_s=math.nan)).reason is Reason.HOLD_BLIND
        assert decide(situate(downtimes=Downtimes.assumed(in_s=math.nan))).reason is Reason.HOLD_BLIND

    def test_nothing_known_of_the_capacity_holds(self, situate: Situate) -> None:
        assert decide(situate(capacities={})).reason is Reason.HOLD_UNKNOWN

    @pytest.mark.parametrize("value", [math.nan, math.inf, -3.0, 0.0])
    def test_an_unusable_capacity_of_the_current_scale_out_holds(self, situate: Situate, value: float) -> None:
        decision = decide(situate(load=100.0, scale_out=5, capacities={3: 3_000.0, 5: value}))
        assert (decision.scale_out, decision.reason) == (5, Reason.HOLD_UNKNOWN)

    def test_an_unusable_capacity_elsewhere_costs_that_candidate_only(self, situate: Situate) -> None:
        known = {n: 1_000.0 * n for n in range(1, 13)} | {4: math.nan}
        decision = decide(situate(load=3_500.0, scale_out=8, capacities=known))
        assert decision.scale_out == 5
        assert rejections(decision)[4] == "its capacity is not known"

    def test_outside_the_bounds_with_nothing_known_inside_holds(self, situate: Situate) -> None:
        decision = decide(situate(scale_out=15, capacities={15: 15_000.0}))
        assert (decision.scale_out, decision.reason) == (15, Reason.HOLD_UNKNOWN)


class TestOutsideTheBounds:
    def test_it_comes_back_into_the_bounds(self, situate: Situate) -> None:
        assert decide(situate(load=9_500.0, scale_out=15)).scale_out == 10
        assert decide(situate(load=20_000.0, scale_out=15)).scale_out == 12
        assert decide(situate(load=100.0, scale_out=1, bounds=(3, 12))).scale_out == 3

    def test_it_comes_back_also_where_more_workers_have_more_capacity(self, situate: Situate) -> None:
        known = {n: 1_000.0 * n for n in range(1, 16)}  # the loop knows the capacity of what runs, wherever it is
        assert decide(situate(load=20_000.0, scale_out=15, capacities=known)).scale_out == 12

    def test_the_rule_of_600_s_does_not_keep_it_outside(self, situate: Situate) -> None:
        assert decide(situate(load=9_500.0, scale_out=15, since_rescale_s=300.0)).scale_out == 10


def test_what_was_remembered_is_kept(situate: Situate) -> None:
    for changes in ({}, {"load": 90_000.0}, {"lag_records": math.nan}, {"since_rescale_s": 1.0}):
        assert decide(situate(memory={"seen": 3}, **changes)).memory == {"seen": 3}


def test_the_capacity_that_decides_is_the_estimate_not_its_interval(situate: Situate) -> None:
    situation = situate(load=3_500.0, scale_out=8)
    wide = {n: Estimate(n, item.per_s, 0.0, 1e9, True, "wide") for n, item in situation.capacities.items()}
    assert decide(replace(situation, capacities=wide)) == decide(situation)


def spread_out(situation: Situation, rates: np.ndarray[Any, Any] | None = None, **quantiles: float) -> Situation:
    """The situation with quantiles that are multiples of the mean: ``p90=1.2``."""
    mean = situation.forecast.mean if rates is None else rates
    found = {int(name[1:]) / 100.0: factor * mean for name, factor in {"p50": 1.0, "p95": 1.0, **quantiles}.items()}
    return replace(situation, forecast=replace(situation.forecast, mean=mean, quantiles=found))


class TestTheQuantile:
    """Which part of the forecast is believed: its mean as in the paper, or a quantile that is rarely exceeded."""

    def test_without_one_the_mean_decides_and_quantiles_do_not_matter(self, situate: Situate) -> None:
        situation = situate(load=3_500.0, scale_out=8)
        assert decide(spread_out(situation, p90=2.0)) == decide(situation)

    def test_a_new_scale_out_must_carry_the_quantile_throughout(self, situate: Situate) -> None:
        situation = spread_out(situate(load=3_000.0, scale_out=10), late_peak(3_000.0, 4_500.0, 800), p90=1.5)
        assert decide(situation).scale_out == 5
        careful = decide(situation, quantile=0.9)
        assert careful.scale_out == 7  # above 1.5 * 4,500
        assert rejections(careful)[6] == "6,000/s do not exceed the 6,750/s forecast within 900 s: would not last"

    def test_the_recovery_is_predicted_with_it(self, situate: Situate) -> None:
        # 10 s of 3,500/s replayed and 15 s of 4,200/s, drained at 800/s, after 15 s
        decision = decide(spread_out(situate(load=3_500.0, scale_out=8), p90=1.2), quantile=0.9)
        assert decision.scale_out == 5
        assert decision.recovery_s == pytest.approx(15.0 + (10 * 3_500 + 15 * 4_200) / 800)

    def test_the_rule_of_600_s_looks_at_it(self, situate: Situate) -> None:
        situation = spread_out(situate(load=4_000.0, scale_out=5, since_rescale_s=400.0), p95=1.3)
        assert decide(situation).reason is Reason.HOLD_RECENT_RESCALE
        assert decide(situation, quantile=0.95).reason is Reason.SCALE_OUT

    def test_what_must_be_carried_is_the_highest_rate_and_what_adds_up_is_each_second(self, situate: Situate) -> None:
        """Each second stays below its own p90 nine times of ten; all of them together do so more rarely."""
        situation = spread_out(situate(load=3_000.0, scale_out=10), p90=1.1)
        reached = {0.9: np.linspace(3_000.0, 5_500.0, len(situation.forecast.mean))}
        calibrated = replace(situation, forecast=replace(situation.forecast, maxima=reached))
        assert decide(situation, quantile=0.9).scale_out == 4
        careful = decide(calibrated, quantile=0.9)
        assert careful.scale_out == 6
        assert rejections(careful)[5] == "5,000/s do not exceed the 5,500/s forecast within 900 s: would not last"
        # 10 s of 3,000/s replayed and 15 s of 3,300/s, drained at 2,700/s, after 15 s
        assert careful.recovery_s == pytest.approx(15.0 + (10 * 3_000 + 15 * 3_300) / 2_700)

    @pytest.mark.parametrize("quantile", [0.1, 0.99, 1.0, "mean"])
    def test_only_those_that_every_forecast_has_may_be_asked_for(self, quantile: Any) -> None:
        with pytest.raises(ValueError, match="quantile"):
            DaedalusOptions(quantile=quantile)


class TestTheConfidence:
    """How sure the capacity of another scale-out must be: its keys have not been dealt yet."""

    def test_the_estimate_itself_decides_as_in_the_paper(self, situate: Situate) -> None:
        decision = decide(situate(load=3_500.0, scale_out=8), confidence=0.5)
        assert (decision.scale_out, decision.candidates[3].capacity_per_s) == (4, 4_000.0)

    def test_at_95_percent_it_counts_with_what_nineteen_of_twenty_take(self, situate: Situate) -> None:
        situation = situate(load=3_500.0, scale_out=8)
        decision = decide(situation, confidence=0.95)
        assert decision.scale_out == 5
        assert decision.candidates[3].capacity_per_s == pytest.approx(situation.capacities[4].at(-1.645), rel=1e-4)

    def test_more_confidence_counts_on_less(self, situate: Situate) -> None:
        situation = situate(load=3_500.0, scale_out=8)
        counted = [decide(situation, confidence=p).candidates[3].capacity_per_s for p in (0.5, 0.6, 0.8, 0.95, 0.99)]
        assert counted == sorted(counted, reverse=True)
        assert counted[0] == 4_000.0
        assert counted[-1] < 3_600.0

    def test_what_runs_is_known_and_is_not_doubted(self, situate: Situate) -> None:
        decision = decide(situate(load=3_500.0, scale_out=4), confidence=0.95)
        assert (decision.scale_out, decision.reason) == (4, Reason.HOLD_GOOD)
        assert decision.candidates[3].capacity_per_s == 4_000.0

    @pytest.mark.parametrize(
        "value",
        [
            0.0,
            -3_000.0,
            math.nan,
            math.inf,
        ],
    )
    def test_an_unusable_capacity_elsewhere_costs_that_candidate_only(self, situate: Situate, value: float) -> None:
        known = {n: 1_000.0 * n for n in range(1, 13)} | {4: value}
        decision = decide(situate(load=3_500.0, scale_out=8, capacities=known), confidence=0.9)
        assert decision.scale_out == 5
        assert rejections(decision)[4] == "its capacity is not known"

    def test_an_interval_that_reaches_zero_is_nothing_to_count_on(self, situate: Situate) -> None:
        situation = situate(load=3_500.0, scale_out=8)
        low = {**situation.capacities, 4: Estimate(4, 4_000.0, 0.0, 9_000.0, False, "wide")}
        assert decide(replace(situation, capacities=low), confidence=0.9).scale_out == 5

    def test_an_overloaded_job_still_gets_its_workers(self, situate: Situate) -> None:
        """Doubt about more workers is no reason to stay with too few: nothing holds, so the greatest is taken."""
        doubtful = {n: Estimate(n, 1_000.0 * n, 700.0 * n, 1_400.0 * n, False, "test") for n in range(1, 7)}
        situation = situate(load=8_000.0, scale_out=5, bounds=(1, 6), capacities={})
        assert decide(replace(situation, capacities=doubtful), confidence=0.95).scale_out == 6

    @pytest.mark.parametrize("confidence", [0.49, 1.0, 90, math.nan])
    def test_it_is_a_probability_from_one_half(self, confidence: float) -> None:
        with pytest.raises(ValueError, match="confidence"):
            DaedalusOptions(confidence=confidence)


class TestAsShipped:
    """The defaults: the paper's, but for what makes scaling in worth its stop (docs/daedalus.md)."""

    def test_as_printed_is_told_apart_from_the_defaults(self) -> None:
        printed, shipped = DaedalusOptions(**AS_PRINTED), DaedalusOptions()
        different = {name for name in DaedalusOptions.model_fields if getattr(printed, name) != getattr(shipped, name)}
        assert different == set(AS_PRINTED)
        paper = {"grace_s": 180.0, "recent_s": 600.0, "long_lived": True, "quantile": None, "recovery_time_s": None}
        assert {name: getattr(shipped, name) for name in paper} == paper

    def test_it_never_scales_in_further_than_the_paper_would(self, situate: Situate) -> None:
        for load in np.arange(500.0, 11_500.0, 250.0):
            for running in (3, 8, 12):
                situation = situate(load=float(load), scale_out=running)
                assert Daedalus().decide(situation).scale_out >= decide(situation).scale_out

    def test_it_scales_out_where_the_paper_does(self, situate: Situate) -> None:
        for load in np.arange(500.0, 10_000.0, 250.0):
            situation = situate(load=float(load), scale_out=3)
            if decide(situation).reason is Reason.SCALE_OUT:
                assert Daedalus().decide(situation).reason is Reason.SCALE_OUT

    def test_an_overloaded_job_gets_the_last_worker_that_there_is(self, situate: Situate) -> None:
        """Intervals of 20 %, as those of scale-outs that were never run, and a load that no scale-out can take."""
        unsure = {n: Estimate(n, 1_000.0 * n, 800.0 * n, 1_250.0 * n, n == 11, "test") for n in range(1, 13)}
        situation = replace(situate(load=13_000.0, scale_out=11), capacities=unsure)
        assert decide(situation).scale_out == 12
        assert Daedalus().decide(situation).scale_out == 12

    def test_it_comes_back_into_the_bounds(self, situate: Situate) -> None:
        known = {n: 1_000.0 * n for n in range(1, 14)}
        assert Daedalus().decide(situate(load=11_000.0, scale_out=13, capacities=known)).scale_out == 12

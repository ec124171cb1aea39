"""What a rescale must be worth to Daedalus as shipped (docs/decisions/0027)."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from perdix.policies.contract import Reason, Situation
from tests.policies.as_printed import decide, rejections

Situate = Callable[..., Situation]


class TestWhatARescaleMustBeWorth:
    """A rescale delays records: scaling in must be worth it, and one worker more may save more than it costs."""

    def test_scaling_in_must_save_more_workers_than_its_delay_weighs(self, situate: Situate) -> None:
        """Recovery takes 190 s of which 15 s are downtime: 0.8 s over half an hour, for 3.5 busy workers."""
        situation = situate(load=3_500.0, scale_out=8)
        assert decide(situation).recovery_s == pytest.approx(190.0)  # with 4
        weight = 3.5 * 15.0 * 190.0 / (2 * 1_800.0)
        assert decide(situation, worth_delay_s=weight / 4 + 0.01).scale_out == 4
        decision = decide(situation, worth_delay_s=weight / 4 - 0.01)
        assert decision.scale_out == 5
        told = "over 1,800 s, the rescale would delay every record by 0.8 s: not worth saving 4 workers"
        assert rejections(decision)[4] == told

    def test_the_more_is_saved_the_longer_may_it_take(self, situate: Situate) -> None:
        assert decide(situate(load=3_500.0, scale_out=5), worth_delay_s=1.0).reason is Reason.HOLD_GOOD
        assert decide(situate(load=3_500.0, scale_out=12), worth_delay_s=1.0).scale_out == 4

    @pytest.mark.parametrize(("per_minute", "stays_s"), [(0.0, 1_800), (-40.0, 1_800), (-70.0, 1_125), (-200.0, 600)])
    def test_the_longer_it_will_stay_the_less_the_delay_of_scaling_in_weighs(
        self, situate: Situate, per_minute: float, stays_s: int
    ) -> None:
        """4 workers suit from 3,500/s down to 2,188/s, where 1.5 of them are idle."""
        falling = 3_500.0 + per_minute * np.arange(1.0, 901.0) / 60.0
        decision = decide(situate(load=3_500.0, scale_out=8, forecast=falling), worth_delay_s=0.1)
        assert str(rejections(decision)[4]).startswith(f"over {stays_s:,} s, the rescale would")

    def test_a_larger_scale_out_that_is_needed_catches_up_soon(self, situate: Situate) -> None:
        situation = situate(load=6_500.0, scale_out=5)
        assert decide(situation).scale_out == 7
        decision = decide(situation, worth_delay_s=6.0)
        assert (decision.scale_out, decision.reason) == (9, Reason.SCALE_OUT)
        assert decision.scale_out == decision.candidates[-1].scale_out
        assert "the least in workers and delay together; with 8, over 600 s, the rescale would" in decision.sentence
        told = str(rejections(decision)[7])
        assert told.startswith("over 600 s, the rescale would delay every record by 13.8 s, not by ")

    def test_what_is_chosen_has_the_least_weight_of_all_that_hold(self, situate: Situate) -> None:
        for load in np.linspace(2_000.0, 11_000.0, 40):
            situation = situate(load=float(load), scale_out=1)
            decision = decide(situation, worth_delay_s=6.0)
            if decision.reason is Reason.SCALE_MAXIMUM:
                continue
            weights = {}
            for n in range(1, 13):
                spare = 1_000.0 * n - load
                recovery_s = 30.0 + (30.0 + 10.0) * load / spare if spare > 0 else math.inf
                if recovery_s <= 600.0:
                    weights[n] = n + load / 1_000.0 * 30.0 * recovery_s / 1_200.0 / 6.0
            assert decision.scale_out == min(weights, key=lambda n: weights[n]), load

    def test_the_weightier_a_delay_the_more_workers(self, situate: Situate) -> None:
        chosen = [decide(situate(load=6_500.0, scale_out=5), worth_delay_s=s).scale_out for s in (1e9, 20.0, 6.0, 1.0)]
        assert chosen == sorted(chosen)
        assert chosen[0] < chosen[-1]

    def test_what_runs_is_kept_as_long_as_it_holds(self, situate: Situate) -> None:
        assert decide(situate(load=3_500.0, scale_out=4), worth_delay_s=0.1).reason is Reason.HOLD_GOOD

    def test_coming_back_into_the_bounds_is_no_choice(self, situate: Situate) -> None:
        known = {n: 1_000.0 * n for n in range(1, 14)}
        situation = situate(load=11_000.0, scale_out=13, capacities=known)
        assert decide(situation).scale_out == 12
        assert decide(situation, worth_delay_s=0.01).scale_out == 12

    def test_without_load_nothing_is_delayed(self, situate: Situate) -> None:
        assert decide(situate(load=0.0, scale_out=9), worth_delay_s=0.01).scale_out == 1

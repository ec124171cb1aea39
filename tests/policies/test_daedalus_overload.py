"""Line 14 of Algorithm 1: what Daedalus does where no candidate holds."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from perdix.models.recovery.downtime import Downtimes
from perdix.policies.contract import Reason, Situation
from perdix.settings.stream_job import Bounds
from tests.policies.as_printed import decide

Situate = Callable[..., Situation]


def tried(situation: Situation, up_to: int) -> Situation:
    """Return the situation of a job that ran with each scale-out up to one of them."""
    seen = {n: replace(estimate, seen=n <= up_to) for n, estimate in situation.capacities.items()}
    return replace(situation, capacities=seen)


class TestWhenNothingHolds:
    def test_the_maximum_is_taken(self, situate: Situate) -> None:
        decision = decide(situate(load=20_000.0, scale_out=5))
        assert (decision.scale_out, decision.reason) == (12, Reason.SCALE_MAXIMUM)
        hoped = "No candidate holds; 12 workers may have the greatest capacity (up to 13,396/s, never tried)."
        assert hoped in decision.sentence
        assert decision.recovery_s is None
        assert len(decision.candidates) == 12

    def test_a_recovery_that_never_ends_is_not_predicted(self, situate: Situate) -> None:
        decision = decide(situate(load=11_000.0, forecast=20_000.0, scale_out=5))
        assert decision.reason is Reason.SCALE_MAXIMUM
        assert decision.recovery_s is None
        assert math.isinf(decision.candidates[-1].recovery_s or 0.0)
        assert "recovery would never catch up" in decision.sentence

    def test_the_greatest_capacity_is_taken_with_the_fewest_workers(self, situate: Situate) -> None:
        saturated = {n: min(1_000.0 * n, 8_000.0) - (500.0 if n > 10 else 0.0) for n in range(1, 13)}
        decision = decide(situate(load=20_000.0, scale_out=5, capacities=saturated))
        assert decision.scale_out == 8
        assert "with the fewest workers" in decision.sentence

    def test_equal_capacities_that_were_seen_do_not_move_it(self, situate: Situate) -> None:
        flat = dict.fromkeys(range(1, 13), 5_000.0)
        situation = tried(situate(load=9_000.0, scale_out=7, capacities=flat), up_to=12)
        assert decide(situation).scale_out == 7

    def test_more_workers_than_ever_are_tried_however_little_they_promise(self, situate: Situate) -> None:
        """10 workers with luckily dealt keys, and an estimate of 11 and 12 that comes from smaller ones without it."""
        lucky = {n: 1_000.0 * n if n <= 10 else 10_000.0 for n in range(1, 13)}
        situation = tried(situate(load=12_000.0, scale_out=10, capacities=lucky), up_to=10)
        decision = decide(situation)
        assert decision.scale_out == 11
        assert "11 workers may have the greatest capacity (up to 11,163/s, never tried)" in decision.sentence

    def test_between_those_that_were_tried_nothing_is_hoped_for(self, situate: Situate) -> None:
        """Else the wish would change from tick to tick, and what a target cannot reach would never be given up."""
        flat = {n: 1_000.0 * n if n <= 7 else 7_000.0 + n for n in range(1, 13)}
        situation = situate(load=12_000.0, scale_out=4, capacities=flat)
        seen = {n: replace(estimate, seen=n in (4, 12)) for n, estimate in situation.capacities.items()}
        assert decide(replace(situation, capacities=seen)).scale_out == 12

    def test_what_was_tried_and_is_no_better_is_not_tried_again(self, situate: Situate) -> None:
        lucky = {n: 1_000.0 * n if n <= 10 else 10_000.0 for n in range(1, 13)}
        situation = tried(situate(load=12_000.0, scale_out=10, capacities=lucky), up_to=12)
        assert decide(situation, worth_delay_s=6.0).scale_out == 10
        back = decide(replace(situation, scale_out=12), worth_delay_s=6.0)
        assert (back.scale_out, back.reason) == (12, Reason.SCALE_MAXIMUM)


class TestWhetherARescaleHelps:
    """Where nothing holds, a rescale that makes more wait than it saves is no help (docs/decisions/0027)."""

    def test_what_carries_the_load_is_not_stopped_to_guard_against_a_stop(self, situate: Situate) -> None:
        """At 97 % of 10 workers a failure would take too long to recover from; so would the rescale to 12."""
        slower = {n: 1_000.0 * min(n, 10) + 150.0 * max(n - 10, 0) for n in range(1, 13)}
        situation = tried(situate(load=9_700.0, scale_out=10, capacities=slower), up_to=12)
        assert decide(situation).scale_out == 12  # as printed
        kept = decide(situation, worth_delay_s=6.0)
        assert (kept.scale_out, kept.reason) == (10, Reason.SCALE_MAXIMUM)
        # 10 s are done again, 30 s are lost: 388,000 records, worked off at 600/s. Some 133 million record-seconds.
        assert "10 workers stay: over the next 1,800 s, 0 records would wait on average" in kept.sentence
        assert "and 73,711 records after a rescale to 12." in kept.sentence

    @pytest.mark.parametrize(("most", "chosen"), [(10_400.0, 10), (10_500.0, 12)])
    def test_an_overload_that_lasts_is_worth_a_stop_that_gains(
        self, situate: Situate, most: float, chosen: int
    ) -> None:
        """A stop loses 40 s of work; a gain of 4.7 % makes up for what waits within half an hour."""
        capacities = {n: min(1_000.0 * n, 10_000.0) if n < 12 else most for n in range(1, 13)}
        situation = tried(situate(load=11_000.0, scale_out=10, capacities=capacities), up_to=12)
        assert decide(situation, worth_delay_s=6.0).scale_out == chosen
        assert decide(situation).scale_out == 12  # as printed

    @pytest.mark.parametrize("down_s", [30.0, 300.0, 600.0])
    def test_who_falls_behind_for_good_is_rescaled_however_long_that_takes(
        self, situate: Situate, down_s: float
    ) -> None:
        """A restart of ten minutes leaves more waiting for half an hour than to stay; and then that never ends."""
        capacities = {n: 1_000.0 * n for n in range(1, 13)}
        situation = tried(situate(load=5_500.0, scale_out=5, capacities=capacities), up_to=12)
        slow = replace(situation, downtimes=Downtimes.assumed(out_s=down_s, in_s=down_s, failure_s=down_s))
        assert decide(slow, worth_delay_s=6.0).scale_out > 5

    def test_it_goes_to_fewer_workers_only_where_that_helps(self, situate: Situate) -> None:
        def falling(by: float) -> Situation:
            retrograde = {n: 1_000.0 * n if n <= 8 else 8_000.0 - by * (n - 8) for n in range(1, 13)}
            return situate(load=20_000.0, scale_out=12, capacities=retrograde)

        assert decide(falling(50.0), worth_delay_s=6.0).scale_out == 12
        assert decide(falling(500.0), worth_delay_s=6.0).scale_out == 8
        unseen = replace(falling(500.0), lag_records=None)
        assert decide(unseen, worth_delay_s=6.0).scale_out == 12
        assert "is not measured" in decide(unseen, worth_delay_s=6.0).sentence

    @pytest.mark.parametrize(("runs", "bounds", "chosen"), [(12, (1, 8), 8), (3, (5, 8), 8)])
    def test_from_outside_the_bounds_it_comes_back(
        self, situate: Situate, runs: int, bounds: tuple[int, int], chosen: int
    ) -> None:
        capacities = {n: 8_000.0 + n for n in range(1, 13)}
        situation = situate(load=20_000.0, scale_out=runs, capacities=capacities)
        within = replace(situation, bounds=Bounds(minimum=bounds[0], maximum=bounds[1]))
        assert decide(within, worth_delay_s=6.0).scale_out == chosen

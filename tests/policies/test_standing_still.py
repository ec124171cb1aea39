"""Where a load cannot be foreseen, the smallest size within the error budget is stood at."""

import math
from dataclasses import replace

import numpy as np
import pytest

from perdix.models.capacity.contract import Estimate
from perdix.models.forecasting.contract import Forecast
from perdix.models.forecasting.foresight import foresight
from perdix.models.recovery.downtime import Downtimes
from perdix.policies.contract import Reason, Situation
from perdix.policies.late_at import LateAt
from perdix.policies.planning.budget import Spent
from perdix.policies.standing_still import LEAST_MINUTES, PATIENCE_S, late_shares, stand_still, unforeseeable
from perdix.settings.stream_job import Bounds, Objectives

NOISE = 100.0 * np.maximum(1.0 + 0.4 * np.random.default_rng(3).standard_normal(400), 0.0)


def situation(scale_out, minutes=NOISE, **changes):
    """Workers of 40/s each under a load of 100/s that is white noise."""
    base = Situation(
        now_s=1e6,
        scale_out=scale_out,
        workload_per_s=float(minutes[-1]),
        recent_workload_per_s=float(minutes[-1]),
        lag_records=0.0,
        cpu_load=0.6,
        forecast=Forecast(1e6, 1.0, np.full(900, 100.0)),
        capacities={n: Estimate(n, 40.0 * n, 38.0 * n, 42.0 * n, True, "") for n in range(1, 13)},
        downtimes=Downtimes(),
        bounds=Bounds(),
        objectives=Objectives(),
        minutes=minutes,
        foresight=foresight(minutes),
    )
    return replace(base, **changes)


def test_late_are_the_minutes_at_whose_end_too_much_waits():
    load, capacities = np.array([10.0, 30.0, 10.0, 10.0]), np.array([20.0, 9.0, 0.0])
    np.testing.assert_allclose(late_shares(load, capacities, allowed_s=5.0), [0.25, 1.0, np.nan], atol=0.01)
    assert late_shares(load, capacities, allowed_s=60.0)[0] == 0.0  # 600 waited: 30 s, and were worked off
    assert np.isnan(late_shares(np.array([np.nan]), capacities, 5.0)).all()
    assert late_shares(np.array([np.nan, 10.0]), capacities, 5.0)[0] == 0.0


def test_noise_is_unforeseeable_and_a_wave_is_not():
    assert unforeseeable(situation(4))
    wave = 100.0 * (1.2 + np.sin(np.arange(400) / 30.0))
    assert not unforeseeable(situation(4, wave))
    assert not unforeseeable(situation(4, NOISE[:5]))


def test_noise_whose_minutes_share_seconds_is_unforeseeable_in_the_first_hour_too():
    """One minute says half of the next then: a job with nothing waiting went from 5 to 16 workers (zoo 100015-7)."""
    for first in range(0, 360, 20):
        begun, ended = NOISE[first : first + 40], NOISE[first + 1 : first + 41]
        assert unforeseeable(situation(4, 0.5 * (begun + ended))), first


def test_one_worker_is_spoken_of_as_one():
    one = stand_still(situation(1, 0.1 * NOISE), "perdix")
    assert "so the job stands still at 1 worker: it would have been late in 0.0% of the last minutes" in one.sentence


def test_a_size_of_which_nothing_is_known_is_no_error():
    known = situation(5).capacities
    odd = situation(5, capacities={**known, 7: Estimate(7, math.nan, math.nan, math.nan, False, "")})
    assert stand_still(odd, "daedalus").scale_out == 5


def test_a_size_that_holds_is_stood_at_whatever_the_last_minute_was():
    for last in (0.0, 100.0, 250.0):
        decision = stand_still(situation(5, workload_per_s=last), "daedalus")
        assert (decision.scale_out, decision.reason) == (5, Reason.HOLD_UNFORESEEABLE)
        assert "cannot be foreseen" in decision.sentence


def test_a_size_that_was_measured_to_be_late_too_often_is_left_whatever_its_minutes_say():
    """Bursts within a minute do not show in its mean."""
    late, not_for_long = (LateAt({5: (0.055 * seen_s, seen_s)}, 1e6) for seen_s in (22_000.0, 12_000.0))
    assert stand_still(situation(5), "perdix", LateAt()).scale_out == 5
    assert stand_still(situation(5), "perdix", not_for_long).scale_out == 5, "lateness comes in bursts"
    decision = stand_still(situation(5), "perdix", late)
    assert (decision.scale_out, decision.reason) == (6, Reason.SCALE_OUT)


def test_and_not_gone_back_to_soon():
    late = LateAt({5: (0.055 * 20_000.0, 20_000.0), 6: (0.0, 20_000.0)}, 1e6)
    assert stand_still(situation(6), "perdix", late).scale_out == 6
    forgotten = LateAt({6: (0.0, 20_000.0)}, 1e6)
    assert stand_still(situation(9, since_rescale_s=PATIENCE_S), "perdix", late).scale_out == 6
    assert stand_still(situation(9, since_rescale_s=PATIENCE_S), "perdix", forgotten).scale_out == 5


def test_a_size_that_overspends_the_budget_is_left_for_the_smallest_that_does_not():
    decision = stand_still(situation(2), "daedalus")
    assert decision.reason is Reason.SCALE_OUT
    assert 4 <= decision.scale_out <= 5


def test_where_the_most_workers_overspend_it_the_sentence_says_that_there_are_no_more():
    decision = stand_still(situation(12, 6.0 * NOISE), "daedalus")
    assert (decision.scale_out, decision.reason) == (12, Reason.HOLD_UNFORESEEABLE)
    assert decision.sentence.endswith("of the last minutes, and there are no more workers.")


def test_a_size_that_was_measured_to_be_late_seldom_stays_whatever_its_minutes_say():
    """The minutes say of most sizes that they are late more often than they are (zoo 57001-10: 8 % against 3 %)."""
    here = situation(3, since_rescale_s=7 * 3600.0)
    assert stand_still(here, "perdix").scale_out > 3
    seldom = LateAt({3: (100.0, 8 * 3600.0)}, 1e6)
    assert stand_still(here, "perdix", seldom).scale_out == 3
    behind = replace(here, lag_records=60.0 * here.workload_per_s)
    assert stand_still(behind, "perdix", seldom).scale_out > 3
    pause = replace(here, workload_per_s=0.0, recent_workload_per_s=0.0, lag_records=1.0)
    assert stand_still(pause, "perdix", seldom).scale_out == 3, "one record that waits in a pause is no backlog"


def test_one_late_minute_among_few_is_no_ground_for_a_larger_size():
    """A job of white noise went from 24 to 29 workers for it, where 17 held the objective."""
    minutes = np.full(13, 100.0)
    minutes[7] = 240.0
    assert stand_still(situation(5, minutes), "perdix").scale_out == 5
    assert stand_still(situation(5, minutes, lag_records=1e5), "perdix").scale_out > 5
    often = np.where(np.arange(60) % 6 == 0, 240.0, 60.0)
    assert stand_still(situation(5, often), "perdix").scale_out > 5


def test_one_burst_in_two_hours_is_no_ground_for_a_larger_size():
    """A heavy tail went from 11 to 15 workers for it, which stood for three hours (zoo 56001-7)."""
    minutes = np.full(110, 100.0)
    minutes[60:66] = 240.0
    assert late_shares(minutes, np.array([200.0]), 1.25)[0] > 0.05
    assert stand_still(situation(5, minutes), "perdix").scale_out == 5
    minutes[:40:5] = 240.0
    assert stand_still(situation(5, minutes), "perdix").scale_out > 5


def test_what_was_rescaled_not_long_ago_stays_unless_it_falls_behind():
    assert stand_still(situation(2, since_rescale_s=600.0), "daedalus").scale_out == 2
    assert stand_still(situation(2, since_rescale_s=600.0, lag_records=1e5), "daedalus").scale_out > 2


def test_too_many_workers_are_given_back_sooner_than_one_too_many():
    assert stand_still(situation(12, since_rescale_s=0.27 * PATIENCE_S), "daedalus").scale_out in (5, 6)
    assert stand_still(situation(7, since_rescale_s=0.4 * PATIENCE_S), "daedalus").scale_out == 7


def test_a_job_that_is_new_gives_back_as_slowly_as_one_that_was_rescaled_when_it_began():
    """One hour of noise says little of the next: three unseen jobs were late without what it seemed to spare."""
    hour, three_hours = NOISE[:LEAST_MINUTES], NOISE[:180]
    assert stand_still(situation(8, hour), "daedalus").scale_out == 8
    assert stand_still(situation(8, three_hours), "daedalus").scale_out < 8
    assert stand_still(situation(12, hour), "daedalus").scale_out < 7, "half of the workers go at once"


def test_nothing_is_given_back_on_an_hour_that_was_not_seen_or_a_lag_that_is_not_measured():
    assert stand_still(situation(12, NOISE[: LEAST_MINUTES - 1]), "daedalus").scale_out == 12
    assert stand_still(situation(12, lag_records=None), "daedalus").scale_out == 12


def test_a_size_outside_the_bounds_comes_back_into_them():
    assert stand_still(situation(12, bounds=Bounds(minimum=1, maximum=6)), "daedalus").scale_out == 6


def test_the_most_is_taken_where_none_holds():
    assert (
        stand_still(situation(2, bounds=Bounds(minimum=1, maximum=3), minutes=3.0 * NOISE), "daedalus").scale_out == 3
    )


def test_a_capacity_that_is_not_known_moves_nothing():
    assert stand_still(situation(4, capacities={}), "daedalus").scale_out == 4


def test_a_young_job_whose_load_begins_to_rise_is_not_taken_for_noise():
    for minutes in range(10, 60, 5):
        rising = 100.0 + 900.0 * 0.5 * (1.0 - np.cos(2.0 * np.pi * np.arange(minutes) / 90.0))
        assert not unforeseeable(situation(4, rising))


def unknown_below(high_per_s=7_500.0, **changes):
    """Two workers at 53 % of their capacity; whether one holds is not known, its interval ends at ``high_per_s``."""
    minutes = changes.pop("minutes", 63.0 * NOISE_OF_TEN_PERCENT)
    one = Estimate(1, 6_140.0, 6_140.0**2 / high_per_s, high_per_s, False, "")
    known = {1: one, 2: Estimate(2, 11_900.0, 11_300.0, 12_600.0, True, "")}
    return situation(2, minutes, **{"capacities": known, "bounds": Bounds(minimum=1, maximum=2), **changes})


NOISE_OF_TEN_PERCENT = 100.0 * np.maximum(1.0 + 0.07 * np.random.default_rng(5).standard_normal(400), 0.0)
RAN = LateAt({2: (0.0, 20_000.0)}, 1e6)
NOTHING_SPENT = Spent(0.0, 28_800.0, 1e6, -1.0, 0.0)
MUCH_SPENT = Spent(1_000.0, 28_800.0, 1e6, 0.5, 1_000.0)
HALF_SPENT = Spent(730.0, 28_800.0, 1e6, -1.0, 0.0)


def test_a_smaller_size_that_may_hold_is_tried_while_the_budget_is_not_spent():
    """Seen in the zoo (56001-5): two workers stood all day for what one carries, which was counted at its low end."""
    tried = stand_still(unknown_below(), "perdix", RAN, NOTHING_SPENT)
    assert (tried.scale_out, tried.reason) == (1, Reason.SCALE_IN)
    assert "chance" in tried.sentence
    for spent in (MUCH_SPENT, HALF_SPENT):
        assert stand_still(unknown_below(), "perdix", RAN, spent).scale_out == 2
    assert stand_still(unknown_below(), "daedalus").scale_out == 2, "whoever knows nothing of the budget tries nothing"


def test_what_surely_does_not_hold_or_was_found_out_is_not_tried():
    assert stand_still(unknown_below(6_300.0), "perdix", RAN, NOTHING_SPENT).scale_out == 2
    found_out = LateAt({1: (300.0, 400.0), 2: (0.0, 20_000.0)}, 1e6)
    assert stand_still(unknown_below(), "perdix", found_out, NOTHING_SPENT).scale_out == 2


def test_nothing_smaller_is_tried_than_a_size_that_was_too_small():
    """Seen in the zoo (99001-19): 14 workers were left for being late, and 13, which never ran, tried next."""
    known = unknown_below().capacities
    known = {1: known[1], 2: Estimate(2, 6_900.0, 6_500.0, 7_300.0, True, ""), 3: replace(known[2], scale_out=3)}
    given = replace(unknown_below(capacities=known), scale_out=3, bounds=Bounds(minimum=1, maximum=3))
    runs = {3: (0.0, 20_000.0)}
    assert stand_still(given, "perdix", LateAt(runs, 1e6), NOTHING_SPENT).scale_out < 3
    left = LateAt({2: (600.0, 3_000.0), **runs}, 1e6)
    assert stand_still(given, "perdix", left, NOTHING_SPENT).scale_out == 3


def test_nothing_is_tried_soon_after_a_rescale_nor_where_catching_up_is_dear():
    for changes in ({"since_rescale_s": 3_600.0}, {"lag_records": None}, {"latency_p95_ms": 1e6}):
        assert stand_still(unknown_below(**changes), "perdix", RAN, NOTHING_SPENT).scale_out == 2
    slow = Objectives(checkpoint_interval_s=1_800.0)
    assert stand_still(unknown_below(objectives=slow), "perdix", RAN, NOTHING_SPENT).scale_out == 2


def test_nothing_is_tried_that_the_load_exceeds_in_this_very_minute():
    """A plateau of hours says that it may hold, and the load has just stepped above it."""
    stepped = unknown_below(workload_per_s=6_500.0, recent_workload_per_s=6_500.0)
    assert stand_still(stepped, "perdix", RAN, NOTHING_SPENT).scale_out == 2


def test_what_would_not_recover_from_the_rescale_in_time_is_not_tried():
    """It would be rolled back, whether it holds or not (zoo 56001-26)."""
    close = {1: Estimate(1, 6_150.0, 5_700.0, 6_650.0, True, ""), 2: unknown_below().capacities[2]}
    nearly = 60.0 * NOISE_OF_TEN_PERCENT.clip(max=104.0)
    for interval_s, size in ((10.0, 1), (240.0, 2)):
        objectives = Objectives(checkpoint_interval_s=interval_s)
        here = unknown_below(capacities=close, minutes=nearly, objectives=objectives)
        assert stand_still(here, "perdix", RAN, NOTHING_SPENT).scale_out == size


def test_a_capacity_that_cannot_be_is_no_ground_for_a_trial():
    """At 0, at 1e300, and with an interval that begins at 0."""
    load = np.full(400, 10.0) * (1.0 + 0.4 * np.random.default_rng(5).standard_normal(400)).clip(0.1)
    for low, per_s, high in ((0.0, 0.0, 0.0), (0.0, 40.0, 80.0), (1.0, 40.0, math.inf), (1e300, 1e300, 1e300)):
        given = situation(3, load, since_rescale_s=2.0 * PATIENCE_S)
        strange = {n: Estimate(n, per_s, low, high, False, "") for n in (1, 2)}
        for capacities in ({**given.capacities, **strange}, {3: given.capacities[3], **strange}):
            spent = Spent(0.0, 8 * 3600.0, 1e6)
            assert 1 <= stand_still(replace(given, capacities=capacities), "perdix", LateAt(), spent).scale_out <= 3
    still = situation(3, since_rescale_s=2.0 * PATIENCE_S)
    still = replace(still, minutes=np.zeros(400))
    assert 1 <= stand_still(still, "perdix", LateAt(), Spent(0.0, 8 * 3600.0, 1e6)).scale_out <= 3


def test_a_size_of_which_nothing_usable_is_known_is_not_gone_to_because_it_once_held():
    given = situation(8, since_rescale_s=2.0 * PATIENCE_S)
    held = LateAt(dict.fromkeys(range(1, 9), (0.0, 20_000.0)), 1e6)
    assert stand_still(given, "daedalus", held).scale_out < 8
    unknown = {n: Estimate(n, 40.0 * n, 0.0, 42.0 * n, False, "") for n in range(1, 8)}
    given = replace(given, capacities={**given.capacities, **unknown})
    assert stand_still(given, "daedalus", held).scale_out == 8


def plateau_then(*last, hours=4.0):
    """A load of 314/s that hardly changes, and its last minutes."""
    flat = 314.0 * (1.0 + 0.02 * np.random.default_rng(5).standard_normal(int(60 * hours)))
    return np.concatenate([flat, last])


def test_a_load_that_is_above_all_that_was_seen_for_minutes_is_no_noise():
    """A plateau tells nothing of the next minute, and of a step from it least."""
    assert unforeseeable(situation(9, plateau_then()))
    stepped = plateau_then(457.0, 480.0, 490.0)
    assert foresight(stepped).ahead_s < 300.0, "for the numbers it looks like noise"
    assert not unforeseeable(situation(9, stepped))
    assert not unforeseeable(situation(9, plateau_then(457.0, *[490.0] * 10)))
    noise_at_rest = replace(foresight(NOISE), minutes=240)
    first = np.concatenate([np.zeros(240), [90.0, 100.0, 100.0]])
    assert not unforeseeable(situation(1, first, foresight=noise_at_rest)), "any load is new to an idle job"
    assert unforeseeable(situation(9, plateau_then(457.0))), "it may be a burst"
    assert unforeseeable(situation(9, plateau_then(457.0, 490.0, 490.0, 314.0))), "it is over"


@pytest.mark.parametrize("seen", [12, 25, 45])
def test_a_young_load_that_has_risen_to_far_more_for_two_minutes_is_no_noise(seen):
    """A job whose load tripled in its first hour stood still for a minute more, and was late in half as many more."""
    minutes = 100.0 * (1.0 + 0.1 * np.random.default_rng(seen).standard_normal(seen))
    assert unforeseeable(situation(4, minutes))
    assert unforeseeable(situation(4, np.append(minutes, 300.0)))
    assert not unforeseeable(situation(4, np.append(minutes, [250.0, 300.0])))


def test_nothing_is_given_back_to_a_size_that_does_not_take_the_present_load():
    """Seven workers of 40/s would have held for hours; now 300/s arrive."""
    minutes = np.concatenate([NOISE, [300.0]])
    held = stand_still(situation(12, minutes, since_rescale_s=PATIENCE_S), "perdix")
    assert 40.0 * held.scale_out > 300.0
    assert stand_still(situation(12, since_rescale_s=PATIENCE_S), "perdix").scale_out < 7


def test_who_falls_behind_goes_to_a_size_that_takes_the_present_load():
    minutes = np.concatenate([NOISE, [300.0, 300.0]])
    decision = stand_still(situation(2, minutes, lag_records=1e5), "perdix")
    assert 40.0 * decision.scale_out > 300.0


def test_who_falls_behind_in_a_single_minute_of_noise_does_not_go_to_a_size_for_that_minute():
    """Of 1 worker that 2 had held with, 8 became (zoo 100015-19)."""
    decision = stand_still(situation(2, np.concatenate([NOISE, [100.0, 400.0]]), lag_records=1.5e4), "perdix")
    assert 2 < decision.scale_out <= 6


def test_a_job_of_a_record_in_twenty_seconds_falls_behind_as_one_of_many():
    assert "rescaled not long ago" in stand_still(situation(2, since_rescale_s=60.0), "perdix").sentence
    for per_s in (1.0, 5e-4):
        slow = situation(2, per_s * NOISE, lag_records=6_000.0 * per_s + 4.0, since_rescale_s=60.0)
        slow = replace(slow, capacities={n: Estimate(n, *[40.0 * per_s * n] * 3, True, "") for n in range(1, 13)})
        assert stand_still(slow, "perdix").scale_out > 2, per_s


def test_and_to_one_that_works_off_what_waits_in_the_time_to_recover():
    """A size that takes a record more than arrives never catches up: 3 -> 6 -> 7 -> 12 workers in seven minutes."""
    minutes = np.concatenate([NOISE, [300.0, 300.0]])
    behind = situation(2, minutes, lag_records=6e4)
    decision = stand_still(behind, "perdix")
    assert 40.0 * decision.scale_out > 300.0 + 6e4 / behind.objectives.recovery_time_s

"""Advice: on a job's own load and capacity, and never more than these can carry."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdix.replay.best_static import best_static
from perdix.scan.advice import _Weighed, advise, known_in_time, late_share_now
from perdix.scan.confidence import confidence
from perdix.scan.learning import CannotJudgeError, Restarts
from perdix.scan.own_physics import objectives_of, own_physics
from perdix.scan.page import page
from perdix.scan.with_perdix import busiest_day_s, following
from perdix.twin.job import JobTwin
from tests.scan.made import capacities, daily, judged, learned, load, told


def advised(of, **changes):
    return advise("orders", of, **{"latency_ms": None, "error_budget": 0.05, "looks_s": 900, **changes})


def test_the_twin_has_the_capacities_that_were_learned():
    of = learned()
    job = own_physics("orders", of, objectives_of(of, None, 0.05))
    twin = JobTwin(job.parameters)
    ratios = [twin.true_capacity(n) / twin.true_capacity(1) for n in (1, 5, of.maximum)]
    assert ratios == pytest.approx([of.capacities[n].per_s / of.capacities[1].per_s for n in (1, 5, of.maximum)])


def test_each_minute_has_the_load_that_was_measured_in_it():
    """Lines from the middle of one to that of the next would halve the variance of a load that is noise."""
    rng = np.random.default_rng(3)
    noisy = load(lambda hours: 550.0 + 200.0 * rng.standard_normal(len(hours)).clip(-2.0, 2.0))
    job = own_physics("orders", (of := learned(noisy)), objectives_of(of, None, 0.05))
    measured = np.asarray(noisy.per_s)
    assert job.minutes / job.minutes.mean() == pytest.approx(measured / measured.mean(), rel=1e-9)


def test_the_newest_minutes_count_although_they_are_no_whole_hour():
    """Fifty minutes at 1,000/s, after a day at 550: with fewer than nine workers too much would wait in the end."""
    of = learned(load(lambda hours: np.where(hours < 24, 550.0, 1_000.0), minutes=24 * 60 + 50))
    assert len(own_physics("orders", of, objectives_of(of, None, 0.05)).minutes) == 24 * 60 + 50
    assert advised(of).fixed.workers == 9


@given(st.integers(1, 14 * 1_440))
def test_a_job_of_any_number_of_minutes_is_replayed_to_its_last_one(minutes):
    job = replace(own_physics("orders", (of := learned()), objectives_of(of, None, 0.05)), seconds=60 * minutes)
    assert job.case().seconds == 60 * minutes


def test_a_minute_that_was_not_measured_lies_on_a_line_between_its_neighbours():
    rates = np.full(26 * 60, 550.0)
    rates[100:102], rates[102] = np.nan, 850.0
    job = own_physics("orders", (of := learned(load(lambda _: rates))), objectives_of(of, None, 0.05))
    relative = job.minutes / job.minutes[0]
    assert relative[99:104] == pytest.approx(np.array([550.0, 650.0, 750.0, 850.0, 550.0]) / 550.0)


def test_a_steady_load_gets_the_fewest_workers_that_carry_it():
    found = advised(learned())
    assert found.fixed.workers == 6
    assert found.fixed.held
    assert found.kind == "fixed"
    assert found.saved_workers == 6
    assert found.perdix.method == "not needed"


def test_a_job_of_a_record_in_ten_seconds_is_judged_as_one_of_a_million():
    slow = learned(load(lambda hours: 0.55 + 0.0 * hours), capacities=capacities(each_per_s=0.1))
    assert advised(slow).fixed.workers == advised(learned()).fixed.workers


def test_a_job_that_is_too_small_gets_more_and_the_reason_says_so():
    lag = np.full(1_440, 90_000.0)
    found = advised(learned(workers=4, lag_records=lag, throughput_per_s=np.full(1_440, 400.0)))
    assert found.late_share_now == 1.0
    assert found.saved_workers < 0
    assert found.why.startswith("too small today")


def test_what_runs_is_kept_where_it_is_what_is_needed():
    assert advised(learned(workers=6)).kind == "keep"


def test_a_job_that_is_never_late_is_not_told_to_grow():
    """By its learned capacity it would need six workers, so that capacity is a fifth too low."""
    found = advised(learned(workers=5, latency_ms=np.full(1_440, 700.0)))
    assert (found.kind, found.fixed.workers, found.saved_workers) == ("keep", 6, 0.0)
    assert "late in 0% of the time today" in found.why
    assert found.late_share == 0.0
    assert found.confidence.grade >= "C"
    assert "5 workers are not late" in found.confidence.reason


@pytest.mark.parametrize(
    "changes",
    [
        {"lag_records": np.full(1_440, 90_000.0), "throughput_per_s": np.full(1_440, 400.0)},  # what waits is late
        {"throughput_per_s": np.full(1_440, 400.0)},  # less than what arrives: the rest waits, unmeasured
    ],
)
def test_a_latency_without_the_wait_in_the_topic_does_not_show_that_a_job_is_never_late(changes):
    found = advised(learned(workers=4, latency_ms=np.full(1_440, 700.0), **changes))
    assert found.kind == "fixed"
    assert found.why.startswith("too small today")


def test_a_job_that_was_measured_for_minutes_may_be_told_to_grow():
    latency = np.where(np.arange(1_440) < 30, 700.0, np.nan)
    assert advised(learned(workers=5, latency_ms=latency)).kind == "fixed"


def test_what_follows_its_load_already_is_not_told_to_be_a_larger_fixed_size():
    of = learned(latency_ms=np.full(1_440, 700.0))
    found = advised(replace(of, workers=np.where(np.arange(1_440) < 200, 7.0, 5.0)))
    assert found.kind == "keep"
    assert "6 workers" in found.why
    assert found.confidence == confidence(of, 6)  # nothing contradicts what was learned


LATE = np.where(np.arange(1_440) < 432, 9_000.0, 700.0)  # 30 % of a day, in one piece


def test_a_job_that_is_late_with_more_workers_than_it_needs_is_late_for_another_reason():
    found = advised(learned(workers=12, latency_ms=LATE))
    assert found.fixed.workers == 6
    assert "today it is late in 30% of the time, for another reason than too few workers" in found.why
    assert found.late_share == pytest.approx(0.3)
    assert found.confidence.grade >= "C"
    assert "late" in found.confidence.reason


def test_as_many_workers_as_should_do_that_are_late_may_take_less_than_was_learned():
    found = advised(learned(workers=6, latency_ms=LATE))
    assert found.kind == "keep"
    assert "or they take less than was learned" in found.why


def test_catching_up_with_many_after_too_few_workers_is_for_want_of_workers():
    """Late with 4, then for hours with 12, until nothing waits; the latency is gone while it is rescaled."""
    latency = LATE.copy()
    latency[30:33] = np.nan
    of = learned(latency_ms=latency, workers=12)
    found = advised(replace(of, workers=np.where(np.arange(1_440) < 30, 4.0, 12.0)))
    assert found.late_share_now == pytest.approx(0.3, abs=0.01)
    assert "another reason" not in found.why
    assert found.late_share < 0.05


@pytest.mark.slow
def test_a_load_that_swings_is_followed_by_the_shipped_policy_within_its_bounds():
    found = advised(learned(load(daily)))
    assert found.kind == "perdix"
    assert found.perdix.method == "sampled"
    assert found.perdix.average_workers < 0.9 * found.fixed.workers
    assert found.perdix.late_share <= 0.05
    assert found.bounds.minimum <= found.perdix.workers.min()
    assert found.perdix.workers.max() <= found.bounds.maximum
    assert "follows" in found.why


def test_a_load_beyond_every_size_is_not_judged():
    with pytest.raises(CannotJudgeError, match="no size up to 26 workers"):
        advised(learned(load(lambda hours: 9_000.0 + 0.0 * hours)))


def test_a_job_that_no_size_holds_is_promised_nothing():
    """More than 26 workers take for a tenth of each day: the best of the sizes is late until it has caught up."""
    found = advised(learned(load(lambda hours: np.where(hours % 24 < 2.4, 3_000.0, 2_400.0))))
    assert not found.fixed.held
    assert "would hold" not in found.why
    assert "carry the peak" not in found.why
    assert "no size" in found.why
    assert f"late in {found.fixed.late_share:.0%}" in found.why


def test_lateness_at_the_low_end_of_the_capacity_is_told_with_the_size_that_is_safe():
    found = advised(learned(capacities=capacities(width=0.3)))
    assert found.fixed.late_share_at_low_end > found.fixed.late_share
    assert found.fixed.workers_at_low_end > found.fixed.workers
    assert found.bounds.maximum >= found.fixed.workers_at_low_end


def test_the_objective_is_what_was_asked_for_or_twice_what_is_usual():
    assert objectives_of(learned(), 2_000.0, 0.05).latency_p95_ms == 2_000.0
    assert objectives_of(learned(), None, 0.05).latency_p95_ms == 5_000.0
    assert objectives_of(learned(usual_latency_ms=8_000.0), None, 0.05).latency_p95_ms == 16_000.0


def test_today_is_late_by_latency_or_where_there_is_none_by_what_waits():
    latency = np.where(np.arange(1_440) < 144, 9_000.0, 100.0)
    assert late_share_now(learned(latency_ms=latency), 5_000.0) == pytest.approx(0.1)
    assert late_share_now(learned(), 5_000.0) is None


@settings(max_examples=8)
@given(st.integers(100, 1_000), st.floats(1.0, 2.4))
def test_more_load_never_needs_fewer_workers(rate_per_s, more):
    def size(per_s):
        of = learned(load(lambda hours: per_s + 0.0 * hours, minutes=400))
        return best_static(own_physics("orders", of, objectives_of(of, None, 0.05)).case()).scale_out

    assert size(rate_per_s) <= size(more * rate_per_s)


@given(st.lists(st.floats(0.0, 3_000.0), min_size=1, max_size=200))
def test_who_follows_with_hindsight_carries_every_minute_that_any_size_carries(minutes):
    rates, takes = np.array(minutes), np.array([estimate.per_s for estimate in capacities().values()])
    workers = following(rates, takes).astype(int)
    assert workers.shape == rates.shape
    assert ((takes[workers - 1] >= rates) | (workers == len(takes))).all()


def test_the_busiest_day_is_the_one_with_the_most_records():
    rates = np.full(3 * 1_440, 10.0)
    rates[1_800:2_400] = 100.0
    begin = busiest_day_s(rates) // 60
    assert begin <= 1_800
    assert begin + 1_440 >= 2_400


def test_the_newest_minutes_may_be_of_the_busiest_day():
    rates = np.full(1_440 + 50, 10.0)
    rates[1_440:] = 100.0
    assert busiest_day_s(rates) == 50 * 60


class TestConfidence:
    def test_a_size_that_ran_for_days_and_is_known_well_gets_an_a(self):
        of = learned(load(minutes=7 * 1_440), capacities=capacities(width=0.05, seen=6))
        assert confidence(of, 6).grade == "A"

    @pytest.mark.parametrize(
        ("of", "grade", "reason"),
        [
            (learned(load(minutes=7 * 1_440), capacities=capacities(width=0.05)), "B", "never ran here"),
            (learned(load(minutes=7 * 1_440), capacities=capacities(width=0.3, seen=6)), "C", "±30%"),
            (learned(load(minutes=7 * 1_440), capacities=capacities(width=0.6, seen=6)), "D", "±60%"),
            (learned(capacities=capacities(width=0.05, seen=6)), "C", "only 1.0 days"),
            (learned(load(minutes=1_438), capacities=capacities(width=0.05, seen=6)), "C", "only 1.0 days"),
            (learned(load(minutes=1_360), capacities=capacities(width=0.05, seen=6)), "D", "only 0.9 days"),
        ],
    )
    def test_what_is_less_known_gets_less_and_the_reason_says_what(self, of, grade, reason):
        found = confidence(of, 6)
        assert found.grade == grade
        assert reason in found.reason

    def test_what_is_less_than_a_limit_is_not_shown_as_the_limit(self):
        """The legend: A is known to ±9 %, with 95 % of the load."""
        found = confidence(learned(load(minutes=7 * 1_440), capacities=capacities(width=0.094, seen=6)), 6)
        assert (found.grade, found.reason) == ("B", "6 workers ran here, known to ±9.4%")
        limit = confidence(learned(load(minutes=7 * 1_440), capacities=capacities(width=0.0904, seen=6)), 6)
        assert limit.grade == "A"
        rates = load(minutes=7 * 1_440).per_s.copy()
        rates[100:630] = np.nan
        found = confidence(learned(replace(load(), per_s=rates), capacities=capacities(width=0.05, seen=6)), 6)
        assert (found.grade, found.reason) == ("B", "the load is known for 94.7% of the time")

    def test_gaps_cost_a_grade(self):
        rates = load(minutes=7 * 1_440).per_s.copy()
        rates[100:1_600] = np.nan
        of = learned(replace(load(), per_s=rates), capacities=capacities(width=0.05, seen=6))
        assert confidence(of, 6).grade == "B"


def test_restarts_that_were_seen_are_replayed_and_told():
    of = learned(restarts=Restarts(3, 45.0))
    job = own_physics("orders", of, objectives_of(of, None, 0.05))
    assert job.parameters.restart.out.median_s == 45.0
    assert any("45 s" in note for note in advised(of).notes)


def test_a_job_that_has_nothing_to_do_is_not_late():
    """It has work for a third of the day, and is late in a tenth of that."""
    minute = np.arange(1_440)
    consumed, waiting = np.where(minute < 480, 550.0, 0.0), np.where(minute < 48, 1e6, 0.0)
    of = learned(load(lambda _: consumed), workers=6, lag_records=waiting, throughput_per_s=consumed)
    assert late_share_now(of, 5_000.0) == pytest.approx(48 / 1_440)
    assert known_in_time(of, objectives_of(of, None, 0.05))


def test_no_size_is_called_safe_where_none_holds_at_the_low_end_of_the_capacity():
    job = judged(of=learned(capacities=capacities(width=0.9)))
    assert (job.advice.fixed.held, job.advice.fixed.held_at_low_end) == (True, False)
    assert job.advice.why.endswith("go there step by step, no size up to 26 workers is safe")
    assert "no size up to 26 would hold the objective" in page(told(job), [job])
    assert "safe even" not in page(told(job), [job])


def test_what_no_size_holds_is_not_called_safe():
    job = judged(of=learned(load(lambda hours: np.where(hours % 8 < 2.2, 3_000.0, 200.0))))
    made = page(told(job), [job])
    assert not job.advice.fixed.held
    assert "which no size avoids" in made
    assert "afe even" not in made


def test_a_size_that_holds_the_objective_although_the_peak_waits_is_not_said_to_carry_the_peak():
    short = load(lambda hours: np.where((hours > 10) & (hours < 10.1), 3_000.0, 200.0))
    found = advised(learned(short, capacities=capacities(each_per_s=1_000.0)))
    assert (
        found.why
        == "1 worker carries the load but for 1.2% of the time and is needed nearly always, so no rescaling pays"
    )


def test_what_is_reckoned_by_proportion_lies_within_the_bounds():
    """On the day with the most records it never has one worker, on the others for moments: no day needs more."""
    hours = np.arange(3 * 1_440) / 60.0
    of = learned(
        load(lambda _: np.where(hours < 24.0, 620.0, np.where(hours % 0.25 < 0.02, 1_150.0, 500.0)), 3 * 1_440)
    )
    found = advised(of).perdix
    assert found.method == "sampled"
    assert found.average_workers <= found.peak_workers


def test_rates_of_a_job_with_next_to_nothing_to_do_are_distinguished():
    slow = learned(load(lambda hours: daily(hours) / 1_000.0), capacities=capacities(each_per_s=0.1))
    found = advised(slow)
    assert found.kind == "perdix"
    assert "a mean of 0.55/s and a peak of 1/s" in found.why


def test_a_load_that_is_at_its_peak_most_of_the_time_swings_from_its_mean_and_not_from_its_peak():
    """It read: swings from 300/s (median) to 300/s."""
    of = learned(load(lambda hours: np.where(hours < 11.0, 0.0, 300.0)))
    found = advised(of)
    assert "the load has a mean of 162/s and a peak of 300/s" in found.why
    assert found.why.endswith("perdix follows with 2 rescales a day")
    seldom = _Weighed(of, found.fixed, replace(found.perdix, rescales_per_day=1.0), found.objectives, None)
    assert seldom.why("perdix").endswith("perdix follows with 1 rescale a day")


def test_one_worker_is_one_in_a_doubt():
    n = 1_440
    found = advised(
        learned(
            load(lambda hours: 150.0 + 0.0 * hours),
            workers=1,
            latency_ms=np.full(n, 500.0),
            lag_records=np.zeros(n),
            throughput_per_s=np.full(n, 150.0),
        )
    )
    assert found.confidence.reason == "1 worker is not late today, and by what was learned it would be"


def late_by_a_worker_less(late_share=0.09):
    """8 workers hold 750/s; it runs with 8 but for a tenth of the time with 7, and is late then."""
    few = np.arange(1_440) < late_share * 1_440
    of = learned(load(lambda hours: 750.0 + 0.0 * hours), latency_ms=np.where(few, 9_000.0, 700.0))
    return replace(of, workers=np.where(few, 7.0, 8.0))


def test_a_job_that_is_in_time_all_day_is_not_said_to_be_too_small_where_perdix_is_advised():
    """By its learned capacity 9 workers are too few for the peak, which they carry every day: perdix needs fewer."""
    swings = load(daily)
    in_time = {"latency_ms": np.full(1_440, 700.0), "lag_records": np.zeros(1_440), "throughput_per_s": swings.per_s}
    found = advised(learned(swings, workers=9, **in_time))
    assert (found.kind, found.fixed.workers, found.late_share_now) == ("perdix", 10, 0.0)
    assert not found.too_small
    assert "perdix follows with" in found.why
    assert found.confidence.reason == "9 workers are not late today, and by what was learned they would be"


def test_a_latency_that_is_always_above_the_objective_is_not_for_want_of_workers_where_nothing_waits():
    """It follows its load with 3 to 12 workers, and is never quicker than 3.4 s: 9 all the time would not be either."""
    swings = load(daily)
    slow = {"latency_ms": np.full(1_440, 3_400.0), "lag_records": np.zeros(1_440), "throughput_per_s": swings.per_s}
    of = replace(learned(swings, **slow), workers=np.ceil(np.asarray(swings.per_s) / 90.0) + 1.0)
    found = advised(of, latency_ms=1_000.0)
    assert found.late_share_now == 1.0
    assert not found.too_small
    assert "would hold the objective" not in found.why
    assert "for another reason than too few workers" in found.why
    assert found.late_share > 0.05


def test_lateness_is_never_hidden_behind_about_what_it_needs():
    found = advised(late_by_a_worker_less())
    assert found.fixed.workers - found.average_workers_now < 0.05 * found.average_workers_now
    assert (found.kind, found.workers) == ("fixed", 8.0)
    assert found.why == (
        "too small at times today: late in 9.0% of the time, 8 workers all the time would hold the objective, "
        "and rescaling would save little more"
    )
    assert found.late_share <= 0.05
    assert told(judged(of=late_by_a_worker_less()))["summary"]["too_small"] == 1


def test_lateness_within_the_budget_is_about_what_it_needs():
    found = advised(late_by_a_worker_less(0.04))
    assert found.kind == "keep"
    assert not found.too_small


def test_a_job_that_is_late_and_follows_badly_is_said_to_be_too_small_with_what_perdix_takes():
    """Its load swings; it has what it needs on average, but late at its peaks."""
    swings = load(daily)
    late = np.asarray(swings.per_s) > 900.0
    of = replace(learned(swings, latency_ms=np.where(late, 9_000.0, 700.0)), workers=np.where(late, 8.0, 11.0))
    found = advised(of)
    assert found.kind == "perdix"
    assert found.why.startswith("too small at times today: late in ")
    assert f"perdix would take {found.perdix.average_workers:.1f} workers on average and be late in" in found.why

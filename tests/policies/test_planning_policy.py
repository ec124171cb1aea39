"""The policy perdix, one situation at a time."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from perdix.models.capacity.contract import Estimate
from perdix.models.recovery.downtime import Downtimes, Lost
from perdix.policies.contract import Reason
from perdix.policies.planning.lateness import Lateness
from perdix.policies.planning.policy import Perdix, PerdixOptions
from perdix.settings.stream_job import Objectives
from perdix.telemetry.lateness import SeenLate
from tests.policies.conftest import NOW_S
from tests.policies.planned import DAY, decide, in_place, lost

CAPACITIES = {n: 1_000.0 * n for n in range(1, 13)}


def test_what_carries_the_load_with_room_is_kept(situate):
    decision = decide(situate, load=3_900.0, minutes=np.full(720, 3_900.0))
    assert (decision.scale_out, decision.reason) == (5, Reason.HOLD_GOOD)
    assert "15 minutes" in decision.sentence


def test_a_load_above_the_capacity_is_gone_after(situate):
    decision = decide(situate, load=6_000.0, lag_records=50_000.0)
    assert decision.reason is Reason.SCALE_OUT
    assert decision.scale_out >= 7


def test_workers_that_a_load_left_idle_are_given_back(situate):
    decision = decide(situate, load=1_500.0, minutes=np.concatenate((DAY, np.full(60, 1_500.0))))
    assert decision.reason is Reason.SCALE_IN
    assert 2 <= decision.scale_out <= 3


def test_workers_that_were_idle_for_hours_are_given_back_where_they_were_soon_needed_again_before(situate):
    """Zoo 70001-1: after stays of minutes 6 workers stood idle from noon on, beside a load that 3 carry for hours."""
    brief = {"stays": {"log_s": math.log(600.0), "seen": 6.0, "scale_out": 6.0, "since_s": None}}
    usual = {"load": 2_900.0, "scale_out": 6, "memory": brief}
    before = np.tile([1_900.0, 4_200.0], 300)
    just_now, for_hours = (np.concatenate((before, np.full(minutes, 2_900.0))) for minutes in (20, 180))
    assert decide(situate, **usual, minutes=just_now).scale_out == 6
    assert decide(situate, **usual, minutes=for_hours).scale_out == 4


def test_an_hour_must_have_been_seen_before_anything_is_given_back(situate):
    assert decide(situate, load=1_500.0, minutes=np.full(59, 1_500.0)).scale_out == 5
    assert decide(situate, load=1_500.0, minutes=np.full(61, 1_500.0)).scale_out < 5


def test_nothing_is_given_back_while_the_lag_is_not_known(situate):
    assert decide(situate, load=1_500.0, lag_records=None).scale_out >= 5


def test_nothing_is_given_back_right_after_catching_up(situate):
    """A restart would do again what was just caught up, at the pace of the full capacity."""
    quiet = {"load": 1_500.0, "minutes": np.full(200, 1_500.0)}
    behind = Perdix().decide(situate(**quiet, lag_records=40_000.0))
    assert decide(situate, **quiet, memory=behind.memory).scale_out == 5
    later = situate().now_s + 600.0
    forecast = situate(load=1_500.0).forecast
    forecast = type(forecast)(later, forecast.step_s, forecast.mean, {}, "linear", 0)
    given = situate(**quiet, memory=behind.memory, latency_p95_ms=800.0)
    assert Perdix().decide(type(given)(**{**vars(given), "now_s": later, "forecast": forecast})).scale_out < 5


def test_a_job_that_overspent_its_budget_keeps_more_workers(situate):
    now_s = situate().now_s
    usual = {"load": 1_900.0, "minutes": np.full(200, 1_900.0), "scale_out": 3}
    spent = {"late_s": 5_000.0, "seen_s": 28_000.0, "at_s": now_s - 60.0, "usual": 3.0}
    thrifty = {"late_s": 0.0, "seen_s": 28_000.0, "at_s": now_s - 60.0, "usual": -1.5}
    careful, bold = (decide(situate, **usual, memory={"spent": memory}).scale_out for memory in (spent, thrifty))
    assert careful >= 3
    assert bold <= careful


def test_a_load_that_comes_and_goes_is_not_undressed_for_once_that_cost_the_budget(situate):
    """Each quarter of an hour comes a rush that one worker is overtaken by."""
    minutes = np.tile(np.concatenate((np.full(15, 200.0), np.full(15, 4_800.0))), 24)
    calm, rushes = np.full(732, 200.0), np.concatenate((minutes, np.full(12, 200.0)))
    spent = {"late_s": 1_500.0, "seen_s": 28_000.0, "at_s": situate().now_s - 60.0, "usual": 2.0}
    usual = {"load": 200.0, "scale_out": 6, "memory": {"spent": spent}}
    assert decide(situate, **usual, minutes=rushes).scale_out >= 5
    assert decide(situate, **usual, minutes=calm).scale_out == 1


def seen_at(situation, now_s):
    """The same a little later, as the newest metrics say."""
    seen = replace(situation.seen_late, times_s=np.array([now_s]))
    return replace(situation, now_s=now_s, seen_late=seen)


def test_what_is_late_at_the_most_workers_makes_no_second_dearer(situate):
    """Seen in the zoo (54002-1): overloaded at its maximum for three hours, a job kept it through ten idle ones."""
    late = {"scale_out": 12, "load": 12_500.0, "minutes": np.full(90, 12_500.0), "lag_records": 5e6}
    late |= {"latency_p95_ms": 300_000.0, "memory": decide(situate, latency_p95_ms=800.0).memory}
    now_s = situate().now_s + 60.0
    at_most, before, below = (
        Perdix().decide(seen_at(situate(**{**late, **changes}), now_s)).memory["spent"]
        for changes in ({}, {"since_rescale_s": 60.0}, {"bounds": (1, 20)})
    )
    assert at_most["late_s"] == before["late_s"] == below["late_s"] > 0.0
    assert at_most["ours_s"] == 0.0
    assert before["ours_s"] == below["ours_s"] > 0.0, "more workers, or the most of them earlier, would have spared it"


def test_what_the_most_workers_catch_up_with_is_paid_for_by_who_had_fewer(situate):
    """Zoo 60001-27: one worker in each pause, then half an hour of catching up at the most; no second became dearer."""
    now_s, quiet_ms = situate().now_s, 800.0
    behind = {"lag_records": 5e6, "latency_p95_ms": 300_000.0}
    given = {"scale_out": 12, "load": 11_000.0, "minutes": np.full(90, 11_000.0), "since_rescale_s": 600.0}

    def ours_s(memory, after_s, **changes):
        situation = situate(**{**given, "latency_p95_ms": quiet_ms, "memory": memory, **changes})
        decision = Perdix().decide(seen_at(situation, now_s + after_s))
        return decision.memory["spent"]["ours_s"], decision.memory

    started = decide(situate, latency_p95_ms=quiet_ms).memory
    catching_up_s, _ = ours_s(started, 60.0, **behind)
    assert catching_up_s > 0.0
    _, caught_up = ours_s(started, 60.0)
    again_s, _ = ours_s(caught_up, 120.0, **behind)
    assert again_s == 0.0, "nothing waited at the most workers before, so no plan is to blame"
    more_s, _ = ours_s(caught_up, 120.0, **behind, bounds=(1, 20))
    assert more_s > 0.0, "the bounds were widened: they are no longer the most"
    next_s, _ = ours_s(caught_up, 120.0, **behind, since_rescale_s=30.0)
    assert next_s > 0.0, "but for what waits after the next rescale one is"


def test_a_late_second_of_a_burst_is_no_dearer_than_of_any_other_minute(situate):
    """Zoo 100009-23: a heavy tail's burst called sixteen workers where four carry it, and one does for hours."""
    burst = {"load": 4_000.0, "scale_out": 3, "lag_records": 100_000.0}
    rare, usual = (
        decide(situate, **burst, minutes=np.append(np.full(180, load), [4_000.0] * 2)) for load in (300.0, 3_900.0)
    )
    assert 4 < rare.scale_out < usual.scale_out


def test_however_rare_a_burst_is_it_is_caught_up_with(situate):
    """Workers that are needed now are never dearer than being late without end."""
    burst = {"load": 9_500.0, "scale_out": 1, "lag_records": 500_000.0}
    assert decide(situate, **burst, minutes=np.append(np.full(600, 50.0), [9_500.0] * 3)).scale_out >= 10


def test_more_is_not_taken_than_would_have_held_for_hours(situate):
    """The latency is bad at any size: more workers do not help, and are not bought."""
    decision = decide(situate, latency_p95_ms=20_000.0, minutes=np.full(720, 3_500.0))
    assert decision.scale_out <= 6


def test_what_lies_outside_the_bounds_comes_back_into_them(situate):
    capacities = {n: 1_000.0 * n for n in range(1, 21)}
    decision = decide(situate, scale_out=18, bounds=(1, 12), capacities=capacities)
    assert decision.scale_out <= 12


def test_without_a_capacity_nothing_is_done(situate):
    assert decide(situate, capacities={}).reason is Reason.HOLD_UNKNOWN


def test_its_candidates_say_what_each_size_would_cost(situate):
    decision = decide(situate, load=3_900.0, minutes=np.full(720, 3_900.0))
    assert [candidate.scale_out for candidate in decision.candidates] == list(range(1, 13))
    assert decision.candidates[4].rejected_by is None
    assert "worker-hours more" in str(decision.candidates[1].rejected_by)
    assert decision.candidates[11].rejected_by == "more than 5 were not needed for hours"
    held = decide(situate, scale_out=5, memory=lost(situate, situate().now_s + 3_600.0))
    assert held.candidates[0].rejected_by == "not below 4, which did better than the plans for hours"


def test_a_size_that_would_cost_less_says_why_it_is_not_gone_to(situate):
    """It once read "its plan costs -0.03 worker-hours more"."""
    quiet = {"load": 1_200.0}
    young = decide(situate, **quiet, minutes=np.full(30, 1_200.0))
    unmeasured = decide(situate, **quiet, lag_records=None)
    behind = Perdix().decide(situate(**quiet, minutes=np.full(200, 1_200.0), lag_records=40_000.0))
    just = decide(situate, **quiet, minutes=np.full(200, 1_200.0), memory=behind.memory)
    for decision, why in (
        (young, "the job is known for less than an hour, so there is no scaling in"),
        (unmeasured, "the consumer lag is not measured, so there is no scaling in"),
        (just, "too little for a rescale now"),
    ):
        assert decision.scale_out == 5
        reasons = [str(candidate.rejected_by) for candidate in decision.candidates[:4]]
        assert any(reason.endswith(why) for reason in reasons), reasons
        assert not any("costs -" in reason for reason in reasons), reasons


def test_a_latency_that_more_workers_would_not_change_is_said_to_be_that(situate):
    tight = situate().objectives.model_copy(update={"latency_p95_ms": 1_000.0})
    idle = {"load": 1_500.0, "minutes": np.full(59, 1_500.0), "latency_p95_ms": 3_405.0}
    assert "raise" not in decide(situate, **idle).sentence
    above = decide(situate, **idle, objectives=tight)
    expected = (
        "The p95 latency is 3,405 ms, above the objective of 1,000 ms, which more workers would not change: "
        "raise objectives.latency_p95_ms."
    )
    assert above.sentence.endswith(expected)
    behind = decide(situate, load=6_000.0, lag_records=50_000.0, latency_p95_ms=3_405.0, objectives=tight)
    assert "raise" not in behind.sentence
    for load in (4_200.0, 4_900.0, 5_600.0):
        full = {"load": load, "scale_out": 3, "minutes": np.full(720, load), "latency_p95_ms": 1_200.0}
        grows = decide(situate, **full, objectives=tight, since_rescale_s=7_200.0)
        assert grows.scale_out == 3 or "raise" not in grows.sentence


@pytest.mark.parametrize(
    ("foreseen", "words"),
    [
        (3_905.0, "The load stays at 3,905/s or below for 15 minutes;"),
        (3_500.0, "The load stays at 3,900/s or below for 15 minutes;"),
        (4_500.0, "The load rises from 3,900/s to 4,500/s within 15 minutes;"),
    ],
)
def test_a_load_is_said_to_rise_where_one_would_say_so(situate, foreseen: float, words: str):
    decision = decide(situate, load=3_900.0, forecast=foreseen, minutes=np.full(720, 3_900.0))
    assert decision.sentence.startswith(words)


def test_an_overspent_budget_is_said_to_be_that(situate):
    spent = {"spent": {"late_s": 9_000.0, "seen_s": 28_000.0, "at_s": situate().now_s - 60.0, "usual": 0.0}}
    assert "; the error budget is overspent." in decide(situate, memory=spent).sentence
    assert "of the error budget is left." in decide(situate).sentence


@pytest.mark.parametrize("budget", [0.0, 1.0])
def test_every_budget_is_one(situate, budget):
    objectives = situate().objectives.model_copy(update={"error_budget": budget})
    decision = decide(situate, load=3_900.0, objectives=objectives, memory=decide(situate).memory)
    assert 1 <= decision.scale_out <= 12


def test_a_higher_price_of_lateness_never_saves_workers(situate):
    situation = situate(load=1_900.0, minutes=np.full(200, 1_900.0), latency_p95_ms=800.0)
    chosen = [Perdix(PerdixOptions(late_price=price)).decide(situation).scale_out for price in (0.1, 8.0, 500.0)]
    assert chosen == sorted(chosen)


@pytest.mark.parametrize("price", [1e-6, 0.01, 1.0])
@pytest.mark.parametrize("load", [1_500.0, 3_500.0, 4_700.0])
def test_no_budget_is_spent_on_falling_behind(situate, price, load):
    """What is not processed now must be processed later, by more workers: 8 -> 1 was done to save seven for a while."""
    thrifty = {"spent": {"late_s": 0.0, "seen_s": 28_000.0, "at_s": situate().now_s - 60.0, "usual": -1.5}}
    situation = situate(load=load, minutes=np.full(720, load), latency_p95_ms=800.0, memory=thrifty)
    chosen = Perdix(PerdixOptions(late_price=price)).decide(situation).scale_out
    assert situation.capacities[chosen].per_s > load


def test_a_scale_in_is_not_put_off_for_ever_because_later_ones_look_cheaper(situate):
    """Zoo 58001-26: 32 workers stood for five hours where 13 do; each plan gave them back after its last minute."""
    day = np.full(720, 12_000.0)
    given = {
        "load": 12_000.0,
        "minutes": day,
        "bounds": (1, 40),
        "scale_out": 32,
        "objectives": Objectives(recovery_time_s=600.0, checkpoint_interval_s=180.0),
    }
    spent = {"late_s": 900.0, "seen_s": 28_800.0, "at_s": situate().now_s - 60.0, "usual": -1.0, "ours_s": 900.0}
    decision = decide(situate, **given, memory={"spent": spent})
    assert decision.reason is Reason.SCALE_IN, decision.sentence
    assert decision.scale_out <= 24


@pytest.mark.parametrize(("checkpointed", "stays"), [(False, True), (True, False)])
def test_where_a_checkpoint_is_made_for_each_rescale_no_interval_is_feared_for(situate, checkpointed, stays):
    """Zoo 76001-2: a second of work was done again, 90 s were reckoned with, and workers that nobody needed stayed."""
    now_s, known = situate().now_s, {"bounds": (1, 21), "downtimes": Downtimes.assumed(3.0, 3.0, 30.0, 1.0)}
    given = {
        **known,
        "load": 8_000.0,
        "minutes": np.full(720, 8_000.0),
        "scale_out": 16,
        "since_rescale_s": 7_200.0,
        "objectives": Objectives(recovery_time_s=600.0, checkpoint_interval_s=180.0),
        "checkpointed": checkpointed,
    }
    assert (decide(situate, **given).scale_out == 16) is stays
    caught_up = {"behind_s": now_s - 120.0}
    assert (decide(situate, **given, memory=caught_up).scale_out == 16) is stays
    assert decide(situate, **given, memory={"behind_s": now_s - 50.0}).scale_out == 16, "it has hardly caught up"


def test_a_size_that_was_just_gone_to_is_found_out_before_it_is_left(situate):
    """Zoo 76001-2: 19 -> 16 -> 19 workers every five minutes, for what was not known of 16 counted once they ran."""

    def decided(scale_out, since_s, memory, lag_records=0.0):
        job = {"scale_out": scale_out, "since_rescale_s": since_s, "memory": memory, "lag_records": lag_records}
        unsure = {n: 0.03 if n == 21 else 0.14 for n in range(1, 22)}
        return Perdix().decide(in_place(situate, 13_500.0, minutes=90, unsure=unsure, **job))

    spent = {"late_s": 1_000.0, "seen_s": 28_800.0, "at_s": NOW_S - 60.0, "usual": 0.0, "ours_s": 1_000.0}
    decision = decided(21, 7_200.0, {"spent": spent})
    assert decision.scale_out == 16

    def then(since_s, lag_records=0.0):
        return decided(16, since_s, decision.memory, lag_records).scale_out

    assert then(60.0) == then(120.0) == 16
    assert then(600.0) > 16, "what is still not known of it counts"
    assert then(60.0, lag_records=300_000.0) > 16, "it does not hold"


@pytest.mark.parametrize(("lost_s", "stays"), [(10.0, False), (24.4, True)])
def test_where_checkpoints_for_rescales_are_not_complete_in_time_an_interval_is_feared_for(situate, lost_s, stays):
    """Of 300 s that are read again no more than 30 are learnt, at first 24.4: a plan reckoned with so little."""
    known = replace(Downtimes.assumed(3.0, 3.0, 30.0, 2.0), lost=Lost(lost_s, 1.0))
    given = {
        "bounds": (1, 21),
        "load": 8_000.0,
        "minutes": np.full(720, 8_000.0),
        "scale_out": 16,
        "since_rescale_s": 7_200.0,
        "objectives": Objectives(recovery_time_s=900.0, checkpoint_interval_s=600.0),
        "checkpointed": True,
        "downtimes": known,
    }
    assert situate(**given).lost_s == (300.0 if stays else lost_s)
    assert (decide(situate, **given).scale_out == 16) is stays


@pytest.mark.parametrize("since_s", [60.0, 120.0, 600.0])
@pytest.mark.parametrize("scaled_in", [False, True])
def test_a_size_that_was_just_gone_to_lets_none_below_it_look_safer(situate, since_s, scaled_in):
    """For three minutes after a scale-out all smaller sizes counted as known as the one that is known best."""
    unsure = {n: 0.02 if n > 7 else 0.2 for n in range(1, 11)}
    stays = {"log_s": 7.0, "seen": 3.0, "scale_out": 5.0, "since_s": NOW_S - 3_600.0 if scaled_in else None}
    job = {"since_rescale_s": since_s, "memory": {"stays": stays}}
    assert Perdix().decide(in_place(situate, 2_800.0, minutes=240, unsure=unsure, **job)).scale_out == 5


def test_the_fewer_rescales_of_the_day_are_left_the_more_one_must_save(situate):
    """Zoo 68001-13: 13 workers stood for two hours where 6 do, because the last of 48 rescales had gone to them."""
    quiet = {"load": 1_500.0, "minutes": np.concatenate((DAY, np.full(60, 1_500.0)))}
    moved = [decide(situate, **quiet, rescales_today=used).scale_out < 5 for used in range(48)]
    assert moved[0]
    assert not moved[47]
    assert moved == sorted(moved, reverse=True), "once it is worth too little, it stays so"
    full = {"load": 6_000.0, "lag_records": 50_000.0}
    assert decide(situate, **full, rescales_today=47).scale_out >= 7, "who falls behind may have the last"


@pytest.mark.parametrize("tick_s", [15.0, 60.0, 300.0])
def test_a_tick_counts_as_many_minutes_of_lateness_as_it_lasts(situate, tick_s):
    decision = decide(situate, load=4_200.0, since_rescale_s=7_200.0, tick_interval_s=tick_s)
    assert Lateness.of_memory(decision.memory).minutes.sum() == tick_s / 60.0


def test_while_the_budget_is_overspent_more_is_taken_than_was_called_enough(situate):
    """Zoo 58001-16: eight of eleven workers stood for five hours, late in a tenth of the time."""
    lateness = Lateness()
    for _ in range(300):
        lateness = lateness.seen(0.9, 0.12)
    spent = {"late_s": 1_700.0, "seen_s": 28_800.0, "at_s": situate().now_s - 60.0, "usual": 1.0, "ours_s": 1_700.0}
    memory = {"spent": spent, "lateness": lateness.to_state()}
    given = {"load": 4_500.0, "minutes": np.full(720, 4_500.0), "memory": memory}
    assert decide(situate, **given, since_rescale_s=7_200.0).scale_out > 5


@pytest.mark.parametrize("behind", [True, False])
def test_a_size_that_was_dealt_unluckily_is_left_for_fewer_workers_that_take_more(situate, behind):
    """Zoo 57003-4: 28 workers took less than the load for nine hours, and 13 would have carried it."""
    given = {
        "capacities": {n: 3_000.0 if n == 9 else min(1_000.0 * n, 6_000.0) for n in range(1, 10)},
        "bounds": (1, 9),
        "scale_out": 9,
        "load": 3_600.0,
        "minutes": np.full(720, 3_600.0),
        "lag_records": 500_000.0 if behind else 0.0,
    }
    decision = decide(situate, **given)
    assert 4 <= decision.scale_out <= 8
    assert decide(situate, **{**given, "lag_records": None}).scale_out == 9


def paused(situate, *, spread_of_eleven):
    """Rushes of 10,800/s each hour, in a pause: 12 workers take 12,000/s, 11 are believed to take 11,300."""
    takes = {n: 1_000.0 * n for n in range(1, 11)} | {11: 11_300.0, 12: 12_000.0}
    spreads = dict.fromkeys(takes, 1.03) | {11: spread_of_eleven}
    known = {n: Estimate(n, per_s, per_s / spreads[n], per_s * spreads[n], True, "test") for n, per_s in takes.items()}
    rushes = np.concatenate((np.tile(np.repeat([200.0, 10_800.0], 30), 11), np.full(12, 200.0)))
    often = {"stays": {"log_s": math.log(3_600.0), "seen": 6.0, "scale_out": 12.0, "since_s": None}}
    given = {"load": 200.0, "scale_out": 12, "minutes": rushes, "memory": often, "since_rescale_s": 40_000.0}
    return Perdix().decide(replace(situate(**given, latency_p95_ms=800.0), capacities=known))


def test_what_a_smaller_size_may_take_less_weighs_in_a_pause_for_the_rush_that_follows(situate):
    """Zoo 88001-0: 35 workers had held for half a day; in a pause 32 were believed to do, and were dealt poorly."""
    assert paused(situate, spread_of_eleven=1.03).scale_out == 11
    assert paused(situate, spread_of_eleven=1.2).scale_out == 12


@pytest.mark.parametrize("late_s", [0.0, 600.0, 1_200.0])
def test_how_many_run_does_not_say_how_many_are_needed(situate, late_s):
    """Of many workers each takes less: a late second was the dearer the more ran, and the less was given back."""
    takes = {n: 5_000.0 * n / (1.0 + n / 6.0) for n in range(1, 43)}
    load = 0.4 * takes[12]
    spent = {"late_s": late_s, "seen_s": 20_000.0, "at_s": situate().now_s - 60.0, "usual": 0.3, "ours_s": late_s}
    stays = {"log_s": math.log(1_500.0), "seen": 3.0, "since_s": None}
    day = np.repeat([load, 1.6 * load, load], [600, 60, 60])
    given = {"load": load, "minutes": day, "capacities": takes, "bounds": (1, 42)}
    gone_to = set()
    for runs in (12, 20, 42):
        memory = {"spent": spent, "stays": {**stays, "scale_out": runs}}
        gone_to.add(decide(situate, scale_out=runs, memory=memory, **given).scale_out)
    assert len(gone_to) == 1
    assert max(gone_to) <= 5


@pytest.mark.parametrize("tick_s", [10.0, 60.0, 300.0])
def test_a_stop_counts_alike_however_often_is_looked(situate, tick_s):
    calm = SeenLate(np.array([NOW_S]), np.array([0.0]))
    before = situate(scale_out=5, minutes=np.full(200, 3_500.0), tick_interval_s=tick_s, seen_late=calm)
    memory, later_s = Perdix().decide(before).memory, NOW_S + 600.0
    late = SeenLate(np.arange(NOW_S + 10.0, later_s + 1.0, 10.0), np.ones(60))
    stood = replace(before, now_s=later_s, memory=memory, latency_p95_ms=9_000.0, seen_late=late)
    stood = replace(stood, forecast=replace(before.forecast, origin_s=later_s))
    assert Perdix().decide(stood).memory["spent"]["late_s"] == pytest.approx(600.0)


def test_no_stage_of_a_plan_is_late_for_more_than_all_of_it(situate):
    """A restart may take longer than a stage lasts."""
    decision = decide(situate, load=5_500.0, scale_out=4, downtimes=Downtimes.assumed(out_s=300.0), lag_records=1e6)
    assert decision.reason is Reason.SCALE_OUT
    assert decision.plan[0].late_share == 1.0


def test_what_runs_outside_the_bounds_is_left_for_that(situate):
    decision = decide(situate, load=3_500.0, scale_out=9, bounds=(1, 8), capacities=CAPACITIES)
    assert decision.scale_out <= 8
    assert decision.candidates[-1].rejected_by == "the bounds do not allow it"
    assert re.search(r", 9 workers for [^,;]*, which is more than the bounds allow;", decision.sentence)


def test_what_runs_below_the_bounds_is_left_for_that(situate):
    decision = decide(situate, load=1_500.0, scale_out=2, bounds=(4, 8), capacities=CAPACITIES)
    assert decision.scale_out >= 4
    assert re.search(r", 2 workers for [^,;]*, which is fewer than the bounds allow;", decision.sentence)


def test_a_worker_that_is_soon_needed_again_is_kept_where_catching_up_would_need_more(situate):
    """Zoo 100013-24: half an hour on, half off. Two workers hold it; who gave one back went to four each time."""
    off, on = np.zeros(30), np.full(30, 1_750.0)
    minutes = np.concatenate((np.tile(np.concatenate((off, on)), 8), off[:12]))
    thrifty = {"late_s": 200.0, "seen_s": 28_000.0, "at_s": situate().now_s - 60.0, "usual": -0.5}
    usual = {"load": 0.0, "scale_out": 2, "memory": {"spent": thrifty}}
    assert decide(situate, **usual, minutes=minutes).scale_out == 2
    assert decide(situate, **usual, minutes=np.concatenate((minutes, np.zeros(180)))).scale_out == 1

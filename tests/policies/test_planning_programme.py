"""The dynamic programme: against every plan tried one by one, and at its edges."""

import itertools
import time
from dataclasses import replace

import numpy as np
import pytest

from perdix.policies.planning.course import STAGE_S, Course, Highest
from perdix.policies.planning.programme import HELD_S, Prices, Sizes, follow, solve

PER_WORKER = 100.0


def sizes_of(*workers, overtaken=0.0, log_sd=0.02, doubt=0.0):
    numbers = np.array(workers)
    return Sizes(numbers, PER_WORKER * numbers, *(np.full(len(numbers), value) for value in (log_sd, doubt, overtaken)))


def course_of(*loads):
    return Course(np.array(loads, float), np.full(len(loads), 0.01))


def prices_of(**changes):
    usual = {
        "late": 20.0,
        "rescale": 200.0,
        "allowed_s": 1.0,
        "out_s": 20.0,
        "in_s": 10.0,
        "lost_s": 5.0,
        "tail_s": 600.0,
    }
    return Prices(**{**usual, **changes})


def cheapest(found, runs):
    costs = found.go.copy()
    costs[runs] = found.stay[runs]
    return int(costs.argmin())


def test_a_load_that_fits_and_stays_is_left_alone():
    sizes = sizes_of(1, 2, 3, 4)
    assert cheapest(solve(sizes, course_of(*[150.0] * 15), prices_of(), 1, 0.0), 1) == 1


def test_a_load_above_the_capacity_is_gone_after():
    sizes = sizes_of(1, 2, 3, 4)
    found = solve(sizes, course_of(*[350.0] * 15), prices_of(), 1, 0.0)
    assert cheapest(found, 1) == 3
    assert found.late_s[1] > 800.0
    assert found.late_s[3] < 30.0


def test_workers_with_nothing_to_do_are_given_back():
    sizes = sizes_of(1, 2, 3, 4)
    assert cheapest(solve(sizes, course_of(*[60.0] * 15), prices_of(), 3, 0.0), 3) == 0


def test_a_rise_that_comes_later_is_met_before_it_comes_and_not_at_once():
    """Scaling out a quarter of an hour early costs workers, in the minute of the rise it costs lateness."""
    sizes, rise = sizes_of(2, 4), [150.0] * 10 + [380.0] * 5
    assert cheapest(solve(sizes, course_of(*rise), prices_of(), 0, 0.0), 0) == 0
    assert cheapest(solve(sizes, course_of(*rise[9:]), prices_of(), 0, 0.0), 0) == 1


def test_a_dip_that_is_soon_over_is_not_gone_after():
    dip = [100.0] * 3 + [380.0] * 12
    assert cheapest(solve(sizes_of(2, 4), course_of(*dip), prices_of(), 1, 0.0), 1) == 1


def skewed():
    """A job whose keys are skewed (zoo 91001-10) and that is behind: nobody knows what more workers take."""
    takes = np.array([140, 215, 213, 285, 336, 379, 416, 450, 479, 506, 531, 555, 577, 596, 617, 636, 652, 667, 859])
    log_sd = np.array([0.02, 0.02, 0.02, *np.linspace(0.2, 0.4, 15), 0.5])
    sizes = Sizes(np.array([*range(1, 19), 34]), takes.astype(float), log_sd, np.zeros(19), np.zeros(19))
    prices = prices_of(late=64.0, rescale=372.0, allowed_s=5.8, out_s=31.0, in_s=21.0, lost_s=11.4, tail_s=3_400.0)
    return sizes, course_of(*np.linspace(208.0, 240.0, 15)), prices


def test_who_is_behind_does_not_go_to_all_workers_for_a_minute():
    """The plan was to catch up with 34 and go to 5 a minute later; 34 stood for eight minutes, elsewhere for hours."""
    sizes, course, prices = skewed()
    found = solve(sizes, course, prices, 2, 7_700.0)
    assert sizes.workers[cheapest(found, 2)] in range(4, 8)


@pytest.mark.parametrize("backlog", [0.0, 7_700.0, 50_000.0])
def test_what_a_plan_adds_it_does_not_give_back_for_minutes(backlog):
    sizes, course, prices = skewed()
    rush = replace(course, per_s=np.array([400.0] * 4 + [100.0] * 11))
    for load in (course, rush):
        found = solve(sizes, load, prices, 2, backlog)
        for chosen in range(len(sizes.workers)):
            stages = follow(found, chosen)
            ran = np.array([3, *(stage.workers for stage in stages)])
            moves, soon = np.sign(np.diff(ran)), load.begins_s < HELD_S
            assert not (np.maximum.accumulate(moves > 0) & (moves < 0) & soon).any()


def test_who_falls_behind_does_not_stay_so_because_catching_up_takes_as_long_as_the_plan_looks():
    """Of a storm (seed 131003): restarts that seemed to take 137 s, stays that seemed to end within minutes."""
    sizes = sizes_of(50, 60)
    seldom = prices_of(late=10_000.0, rescale=7_000.0, out_s=137.0, lost_s=16.0, tail_s=86.0)
    found = solve(sizes, course_of(*[5_050.0] * 14), seldom, 0, 40_000.0)
    assert found.late_s[0] == pytest.approx(840.0, abs=2.0)
    assert cheapest(found, 0) == 1


def test_what_no_plan_may_go_to_is_not_hoped_for_either():
    """Seen in the zoo (54001-12): nine hours late at 3 workers, as each plan took 8 a minute later, and none may."""
    sizes = replace(sizes_of(3, 4, 8, log_sd=0.1), open=np.array([True, True, False]))
    busy, prices = course_of(*[297.0] * 15), prices_of(late=200.0, out_s=30.0, tail_s=3_600.0)
    found = solve(sizes, busy, prices, 0, 0.0)
    assert np.isinf(found.go[2])
    assert cheapest(found, 0) == 1
    anything = solve(replace(sizes, open=None), busy, prices, 0, 0.0)
    assert anything.go[2] < anything.go[1]
    assert anything.stay[0] < found.stay[0], "who may not go to 8 gains less from waiting"


def test_a_dearer_second_of_lateness_never_saves_workers():
    sizes, course = sizes_of(1, 2, 3, 4), course_of(*[205.0] * 15)
    chosen = [cheapest(solve(sizes, course, prices_of(late=late), 1, 0.0), 1) for late in (0.01, 1.0, 10.0, 1_000.0)]
    assert chosen == sorted(chosen)
    assert chosen[0] < chosen[-1]


def test_who_may_be_overtaken_keeps_more():
    """After minutes like this one the load often jumped above what two workers take."""
    calm = sizes_of(2, 4)
    risky = Sizes(calm.workers, calm.per_s, calm.log_sd, calm.doubt, np.array([0.3, 0.0]))
    course = course_of(*[100.0] * 15)
    assert cheapest(solve(calm, course, prices_of(), 1, 0.0), 1) == 0
    assert cheapest(solve(risky, course, prices_of(), 1, 0.0), 1) == 1


def test_what_comes_of_a_size_that_takes_less_after_a_pause_is_paid_once():
    calm, pause = sizes_of(2, 4), course_of(*[100.0] * 15)
    uncertain = replace(calm, missed_s=np.array([400.0, 0.0]))
    assert cheapest(solve(uncertain, pause, prices_of(), 1, 0.0), 1) == 1
    once = solve(uncertain, pause, prices_of(), 1, 0.0).go[0] - solve(calm, pause, prices_of(), 1, 0.0).go[0]
    assert once == pytest.approx(400.0 * prices_of().late)


def test_a_backlog_that_outlasts_the_course_still_wants_the_size_that_ends_it():
    sizes, backlog = sizes_of(6, 9), 500_000.0
    assert cheapest(solve(sizes, course_of(*[590.0] * 15), prices_of(tail_s=60.0), 0, backlog), 0) == 1


@pytest.mark.parametrize("lasts_s", [(60.0, 60.0, 60.0, 60.0), (60.0, 60.0, 300.0, 300.0)])
def test_the_programme_finds_what_trying_every_plan_finds(lasts_s):
    """Without backlog levels and interpolation: a plan is a size per stage, played second by second."""
    sizes, prices = sizes_of(1, 2, 3), prices_of(tail_s=60.0)
    for seed in range(12):
        loads = np.random.default_rng(seed).choice([60.0, 80.0, 130.0, 160.0, 230.0, 260.0], 4)
        course = Course(loads, np.full(4, 0.01), np.array(lasts_s))
        for runs in range(3):
            found = solve(sizes, course, prices, runs, 0.0)
            costs = found.go.copy()
            costs[runs] = found.stay[runs]
            plans = (plan for plan in itertools.product(range(3), repeat=4) if not _returns(runs, plan))
            tried = min(_played(sizes, course, prices, runs, plan) for plan in plans)
            assert costs.min() == pytest.approx(tried, rel=0.12)


def _returns(runs, plan):
    """Whether a plan gives back workers after it has added some."""
    moves = np.sign(np.diff([runs, *plan]))
    return bool((np.maximum.accumulate(moves > 0) & (moves < 0)).any())


def _played(sizes, course, prices, runs, plan):
    """What a plan costs, in steps of a second; what follows the course as the last stage has it."""
    cost, waits, at = 0.0, 0.0, runs
    for load, lasts_s, to in zip(course.per_s, course.lasts_s, plan, strict=True):
        capacity, still = sizes.per_s[to], 0.0
        if to != at:
            still = prices.out_s if to > at else prices.in_s
            waits += min(sizes.per_s[to] * prices.lost_s, 2.0 * load * prices.lost_s)
            cost += prices.rescale
        late = 0.0
        for second in range(int(lasts_s)):
            works = capacity if second >= still else 0.0
            waits = max(waits + load - works, 0.0)
            late += waits > prices.allowed_s * capacity
        cost += sizes.workers[to] * lasts_s + prices.late * late
        at = to
    behind = max(waits - prices.allowed_s * sizes.per_s[at], 0.0)
    spare = max(sizes.per_s[at] - course.per_s[-1], 0.02 * sizes.per_s[at])
    return cost + sizes.workers[at] * prices.tail_s + prices.late * min(behind / spare, 3_600.0)


@pytest.mark.parametrize("backlog", [0.0, 1.0, 1e9, 1e15])
@pytest.mark.parametrize("load", [0.0, 1e-9, 100.0, 1e15])
def test_nothing_that_can_be_measured_breaks_it(load, backlog):
    found = solve(sizes_of(1, 2, 3), course_of(*[load] * 15), prices_of(), 1, backlog)
    assert np.isfinite(found.stay).all()
    assert np.isfinite(np.delete(found.go, 1)).all()


@pytest.mark.parametrize(("count", "allowed_ms"), [(12, 5.0), (200, 25.0)])
def test_it_takes_milliseconds(count, allowed_ms):
    """With room for a machine that is busy with other tests: the figures are in benchmarks.tick."""
    sizes, course = sizes_of(*range(1, count + 1)), course_of(*np.linspace(100.0, 900.0, 15))
    took = []
    for _ in range(5):
        began = time.process_time()
        solve(sizes, course, prices_of(), 3, 50.0)
        took.append(1_000.0 * (time.process_time() - began))
    assert min(took) < 4.0 * allowed_ms


def followed(sizes, course, prices, runs, backlog=0.0):
    found = solve(sizes, course, prices, runs, backlog)
    chosen = cheapest(found, runs)
    return follow(found, chosen), found, chosen


def test_the_plan_that_is_told_costs_what_was_promised():
    sizes, course = sizes_of(1, 2, 3, 4), course_of(*[150.0] * 5, *[340.0] * 10)
    stages, found, chosen = followed(sizes, course, prices_of(tail_s=0.0), 1)
    promised = found.stay[1] if chosen == 1 else found.go[chosen]
    assert sum(stage.cost for stage in stages) == pytest.approx(promised, rel=0.02)


def test_the_plan_goes_out_before_the_load_does():
    sizes, course = sizes_of(1, 2, 3, 4), course_of(*[150.0] * 5, *[340.0] * 10)
    stages, _, _ = followed(sizes, course, prices_of(), 1)
    assert stages[0].workers == 2
    assert stages[4].workers == 4
    assert len(stages) == len(course.per_s)
    assert all(0.0 <= stage.late_s <= STAGE_S for stage in stages)


def test_a_plan_for_the_hour_keeps_what_is_needed_again_soon():
    """Forty minutes from now all four are needed: two rescales cost more than what giving back would save."""
    sizes, near = sizes_of(1, 2, 3, 4), [150.0] * 15
    lasts_s = np.array([60.0] * 15 + [300.0] * 9)
    hour = Course(np.array(near + [150.0] * 2 + [390.0] * 7), np.full(24, 0.01), lasts_s)
    usual = prices_of(late=60.0)
    assert cheapest(solve(sizes, course_of(*near), replace(usual, tail_s=2_700.0), 3, 0.0), 3) == 1
    assert cheapest(solve(sizes, hour, usual, 3, 0.0), 3) == 3
    stages, found, chosen = followed(sizes, hour, replace(usual, tail_s=0.0), 1)
    assert len(stages) == 24
    assert stages[-1].workers == 4
    promised = found.stay[1] if chosen == 1 else found.go[chosen]
    assert sum(stage.cost for stage in stages) == pytest.approx(promised, rel=0.05)


def test_a_plan_that_rescales_at_once_begins_with_that_size():
    stages, _, chosen = followed(sizes_of(1, 2, 3, 4), course_of(*[350.0] * 15), prices_of(), 1)
    assert chosen == 3
    assert [stage.workers for stage in stages] == [4] * 15


def test_a_size_that_may_turn_out_too_small_is_tried_for_as_long_as_that_saves():
    """The doubt is paid once, not minute by minute; where the size surely fails, it is not tried."""
    course, usual = course_of(*[150.0] * 15), prices_of(tail_s=3_600.0)
    doubted, known = sizes_of(2, 3, doubt=0.2), sizes_of(2, 3, log_sd=0.2)
    assert cheapest(solve(doubted, course, usual, 1, 0.0), 1) == 0
    assert cheapest(solve(known, course, usual, 1, 0.0), 1) == 1
    assert cheapest(solve(doubted, course_of(*[199.0] * 15), usual, 1, 0.0), 1) == 1


def test_a_wide_forecast_is_no_reason_to_fear_what_never_came():
    """A load that is on and off is foreseen badly, and never surpassed what it is now: 26 workers ran where 8 do."""
    sizes, wide = sizes_of(4, 8), Course(np.full(15, 300.0), np.full(15, 0.6))
    fears, stood = solve(sizes, wide, prices_of(), 0, 0.0), replace(wide, highest=Highest(310.0, 4 * 3600.0))
    knows = solve(sizes, stood, prices_of(), 0, 0.0)
    assert fears.late_s[0] > 200.0
    assert knows.late_s[0] < 60.0
    rising = replace(wide, highest=Highest(310.0, 0.0))
    assert solve(sizes, rising, prices_of(), 0, 0.0).late_s[0] == fears.late_s[0], "the highest was reached just now"
    above = replace(stood, per_s=np.full(15, 500.0))
    assert solve(sizes, above, prices_of(), 0, 0.0).late_s[0] > 600.0, "what is expected itself is feared as before"


def test_what_a_size_may_take_less_is_feared_however_long_a_load_stood():
    doubted = sizes_of(4, 8, log_sd=0.3)
    stood = replace(course_of(*[330.0] * 15), highest=Highest(330.0, 8 * 3600.0))
    assert solve(doubted, stood, prices_of(), 1, 0.0).late_s[0] > 150.0


def test_an_overspent_budget_does_not_make_a_wide_forecast_late_for_the_whole_time_after_the_course():
    """Zoo 92001-26: 13 workers stood for 150 minutes where two do: after a step anything was thought possible."""
    sizes, wide = sizes_of(4, 8), Course(np.full(15, 200.0), np.full(15, 0.4))
    dear = prices_of(late=90.0, tail_s=3_600.0)
    for overspent in (False, True):
        assert cheapest(solve(sizes, wide, replace(dear, overspent=overspent), 1, 0.0), 1) == 0
    full, usual = replace(wide, per_s=np.full(15, 390.0), log_sd=np.full(15, 0.01)), prices_of(tail_s=3_600.0)
    assert cheapest(solve(sizes, full, usual, 1, 0.0), 1) == 0
    assert cheapest(solve(sizes, full, replace(usual, overspent=True), 1, 0.0), 1) == 1, "late as foreseen"

"""Replays: the real tick over hours of simulated time, held against the twin's truth."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from perdix.control.sources import LONGEST_READ_S
from perdix.control.tick_io import TickReport
from perdix.replay.case import START_S, Case, Contender
from perdix.replay.outcome import Played
from perdix.replay.run import TwinSource, failure_times_s, fresh_twin, job_of, play
from perdix.settings.stream_job import Bounds, Objectives, PolicySettings
from perdix.settings.targets import TwinSettings
from perdix.twin.parameters import RandomTime, Restart, TwinParameters
from perdix.twin.regimes import under
from tests.control.rig import HIGH, LOW, constant, parameters

WAVE_H, CALM_H = 1.5, 1 / 3
HOURS = WAVE_H + CALM_H
SEED = 5
MIDDLE = 3 * LOW  # records/s: three workers


def wave() -> np.ndarray:
    """One slow wave between one worker and seven, then calm: a rescale near the end must not look like a failure."""
    seconds = np.arange(round(3600 * WAVE_H))
    rates = LOW + (HIGH - LOW) * 0.5 * (1 - np.cos(2 * np.pi * seconds / len(seconds)))
    return np.concatenate([rates, constant(LOW, CALM_H)])


def contender(name: str, **options: Any) -> Contender:
    return Contender(name, PolicySettings(name=name, options=options))


def case(name: str, arrivals: np.ndarray, hours: float, options: dict[str, Any] | None = None, **changes: Any) -> Case:
    """A small twin under one policy; a family that is fitted in milliseconds in place of the usual one."""
    chosen: dict[str, Any] = {"forecaster": "damped-trend", "parameters": parameters(), **changes}
    return Case(contender(name, **(options or {})), "wave", seed=SEED, hours=hours, arrivals=arrivals, **chosen)


def static(workers: int, arrivals: np.ndarray, hours: float, **changes: Any) -> Case:
    return case("static", arrivals, hours, {"scale_out": workers}, **changes)


@pytest.fixture(scope="module")
def replays() -> dict[str, Played]:
    """The same wave under three policies."""
    load = wave()
    cases = (
        case("daedalus", load, HOURS),
        static(8, load, HOURS),
        case("hpa", load, HOURS, {"target_cpu": 0.8}),
    )
    return {point.contender.label: play(point) for point in cases}


# ---- what comes out ----------------------------------------------------------------------------------------------


def test_daedalus_ends_with_nothing_left_and_fewer_workers_than_static(replays: dict[str, Played]) -> None:
    daedalus, fixed = replays["daedalus"].outcome, replays["static"].outcome
    assert daedalus.unprocessed == 0
    assert daedalus.average_workers < 0.75 * fixed.average_workers
    assert fixed.average_workers == 8.0
    assert fixed.rescales == 0
    assert daedalus.share_above_objective < 0.25


def test_the_outcome_says_what_was_played(replays: dict[str, Played]) -> None:
    one = replays["daedalus"].outcome
    assert (one.policy, one.trace, one.seed) == ("daedalus", "wave", SEED)
    assert one.hours == pytest.approx(HOURS)
    assert one.ticks == len(replays["daedalus"].reports) == 60 * HOURS
    assert one.worker_s == pytest.approx(3600 * HOURS * one.average_workers)
    assert one.clairvoyant_worker_s is None, "the bound is the campaign's, not the replay's"
    assert 0.0 < one.twin_s < one.wall_s


def test_the_course_adds_up_second_by_second(replays: dict[str, Played]) -> None:
    for played in replays.values():
        course, one = played.course, played.outcome
        assert {column.shape for column in course.columns().values()} == {(round(3600 * HOURS),)}
        assert course.times_s[0] == START_S
        assert course.workers.mean() == pytest.approx(one.average_workers)
        assert course.lag_records[-1] == one.lag_at_end_records
        assert course.lag_records.max() == one.lag_maximum_records
        replayed = course.throughput_per_s.sum() + one.lag_at_end_records - course.workload_per_s.sum()
        assert replayed >= 0, "nothing is lost: what is processed beyond the arrivals was replayed from a checkpoint"
        changes = np.count_nonzero(np.diff(course.workers))
        assert changes == one.rescales


def test_latency_counts_each_record_once(replays: dict[str, Played]) -> None:
    played = replays["hpa"]
    course, latency = played.course, played.outcome.latency_ms
    out = (course.throughput_per_s > 0) & np.isfinite(course.latency_p95_ms)
    each = np.repeat(course.latency_p95_ms[out], np.round(course.throughput_per_s[out] / 100.0).astype(int))
    assert latency.mean == pytest.approx(each.mean(), rel=0.01)
    assert [latency.p50, latency.p95, latency.p99] == pytest.approx(np.quantile(each, [0.5, 0.95, 0.99]), rel=0.02)


def test_a_result_is_json(replays: dict[str, Played]) -> None:
    document = json.loads(json.dumps(replays["hpa"].outcome.figures(), allow_nan=False))
    assert document["policy"] == "hpa"
    assert set(document["latency_ms"]) == {"mean", "p50", "p95", "p99"}
    assert isinstance(document["recoveries"], list)


# ---- beliefs against the truth ------------------------------------------------------------------------------------


def test_beliefs_are_near_the_twins_truth(replays: dict[str, Played]) -> None:
    one = replays["daedalus"].outcome
    assert one.capacity_error is not None
    assert one.capacity_error < 0.06
    assert one.capacity_error_all is not None
    assert one.capacity_error_all < 0.12
    assert one.first_minute_wape is not None
    assert one.first_minute_wape < 0.05
    assert one.forecast_wape is not None
    assert one.first_minute_wape < one.forecast_wape < 0.25


def test_recoveries_are_predicted_observed_and_true(replays: dict[str, Played]) -> None:
    one = replays["daedalus"].outcome
    assert len(one.recoveries) == one.rescales >= 5
    known = [item for item in one.recoveries if item.observed_s is not None and item.true_s is not None]
    assert len(known) >= 0.7 * one.rescales
    assert np.median([abs(item.observed_s - item.true_s) for item in known]) <= 10.0
    assert all(item.predicted_s is not None for item in known)
    errors = [item.error for item in one.recoveries if item.error is not None]
    assert one.recovery_error == pytest.approx(np.mean(errors))
    assert one.recovery_error < 0.5


def test_what_was_forecast_for_a_second_came_from_the_newest_tick_before_it(replays: dict[str, Played]) -> None:
    played = replays["daedalus"]
    made = [report.forecast for report in played.reports if report.forecast is not None]
    for forecast, following in pairwise(made):
        first = int(forecast.origin_s - START_S)
        steps = int(following.origin_s - forecast.origin_s)
        np.testing.assert_array_equal(played.course.forecast_per_s[first : first + steps], forecast.mean[:steps])


# ---- the same again, and the same for all -------------------------------------------------------------------------


def told(reports: Sequence[TickReport]) -> list[tuple[Any, ...]]:
    """All that ticks saw, believed and decided; not how long they took."""
    return [
        (
            report.status,
            report.sentence,
            report.decision,
            None
            if report.forecast is None
            else [row.tolist() for row in (report.forecast.mean, *report.forecast.quantiles.values())],
            report.capacities,
            report.wape,
            report.notes,
        )
        for report in reports
    ]


def test_the_same_case_gives_the_same_replay() -> None:
    asked = case("daedalus", wave(), 0.75)
    first, second = play(asked), play(asked)
    assert replace(first.outcome, wall_s=0, twin_s=0) == replace(second.outcome, wall_s=0, twin_s=0)
    assert told(first.reports) == told(second.reports)
    for name, column in first.course.columns().items():
        np.testing.assert_array_equal(column, second.course.columns()[name])


def test_another_seed_is_another_luck_on_the_same_arrivals() -> None:
    one, other = (play(replace(static(4, constant(MIDDLE, 0.2), 0.1), seed=seed)) for seed in (1, 2))
    np.testing.assert_array_equal(one.course.workload_per_s, other.course.workload_per_s)
    assert one.course.capacity_per_s[0] != other.course.capacity_per_s[0]


def test_static_begins_at_its_number_and_all_others_begin_alike() -> None:
    load = constant(MIDDLE, 0.2)
    for workers in (2, 7):
        assert set(play(static(workers, load, 0.1)).course.workers) == {float(workers)}
    others = [case(name, load, 0.02) for name in ("daedalus", "hpa", "flink-autoscaler", "ds2-global")]
    starts = {play(other).course.workers[0] for other in others}
    assert len(starts) == 1
    begun = starts.pop()
    capacity_per_s = play(static(int(begun), load, 0.02)).course.capacity_per_s[-1]
    assert capacity_per_s > MIDDLE, "it can carry what arrives first"
    assert capacity_per_s < 2.5 * MIDDLE, "and is no more than that takes"


def test_a_start_outside_the_bounds_is_brought_inside() -> None:
    low, high = Bounds(minimum=5, maximum=6), Bounds(minimum=1, maximum=2)
    assert play(case("daedalus", constant(LOW, 0.2), 0.02, bounds=low)).course.workers[0] == 5
    assert play(case("daedalus", constant(HIGH, 0.2), 0.02, bounds=high)).course.workers[0] == 2


def test_a_job_of_a_regime_in_place_is_served_as_one_that_flink_rescales_in_place() -> None:
    papers = case("daedalus", constant(LOW, 0.2), 0.1)
    in_place = replace(papers, parameters=under(papers.parameters, "in-place"))
    assert job_of(papers).target == TwinSettings(url="http://in.process")
    assert job_of(in_place).target == TwinSettings(url="http://in.process", in_place=True)


def test_each_contender_looks_as_often_as_it_does_in_life() -> None:
    hpa = Contender("hpa-80", PolicySettings(name="hpa", options={"target_cpu": 0.8}), tick_interval_s=15)
    assert play(replace(case("hpa", constant(LOW, 0.2), 0.1), contender=hpa)).outcome.ticks == 24


@pytest.mark.parametrize(("hours", "seconds", "ticks"), [(65 / 60, 3_900, 65), (0.41, 1_476, 25), (0.1 + 1e-5, 360, 6)])
def test_a_replay_has_the_seconds_of_its_hours_and_looks_at_the_end(hours: float, seconds: int, ticks: int) -> None:
    seen: list[int] = []
    played = play(static(4, constant(LOW, 1.2), hours), on_tick=seen.append)
    assert len(played.course.times_s) == seconds
    assert played.outcome.ticks == len(seen) == ticks


def test_hours_that_end_within_a_step_are_cut_to_whole_steps() -> None:
    played = play(static(4, constant(LOW, 1.0), 0.2 + 5 / 3600, step_s=10))
    assert (played.outcome.hours, played.outcome.ticks) == (0.2, 12)


# ---- champions are trained on the way, and never see the future ---------------------------------------------------


def test_a_champion_trained_on_the_way_is_used_and_knows_nothing_of_what_is_to_come() -> None:
    """Poison all arrivals after the champion's first forecasts: whatever came before must not change in a digit."""
    load = np.concatenate([wave(), constant(LOW, 0.2)])
    usual = play(case("daedalus", load, HOURS))
    versions = [0 if report.forecast is None else report.forecast.version for report in usual.reports]
    assert usual.outcome.retrains >= 1
    assert 1 in versions, "the champion is acted on"
    assert versions[0] == 0, "and there is none at the beginning"
    tick = versions.index(1) + 3
    poisoned = load.copy()
    poisoned[60 * tick :] = HIGH + LOW - load[60 * tick :]
    # A shorter replay: not even its length may be known. It ends with the first ticks that see the poison.
    other = play(case("daedalus", poisoned, (tick + 10) / 60))
    assert told(other.reports[:tick]) == told(usual.reports[:tick])
    assert told(other.reports) != told(usual.reports[: tick + 10]), "the poison is there"


def test_without_a_family_the_fallback_forecasts_throughout() -> None:
    played = play(case("daedalus", constant(LOW, 1.2), 1.1, forecaster=None))
    assert played.outcome.retrains == 0
    assert {report.forecast.version for report in played.reports if report.forecast is not None} == {0}


# ---- failures -----------------------------------------------------------------------------------------------------


def slow_to_restart() -> TwinParameters:
    """A twin whose failures last three times as long as perdix expects before it has seen one."""
    exact = RandomTime(median_s=75.0, spread=0.0)
    restart = Restart(failure=exact, detection=RandomTime(median_s=15.0, spread=0.0))
    return parameters().model_copy(update={"restart": restart})


@pytest.fixture(scope="module")
def crashed() -> Played:
    """Five failures of a job that is never rescaled."""
    return play(static(4, constant(2 * LOW, 2.0), 1.6, failures=5, parameters=slow_to_restart()))


def test_failures_are_survived(crashed: Played) -> None:
    one = crashed.outcome
    assert (one.failures, one.rescales, one.unprocessed) == (5, 0, 0.0)
    crashes = [item for item in one.recoveries if item.cause == "failure"]
    assert [(item.from_scale_out, item.scale_out) for item in crashes] == [(4, 4)] * 5
    assert all(item.true_s is not None and item.true_s >= 90.0 for item in crashes)
    assert one.lag_maximum_records >= 90.0 * 2 * LOW


def test_the_downtime_of_failures_is_learnt(crashed: Played) -> None:
    """What a failure would cost is predicted at every tick, whatever the policy decides by."""
    errors = [item.error for item in crashed.outcome.recoveries]
    assert None not in errors
    assert errors[0] > 0.4, "30 s were expected, and it was 90"
    assert errors[-1] < 0.5 * errors[0], "after four it is known better"


def test_failures_fall_into_each_part_of_the_run_and_depend_on_the_seed_only() -> None:
    asked = case("daedalus", wave(), HOURS, failures=4)
    times = failure_times_s(asked, START_S)
    parts = [int((at_s - START_S) / (900 * HOURS)) for at_s in times]
    assert parts == [0, 1, 2, 3]
    assert failure_times_s(replace(asked, contender=contender("hpa")), START_S) == times
    assert failure_times_s(replace(asked, seed=SEED + 1), START_S) != times
    assert failure_times_s(replace(asked, failures=0), START_S) == ()


# ---- how it ends --------------------------------------------------------------------------------------------------


def test_what_waits_at_the_end_is_not_lost_where_the_loop_would_still_do_it() -> None:
    asked = static(4, constant(2 * LOW, 1.0), 1 / 60, parameters=slow_to_restart())
    twin = fresh_twin(asked, job_of(asked).bounds)
    twin.step(600)
    twin.fail(0)
    cut = play(asked, twin=twin)
    assert cut.outcome.lag_at_end_records > 0, "it ends while the job stands still"
    assert cut.outcome.unprocessed == 0.0, "and catches up soon after"
    assert len(cut.course.times_s) == 60, "what comes after the end is not part of the course"
    assert len(cut.reports) == 1


@pytest.mark.parametrize("tick_s", [60, 900])
def test_what_waits_at_the_end_has_the_whole_recovery_time_however_long_a_tick_is(tick_s: int) -> None:
    load = np.concatenate([np.full(880, LOW), np.full(20, 20 * LOW), np.full(900, LOW)])
    asked = static(4, load, 0.25)
    cut = play(replace(asked, contender=replace(asked.contender, tick_interval_s=tick_s))).outcome
    assert cut.lag_at_end_records > 0
    assert cut.unprocessed == 0.0


def test_what_the_loop_never_gets_done_stays_unprocessed() -> None:
    impatient = Objectives(recovery_time_s=60.0)
    drowned = play(static(2, constant(HIGH, 0.6), 0.2, objectives=impatient)).outcome
    assert 0 < drowned.unprocessed <= drowned.lag_at_end_records


def test_a_run_that_ends_in_the_middle_of_a_rescale_has_lag_and_nothing_unprocessed() -> None:
    """The load jumps after twenty minutes; it ends a minute after the rescale for it, which takes one and a half."""
    load = np.concatenate([constant(LOW, 20 / 60), constant(5 * LOW, 1.0)])
    slow = parameters().model_copy(update={"restart": Restart(out=RandomTime(median_s=90.0, spread=0.0))})
    whole = play(case("daedalus", load, 0.5, parameters=slow))
    first = next(recovery for recovery in whole.outcome.recoveries if recovery.cause == "out")
    ticks = round((first.at_s - START_S) / 60) + 1
    cut = play(case("daedalus", load, ticks / 60, parameters=slow))
    assert (len(cut.reports), cut.outcome.recoveries[-1].at_s) == (ticks, first.at_s)
    assert cut.course.capacity_per_s[-1] == 0.0, "it stands still at the end"
    assert cut.outcome.lag_at_end_records == cut.course.lag_records[-1] > 0
    assert cut.outcome.unprocessed == 0.0


def test_an_hpa_measures_against_what_the_workers_request() -> None:
    """With a request of 0.5, a load that takes 60 % of the CPU is at 120 %."""
    asks = parameters().model_copy(update={"cpu": parameters().cpu.model_copy(update={"request": 0.5})})
    load = constant(3 * LOW, 0.7)
    full, half = (play(case("hpa", load, 0.6, parameters=parameters_of)) for parameters_of in (parameters(), asks))
    assert half.course.workers[-1] > 1.4 * full.course.workers[-1]
    told_otherwise = play(case("hpa", load, 0.6, {"cpu_request": 1.0}, parameters=asks))
    np.testing.assert_array_equal(told_otherwise.course.workers, full.course.workers)


@pytest.mark.parametrize(
    ("name", "options", "asked"),
    [
        ("hpa", {"target_cpu": 0.6}, {"target_cpu": 0.6, "cpu_request": 0.5}),
        ("hpa", {"cpu_request": 0.9}, {"cpu_request": 0.9}),
        ("daedalus", {"grace_s": 60.0}, {"grace_s": 60.0}),
        ("static", {"scale_out": 3}, {"scale_out": 3}),
    ],
)
def test_the_request_is_told_to_an_hpa_only_and_only_where_it_was_not_told(
    name: str, options: dict[str, Any], asked: dict[str, Any]
) -> None:
    asks = parameters().model_copy(update={"cpu": parameters().cpu.model_copy(update={"request": 0.5})})
    given = case(name, constant(LOW, 0.2), 0.1, options, parameters=asks)
    assert job_of(given).policy.options == asked
    assert given.contender.settings.options == options, "what the contender was written with stays as it is"


# ---- objectives, and what is refused ------------------------------------------------------------------------------


def test_the_objective_counts() -> None:
    strict = play(case("static", constant(LOW, 0.3), 0.2, objectives=Objectives(latency_p95_ms=1.0)))
    assert strict.outcome.share_above_objective == pytest.approx(1.0)
    lax = play(static(4, constant(LOW, 0.3), 0.2, objectives=Objectives(latency_p95_ms=600_000.0)))
    assert lax.outcome.share_above_objective == 0.0


def test_a_second_in_which_nothing_comes_out_although_records_wait_is_above_the_objective() -> None:
    lax = Objectives(latency_p95_ms=600_000.0)
    crashed = play(static(4, constant(2 * LOW, 0.5), 0.4, failures=1, objectives=lax, parameters=slow_to_restart()))
    assert crashed.outcome.share_above_objective == pytest.approx(90.0 / (0.4 * 3600), abs=0.01)


def test_too_short_a_replay_is_refused() -> None:
    with pytest.raises(ValueError, match="do not cover one tick"):
        play(static(4, constant(LOW, 1.0), 0.001))


def test_progress_is_told_tick_by_tick() -> None:
    seen: list[int] = []
    play(static(4, constant(LOW, 0.2), 0.1), on_tick=seen.append)
    assert seen == [1, 2, 3, 4, 5, 6]


def test_a_twin_that_has_lived_already_goes_on_and_its_past_is_not_part_of_the_outcome() -> None:
    asked = static(4, constant(LOW, 2.0), 0.5)
    first = play(asked)
    twin = fresh_twin(asked, job_of(asked).bounds)
    twin.step(1_800)
    later = play(asked, twin=twin)
    assert later.course.times_s[0] == START_S + 1_800
    assert later.outcome.ticks == first.outcome.ticks
    assert later.reports[0].capacities, "what it had lived is there to be learnt from at the first look"


def test_the_first_tick_sees_what_the_twin_did_in_the_hours_before() -> None:
    asked = static(4, constant(LOW, 4.0), 0.5)
    twin, job = fresh_twin(asked, job_of(asked).bounds), job_of(asked)
    twin.step(10_800)
    now_s = float(twin.now_s)
    past = TwinSource(twin).read(job, now_s, now_s - LONGEST_READ_S).past
    assert past is not None
    assert len(past) * past.step_s == pytest.approx(7_200.0, abs=10.0)
    assert past.job_metric("workload_per_s") == pytest.approx(LOW, rel=0.2)
    assert TwinSource(twin).read(job, now_s, now_s - 180.0).past is None


def test_a_load_that_ends_altogether_is_no_error() -> None:
    """A job that is switched off: its forecast is infinitely wrong in percent, and the loop goes on."""
    hours = 1.5
    load = np.concatenate([constant(MIDDLE, 1.1), np.zeros(round(3600 * (hours + 0.2 - 1.1)))])
    played = play(case("daedalus", load, hours))
    assert played.outcome.retrains >= 1, "a champion forecast a load where none came"
    assert played.reports[-1].forecast is not None
    assert all(report.wape is None or np.isfinite(report.wape) for report in played.reports)

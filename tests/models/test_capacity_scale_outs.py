"""Capacity learnt online and from history, remembered, forgotten; and what is not believed."""

import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from perdix.models.capacity.evidence import Evidence
from perdix.models.capacity.scale_outs import ScaleOuts
from perdix.models.capacity.workers import Workers
from perdix.telemetry.window import Window
from tests.models.capacity_stays import IDLE, STEP_S, history, stay, window

# -- learning ----------------------------------------------------------------------------------------------------------


def test_what_a_backlog_is_worked_off_with_is_what_the_stay_takes():
    """Throughput with a backlog tells of every bottleneck; a line through CPU load of that of the CPU alone."""
    model = stay(ScaleOuts(), 4)
    told, line = 0.9 * model.capacity(4).per_s, model.capacity(4)
    once = model.worked_off(4, told, 1_800.0)
    often = model
    for minute in range(10):
        often = often.worked_off(4, told, 1_800.0 + 60.0 * minute)
    assert told < often.capacity(4).per_s < once.capacity(4).per_s < line.per_s
    assert often.capacity(4).per_s == pytest.approx(told, rel=0.02)
    assert often.capacity(4).at(-2.0) < told


def test_a_minute_of_backlog_counts_once():
    model = stay(ScaleOuts(), 4)
    once = model.worked_off(4, 170_000.0, 1_800.0)
    assert once.behind is not None
    assert once.worked_off(4, 170_000.0, 1_830.0) == once
    assert once.worked_off(4, 170_000.0, 1_860.0) != once


@pytest.mark.parametrize("per_s", [0.0, math.nan, -5.0, 100_000.0])
def test_a_hiccup_is_not_what_a_job_takes(per_s):
    """A broker that answers slowly leaves a backlog and little throughput; so does a sink."""
    model = stay(ScaleOuts(), 4)
    assert model.worked_off(4, per_s, 1_800.0) == model


def fallen_short(model, share, minutes=3):
    """The model after minutes in which work waited and only a share of what the lines promise was done."""
    lines_per_s, since_s = model.capacity(4).per_s, model.newest_s
    for minute in range(minutes):
        model = model.worked_off(4, share * lines_per_s, since_s + 60.0 * minute)
    return model


def test_workers_that_are_full_before_their_cpu_is_take_less_at_every_scale_out():
    """They wait for a store, or have one busy thread on several cores."""
    model = stay(stay(ScaleOuts(), 6), 4, start_s=4_000.0)
    short = fallen_short(model, 0.5)
    for scale_out in (2, 4, 6, 12):
        assert short.capacity(scale_out).per_s == pytest.approx(0.5 * model.capacity(scale_out).per_s, rel=0.02)


def test_that_stays_known_at_the_next_scale_out():
    short = fallen_short(stay(ScaleOuts(), 4), 0.75)
    moved, unaware = (stay(scale_outs, 6, start_s=4_000.0) for scale_outs in (short, stay(ScaleOuts(), 4)))
    assert moved.capacity(6).per_s == pytest.approx(0.75 * unaware.capacity(6).per_s, rel=0.05)
    assert ScaleOuts.from_state(json.loads(json.dumps(moved.to_state()))).capacity(6) == moved.capacity(6)


def test_two_minutes_or_such_that_differ_are_no_rule():
    model = stay(ScaleOuts(), 4)
    assert fallen_short(model, 0.5, minutes=2) == model
    assert fallen_short(fallen_short(model, 0.3, minutes=2), 0.5) == model
    assert fallen_short(model, 0.05, minutes=9) == model, "it stands still: that is no capacity"


def test_minutes_in_a_row_count_across_restarts():
    going_on = model = fallen_short(stay(ScaleOuts(), 4), 0.5, minutes=2)
    restarted = ScaleOuts.from_state(json.loads(json.dumps(model.to_state())))
    at_s = model.newest_s + 150.0
    third_per_s = 0.5 * model.capacity(4).per_s
    going_on, restarted = (known.worked_off(4, third_per_s, at_s) for known in (going_on, restarted))
    assert restarted.reach.share == going_on.reach.share == pytest.approx(0.5, rel=0.02)


def test_minutes_that_are_not_in_a_row_are_no_rule():
    model = stay(ScaleOuts(), 4)
    for minutes in (0.0, 10.0, 20.0):
        model = model.worked_off(4, 0.5 * model.capacity(4).per_s, model.newest_s + 60.0 * minutes)
    assert model.reach.share == 1.0


def test_who_does_as_much_as_arrives_keeps_up_whatever_the_lag_says():
    """A lag by offsets that are committed every two minutes looks like a backlog for most of the time."""
    model = stay(ScaleOuts(), 4)
    short, since_s = model, model.newest_s
    for minute in range(9):
        short = short.worked_off(4, 80_000.0, since_s + 60.0 * minute, arrives_per_s=81_000.0)
    assert short == model


def test_what_held_the_workers_up_may_be_over_without_anybody_seeing_it():
    short = fallen_short(stay(ScaleOuts(), 4), 0.75)
    later = short.update(window(24 * 3_600.0, 4), 4)
    assert short.reach.share < 0.8 < later.reach.share < 0.95
    assert replace(short, reach=short.reach.faded(30 * 86_400.0)).capacity(4).per_s > 1.3 * short.capacity(4).per_s


def test_while_nothing_is_learnt_of_the_cpu_that_time_counts_once():
    """Each minute without CPU faded by all the time since the last with it: hours did what days should."""
    short = fallen_short(stay(ScaleOuts(), 4), 0.75)
    hours = often = short
    for minute in range(180):
        often = often.update(less_cpu(window(1_800.0 + 60.0 * minute, 4), math.nan), 4)
        if minute == 90:
            often = ScaleOuts.from_state(json.loads(json.dumps(often.to_state(), allow_nan=False)))
    hours = hours.update(less_cpu(window(1_800.0 + 60.0 * 179, 4), math.nan), 4)
    assert often.newest_s == hours.newest_s == short.newest_s
    elapsed_s = 1_800.0 + 60.0 * 179 + 170.0 - short.newest_s
    assert hours.reach.share == pytest.approx(short.reach.share**0.5 ** (elapsed_s / 86_400.0))
    assert often.reach.share == pytest.approx(hours.reach.share, rel=1e-9)
    often, hours = (known.update(window(1_800.0 + 60.0 * 185, 4), 4) for known in (often, hours))
    assert often.reach.share == pytest.approx(hours.reach.share, rel=1e-9)
    assert often.to_state().keys() == short.to_state().keys()


def test_more_is_done_in_a_warm_up_too():
    """After an outage of a sink the backlog is caught up with at the next size, before its workers are warm."""
    short = fallen_short(stay(stay(ScaleOuts(), 12), 4, start_s=4_000.0), 0.3)
    moved = short.update(window(8_000.0, 12), 12)
    assert moved.did(12, 2.5 * moved.capacity(12).per_s).reach.share > 0.7


def test_what_a_champion_says_of_other_sizes_comes_from_lines_too():
    model = stay(ScaleOuts(), 4)
    short = fallen_short(model, 0.5)
    learnt = [Evidence(n, 50_000.0 * n, 0.05, model.newest_s, 0.8, "boosting") for n in (2, 8)]
    for scale_out in (2, 8):
        whole = model.believing(learnt).capacity(scale_out).per_s
        assert short.believing(learnt).capacity(scale_out).per_s == pytest.approx(0.5 * whole, rel=0.03)


def test_what_is_done_after_all_can_be_done():
    model = stay(ScaleOuts(), 4)
    short = fallen_short(model, 0.3)
    healed = short.update(window(2_400.0, 4), 4)
    assert healed.capacity(4).per_s > 2.0 * short.capacity(4).per_s, "the load was twice of what it was said to take"


@pytest.mark.parametrize("share", [0.0, -1.0, 1.5, math.nan])
def test_a_share_that_cannot_be_is_refused(share):
    with pytest.raises(ValueError, match="lines are said to be reached"):
        ScaleOuts.from_state({**stay(ScaleOuts(), 4).to_state(), "reach": share})


def test_a_backlog_of_another_stay_or_of_an_unknown_one_teaches_nothing():
    model = stay(ScaleOuts(), 4)
    assert model.worked_off(5, 200_000.0, 1_800.0) == model
    assert ScaleOuts().worked_off(4, 200_000.0, 1_800.0) == ScaleOuts()
    left = model.worked_off(4, 170_000.0, 1_800.0).update(window(4_000.0, 6), 6)
    assert left.behind is None
    assert left.memory[4].per_s < model.capacity(4).per_s, "what it told is remembered with the stay"


def test_overlapping_windows_count_once():
    first, second = window(0, 3), window(60, 3)
    once = ScaleOuts().update(first, 3)
    assert once.update(first, 3) == once
    overlapped = once.update(second, 3)
    assert overlapped.workers.weight < 1.5 * once.workers.weight


def test_is_immutable():
    model = ScaleOuts()
    model.update(window(0, 3), 3)
    assert not model.known


def test_task_managers_that_stand_by_say_nothing_of_larger_sizes():
    """Three of six TaskManagers without a task: four to six workers seemed to take what three do."""
    seen = window(0, 3)
    names = (*seen.workers, "tm-x", "tm-y", "tm-z")
    beside = {"cpu_load": 0.11, "throughput_per_s": np.nan}
    metrics = {
        name: np.hstack([values, np.full((len(seen), 3), beside.get(name, np.nan))])
        for name, values in seen.worker_metrics.items()
    }
    both = (
        ScaleOuts().update(seen_window, 3).table(6)
        for seen_window in (seen, Window(seen.job, seen.step_s, seen.times_s, names, seen.job_metrics, metrics))
    )
    alone, beside_others = both
    assert {n: estimate.per_s for n, estimate in beside_others.items()} == pytest.approx(
        {n: estimate.per_s for n, estimate in alone.items()}
    )
    assert beside_others[6].per_s > 1.3 * beside_others[3].per_s


def nearly_idle_at_times(idle=0.24, days=2.0):
    """A history in which a job of 33 workers works for six hours, and is nearly idle for six, in turns."""
    rng = np.random.default_rng(5)
    parts = []
    for at_s in np.arange(0.0, days * 86_400.0, 900.0):
        working = int(at_s // (6 * 3_600)) % 2 == 0
        load = rng.uniform(0.3, 0.6) if working else rng.uniform(0.003, 0.03)
        parts.append(
            pd.DataFrame(
                {
                    "ts": np.full(33, np.datetime64(int(at_s), "s")),
                    "worker": [f"w{k}" for k in range(33)],
                    "scale_out": 33,
                    "cpu_load": idle + (1.0 - idle) * load + rng.normal(0.0, 0.04, 33),
                    "throughput_per_s": 40_000.0 * load * rng.normal(1.0, 0.02, 33),
                }
            )
        )
    return pd.concat(parts, ignore_index=True)


def test_hours_that_are_nearly_idle_do_not_make_it_another_program():
    """There a fifth more or less is what an idle share explains that is hardly another: what was learned stays."""
    model = ScaleOuts.from_features(nearly_idle_at_times())
    assert len(model.outgrown) == 0
    known = model.capacity(33)
    assert known.per_s == pytest.approx(33 * 40_000, rel=0.15)
    assert known.high_per_s < 1.5 * known.low_per_s


def test_missing_metrics_teach_nothing():
    seen = window(0, 3)
    blank = {name: np.full_like(values, np.nan) for name, values in seen.worker_metrics.items()}
    empty = Window(seen.job, STEP_S, seen.times_s, seen.workers, {}, blank)
    model = stay(ScaleOuts(), 3)
    later = Window(seen.job, STEP_S, seen.times_s + 5000, seen.workers, {}, blank)
    assert not ScaleOuts().update(empty, 3).known
    assert model.update(later, 3).capacity(3) == model.capacity(3)
    assert not ScaleOuts().update(Window("job", STEP_S, np.empty(0)), 3).known


def test_a_stall_is_not_taken_for_a_small_capacity():
    model = stay(ScaleOuts(), 3)
    for index in range(6):
        seen = window(2000 + 180 * index, 3)
        stalled = {"cpu_load": seen.worker_metrics["cpu_load"], "throughput_per_s": np.zeros((len(seen), 3))}
        model = model.update(Window("job", STEP_S, seen.times_s, seen.workers, {}, stalled), 3)
    assert model.capacity(3).per_s == pytest.approx(3 * 50_000 * 0.95, rel=0.03)


def test_a_new_release_moves_the_estimate_within_minutes():
    model = stay(stay(ScaleOuts(), 6, per_worker=50_000.0), 3, start_s=4000.0, per_worker=50_000.0, minutes=120)
    changed = stay(model, 3, start_s=20_000.0, per_worker=30_000.0, minutes=12)
    assert changed.capacity(3).per_s == pytest.approx(3 * 30_000 * 0.95, rel=0.08)
    assert changed.capacity(6).per_s < 6 * 40_000
    single = model.update(window(20_000.0, 3, 30_000.0), 3)
    assert single.memory.keys() == model.memory.keys()


@pytest.mark.parametrize("busy", [1.0, 0.5])
@pytest.mark.parametrize(("ran_before", "now"), [(True, 4), (False, 3), (False, 12)])
@pytest.mark.parametrize("times", [2.0, 0.5, 0.1])
def test_workers_of_another_size_that_come_with_a_rescale_are_another_program(times, ran_before, now, busy):
    """Twice the cores and half the workers, or a query in other units: no line of the stay is missed by it."""
    model = ScaleOuts()
    for number, scale_out in enumerate((8, 6, 4, 8)):
        model = stay(model, scale_out, start_s=4_000.0 * number, busy=busy)
    assert (now in model.memory) is ran_before
    changed = stay(model, now, start_s=16_000.0, per_worker=times * 50_000.0, busy=busy)
    for scale_out in (4, 6, 8):
        assert changed.capacity(scale_out).per_s == pytest.approx(times * model.capacity(scale_out).per_s, rel=0.3)


@pytest.mark.parametrize("contention", [0.0, 0.02])
@pytest.mark.parametrize("hot", [0.0, 0.3])
def test_a_scale_out_that_never_ran_is_no_other_program_for_its_skew_or_contention(hot, contention):
    """One worker that has a third of the work, wherever it runs, and workers that hold each other up."""
    model, start_s = ScaleOuts(), 0.0
    for scale_out in (4, 16, 2, 30, 8):
        takes = 50_000.0 / (1.0 + contention * (scale_out - 1))
        for minute in range(20):
            seen = window(start_s + 60 * minute, scale_out, takes)
            share = np.where(np.arange(scale_out) == 0, 1.0, (1.0 - hot) / (1.0 + hot * (scale_out - 2)))
            shown = {
                "cpu_load": IDLE + share * (seen.worker_metric("cpu_load") - IDLE),
                "throughput_per_s": share * seen.worker_metric("throughput_per_s"),
            }
            model = model.update(replace(seen, worker_metrics=shown), scale_out)
            assert not model._is_another_program
        start_s += 4_000.0
    assert model.memory.keys() == {2, 4, 16, 30}


def test_keys_that_fall_otherwise_are_no_other_program():
    model = stay(stay(stay(ScaleOuts(), 4), 8, start_s=4_000.0), 4, start_s=8_000.0, per_worker=0.7 * 50_000.0)
    assert model.memory.keys() == {4, 8}


def test_a_stay_with_nothing_to_do_is_no_other_program():
    """Zoo 99001-14: a job that is on and off took a third at the end of each pause, by a line of idle minutes."""
    model = stay(stay(stay(ScaleOuts(), 4), 8, start_s=4_000.0), 4, start_s=8_000.0)
    line = Evidence(4, 0.3 * model.capacity(4).per_s, 0.06, model.newest_s, 0.26)
    assert not replace(model, memory={**model.memory, 4: line})._is_another_program
    assert replace(model, memory={**model.memory, 4: replace(line, cpu_reach=0.9)})._is_another_program


def test_history_and_loop_agree():
    frame = history([3], lambda _: 50_000.0)
    by_history = ScaleOuts.from_features(frame)
    cpu = frame.pivot(index="ts", columns="worker", values="cpu_load")
    throughput = frame.pivot(index="ts", columns="worker", values="throughput_per_s")
    times = cpu.index.as_unit("s").astype("int64").to_numpy().astype(float)
    metrics = {"cpu_load": cpu.to_numpy(), "throughput_per_s": throughput.to_numpy()}
    by_loop = ScaleOuts().update(Window("job", 60.0, times, tuple(cpu.columns), {}, metrics), 3)
    assert by_loop.capacity(3).per_s == pytest.approx(by_history.capacity(3).per_s, rel=0.001)


def test_history_remembers_earlier_scale_outs_in_any_row_order():
    frame = history([4, 6, 4], lambda _: 50_000.0)
    model = ScaleOuts.from_features(frame)
    assert model.scale_out == 4
    assert set(model.memory) == {4, 6}
    shuffled = ScaleOuts.from_features(frame.sample(frac=1.0, random_state=1))
    assert shuffled.capacity(12).per_s == pytest.approx(model.capacity(12).per_s)


def test_history_without_a_scale_out_counts_the_workers():
    frame = history([4], lambda _: 50_000.0)
    told = ScaleOuts.from_features(frame)
    gap = (frame["worker"] == "h0w2") & (frame["ts"].dt.minute == 30)
    untold = ScaleOuts.from_features(frame[~gap].assign(scale_out=np.nan))
    assert untold.scale_out == 4
    assert untold.capacity(4).per_s == pytest.approx(told.capacity(4).per_s, rel=0.01)


def test_history_that_cannot_be_used_names_the_mend():
    with pytest.raises(ValueError, match="lack worker, cpu_load"):
        ScaleOuts.from_features(pd.DataFrame({"ts": [], "scale_out": [], "throughput_per_s": []}))
    frame = history([2], lambda _: 50_000.0).assign(cpu_load=np.nan)
    with pytest.raises(ValueError, match="no minute has both CPU load and throughput"):
        ScaleOuts.from_features(frame)
    with pytest.raises(ValueError, match="no minute has both CPU load and throughput"):
        ScaleOuts.from_features(frame.iloc[:0])


@pytest.mark.parametrize(
    ("per_s", "why"), [(0.0, "took in nothing, so .* check that throughput_per_s"), (5e9, "records, not bytes")]
)
def test_a_history_whose_model_the_loop_would_refuse_or_could_not_use_is_no_model(per_s, why):
    """It was registered as the first champion, and refused by the loop at every tick."""
    with pytest.raises(ValueError, match=why):
        ScaleOuts.from_features(history([2], lambda _: 50_000.0).assign(throughput_per_s=per_s))


# -- state -------------------------------------------------------------------------------------------------------------


def test_state_survives_json_exactly_and_learns_on():
    model = stay(stay(ScaleOuts(), 6), 3, start_s=4000.0).worked_off(3, 140_000.0, 5_800.0)
    assert model.behind is not None
    text = json.dumps(model.to_state(), allow_nan=False)
    back = ScaleOuts.from_state(json.loads(text))
    assert back == model
    following = window(9000.0, 3)
    assert back.update(following, 3) == model.update(following, 3)
    assert ScaleOuts.from_state(json.loads(json.dumps(ScaleOuts().to_state()))) == ScaleOuts()
    older = {key: value for key, value in model.to_state().items() if key != "behind"}
    assert ScaleOuts.from_state(older).behind is None, "a state from before it was learnt is read on"


def test_a_restart_takes_no_evidence_away_from_a_job_of_more_workers_than_are_stored():
    """Those that are stored counted as all that had reported: the others were missing, and as slow as may be."""
    model = stay(ScaleOuts(), 300, minutes=4)
    back = ScaleOuts.from_state(json.loads(json.dumps(model.to_state())))
    again = ScaleOuts.from_state(json.loads(json.dumps(back.to_state())))
    assert len(back.workers) < 300
    assert back.warnings == again.warnings == model.warnings == ()
    for known in (back, again):
        ours, total = (capacity.workers.total(300, capacity.idle) for capacity in (model, known))
        assert total.hottest_share == pytest.approx(ours.hottest_share)
        assert total.reporting == ours.reporting == 300
        assert total.sd_per_s / total.per_s == pytest.approx(ours.sd_per_s / ours.per_s, rel=0.05)
        assert known.capacity(300).per_s == pytest.approx(model.capacity(300).per_s, rel=0.01)
    older = {key: value for key, value in model.to_state().items() if key != "reporting"}
    assert ScaleOuts.from_state(older).capacity(300).per_s == pytest.approx(model.capacity(300).per_s, rel=0.05)
    learnt = back.update(window(400.0, 300), 300)
    assert len(learnt.workers) == learnt.workers.total(300).reporting == 300


def test_state_stays_below_50_kb():
    model = stay(ScaleOuts(), 300, minutes=3)
    memory = {n: Evidence(n, 1e5 / 3 * n, 0.034567891234, 1.7e9 + n / 3, 0.91234) for n in range(1, 97)}
    model = ScaleOuts(model.scale_out, model.workers, memory, 1.7e9, 1.7e9 - 100, 0)
    assert len(json.dumps(model.to_state())) < 50_000


@pytest.mark.parametrize(
    "state",
    [{}, {"format": 99}, {"format": 1, "memory": [{"scale_out": 3}]}, {"format": 1, "workers": {"w": [1, 2]}},
     {"format": 1, "memory": [{**Evidence(3, 1.0, 1.0, 0.0, 1.0).to_state(), "scale_out": 0}]}],
)  # fmt: skip
def test_refuses_a_foreign_state(state):
    with pytest.raises(ValueError, match=r"state|evidence|eight numbers"):
        ScaleOuts.from_state(state)


# -- parts -------------------------------------------------------------------------------------------------------------


def test_a_belief_that_is_far_too_high_is_given_up_when_the_workers_do_what_they_can():
    (name,) = window(0.0, 1).workers
    steep = Workers.of((name,), np.array([[0.200], [0.201], [0.202]]), np.array([[10.0], [5_000.0], [9_990.0]]), 10.0)
    believed = ScaleOuts(scale_out=1, workers=steep, newest_s=-60.0)
    assert believed.capacity(1).per_s > 10 * 50_000
    assert stay(believed, 1).capacity(1).per_s == pytest.approx(50_000, rel=0.1)


# -- metrics that were wrong -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale_out", [0, -3, 10_001, 10**15, 10**30])
def test_a_scale_out_that_no_job_has_is_refused_and_not_reckoned_with(scale_out):
    model = stay(ScaleOuts(), 4)
    with pytest.raises(ValueError, match="1 to 10000 workers"):
        model.update(window(0, 4), scale_out)
    with pytest.raises(ValueError, match="1 to 10000 workers"):
        model.capacity(scale_out)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"scale_out": 10**6}, "learned at scale-out 1e\\+06"),
        ({"memory": [Evidence(10**15, 5e4, 0.1, 0.0, 0.7).to_state()]}, "learned at scale-out 1e\\+15"),
        ({"memory": [Evidence(6, 1e15, 0.1, 0.0, 0.7).to_state()]}, "take 1.67e\\+14 records/s"),
        ({"workers": {"a": [1.0, 0.5, 1e15, 0.1, 1.0, 1.0, 0.5, 1e15]}}, "take 1e\\+15 records/s"),
    ],
)
def test_a_state_that_absurd_metrics_taught_is_refused(change, why):
    state = stay(ScaleOuts(), 4).to_state()
    with pytest.raises(ValueError, match=why):
        ScaleOuts.from_state({**state, **change})


def less_cpu(seen, share):
    return replace(seen, worker_metrics={**seen.worker_metrics, "cpu_load": share * seen.worker_metrics["cpu_load"]})


def goes_on(model, share, start_s=1800.0, minutes=10, uptime=None):
    """Minutes in which the CPU is told as a share of what it is; ``uptime`` is that at the end of the first window."""
    for minute in range(3, minutes + 1):
        begins_s = start_s + 60 * (minute - 3)
        seen = window(begins_s, 4)
        ran = {} if uptime is None else {"uptime_s": uptime + 60 * (minute - 3) + seen.times_s - seen.times_s[-1]}
        model = model.update(replace(less_cpu(seen, share), job_metrics=ran), 4)
    return model


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_a_program_that_runs_gets_no_faster_so_it_is_the_cpu_that_is_wrong(share):
    known = stay(ScaleOuts(), 4)
    after = goes_on(known, share, uptime=5_000.0)
    assert after.capacity(4) == known.capacity(4)
    assert after.doubted.done_per_s > 1.4 * max(after.doubted.believed_per_s, 0.0)
    assert goes_on(after, 1.0, start_s=2400.0, uptime=6_000.0).doubted is None


def test_a_program_that_was_started_anew_may_be_faster():
    known = stay(ScaleOuts(), 4)
    after = goes_on(known, 0.5, start_s=2200.0, uptime=300.0)
    assert after.capacity(4).per_s > 1.6 * known.capacity(4).per_s


def test_a_program_that_seemed_slower_is_believed_at_once_to_be_as_fast_as_before():
    known = stay(ScaleOuts(), 4)
    slower = ScaleOuts.from_state(json.loads(json.dumps(goes_on(known, 1.8, uptime=5_000.0).to_state())))
    assert slower.capacity(4).per_s < 0.7 * known.capacity(4).per_s
    again = goes_on(slower, 1.0, start_s=2400.0, minutes=3, uptime=6_000.0)
    assert again.capacity(4).per_s == pytest.approx(known.capacity(4).per_s, rel=0.05)


def test_an_idle_job_s_cpu_contradicts_nothing():
    model = ScaleOuts()
    for minute in range(3, 40):
        model = model.update(window(60.0 * minute, 4, per_worker=500.0, seed=minute), 4)
        assert model.doubted is None or minute < 5


def test_lines_of_a_few_minutes_doubt_nobody():
    """The first minutes of a stay may be of a backlog or of a warm-up."""
    young = stay(ScaleOuts(), 4, minutes=4)
    assert goes_on(young, 0.5, start_s=240.0, minutes=3, uptime=5_000.0).doubted is None


def test_a_load_that_comes_back_after_idle_hours_is_not_another_program():
    """Zoo 57003-4: lines of idle hours "missed" the load that came back, and all sizes were forgotten."""
    rng, idle, back_s = np.random.default_rng(0), 0.28, 7_200.0

    def look(end_s, scale_out, busy_since_s):
        times = end_s - 180.0 + STEP_S * np.arange(1, 19)
        busy = [np.where(times - STEP_S * back > busy_since_s, 0.37, 0.0) for back in range(6)]
        cpu = idle + (1.0 - idle) * np.mean(busy, axis=0)[:, None] + rng.normal(0.0, 0.01, (18, scale_out))
        rates = 35.0 * busy[0][:, None] * np.ones(scale_out)
        names = tuple(f"w{number:02d}" for number in range(scale_out))
        up = {"uptime_s": times + 3_600.0}
        return Window("job", STEP_S, times, names, up, {"cpu_load": cpu, "throughput_per_s": rates}, end_s)

    model = ScaleOuts()
    for minute in range(-60, 0):
        model = model.update(look(60.0 * minute, 13, -math.inf), 13)
    known = model.capacity(13).per_s
    for minute in range(10, 135):
        model = model.update(look(60.0 * minute, 12, back_s), 12)
        assert 13 in model.memory
    assert model.capacity(13).per_s == pytest.approx(known, rel=0.1)
    assert model.capacity(12).per_s == pytest.approx(12 * 35.0, rel=0.1)


@pytest.mark.parametrize(("cpu", "doubts"), [(0.23, False), (0.5, True)])
def test_workers_that_have_nothing_to_do_are_doubted_only_for_more_cpu_than_idle_workers_use(cpu, doubts):
    """Zoo 66001-27: 15 workers at 23 % of their CPU stood for hours while nothing arrived, "blind"."""
    rng = np.random.default_rng(0)

    def look(end_s, cpu_load, per_s):
        times = end_s - 180.0 + STEP_S * np.arange(1, 19)
        seen = {"cpu_load": np.full((18, 4), cpu_load), "throughput_per_s": np.full((18, 4), per_s)}
        noisy = {name: values + 0.01 * cpu_load * rng.standard_normal((18, 4)) for name, values in seen.items()}
        names = tuple(f"w{number}" for number in range(4))
        return Window("job", STEP_S, times, names, {"uptime_s": times + 3_600.0}, noisy, end_s)

    model = ScaleOuts()
    for minute in range(30):
        model = model.update(look(60.0 * minute, 0.85, 75.0), 4)
        assert model.doubted is None
    known = model.capacity(4)
    for minute in range(33, 40):
        model = model.update(look(60.0 * minute, cpu, 0.0), 4)
        assert (model.doubted is not None) is doubts
    assert model.capacity(4).per_s == pytest.approx(known.per_s, rel=0.05)

"""Observed recoveries: from the first stop until caught up, whatever the windows, gaps and noise."""

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from perdix.models.recovery.normal import Moments, Normal
from perdix.models.recovery.observation import RecoveryWatch, TimedOut
from perdix.models.recovery.stops import Recovered

METRICS = Path(__file__).parents[2] / "../shared/data/metrics"


def job(stop_at=400, down=20, rate=50_000.0, capacity=80_000.0, seconds=900, noise=0.0, seed=0):
    """A job second by second: it stands still for ``down`` seconds, then works off what queued up."""
    rng = np.random.default_rng(seed)
    workload, throughput, lag = np.full(seconds, rate), np.empty(seconds), np.empty(seconds)
    queue = 0.0
    for at in range(seconds):
        able = 0.0 if stop_at <= at < stop_at + down else capacity
        done = min(able, rate + queue)
        queue += rate - done
        throughput[at], lag[at] = done, queue
    caught_up = stop_at + down + down * rate / (capacity - rate)
    noisy = throughput * (1 + rng.normal(0, noise, seconds))
    return np.arange(seconds, dtype=float), workload, np.where(throughput > 0, noisy, 0.0), lag, caught_up


def watched(columns, at_s, tick_s=60, window_s=90, lag=True, every=1, **options):
    """Feed a watch as the loop does, its state going through JSON between ticks."""
    times, workload, throughput, lags = (values[::every] for values in columns[:4])
    before = times < at_s
    normal = Normal().fed(times[before], workload[before], throughput[before], lags[before] if lag else None)
    watch = RecoveryWatch(at_s, normal, **options)
    now = at_s
    while watch.outcome is None and now < times[-1]:
        now += tick_s
        rows = (times >= now - window_s) & (times < now)
        watch = watch.observe(times[rows], workload[rows], throughput[rows], lags[rows] if lag else None)
        if watch.outcome is None:
            watch = RecoveryWatch.from_state(json.loads(json.dumps(watch.to_state(), allow_nan=False)))
    return watch.outcome


@pytest.mark.parametrize("lag", [True, False])
@pytest.mark.parametrize("down", [8, 20, 60])
def test_finds_stop_downtime_and_recovery(down, lag):
    columns = job(down=down)
    outcome = watched(columns, at_s=395, lag=lag)
    assert isinstance(outcome, Recovered)
    assert outcome.stopped_s == pytest.approx(400, abs=0.5)
    assert outcome.downtime_s == pytest.approx(down, abs=1)
    assert outcome.recovery_s == pytest.approx(columns[4] - 400, abs=4)
    assert outcome.caught_up_s == outcome.stopped_s + outcome.recovery_s
    assert outcome.stop_seen


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.005, 0.05))
def test_noise_is_neither_a_stop_nor_a_recovery(seed, noise):
    columns = job(noise=noise, seed=seed)
    outcome = watched(columns, at_s=395)
    assert isinstance(outcome, Recovered)
    assert outcome.stopped_s == pytest.approx(400, abs=0.5)
    assert outcome.downtime_s == pytest.approx(20, abs=1)
    assert outcome.recovery_s == pytest.approx(columns[4] - 400, abs=15)


@settings(max_examples=15, deadline=None)
@given(st.integers(5, 90), st.integers(0, 60))
def test_the_cut_into_windows_does_not_matter(tick_s, overlap):
    assert watched(job(), 395, tick_s=tick_s, window_s=tick_s + overlap) == watched(job(), 395)


@pytest.mark.parametrize("every", [5, 15])
def test_coarse_scrapes(every):
    columns = job(down=45)
    outcome = watched(columns, at_s=395, every=every)
    assert isinstance(outcome, Recovered)
    assert outcome.recovery_s == pytest.approx(columns[4] - 400, abs=every + 2)


@pytest.mark.parametrize("every", [5, 15])
def test_a_stop_that_shows_in_the_first_sample_after_the_action_began_with_the_action(every):
    times, workload, throughput, lag = (values[::every] for values in job(stop_at=405, down=45)[:4])
    before = times <= 405
    normal = Normal().fed(times[before], workload[before], throughput[before], lag[before])
    at_the_action = np.where(times == 405, workload, throughput)  # tells of the step that ends with it
    outcome = RecoveryWatch(405.0, normal).observe(times, workload, at_the_action, lag).outcome
    assert isinstance(outcome, Recovered)
    assert outcome.stopped_s == 405.0
    assert outcome.downtime_s == pytest.approx(45, abs=every / 2 + 1)


@pytest.mark.parametrize("down", [41, 42, 43, 44, 45])
def test_means_over_steps_tell_when_in_a_step_the_job_had_caught_up(down):
    """Of a step in which it caught up, the surplus is as much of a whole step's as it took."""
    step_s = 5
    times, workload, throughput, lag, caught_up = job(down=down)
    means = (values.reshape(-1, step_s).mean(axis=1) for values in (workload, throughput))
    columns = (times[step_s - 1 :: step_s] + 1.0, *means, lag[step_s - 1 :: step_s])
    outcome = watched(columns, at_s=400)
    assert isinstance(outcome, Recovered)
    assert outcome.caught_up_s == pytest.approx(caught_up, abs=1.0)


@pytest.mark.parametrize("noise", [0.0, 0.03])
@pytest.mark.parametrize(("down", "capacity"), [(30, 55_000.0), (45, 80_000.0), (90, 150_000.0)])
def test_means_over_steps_tell_when_in_a_step_a_stop_began_and_ended(down, capacity, noise):
    """Zoo 100006-13: of stops of 25 s, scraped every 15 s, 15 s were learnt."""
    step_s, errors_s = 15, []
    for phase in range(step_s):
        times, workload, throughput, lag, _ = job(400 + phase, down, capacity=capacity, seconds=1_800)
        means = [values.reshape(-1, step_s).mean(axis=1) for values in (workload, throughput)]
        means[1] *= 1.0 + np.random.default_rng(phase).normal(0.0, noise, len(means[1]))
        ends = slice(step_s - 1, None, step_s)
        outcome = watched((times[ends] + 1.0, *means, lag[ends]), at_s=395.0 + phase)
        errors_s.append(outcome.downtime_s - down)
    assert np.mean(np.abs(errors_s)) < 0.1 * step_s
    assert np.max(np.abs(errors_s)) < 0.2 * step_s


@pytest.mark.parametrize("before", [0, 1])
def test_what_was_done_again_unseen_counts_no_gap_of_the_metrics(before):
    """The first sample comes 12 s after the action; it may be the mean of a stop and of catching up."""
    times, arrived = 12.0 + 5.0 * np.arange(14), np.full(14, 10.0)
    done = np.array([*[10.0] * before, 12.0, 12.0, *[10.0] * (12 - before)])
    watch = RecoveryWatch(0.0).observe(times, arrived, done)
    assert watch.unseen(1.0, 1.0).again_records == pytest.approx(2.0 * (5.0 + 5.0))
    assert watch.unseen(1.0, 1.0).recovery_s == times[before + 1]
    for count in (0, 1, 5):
        early = RecoveryWatch(0.0).observe(times[:count], arrived[:count], done[:count])
        assert early.unseen(1.0, 1.0) is None, "no half a minute of calm yet"
    nothing = RecoveryWatch(0.0).observe(times, arrived, arrived).unseen(1.0, 1.0)
    assert (nothing.again_records, nothing.recovery_s) == (0.0, 1.0)


@pytest.mark.parametrize("after_s", [1, 6, 11, 21])
def test_what_was_done_again_unseen_counts_from_the_restart_on(after_s):
    """Flink rescales once a checkpoint is complete, seconds after the request."""
    times = 5.0 * np.arange(1, 41)
    done = np.full(200, 70.0)
    done[after_s : after_s + 2] = 0.0
    done[after_s + 2 : after_s + 12] = 70.0 + (2 * 70.0 + 3 * 70.0) / 10.0  # two seconds stood still, three done again
    watch = RecoveryWatch(0.0).observe(times, np.full(40, 70.0), done.reshape(-1, 5).mean(axis=1))
    found = watch.unseen(after_s + 2.0, 2.0)
    assert found.stopped_s == after_s
    assert found.recovery_s == pytest.approx(12.0, abs=4.0)
    assert found.again_records == pytest.approx(3 * 70.0)


def test_a_surplus_within_noise_is_no_calm():
    rng = np.random.default_rng(4)
    times, arrived = 5.0 * np.arange(1, 61), np.full(60, 10.0)
    noise = rng.normal(0.0, 1.0, 60)
    normal = Normal().fed(times, arrived, arrived + noise)
    catching_up = np.where(times <= 100.0, 11.5, 10.0)
    watch = RecoveryWatch(0.0, normal).observe(times, arrived, catching_up + noise)
    assert watch.unseen(1.0, 1.0).recovery_s == pytest.approx(100.0, abs=20.0)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(12, 90), st.sampled_from([1, 5, 10, 15]), st.floats(1_000, 70_000), st.integers(380, 400), st.booleans()
)
def test_a_recovery_is_never_shorter_than_its_downtime(down, every, rate, at_s, lag):
    outcome = watched(job(down=down, rate=rate), at_s, every=every, lag=lag)
    assume(isinstance(outcome, Recovered))
    assert 0.0 <= outcome.downtime_s <= outcome.recovery_s
    assert outcome.stopped_s >= at_s
    # A step too early, where the first sample after the action shows the stop, and half a step at its end.
    assert outcome.downtime_s == pytest.approx(down, abs=1.5 * every + 2)


ANY_RATE = st.one_of(st.just(0.0), st.floats(0.0, 100.0), st.sampled_from([1e-300, 1e6, 1e300]))


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(ANY_RATE, ANY_RATE), min_size=1, max_size=12), st.sampled_from([0.0, 5.0, math.inf]))
def test_whatever_was_measured_a_stop_lies_within_what_was_watched(rows, worked_per_s):
    calm = [(10.0, 10.0)] * 4
    workload, throughput = np.array([*rows, *calm]).T
    times = 100.0 + 15.0 * np.arange(1, len(workload) + 1)
    outcome = RecoveryWatch(100.0, worked_per_s=worked_per_s).observe(times, workload, throughput).outcome
    assume(isinstance(outcome, Recovered))
    assert 100.0 <= outcome.stopped_s <= outcome.caught_up_s <= times[-1]
    assert 0.0 <= outcome.downtime_s <= outcome.recovery_s + 1e-9


def test_samples_that_come_closer_than_usual_make_no_downtime_negative():
    """As where the scrape interval was changed: a usual step back from the next sample is before the stop."""
    times = [105.0, 106.0, 111.0, *(111.0 + 15.0 * np.arange(1, 8))]
    done = [100.0, 0.0, 100.0, 120.0, *[100.0] * 6]
    outcome = RecoveryWatch(100.0).observe(times, [100.0] * 10, done).outcome
    assert isinstance(outcome, Recovered)
    assert 0.0 <= outcome.downtime_s <= 6.0


def test_missing_samples_are_not_an_outage():
    columns = job(stop_at=700, down=0)
    throughput = columns[2].copy()
    throughput[420:470] = np.nan
    outcome = watched((columns[0], columns[1], throughput, columns[3]), at_s=400, timeout_s=300)
    assert isinstance(outcome, TimedOut)
    assert outcome.stopped_s is None


@pytest.mark.parametrize("every", [1, 5])
@pytest.mark.parametrize("hidden", [(400, 430), (430, 460), (405, 460)])
def test_metrics_that_are_missing_as_a_stop_begins_or_ends_make_it_no_shorter(hidden, every):
    columns = job(down=60)
    kept = (columns[0] < hidden[0]) | (columns[0] >= hidden[1])
    outcome = watched([*(column[kept] for column in columns[:4]), columns[4]], at_s=395, every=every)
    assert outcome.downtime_s == pytest.approx(60, abs=3)
    assert outcome.recovery_s == pytest.approx(columns[4] - 400, abs=6)


def of_means(stop_s, down_s, hidden=(0.0, 0.0)):
    """Return what is made of rates that are means over 15 s, those of a span missing."""
    times, done, waiting = np.arange(900), np.empty(900), 0.0
    for at in times:
        done[at] = 0.0 if stop_s <= at < stop_s + down_s else min(2_000.0, 1_000.0 + waiting)
        waiting += 1_000.0 - done[at]
    ends, means = np.arange(15.0, 901.0, 15.0), done.reshape(-1, 15).mean(axis=1)
    kept = (ends <= hidden[0]) | (ends > hidden[1])
    normal = Normal(Moments(100.0, 0.0, 100.0 * 30.0**2), newest_s=0.0)
    return RecoveryWatch(0.0, normal).observe(ends[kept], np.full(kept.sum(), 1_000.0), means[kept]).outcome


@pytest.mark.parametrize("down_s", [41, 43, 44, 56])
def test_a_stop_that_is_missing_from_the_action_on_began_with_it(down_s):
    """It was taken to begin within the step of the first sample there is, at its end."""
    outcome = of_means(stop_s=3, down_s=down_s, hidden=(0.0, 15.0 * (down_s // 15)))
    assert outcome.stopped_s == 0.0
    if down_s in (43, 44):  # of the others, the first sample is the mean of a stop and of work
        assert outcome.downtime_s == pytest.approx(3 + down_s, abs=1.5)


@pytest.mark.parametrize("down_s", [40, 50])
def test_metrics_that_are_missing_in_a_dip_count_as_the_sample_before_them(down_s):
    """That sample is the mean of a stop and of work, and so shows no standstill; what was missing counted nothing."""
    outcome = of_means(stop_s=36, down_s=down_s, hidden=(45.0, 15.0 * ((36 + down_s) // 15)))
    assert 0.6 * down_s < outcome.downtime_s <= down_s


@pytest.mark.parametrize(("around", "down_s"), [([940.0, 970.0, 550.0], 8.0), ([550.0, 960.0, 550.0], 14.0)])
def test_a_dip_ends_with_what_is_caught_up_and_not_with_a_sample_within_noise(around, down_s):
    """A sample as deep as noise may be goes before a dip, or lies in it: what followed was left out."""
    done = np.array([1_000.0, 1_000.0, *around, 1_150.0, 1_200.0, *[1_000.0] * 30])
    times = 15.0 * np.arange(1, len(done) + 1)
    normal = Normal(Moments(100.0, 0.0, 100.0 * 30.0**2), newest_s=0.0)
    outcome = RecoveryWatch(0.0, normal).observe(times, np.full(len(done), 1_000.0), done).outcome
    assert outcome.downtime_s == pytest.approx(down_s, abs=2.0)


def test_a_stop_hidden_in_a_gap_is_told_by_the_surplus_after_it():
    columns = job(down=40)
    throughput = columns[2].copy()
    throughput[400:442] = np.nan
    outcome = watched((columns[0], columns[1], throughput, columns[3]), at_s=395)
    assert isinstance(outcome, Recovered)
    assert not outcome.stop_seen
    assert outcome.stopped_s == 399
    assert outcome.downtime_s == pytest.approx(43, abs=1)
    assert outcome.recovery_s == pytest.approx(columns[4] - 399, abs=4)


@pytest.mark.parametrize("hidden", [(400, 500), (455, 520)])
def test_a_backlog_from_before_a_gap_hides_no_stop_in_it(hidden):
    """Zoo 100003-31: metrics were missing while a job caught up, so 17 s of standstill were learnt of one second."""
    columns = job(stop_at=431, down=0, rate=45_000.0, seconds=1_500)
    times, workload, throughput, lag, _ = columns
    workload[:340], throughput[:340], throughput[340:431], lag[:340] = 1_000.0, 1_000.0, 6_000.0, 0.0
    caught_up_from(431, columns, 60_000.0)
    normal = Normal().fed(times[:340], workload[:340], throughput[:340], lag[:340])
    kept = (times % 5 == 0) & ~((times > hidden[0]) & (times < hidden[1]))
    watch = RecoveryWatch(400.0, normal, worked_per_s=6_000.0).observe(*(values[kept] for values in columns[:4]))
    assert watch.stopped_s() is None


def test_lag_above_normal_is_not_caught_up():
    """The job keeps pace but never works off what queued: only the lag tells."""
    times, workload, throughput, lag, _ = job(capacity=50_000.0001)
    without = watched((times, workload, throughput, lag), 395, lag=False)
    assert isinstance(without, Recovered)
    outcome = watched((times, workload, throughput, lag), 395, timeout_s=400)
    assert isinstance(outcome, TimedOut)
    assert outcome.stopped_s == pytest.approx(400, abs=0.5)
    assert outcome.waited_s >= 400


@pytest.mark.parametrize(("left", "recovers"), [(1.0, True), (1_000.0, False)])
def test_where_nothing_arrives_any_more_a_record_that_waits_is_no_backlog(left, recovers):
    """The limit was this many seconds of no workload: a recovery never ended, and its scale-in was rolled back."""
    times, workload = np.arange(900.0), np.where(np.arange(900) < 430, 1_000.0, 0.0)
    throughput = np.where(times < 400, 1_000.0, np.where(times < 420, 0.0, 2_000.0))
    throughput[435:] = 0.0
    lag = np.maximum(np.cumsum(workload - throughput), left)
    outcome = watched((times, workload, throughput, lag), at_s=395, timeout_s=400.0)
    assert isinstance(outcome, Recovered if recovers else TimedOut)
    if isinstance(outcome, Recovered):
        assert outcome.caught_up_s == pytest.approx(435, abs=2)


def test_a_second_stop_during_recovery_prolongs_it():
    """What was worked between two stops is no part of the downtime."""
    times, workload, throughput, lag, _ = job(down=20)
    throughput[440:450] = 0.0
    outcome = watched((times, workload, throughput, lag), 395, lag=False)
    assert outcome.stopped_s == pytest.approx(400, abs=0.5)
    assert outcome.downtime_s == pytest.approx(30, abs=1)
    assert outcome.caught_up_s > 450


def caught_up_from(at, columns, capacity=80_000.0):
    """Let a job work what waits off from a second on, in place; return when that is done."""
    _, workload, throughput, lag, _ = columns
    throughput[at:] = capacity
    lag[:] = np.maximum(np.cumsum(workload - throughput), 0.0)
    done = at + int(np.flatnonzero(lag[at:] <= 0.0)[0])
    throughput[done:], lag[done:] = workload[done:], 0.0
    return done


@pytest.mark.parametrize("every", [1, 5, 15])
def test_minutes_of_work_behind_its_load_are_no_downtime(every):
    """Slots are missing: a job falls behind on the fewer workers that it got, and stops again once there are more."""
    columns = job(down=20, seconds=1_500)
    columns[2][420:700] = 40_000.0
    columns[2][700:740] = 0.0
    caught_up = caught_up_from(740, columns)
    outcome = watched(columns, 395, every=every)
    assert outcome.downtime_s == pytest.approx(60, abs=every)
    assert outcome.caught_up_s == pytest.approx(caught_up, abs=2 * every)


@pytest.mark.parametrize("every", [1, 5, 15])
def test_an_overload_before_a_late_stop_is_no_downtime(every):
    """What was asked for comes minutes later; until then the job falls behind, and works."""
    columns = job(stop_at=600, down=30, seconds=1_500)
    columns[2][400:600] = 45_000.0
    caught_up_from(630, columns)
    outcome = watched(columns, 400, every=every)
    assert outcome.downtime_s == pytest.approx(30, abs=every)


@pytest.mark.parametrize("overload", [3.0, 7.0, 20.0])
@pytest.mark.parametrize("every", [5, 15, 30])
@pytest.mark.parametrize("down", [1, 60])
def test_a_job_that_is_rescaled_for_its_overload_stands_still_only_while_it_stops(every, overload, down):
    """A load comes at once; a minute later more workers are asked for, which come in half a minute."""
    few_per_s = 4_500.0
    columns = job(stop_at=431, down=down, rate=overload * few_per_s, seconds=2_400)
    times, workload, throughput, lag, _ = columns
    workload[:340] = throughput[:340] = 0.2 * few_per_s
    throughput[340:431], lag[:340] = few_per_s, 0.0
    caught_up_from(431 + down, columns, 1.4 * overload * few_per_s)
    means = [np.convolve(values, np.full(every, 1.0 / every))[: len(times)][::every] for values in columns[1:3]]
    sampled = times[::every], *means, lag[::every]
    normal = Normal().fed(*(values[times[::every] < 340] for values in sampled))
    watch = RecoveryWatch(400.0, normal, worked_per_s=few_per_s).observe(*sampled)
    if down > every:
        assert watch.outcome.downtime_s == pytest.approx(down, abs=every)
    else:
        assert watch.stopped_s() is None


@pytest.mark.parametrize("down", [30, 60])
def test_a_stop_under_overload_is_seen_in_rates_over_a_minute_as_without_it(down):
    """Prometheus has rates over four scrapes: a stop of 60 s was learnt as none, from when the overload began on."""
    found = []
    for rate in (5_000.0, 10_000.0):
        columns = job(stop_at=431, down=down, rate=rate, seconds=2_400)
        times, workload, throughput, lag, _ = columns
        workload[:340], throughput[:340], throughput[340:431], lag[:340] = 4_000.0, 4_000.0, 5_000.0, 0.0
        caught_up_from(431 + down, columns, 14_000.0)
        means = [np.convolve(values, np.full(60, 1.0 / 60.0))[: len(times)][::15] for values in columns[1:3]]
        sampled = times[::15], *means, lag[::15]
        normal = Normal().fed(*(values[times[::15] < 340] for values in sampled))
        worked_per_s = sampled[2][sampled[0] <= 400].max()
        found.append(RecoveryWatch(400.0, normal, worked_per_s=worked_per_s).observe(*sampled).outcome)
    assert found[1].downtime_s == pytest.approx(found[0].downtime_s, abs=15.0)
    assert found[1].stopped_s == pytest.approx(431.0, abs=30.0)


def test_what_was_worked_before_survives_a_restart():
    watch = RecoveryWatch(400.0, worked_per_s=4_500.0)
    assert RecoveryWatch.from_state(json.loads(json.dumps(watch.to_state(), allow_nan=False))) == watch
    state = watch.to_state()
    del state["worked_per_s"]
    assert RecoveryWatch.from_state(state).worked_per_s == math.inf, "a former version kept none"


def test_an_outcome_is_final():
    columns = job()
    watch = RecoveryWatch(395.0, Normal().fed(*(values[:395] for values in columns[:3])))
    rows = slice(395, 600)
    done = watch.observe(*(values[rows] for values in columns[:3]))
    assert isinstance(done.outcome, Recovered)
    assert done.observe(columns[0][600:], columns[1][600:], columns[2][600:] * 0) is done
    assert watch.samples == ()


def test_times_out_without_any_sample():
    watch = RecoveryWatch(0.0, timeout_s=120)
    blank = np.full(60, np.nan)
    watch = watch.observe(np.arange(60.0), blank, blank)
    assert watch.outcome is None
    watch = watch.observe(np.arange(60.0, 121.0), np.full(61, np.nan), np.full(61, np.nan))
    assert watch.outcome == TimedOut(120.0, None)


def test_works_without_a_baseline():
    columns = job()
    watch = RecoveryWatch(395.0).observe(*(values[395:] for values in columns[:4]))
    assert watch.outcome.recovery_s == pytest.approx(columns[4] - 400, abs=4)


@pytest.mark.parametrize("state", [{}, {"at_s": 1, "normal": {}, "timeout_s": 1, "settle_s": 1, "samples": []}])
def test_refuses_a_foreign_state(state):
    with pytest.raises(ValueError, match="not the state of"):
        RecoveryWatch.from_state(state)


# -- the baseline ------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(0.1, 5)), min_size=2, max_size=40), st.integers(1, 39))
def test_moments_are_exact_in_any_split(rows, cut):
    values, weights = np.array(rows).T
    whole = Moments.of(values, weights)
    parts = Moments.of(values[:cut], weights[:cut]).merge(Moments.of(values[cut:], weights[cut:]))
    assert parts.mean == pytest.approx(whole.mean, rel=1e-9, abs=1e-6)
    assert parts.sd == pytest.approx(whole.sd, rel=1e-6, abs=1e-3)
    assert whole.mean == pytest.approx(np.average(values, weights=weights), rel=1e-9, abs=1e-6)


def test_baseline_counts_a_sample_once_and_does_not_depend_on_windows():
    times, workload, throughput, lag, _ = job(noise=0.03, seconds=390)
    whole = Normal().fed(times, workload, throughput, lag)
    parts = Normal()
    for start in range(0, 390, 45):
        rows = slice(max(0, start - 20), start + 45)
        parts = parts.fed(times[rows], workload[rows], throughput[rows], lag[rows])
    assert parts.difference.mean == pytest.approx(whole.difference.mean, rel=1e-6)
    assert parts.difference.sd == pytest.approx(whole.difference.sd, rel=1e-6)
    assert parts.fed(times, workload, throughput, lag) == parts


def test_outages_and_blanks_do_not_become_normal():
    times, workload, throughput, _, _ = job(noise=0.01)
    before = Normal().fed(times[:400], workload[:400], throughput[:400])
    assert before.fed(times[400:420], workload[400:420], throughput[400:420]) == before
    blank = np.full(20, np.nan)
    assert before.fed(times[400:420], blank, blank) == before
    assert Normal.from_state(json.loads(json.dumps(before.to_state(), allow_nan=False))) == before
    assert Normal.from_state(Normal().to_state()).newest_s == -math.inf


def test_baseline_forgets():
    n = 7200
    times, workload = np.arange(n, dtype=float), np.full(n, 1e5)
    throughput = np.where(times < 3600, 0.95, 1.05) * workload
    assert Normal().fed(times, workload, throughput).difference.mean == pytest.approx(-5_000, rel=0.01)


# -- measured ----------------------------------------------------------------------------------------------------------


def measured(workload_csv, throughput_csv):
    columns = [
        pd.read_csv(METRICS / name, encoding="utf-8-sig", index_col=0).iloc[:, 0]
        for name in (workload_csv, throughput_csv)
    ]
    both = pd.concat(columns, axis=1, keys=["workload", "throughput"]).apply(pd.to_numeric, errors="coerce")
    index = both.index if both.index.dtype.kind in "if" else pd.to_datetime(both.index).as_unit("s").astype("int64")
    return np.asarray(index, float), both["workload"].to_numpy(float), both["throughput"].to_numpy(float)


needs_data = pytest.mark.skipif(not METRICS.is_dir(), reason="no measured data beside the project")


@pytest.mark.shared
@needs_data
def test_the_measured_rescale_of_the_paper():
    """One rescale at second 350: standing still 7 s, and caught up 68 s after the stop (read from the curves: 68)."""
    times, workload, throughput = measured(
        "figures/anomaly_detection_workload.csv", "figures/anomaly_detect_throughput.csv"
    )
    for at_s in (340.0, 349.0):
        outcome = watched((times, workload, throughput, np.full(len(times), np.nan)), at_s)
        assert isinstance(outcome, Recovered)
        assert outcome.stopped_s == pytest.approx(350, abs=1)
        assert outcome.downtime_s == pytest.approx(7, abs=1)
        assert outcome.recovery_s == pytest.approx(68, abs=6)


@pytest.mark.shared
@needs_data
@pytest.mark.parametrize(
    ("at", "stopped", "recovery_s"),
    [
        ("20:52:45", "20:53:15", 135),
        ("21:20:30", "21:21:00", 45),
        ("21:52:00", "21:52:30", 210),
        ("22:20:45", "22:21:15", 60),
    ],
)
def test_four_measured_rescales_scraped_every_15_seconds(at, stopped, recovery_s):
    times, workload, throughput = measured(
        "testing/anomaly_detection_workload.csv", "testing/anomaly_detection_throughput.csv"
    )
    at_s = pd.Timestamp(f"2023-01-21 {at}").timestamp()
    outcome = watched((times, workload, throughput, np.full(len(times), np.nan)), at_s)
    assert isinstance(outcome, Recovered)
    between_s = pd.Timestamp(f"2023-01-21 {stopped}").timestamp() - 7.5
    assert outcome.stopped_s == pytest.approx(between_s, abs=7.5), "between two scrapes"
    assert outcome.recovery_s == pytest.approx(recovery_s, abs=15)
    assert 0 < outcome.downtime_s <= 30

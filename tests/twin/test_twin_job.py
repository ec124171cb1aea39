import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdix.twin.history import JOB_COLUMNS, WORKER_COLUMNS
from perdix.twin.job import JobTwin
from perdix.twin.outages import draw_standstill_s
from perdix.twin.parameters import load_twin, load_twins
from perdix.twin.workloads import arrivals_from

START_S = 1_700_000_000
ACTIONS = st.one_of(
    st.tuples(st.just("step"), st.integers(0, 90)),
    st.tuples(st.just("rescale"), st.integers(1, 12)),
    st.tuples(st.just("fail"), st.integers(0, 11)),
)


def play(twin: JobTwin, actions) -> None:
    for number, (what, value) in enumerate(actions):
        if what == "step":
            twin.step(value)
        elif what == "rescale":
            twin.rescale(value, f"key-{number}")
        elif value < twin.scale_out:
            twin.fail(value)


@settings(max_examples=60, deadline=None)
@given(st.lists(ACTIONS, min_size=1, max_size=25), st.integers(0, 100), st.sampled_from(sorted(load_twins())))
def test_no_record_is_lost_or_made(actions, seed, name):
    twin = JobTwin(load_twin(name), seed, start_s=START_S)
    play(twin, actions)
    totals, history = twin.totals, twin.history
    assert totals.arrived + totals.replayed == totals.processed + totals.lag  # exact, replays counted
    assert totals.arrived == history.column("arrived").sum()
    assert totals.processed == history.column("processed").sum()
    assert (history.column("lag") >= 0).all()
    assert (history.column("processed") >= 0).all()
    np.testing.assert_array_equal(
        history.column("arrived_total") - history.column("progress_total"), history.column("lag")
    )
    by_worker = np.nansum(history.column("worker_processed"), axis=1)
    running = ~np.isnan(history.column("uptime_s"))
    assert by_worker[running] == pytest.approx(history.column("processed")[running])
    assert (history.column("processed")[~running] == 0).all()
    for name in JOB_COLUMNS + WORKER_COLUMNS:
        known = history.column(name)[~np.isnan(history.column(name))]
        assert (known >= 0).all(), name
    assert np.nanmax(history.column("worker_cpu"), initial=0.0) <= 1.0


@settings(max_examples=25, deadline=None)
@given(st.lists(ACTIONS, min_size=1, max_size=12), st.integers(0, 100), st.integers(1, 13))
def test_deterministic_however_time_is_cut(actions, seed, piece):
    coarse, fine = (JobTwin(load_twin("ads"), seed, start_s=START_S) for _ in range(2))
    play(coarse, actions)
    for number, (what, value) in enumerate(actions):
        if what == "step":
            for _ in range(value // piece):
                fine.step(piece)
            fine.step(value % piece)
        else:
            play(fine, [("step", 0)] * number + [(what, value)])
    for name in JOB_COLUMNS + WORKER_COLUMNS:
        np.testing.assert_array_equal(coarse.history.column(name), fine.history.column(name), err_msg=name)
    assert coarse.outages == fine.outages


def test_another_seed_is_another_twin(parameters):
    first, second = (JobTwin(parameters(), seed) for seed in (1, 2))
    assert first.current_capacity() != second.current_capacity()


def test_idle_job_uses_its_idle_share_and_nothing_waits(parameters):
    twin = JobTwin(parameters(cpu={"idle": 0.08, "noise": 0.0}), arrivals=arrivals_from(np.zeros(300), 0))
    twin.step(300)
    assert twin.totals.processed == twin.totals.lag == 0
    assert np.nanmax(twin.history.column("worker_cpu")) == np.nanmin(twin.history.column("worker_cpu")) == 0.08
    assert np.isnan(twin.history.column("latency_p95_ms")).all()


def test_steady_below_capacity_keeps_up(parameters):
    twin = JobTwin(parameters(), 3)
    assert twin.current_capacity() > 1_500
    twin.step(600)
    assert twin.history.column("processed").tolist() == [1_500.0] * 600
    assert twin.totals.lag == 0


def test_above_capacity_exactly_the_surplus_waits(parameters):
    twin = JobTwin(parameters(workload={"peak_per_s": 3_000.0}), 3)
    capacity = np.floor(twin.current_capacity())
    twin.step(100)
    assert twin.history.column("processed").tolist() == [capacity] * 100
    assert twin.totals.lag == 100 * (3_000 - capacity)


def test_a_job_of_few_records_behaves_as_one_of_many(parameters):
    def played(unit: float) -> JobTwin:
        own = parameters(
            workers={"capacity_per_s": 2 * unit, "capacity_noise": 0.02},
            restart={"warm_up_s": 30},
            workload={"peak_per_s": 2.7 * unit, "noise": 0.05},
        )
        twin = JobTwin(own, 3)
        twin.step(1_800)
        twin.rescale(3, "a")
        twin.step(600)
        twin.fail()
        twin.step(1_200)
        return twin

    few, many = played(1), played(1_000)
    assert 1_000 * few.totals.arrived == pytest.approx(many.totals.arrived, rel=1e-3)
    assert 1_000 * few.totals.processed == pytest.approx(many.totals.processed, rel=1e-3)
    for name in ("arrived", "capacity"):
        seen, wanted = (twin.history.column(name).mean() / twin.current_capacity() for twin in (few, many))
        assert seen == pytest.approx(wanted, rel=1e-3), name
    assert few.totals.arrived + few.totals.replayed == few.totals.processed + few.totals.lag  # exact, here as well
    late = [(twin.history.column("latency_p95_ms") > 2_000).mean() for twin in (few, many)]
    assert late[0] == pytest.approx(late[1], abs=0.005)


def test_few_records_arrive_at_workers_that_take_many(parameters):
    twin = JobTwin(parameters(workload={"peak_per_s": 0.4}), 3)
    twin.step(3_600)
    assert twin.totals.arrived == pytest.approx(0.4 * 3_600, rel=1e-3)


def test_a_job_of_many_records_counts_whole_ones(parameters):
    twin = JobTwin(parameters(workload={"peak_per_s": 1_500.4}), 3)
    assert (twin.arrivals(0, 60) == 1_500).all()


def test_latency_is_what_the_oldest_record_waited(parameters):
    twin = JobTwin(parameters(workload={"peak_per_s": 3_000.0}), 3)
    capacity = np.floor(twin.current_capacity())
    twin.step(600)
    latency_s = twin.history.column("latency_p95_ms") / 1000
    assert (np.diff(latency_s) > 0).all()
    base_s = latency_s[0]
    assert latency_s[-1] - base_s == pytest.approx(599 * (1 - capacity / 3_000), rel=0.01)


def test_latency_grows_with_utilisation_before_anything_waits(parameters):
    rising = np.linspace(100, 1_700, 600)
    twin = JobTwin(parameters(), 3, arrivals=arrivals_from(rising, 0))
    twin.step(600)
    assert twin.totals.lag == 0
    assert (np.diff(twin.history.column("latency_p95_ms")) >= 0).all()


def test_rescale_stops_the_job_replays_since_the_checkpoint_and_starts_again(parameters):
    twin = JobTwin(parameters(restart={"checkpoint_interval_s": 10, "out": {"median_s": 20, "spread": 0.0}}), 3)
    twin.step(107)
    assert twin.rescale(4, "a")
    assert (twin.scale_out, twin.requested, twin.settled) == (2, 4, False)
    assert twin.totals.lag == twin.totals.replayed == 7 * 1_500  # since the checkpoint at 100 s
    twin.step(19)
    assert not twin.settled
    assert twin.totals.lag == (7 + 19) * 1_500
    twin.step(1)
    assert (twin.scale_out, twin.requested, twin.settled) == (4, 4, True)
    down = np.isnan(twin.history.column("uptime_s"))
    assert np.flatnonzero(down).tolist() == list(range(107, 127))
    twin.step(300)
    outage = twin.outages[0]
    assert (outage.cause, outage.start_s, outage.end_s, outage.replayed) == ("out", 107, 127, 10_500.0)
    # 27 s of arrivals wait; the spare capacity works them off
    spare = np.floor(twin.current_capacity()) - 1_500
    assert twin.recovery_time_s(outage) == 20 + int(np.ceil(27 * 1_500 / spare))


def test_latency_after_a_restart_is_at_least_the_standstill(parameters):
    twin = JobTwin(parameters(restart={"out": {"median_s": 20, "spread": 0.0}}), 3)
    twin.step(105)
    twin.rescale(4, "a")
    twin.step(21)
    first_out_ms = twin.history.column("latency_p95_ms")[-1]
    assert first_out_ms == pytest.approx(100 + 1000 * 25, rel=0.02)  # 5 s since the checkpoint, and 20 s down


def test_failure_replays_and_comes_back_with_the_same_keys(parameters):
    twin = JobTwin(parameters(), 3)
    twin.step(55)
    before = twin.current_capacity()
    twin.fail(1)
    assert twin.totals.replayed == 5 * 1_500
    twin.step(1)
    assert np.isnan(twin.history.column("worker_cpu")[-1, 1])
    assert not np.isnan(twin.history.column("worker_cpu")[-1, 0])
    twin.step(600)
    assert twin.settled
    assert twin.scale_out == 2
    assert twin.current_capacity() == before
    assert twin.outages[0].cause == "failure"
    assert twin.totals.lag == 0


def test_skew_is_drawn_anew_at_each_rescale(parameters):
    twin = JobTwin(parameters(), 3)
    seen = set()
    for number in range(6):
        twin.step(200)
        twin.rescale(4 if number % 2 == 0 else 3, f"k{number}")
        twin.step(200)
        seen.add(round(twin.current_capacity(), 6))
    assert len(seen) == 6


def test_true_capacity_is_the_mean_over_the_draws(parameters):
    twin = JobTwin(parameters(workers={"speed_spread": 0.1}), 3)
    drawn = []
    for number in range(300):
        twin.step(120)
        twin.rescale(5 if number % 2 == 0 else 6, f"k{number}")
        twin.step(120)
        if twin.scale_out == 5:
            drawn.append(twin.current_capacity())
    assert np.mean(drawn) == pytest.approx(twin.true_capacity(5), rel=0.02)


def test_capacity_grows_less_than_linearly():
    for twin in (JobTwin(parameters, 1) for parameters in load_twins().values()):
        capacity = [twin.true_capacity(n) / n for n in range(1, 13)]
        assert capacity[11] < 0.90 * capacity[0]


def test_twelve_skewed_workers_lose_what_was_measured():
    # Measured (Daedalus, 12 workers): 488,000 of 12 x 61,757; 18 % overhead, the rest skew.
    share = [JobTwin(load_twin("ads"), seed).true_capacity(12) / (12 * 61_800) for seed in range(30)]
    assert np.mean(share) == pytest.approx(488_000 / (12 * 61_757), abs=0.04)


def test_cpu_is_linear_in_throughput_on_one_minute_means():
    twin = JobTwin(load_twin("wordcount"), 5, start_s=START_S, scale_out=12)
    twin.step(7_200)
    shape = (120, 60, 12)
    cpu = twin.history.column("worker_cpu").reshape(shape).mean(axis=1)[2:]
    records = twin.history.column("worker_processed").reshape(shape).mean(axis=1)[2:]
    for worker in range(12):
        r = np.corrcoef(cpu[:, worker], records[:, worker])[0, 1]
        assert r**2 > 0.98
        slope, idle = np.polyfit(records[:, worker], cpu[:, worker], 1)
        assert slope > 0
        assert idle == pytest.approx(0.08, abs=0.02)


def test_the_hottest_worker_is_full_when_the_job_is_and_the_others_idle_in_proportion(parameters):
    twin = JobTwin(parameters(cpu={"noise": 0.0}, workload={"peak_per_s": 9_000.0}), 3, scale_out=6)
    twin.step(60)
    cpu = twin.history.column("worker_cpu")[-1]
    records = twin.history.column("worker_processed")[-1]
    assert cpu.max() == pytest.approx(1.0, abs=1e-3)
    assert cpu.min() < 0.95
    busy = (cpu - 0.08) / 0.92
    assert busy / busy.max() == pytest.approx(records / records.max(), rel=1e-6)  # all workers are equally fast here


def test_warm_up_slows_the_first_seconds(parameters):
    twin = JobTwin(parameters(restart={"warm_up_s": 30, "warm_up_speed": 0.5}, workload={"peak_per_s": 9_000.0}), 3)
    twin.step(60)
    processed = twin.history.column("processed")
    assert processed[0] < 0.55 * processed[-1]
    assert (np.diff(processed[:30]) > 0).all()


def test_a_repeated_key_changes_nothing_and_a_reused_one_is_refused(parameters):
    twin = JobTwin(parameters(), 3)
    twin.step(10)
    assert twin.rescale(3, "a")
    assert not twin.rescale(3, "a")
    assert not twin.rescale(3, "b")
    with pytest.raises(ValueError, match="was used for 3 workers"):
        twin.rescale(4, "a")
    assert len(twin.outages) == 1


def test_asking_again_while_it_stands_still_changes_the_goal(parameters):
    twin = JobTwin(parameters(), 3)
    twin.step(13)
    twin.rescale(4, "a")
    twin.step(2)
    twin.rescale(5, "b")
    assert twin.totals.replayed == 3 * 1_500  # nothing more is lost: nothing was done since
    twin.step(300)
    assert twin.scale_out == 5
    assert twin.totals.lag == 0


@pytest.mark.parametrize("scale_out", [0, -1, 7])
def test_outside_the_bounds_is_refused(parameters, scale_out):
    twin = JobTwin(parameters(), 3)
    with pytest.raises(ValueError, match=r"outside 1\.\.6"):
        twin.rescale(scale_out, "a")
    with pytest.raises(ValueError, match=r"outside 1\.\.6"):
        twin.true_capacity(scale_out)
    assert twin.settled


def test_time_runs_forward_only(parameters):
    twin = JobTwin(parameters(), 3)
    with pytest.raises(ValueError, match="backwards"):
        twin.step(-1)
    with pytest.raises(ValueError, match="not deployed"):
        twin.fail(5)


def test_history_forgets_on_request_and_goes_on(parameters):
    kept, trimmed = JobTwin(parameters(), 3), JobTwin(parameters(), 3)
    for twin in (kept, trimmed):
        twin.step(5_000)
    trimmed.history.discard_before(4_000)
    for twin in (kept, trimmed):
        twin.rescale(3, "a")
        twin.step(9_000)
    assert trimmed.history.start_s == 4_000
    for name in JOB_COLUMNS + WORKER_COLUMNS:
        np.testing.assert_array_equal(kept.history.column(name, 4_000), trimmed.history.column(name), err_msg=name)
    with pytest.raises(KeyError):
        trimmed.history.at("lag", 3_999)


def test_history_cannot_be_changed_from_outside(parameters):
    twin = JobTwin(parameters(), 3)
    twin.step(10)
    with pytest.raises(ValueError, match="read-only"):
        twin.history.column("lag")[0] = 5.0


def test_counted_keys_are_few_and_some_workers_may_have_none(parameters):
    few = parameters(keys={"count": 3}, workload={"peak_per_s": 9_000.0})
    twin = JobTwin(few, 2, scale_out=6)
    twin.step(60)
    with_keys = (twin.history.column("worker_processed")[-1] > 0).sum()
    assert 1 <= with_keys <= 3
    assert twin.current_capacity() <= 3_000 / (1 + 0.02 * 5) + 1e-6  # at best a key for each of three workers
    twin.rescale(4, "a")
    twin.step(120)
    assert twin.totals.arrived + twin.totals.replayed == twin.totals.processed + twin.totals.lag


def test_the_hottest_worker_is_at_cpu_one_while_it_catches_up(parameters):
    twin = JobTwin(parameters(cpu={"noise": 0.0}, workload={"peak_per_s": 1_200.0}), 3)
    twin.step(105)
    twin.fail()
    twin.step(60)
    cpu, lag = twin.history.column("worker_cpu"), twin.history.column("lag")
    catching_up = (lag > 0) & ~np.isnan(twin.history.column("uptime_s"))
    assert catching_up.sum() > 10
    assert np.nanmax(cpu[catching_up], axis=1) == pytest.approx(1.0, abs=2e-3)
    assert np.nanmax(cpu[:105]) < 0.9


def test_a_failure_lasts_for_detection_and_restart(parameters):
    restart = {"failure": {"median_s": 20, "spread": 0.0}, "detection": {"median_s": 50, "spread": 0.0}}
    twin = JobTwin(parameters(restart=restart), 3)
    twin.step(100)
    twin.fail()
    twin.step(200)
    assert twin.outages[0].end_s - twin.outages[0].start_s == 70


def test_standstills_have_the_asked_median_and_spread():
    restart = load_twin("ads").restart
    rng = np.random.default_rng(0)
    for cause, time in (("out", restart.out), ("in", restart.in_)):
        drawn = np.array([draw_standstill_s(cause, restart, rng) for _ in range(4_000)])
        assert np.median(drawn) == pytest.approx(time.median_s, abs=1)
        assert np.log(drawn).std() == pytest.approx(time.spread, rel=0.1)

"""Alignment: golden cases for each rule, and properties that hold for any input."""

from __future__ import annotations

import csv
import random
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdix.telemetry.alignment import align, natural_step_s
from perdix.telemetry.resampling import scrape_intervals_ms
from perdix.telemetry.series import Series

SHARED = Path(__file__).parents[2] / "../shared/data/metrics/figures"
NAN = float("nan")


def series(metric, points, worker=None, kind="gauge", **labels):
    times, values = zip(*points, strict=True) if points else ((), ())
    return Series(
        metric,
        worker,
        np.array([round(t * 1000) for t in times], dtype=np.int64),
        np.array(values, dtype=np.float64),
        labels,
        kind,
    )


def every(interval, values, start=0.0):
    return [(start + i * interval, value) for i, value in enumerate(values)]


def coverage(window, name):
    """The share of the metric's grid that has a value."""
    mask = window.missing(name)
    return 1.0 - mask.mean() if mask.size else 0.0


class TestGauges:
    def test_a_step_is_the_mean_of_its_samples_and_is_named_by_its_end(self):
        window = align("j", [series("workload_per_s", [(0.5, 1), (1.0, 3), (1.5, 10), (2.0, 20)])], 0, 2, 1)
        assert window.times_s.tolist() == [1, 2]
        assert window.job_metric("workload_per_s").tolist() == [2, 15]

    def test_a_scrape_every_15_s_fills_a_grid_of_1_s(self):
        window = align("j", [series("workload_per_s", every(15, [10, 20, 30, 40], start=15))], 15, 75, 1)
        row = window.job_metric("workload_per_s")
        assert coverage(window, "workload_per_s") == 59 / 60  # held for less than its own interval after the last
        assert row[0] == 10  # the sample at the left edge is the base of what is held
        assert set(row[0:14]) == {10.0}
        assert row[14] == 20

    def test_a_lost_scrape_is_missing_on_the_natural_grid(self):
        points = [p for p in every(15, [1, 2, 3, 4, 5, 6], start=15) if p[0] != 45]
        row = align("j", [series("workload_per_s", points)], 0, 90, 15).job_metric("workload_per_s")
        np.testing.assert_array_equal(row, [1, 2, NAN, 4, 5, 6])

    def test_a_lost_scrape_is_held_for_one_interval_only_on_a_finer_grid(self):
        points = [p for p in every(15, [1, 2, 3, 4], start=0) if p[0] != 15]
        row = align("j", [series("workload_per_s", [*points, (60, 5)])], 0, 60, 1).job_metric("workload_per_s")
        assert set(row[:14]) == {1.0}
        assert np.isnan(row[14:29]).all()
        assert row[29] == 3

    def test_jitter_across_the_edge_of_a_step_leaves_no_hole(self):
        points = [(14.999, 1), (30.001, 2), (44.999, 3), (60.0, 4)]
        row = align("j", [series("workload_per_s", points)], 0, 60, 15).job_metric("workload_per_s")
        assert row.tolist() == [1, 1, 2.5, 4]

    def test_missing_is_never_zero(self):
        window = align("j", [series("workload_per_s", [(1, 5), (2, 5), (50, 5)])], 0, 50, 1)
        assert np.isnan(window.job_metric("workload_per_s")[3:48]).all()
        assert np.isnan(window.job_metric("consumer_lag_records")).all()


class TestCounters:
    def test_rate_of_a_steady_counter_on_a_finer_grid(self):
        steady = series("throughput_per_s", every(15, [0, 1500, 3000, 4500]), worker="w", kind="counter")
        row = align("j", [steady], 0, 45, 1).worker_metric("throughput_per_s")[:, 0]
        np.testing.assert_allclose(row, 100.0)

    def test_rate_on_a_coarser_grid_is_the_growth_over_the_step(self):
        counter = series("throughput_per_s", every(5, [0, 10, 40, 100, 100]), worker="w", kind="counter")
        row = align("j", [counter], 0, 20, 10).worker_metric("throughput_per_s")[:, 0]
        np.testing.assert_allclose(row, [4.0, 6.0])

    def test_a_reset_counts_from_zero(self):
        counter = series("throughput_per_s", every(1, [100, 110, 3, 13]), worker="w", kind="counter")
        window = align("j", [counter], 0, 3, 1)
        np.testing.assert_allclose(window.worker_metric("throughput_per_s")[:, 0], [10, 3, 10])
        assert window.counts.resets == 1

    def test_growth_over_a_gap_is_not_spread(self):
        counter = series("throughput_per_s", [(0, 0), (1, 5), (2, 10), (30, 1000), (31, 1005)], "w", "counter")
        row = align("j", [counter], 0, 31, 1).worker_metric("throughput_per_s")[:, 0]
        np.testing.assert_allclose(row[[0, 1, 30]], 5.0)
        assert np.isnan(row[2:30]).all()

    def test_nothing_is_known_after_the_last_sample(self):
        counter = series("throughput_per_s", every(15, [0, 15, 30]), worker="w", kind="counter")
        row = align("j", [counter], 0, 44, 1).worker_metric("throughput_per_s")[:, 0]
        np.testing.assert_allclose(row[:30], 1.0)
        assert np.isnan(row[30:]).all()

    def test_a_counter_without_any_sample_that_counts_borrows_nothing_from_its_neighbour(self):
        good = series("throughput_per_s", every(1, [0, 1, 2, 3]), worker="b", kind="counter")
        empty = series("throughput_per_s", every(1, [NAN] * 4), worker="a", kind="counter")
        table = align("j", [good, empty], 0, 3, 1).worker_metric("throughput_per_s")
        assert np.isnan(table[:, 0]).all()
        np.testing.assert_allclose(table[:, 1], 1.0)

    @pytest.mark.parametrize("absurd", [9.2e18, 1e300])
    def test_a_counter_that_jumps_further_than_any_job_reads_costs_two_steps_and_no_other_series(self, absurd):
        steady = every(15, 1e9 + 1_500.0 * np.arange(21))
        jumping = [*steady[:5], (75.0, absurd), *steady[6:]]
        window = align(
            "j",
            [
                series("throughput_per_s", jumping, "a", kind="counter"),
                series("throughput_per_s", steady, "b", kind="counter"),
            ],
            0,
            300,
            15,
        )
        rates = window.worker_metric("throughput_per_s")
        np.testing.assert_allclose(rates[:, 0], [100.0] * 4 + [NAN] * 2 + [100.0] * 14)
        np.testing.assert_allclose(rates[:, 1], 100.0)
        assert window.counts.resets == 0


class TestCounts:
    def test_masked_outside_duplicate_and_used_add_up(self):
        points = [(-5, 1), (1, 1), (2, NAN), (3, float("inf")), (4, -1), (5, 2), (5, 3), (99, 1)]
        window = align("j", [series("workload_per_s", points)], 0, 10, 1)
        counts = window.counts
        assert (counts.read, counts.used, counts.masked, counts.duplicate, counts.outside) == (8, 2, 3, 1, 2)
        assert window.job_metric("workload_per_s")[4] == 3  # the last one read wins

    def test_a_finite_duplicate_beats_a_later_staleness_marker(self):
        window = align("j", [series("workload_per_s", [(1, 7), (1, NAN)])], 0, 1, 1)
        assert window.job_metric("workload_per_s").tolist() == [7]
        assert window.counts.masked == 1

    def test_cpu_above_what_can_be_is_masked(self):
        window = align("j", [series("cpu_load", [(1, 64.3), (2, 0.643)], worker="w")], 0, 2, 1)
        assert window.counts.masked == 1
        np.testing.assert_array_equal(window.worker_metric("cpu_load")[:, 0], [NAN, 0.643])

    @pytest.mark.parametrize(("metric", "worker"), [("workload_per_s", None), ("throughput_per_s", "a")])
    def test_a_rate_above_what_any_job_has_is_masked_and_named(self, metric, worker):
        window = align("j", [series(metric, [(1, 5), (2, 1e300), (3, 1e12)], worker)], 0, 3, 1)
        assert (window.counts.used, window.counts.masked) == (2, 1)
        assert [rejection.sentence() for rejection in window.rejected] == [
            f"{metric} 1e+300 is outside 0 to 1e+12 (if its query counts bytes, let it count records)"
        ]

    def test_out_of_order_is_used_and_counted(self):
        window = align("j", [series("workload_per_s", [(2, 2), (1, 1), (3, 3)])], 0, 3, 1)
        assert window.job_metric("workload_per_s").tolist() == [1, 2, 3]
        assert window.counts.out_of_order == 1

    def test_a_clock_that_is_ahead_is_counted_and_not_used(self):
        window = align("j", [series("workload_per_s", [(8, 1), (9, 1), (10, 1), (300, 9)])], 0, 10, 1)
        assert window.ahead == 1
        assert window.newest_sample_s == 10

    def test_the_newest_sample_is_known_even_when_it_lies_before_the_window(self):
        window = align("j", [series("workload_per_s", [(8, 1), (9, 1)])], 100, 160, 1)
        assert window.newest_sample_s == 9
        assert coverage(window, "workload_per_s") == 0

    def test_a_metric_that_is_not_canonical_is_left_alone(self):
        window = align("j", [series("go_threads", [(1, 1)])], 0, 1, 1)
        assert window.counts.read == 0
        assert not window.job_metrics

    def test_nothing_at_all(self):
        window = align("j", [], 0, 3, 1)
        assert len(window) == 3
        assert window.newest_sample_s is None
        assert window.age_s(3) == float("inf")

    @pytest.mark.parametrize(("start", "end", "step"), [(10, 0, 1), (0, 10, 0), (0, 10, 1e-5), (NAN, 1, 1)])
    def test_a_window_that_cannot_be_is_refused(self, start, end, step):
        with pytest.raises(ValueError, match=r"window|step|NaN"):
            align("j", [], start, end, step)


class TestJoining:
    def test_workers_are_joined_by_name_not_by_order(self):
        read = [
            series("cpu_load", [(1, 0.1)], worker="a"),
            series("cpu_load", [(1, 0.9)], worker="b"),
            series("throughput_per_s", [(1, 900)], worker="b"),
            series("throughput_per_s", [(1, 100)], worker="a"),
        ]
        window = align("j", read, 0, 1, 1)
        assert window.workers == ("a", "b")
        assert window.worker_metric("cpu_load").tolist() == [[0.1, 0.9]]
        assert window.worker_metric("throughput_per_s").tolist() == [[100, 900]]

    def test_a_worker_is_as_busy_as_its_busiest_task(self):
        read = [series("busy_ratio", [(1, 0.2)], "a", task="map"), series("busy_ratio", [(1, 0.7)], "a", task="sink")]
        assert align("j", read, 0, 1, 1).worker_metric("busy_ratio").tolist() == [[0.7]]

    def test_lag_is_summed_only_while_all_consumers_report(self):
        first = series("consumer_lag_records", every(1, [10] * 10, start=1), client="a")
        second = series(
            "consumer_lag_records", [p for p in every(1, [5] * 10, start=1) if p[0] not in (4, 5)], client="b"
        )
        row = align("j", [first, second], 0, 10, 1).job_metric("consumer_lag_records")
        np.testing.assert_array_equal(row, [15, 15, 15, NAN, NAN, 15, 15, 15, 15, 15])

    def test_a_consumer_that_starts_later_is_not_missed_before(self):
        first = series("consumer_lag_records", every(1, [10] * 4, start=1), client="a")
        second = series("consumer_lag_records", [(3, 5), (4, 5)], client="b")
        row = align("j", [first, second], 0, 4, 1).job_metric("consumer_lag_records")
        assert row.tolist() == [10, 10, 15, 15]

    def test_a_consumer_that_vanishes_is_waited_for_two_minutes(self):
        stays = series("consumer_lag_records", every(1, [10] * 200, start=1), client="a")
        goes = series("consumer_lag_records", every(1, [5] * 20, start=1), client="b")
        row = align("j", [stays, goes], 0, 200, 1).job_metric("consumer_lag_records")
        assert set(row[:20]) == {15.0}
        assert np.isnan(row[20:139]).all()
        assert set(row[142:]) == {10.0}

    @pytest.mark.parametrize(
        "sign", [("scale_out", [2] * 21 + [1] * 29), ("uptime_s", [*range(21), *range(29)])], ids=["scale", "uptime"]
    )
    def test_a_restart_releases_the_consumers_that_were_there(self, sign):
        stays = series("consumer_lag_records", every(1, [10] * 50, start=1), client="a")
        goes = series("consumer_lag_records", every(1, [5] * 20, start=1), client="b")
        row = align("j", [stays, goes, series(sign[0], every(1, sign[1], start=1))], 0, 50, 1)
        lag = row.job_metric("consumer_lag_records")
        assert np.isnan(lag[20])
        assert set(lag[22:]) == {10.0}

    def test_the_slots_of_a_worker_are_summed_and_latency_is_the_worst(self):
        read = [
            series("throughput_per_s", every(1, [0, 10, 20]), "w", "counter", subtask="0"),
            series("throughput_per_s", every(1, [0, 1, 2]), "w", "counter", subtask="1"),
            series("latency_p95_ms", [(1, 100), (2, 100)], sink="0"),
            series("latency_p95_ms", [(1, 300)], sink="1"),
        ]
        window = align("j", read, 0, 2, 1)
        np.testing.assert_allclose(window.worker_metric("throughput_per_s")[:, 0], 11)
        np.testing.assert_array_equal(window.job_metric("latency_p95_ms"), [300, 100])

    def test_replicas_of_one_prometheus_pair_are_one_series(self):
        a = series("throughput_per_s", every(1, [0, 10, 20, 30]), "w", "counter", replica="a")
        b = series("throughput_per_s", every(1, [2, 12, 22, 32], start=0.2), "w", "counter", replica="b")
        window = align("j", [a, b], 0, 3, 1)
        np.testing.assert_allclose(window.worker_metric("throughput_per_s")[:, 0], 10)
        assert window.counts.resets == 0

    def test_chunks_of_one_series_are_one_series(self):
        chunks = [
            series("throughput_per_s", every(1, [0, 10, 20]), "w", "counter", pod="w"),
            series("throughput_per_s", every(1, [30, 40], start=3), "w", "counter", pod="w"),
        ]
        row = align("j", chunks[::-1], 0, 4, 1).worker_metric("throughput_per_s")[:, 0]
        np.testing.assert_allclose(row, 10)

    def test_targets_are_computed_a_few_at_a_time_with_the_same_result(self, monkeypatch):
        read = [
            series("throughput_per_s", every(1, range(i, i + 20)), f"w-{i // 2}", "counter", slot=str(i))
            for i in range(10)
        ]
        whole = align("j", read, 0, 19, 1)
        monkeypatch.setattr("perdix.telemetry.alignment.CELLS_AT_ONCE", 1)
        pieces = align("j", read, 0, 19, 1)
        np.testing.assert_array_equal(whole.worker_metric("throughput_per_s"), pieces.worker_metric("throughput_per_s"))


class TestNaturalStep:
    def test_is_the_finest_metric_s_median_spacing(self):
        jittered = [(15.0, 1), (30.004, 1), (44.998, 1), (60.001, 1), (120.0, 1)]
        assert natural_step_s([series("workload_per_s", jittered), series("scale_out", every(60, [1] * 5))]) == 15
        assert natural_step_s([series("workload_per_s", every(0.25, [1] * 5))]) == 0.25

    def test_is_an_interval_at_which_something_was_scraped(self):
        """Two exports of a metric, every 15 s and every minute, are not on a grid of 38 s."""
        exports = [series("workload_per_s", every(step, [1] * 5), topic=f"every-{step}") for step in (60, 15)]
        assert natural_step_s(exports) == 15
        assert natural_step_s([series("workload_per_s", [(0, 1), (15, 1), (75, 1)])]) == 15

    def test_needs_two_samples(self):
        with pytest.raises(ValueError, match="two samples"):
            natural_step_s([series("workload_per_s", [(1, 1)])])


METRICS = ["workload_per_s", "consumer_lag_records", "scale_out", "throughput_per_s", "cpu_load"]
VALUE = st.one_of(st.floats(-5, 1e6), st.sampled_from([NAN, float("inf"), -float("inf"), 0.0, 0.5]))


@st.composite
def any_series(draw):
    metric = draw(st.sampled_from(METRICS))
    worker = draw(st.sampled_from(["a", "b", "c", None])) if metric in METRICS[3:] else None
    times = draw(st.lists(st.integers(-3_000, 33_000), max_size=25, unique=True))
    values = draw(st.lists(VALUE, min_size=len(times), max_size=len(times)))
    kind = draw(st.sampled_from(["gauge", "counter"]))
    label = draw(st.sampled_from(["x", "y"]))
    return series(metric, [(t / 1000, v) for t, v in zip(times, values, strict=True)], worker, kind, l=label)


def unique_series(read):
    return list({(s.metric, s.worker, s.labels["l"], s.kind): s for s in read}.values())


class TestProperties:
    @settings(deadline=None, max_examples=150)
    @given(st.lists(any_series(), max_size=6), st.sampled_from([0.5, 1, 4, 15]))
    def test_counts_add_up_and_no_value_is_impossible(self, read, step):
        window = align("j", read, 0, 30, step)
        counts = window.counts
        assert counts.read == sum(len(stream) for stream in read)
        assert counts.read == counts.used + counts.masked + counts.duplicate + counts.outside
        assert min(counts.used, counts.masked, counts.duplicate, counts.outside, counts.resets) >= 0
        for table in (*window.job_metrics.values(), *window.worker_metrics.values()):
            assert not np.isinf(table).any()
            assert not (table < 0).any()

    @settings(deadline=None, max_examples=150)
    @given(st.lists(any_series(), max_size=6).map(unique_series), st.integers(0, 2**16))
    def test_the_order_of_the_input_does_not_matter(self, read, seed):
        shuffled = []
        rng = random.Random(seed)
        for stream in read:
            order = list(range(len(stream)))
            rng.shuffle(order)
            cut = rng.randint(0, len(order))
            for part in (order[:cut], order[cut:]):
                shuffled.append(
                    Series(
                        stream.metric,
                        stream.worker,
                        stream.times_ms[part],
                        stream.values[part],
                        stream.labels,
                        stream.kind,
                    )
                )
        rng.shuffle(shuffled)
        first, second = align("j", read, 0, 30, 1), align("j", shuffled, 0, 30, 1)
        assert first.workers == second.workers
        for name, table in (*first.job_metrics.items(), *first.worker_metrics.items()):
            other = second.job_metrics.get(name, second.worker_metrics.get(name))
            np.testing.assert_allclose(table, other, rtol=1e-12)
        assert (first.counts.used, first.counts.resets) == (second.counts.used, second.counts.resets)

    @settings(deadline=None, max_examples=100)
    @given(st.lists(any_series(), min_size=1, max_size=6))
    def test_a_step_far_from_every_sample_is_missing(self, read):
        window = align("j", read, 100_000, 100_030, 1)
        assert all(np.isnan(table).all() for table in (*window.job_metrics.values(), *window.worker_metrics.values()))

    @settings(deadline=None, max_examples=100)
    @given(st.lists(any_series(), max_size=6).map(unique_series), st.permutations(["a", "b", "c"]))
    def test_renaming_workers_permutes_columns(self, read, names):
        rename = dict(zip(["a", "b", "c"], names, strict=True))
        renamed = [
            Series(s.metric, rename.get(s.worker, s.worker), s.times_ms, s.values, s.labels, s.kind) for s in read
        ]
        before, after = align("j", read, 0, 30, 1), align("j", renamed, 0, 30, 1)
        for name, table in before.worker_metrics.items():
            for i, worker in enumerate(before.workers):
                j = after.workers.index(rename.get(worker, worker))
                # the order in which shares are summed moves with the names
                np.testing.assert_allclose(table[:, i], after.worker_metrics[name][:, j], rtol=1e-12)


def grafana(path, metric):
    with path.open(encoding="utf-8-sig", newline="") as file:
        header, *rows = [row for row in csv.reader(file) if row]
    times = [datetime.strptime(row[0], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp() for row in rows]
    return [
        series(metric, [(t, float(row[i])) for t, row in zip(times, rows, strict=True)], worker=name)
        for i, name in enumerate(header[1:], start=1)
    ]


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.exists(), reason="measured data is not beside this checkout")
class TestMeasured:
    def test_the_twelve_skewed_workers_are_joined_by_name(self):
        cpu = grafana(SHARED / "data_skew_cpu_12.csv", "cpu_load")
        throughput = grafana(SHARED / "data_skew_throughput_12.csv", "throughput_per_s")
        assert [s.worker for s in cpu] != [s.worker for s in throughput]
        read = [*cpu, *throughput]
        assert natural_step_s(read) == 15
        start, end = cpu[0].times_ms[0] / 1000 - 15, cpu[0].times_ms[-1] / 1000
        window = align("skew", read, start, end, 15)
        assert len(window.workers) == 12
        assert coverage(window, "cpu_load") == coverage(window, "throughput_per_s") == 1
        assert window.counts.used == window.counts.read == 2 * 12 * len(window)
        total = window.worker_metric("throughput_per_s").sum(axis=1)
        assert total[2:].mean() == pytest.approx(488_277, rel=0.005)
        one = throughput[3]
        np.testing.assert_array_equal(
            window.worker_metric("throughput_per_s")[:, window.workers.index(one.worker)], one.values
        )


def test_a_time_that_is_absurd_hides_no_scrape_interval():
    times_ms = np.array([0, 15_000, 30_000, 45_000, 2**62])
    found = scrape_intervals_ms(np.tile(times_ms, 6), np.repeat(np.arange(6), 5), 6)
    assert found.tolist() == 6 * [15_000.0]

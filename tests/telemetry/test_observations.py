"""Observations from lake rows: wide tables in which null is missing, and a full account of the samples."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from perdix.telemetry.observations import observe
from perdix.telemetry.tables import JOB_OBSERVATIONS, WORKER_OBSERVATIONS

DAY = "2023-02-19"
MIDNIGHT = pd.Timestamp(DAY, tz="UTC")


def rows(metric, seconds, values, worker=None, series_id=1, kind="gauge", **more):
    ts = MIDNIGHT + pd.to_timedelta(list(seconds), unit="s")
    frame = pd.DataFrame({"ts": ts.as_unit("us"), "value": np.asarray(values, dtype=float)})
    return frame.assign(metric=metric, worker=worker, series_id=series_id, kind=kind, mask=None, **more)


def every(interval, n, start=0):
    return [start + interval * i for i in range(n)]


def lake(*parts):
    return pd.concat([part.astype({"worker": object}) for part in parts], ignore_index=True)


def workers(n=2, steps=8, interval=15, start=15):
    seconds = every(interval, steps, start)
    return [
        part
        for i in range(n)
        for part in (
            rows("throughput_per_s", seconds, [100.0 * (i + 1)] * steps, f"w-{i}", 2 * i),
            rows("cpu_load", seconds, [0.1 * (i + 1)] * steps, f"w-{i}", 2 * i + 1),
        )
    ]


class TestTables:
    def test_have_the_columns_and_types_of_the_lake(self):
        of_job, of_workers, counts = observe(lake(*workers()), "ads", DAY)
        for frame, table in ((of_job, JOB_OBSERVATIONS), (of_workers, WORKER_OBSERVATIONS)):
            assert list(frame.columns) == list(table.columns.names)
            assert str(frame["ts"].dtype) == "datetime64[us, UTC]"
        assert counts.read == counts.used == 32

    def test_hold_what_was_measured(self):
        parts = [
            *workers(),
            rows("workload_per_s", every(15, 8, 15), [320.0] * 8),
            rows("consumer_lag_records", every(15, 8, 15), [7.0] * 8),
            rows("latency_p95_ms", every(15, 8, 15), [1500.0] * 8),
            rows("uptime_s", every(15, 8, 15), every(15, 8, 900)),
            rows("scale_out", every(15, 8, 15), [3.0] * 8),
        ]
        of_job, of_workers, _ = observe(lake(*parts), "ads", DAY)
        last = of_job.iloc[-1]
        assert last.ts == MIDNIGHT + pd.Timedelta(120, "s")
        assert last.drop("ts").to_dict() == pytest.approx(
            {
                "workload_per_s": 320,
                "throughput_per_s": 300,
                "consumer_lag_records": 7,
                "latency_p95_ms": 1500,
                "scale_out": 3,
                "uptime_s": 1005,
                "cpu_load_mean": 0.15,
                "cpu_load_max": 0.2,
                "workers_reporting": 2,
            }
        )
        assert len(of_workers) == 16

    def test_only_a_workload(self):
        of_job, of_workers, _ = observe(lake(rows("workload_per_s", every(1, 60), [5.0] * 60)), "ads", DAY)
        assert of_job["workload_per_s"].notna().all()
        assert of_job["throughput_per_s"].isna().all()
        assert of_job["scale_out"].isna().all()
        assert (of_job["workers_reporting"] == 0).all()
        assert of_workers.empty
        assert list(of_workers.columns) == WORKER_OBSERVATIONS.columns.names

    def test_nothing(self):
        empty = rows("workload_per_s", [], [])
        of_job, of_workers, counts = observe(empty, "ads", DAY)
        assert of_job.empty
        assert of_workers.empty
        assert counts.read == 0

    def test_one_scrape(self):
        of_job, _, counts = observe(lake(rows("workload_per_s", [30], [5.0])), "ads", DAY)
        assert of_job["workload_per_s"].tolist() == [5]
        assert counts.used == 1

    def test_metrics_that_are_not_canonical_are_left_alone(self):
        _, _, counts = observe(lake(rows("go_threads", [1, 2], [5.0, 6.0])), "ads", DAY)
        assert counts.read == 0

    def test_the_mean_of_equal_workers_is_not_above_the_hottest(self):
        """In binary, three times 0.36 by three is above 0.36: a critical expectation would block the job for it."""
        cpu = [rows("cpu_load", every(15, 8, 15), [0.36] * 8, f"w-{worker}", worker) for worker in range(3)]
        of_job, _, _ = observe(lake(*cpu), "ads", DAY)
        assert (of_job["cpu_load_mean"] <= of_job["cpu_load_max"]).all()


class TestMissing:
    def test_the_sum_over_workers_is_missing_while_one_is_silent(self):
        samples = lake(*workers())
        silent = (samples.worker == "w-1") & (samples.ts == MIDNIGHT + pd.Timedelta(60, "s"))
        of_job, _, _ = observe(samples[~silent], "ads", DAY)
        expected = [300.0] * 8
        expected[3] = np.nan
        np.testing.assert_array_equal(of_job["throughput_per_s"], expected)
        assert of_job["workers_reporting"].tolist() == [2, 2, 2, 1, 2, 2, 2, 2]
        assert of_job["scale_out"].tolist() == [2] * 8  # not a rescale

    def test_scale_out_falls_back_to_the_workers_that_are_there(self):
        samples = lake(*workers(steps=40), rows("throughput_per_s", every(15, 10, 300), [5.0] * 10, "late", 99))
        of_job, _, _ = observe(samples, "ads", DAY)
        assert of_job["scale_out"].tolist() == [2] * 19 + [3] * 10 + [2] * 11

    def test_a_spare_worker_of_a_session_cluster_shows_its_cpu_and_is_not_counted(self):
        samples = lake(*workers(steps=40), rows("cpu_load", every(15, 40), [0.01] * 40, "spare", 99))
        of_job, _, _ = observe(samples, "ads", DAY)
        alone, _, _ = observe(lake(*workers(steps=40)), "ads", DAY)
        for column in ("scale_out", "cpu_load_mean", "workers_reporting"):
            assert of_job[column].tolist()[-30:] == alone[column].tolist()[-30:]

    def test_masked_rows_are_counted_and_missing(self):
        samples = rows("workload_per_s", every(15, 4, 15), [1.0, np.nan, 3.0, 4.0])
        of_job, _, counts = observe(lake(samples), "ads", DAY)
        assert (counts.read, counts.used, counts.masked) == (4, 3, 1)
        np.testing.assert_array_equal(of_job["workload_per_s"], [1, np.nan, 3, 4])


class TestIdentity:
    def test_counters_of_the_slots_of_a_worker_are_added(self):
        seconds = every(15, 4)
        parts = [
            rows("throughput_per_s", seconds, every(150, 4), "w", 1, "counter"),
            rows("throughput_per_s", seconds, every(300, 4), "w", 2, "counter"),
        ]
        _, of_workers, _ = observe(lake(*parts), "ads", DAY)
        np.testing.assert_allclose(of_workers["throughput_per_s"], 30)

    def test_replicas_are_averaged_where_labels_are_known(self):
        seconds = every(15, 4)
        parts = [
            rows("throughput_per_s", seconds, every(150, 4), "w", i, "counter", labels=json.dumps({"replica": name}))
            for i, name in enumerate("ab")
        ]
        _, of_workers, _ = observe(lake(*parts), "ads", DAY)
        np.testing.assert_allclose(of_workers["throughput_per_s"], 10)

    def test_the_same_series_from_two_files_is_one(self):
        seconds = every(15, 4, 15)
        parts = [rows("workload_per_s", seconds, [5.0] * 4, series_id=7, source=source) for source in "ab"]
        of_job, _, counts = observe(lake(*parts), "ads", DAY)
        assert of_job["workload_per_s"].tolist() == [5] * 4
        assert counts.duplicate == 4


class TestTotals:
    """A dashboard has the throughput of each worker, and in another panel that of the job."""

    def of_both(self, total, seconds=None):
        parts = [*workers(3), rows("throughput_per_s", seconds or every(15, 8, 15), total, None, 99)]
        return observe(lake(*parts, rows("cpu_load", every(15, 8, 15), [0.2] * 8, None, 98)), "ads", DAY)

    def test_a_total_beside_its_workers_is_no_worker(self):
        of_job, of_workers, counts = self.of_both([590.0 + k for k in range(8)])
        assert of_job["throughput_per_s"].tolist() == [600.0] * 8
        assert of_job["scale_out"].tolist() == [3.0] * 8
        assert set(of_workers["worker"]) == {"w-0", "w-1", "w-2"}
        assert counts.used == counts.read

    def test_it_is_the_job_s_where_no_worker_reports(self):
        of_job, _, _ = self.of_both([600.0] * 40, every(15, 40, 15))
        assert of_job["throughput_per_s"].tolist() == [600.0] * 40
        assert of_job["scale_out"].isna().tolist() == [False] * 8 + [True] * 32

    def test_it_is_the_job_s_there_too_where_something_was_pulled_at_another_time(self):
        """Of a day of which the last minutes were pulled, hours of the total were left out."""
        exported = [*workers(3), rows("throughput_per_s", every(15, 40, 15), [600.0] * 40, None, 99)]
        live = rows("throughput_per_s", every(15, 8, 900), [50.0] * 8, "w-0", 98)
        parts = [part.assign(source="mine.csv") for part in exported]
        of_job, _, _ = observe(lake(*parts, live.assign(source=f"prometheus-{DAY}.json.gz")), "ads", DAY)
        assert of_job["throughput_per_s"].dropna().tolist() == [600.0] * 40 + [50.0] * 8

    def test_what_is_no_total_is_a_worker_without_a_name(self):
        of_job, of_workers, _ = self.of_both([400.0] * 8)
        assert of_job["throughput_per_s"].tolist() == [1000.0] * 8
        assert set(of_workers["worker"]) == {"unnamed", "w-0", "w-1", "w-2"}


class TestDay:
    def test_every_row_lies_in_the_day(self):
        seconds = every(15, 5760 + 40, -290)  # from ten minutes before to after, off the grid
        of_job, _, counts = observe(lake(rows("workload_per_s", seconds, [5.0] * 5800)), "ads", DAY)
        assert set(of_job["ts"].dt.strftime("%Y-%m-%d")) == {DAY}
        assert counts.read == counts.used + counts.outside

    def test_two_days_join_without_a_hole_on_the_grid(self):
        seconds = every(15, 2 * 5760)
        samples = lake(rows("workload_per_s", seconds, [5.0] * len(seconds)))
        first, _, _ = observe(samples[samples.ts < MIDNIGHT + pd.Timedelta(1, "D")], "ads", DAY)
        second, _, _ = observe(samples[samples.ts >= MIDNIGHT + pd.Timedelta(1, "D")], "ads", "2023-02-20")
        joined = pd.concat([first, second])["ts"]
        assert set(joined.diff().dropna().dt.total_seconds()) == {15}
        assert len(joined) == 2 * 5760

    def test_the_order_of_rows_does_not_matter(self):
        samples = lake(*workers())
        one = observe(samples, "ads", DAY)
        other = observe(samples.sample(frac=1, random_state=3), "ads", DAY)
        pd.testing.assert_frame_equal(one[0], other[0])
        pd.testing.assert_frame_equal(one[1], other[1])

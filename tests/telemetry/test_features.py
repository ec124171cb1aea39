"""Features: a regular workload, and CPU beside throughput of the same minute."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdix.telemetry.features import capacity_features, step_means, workload_features
from perdix.telemetry.observations import observe
from perdix.telemetry.tables import CAPACITY_FEATURES, WORKLOAD_FEATURES

SHARED = Path(__file__).parents[2] / "../shared/data/metrics"
START = pd.Timestamp("2023-02-19 10:00:00", tz="UTC")
NAN = np.nan


def stamps(seconds):
    return (START + pd.to_timedelta(np.asarray(seconds, dtype=float), unit="s")).as_unit("us")


def job(seconds, **columns):
    return pd.DataFrame({"ts": stamps(seconds)}).assign(
        **{name: np.asarray(values, dtype=float) for name, values in columns.items()}
    )


def workers(seconds, cpu, throughput):
    """``cpu`` and ``throughput``: shape (n, workers)."""
    cpu, throughput = np.asarray(cpu, dtype=float), np.asarray(throughput, dtype=float)
    parts = [
        pd.DataFrame(
            {"ts": stamps(seconds), "worker": f"w-{i}", "throughput_per_s": throughput[:, i], "cpu_load": cpu[:, i]}
        )
        for i in range(cpu.shape[1])
    ]
    return pd.concat(parts, ignore_index=True).dropna(subset=["cpu_load", "throughput_per_s"], how="all")


class TestWorkload:
    def test_ten_seconds_are_a_mean(self):
        features = workload_features(job(range(1, 31), workload_per_s=range(1, 31)))
        assert list(features.columns) == WORKLOAD_FEATURES.columns.names
        assert features["workload_per_s"].tolist() == [5.5, 15.5, 25.5]
        assert features["ts"].tolist() == stamps([10, 20, 30]).tolist()

    def test_coarser_observations_count_for_the_steps_they_cover(self):
        features = workload_features(job([30, 60, 90], workload_per_s=[1, 2, 3]))
        assert features["workload_per_s"].tolist() == [1, 1, 1, 2, 2, 2, 3, 3, 3]
        mixed = workload_features(job([15, 30], workload_per_s=[1, 2]))
        assert mixed["workload_per_s"].tolist() == [1, 1.5, 2]

    def test_a_gap_stays_missing(self):
        features = workload_features(job([*range(1, 21), *range(41, 61)], workload_per_s=[7] * 40))
        np.testing.assert_array_equal(features["workload_per_s"], [7, 7, NAN, NAN, 7, 7])

    def test_never_measured_it_is_consumed_plus_queued(self):
        seconds = range(1, 21)
        observed = job(
            seconds,
            workload_per_s=[NAN] * 20,
            throughput_per_s=[100] * 20,
            consumer_lag_records=[0.0] * 10 + [50.0 * i for i in range(1, 11)],
        )
        assert workload_features(observed)["workload_per_s"].tolist() == [100, 150]

    def test_without_lag_it_is_throughput_and_never_negative(self):
        observed = job(range(1, 11), throughput_per_s=[100] * 10)
        assert workload_features(observed)["workload_per_s"].tolist() == [100]
        emptied = job(range(1, 11), throughput_per_s=[0] * 10, consumer_lag_records=range(1000, 0, -100))
        assert workload_features(emptied)["workload_per_s"].tolist() == [0]

    def test_unknown_throughput_stays_unknown(self):
        observed = job(range(1, 31), throughput_per_s=[100] * 10 + [NAN] * 10 + [100] * 10)
        np.testing.assert_array_equal(workload_features(observed)["workload_per_s"], [100, NAN, 100])

    def test_no_step_falls_into_a_day_without_observations(self):
        midnight = 14 * 3600
        before = workload_features(job(range(midnight - 30, midnight, 1), workload_per_s=[1] * 30))
        after = workload_features(job(range(midnight, midnight + 30, 15), workload_per_s=[1] * 2))
        assert before["ts"].max() < START.normalize() + pd.Timedelta(1, "D") <= after["ts"].min()

    @pytest.mark.parametrize("observed", [job([], workload_per_s=[]), job([1, 2], workload_per_s=[NAN, NAN])])
    def test_nothing_known(self, observed):
        assert workload_features(observed).empty

    @pytest.mark.parametrize("absurd", [1e17, 1e20, 1e300])
    def test_one_absurd_value_is_wrong_in_its_own_step_only(self, absurd):
        values = 1_000.0 + np.arange(480) % 7
        values[100] = absurd
        features = workload_features(job(15 * np.arange(1, 481), workload_per_s=values))["workload_per_s"].to_numpy()
        values[100] = 1_000.0
        expected = workload_features(job(15 * np.arange(1, 481), workload_per_s=values))["workload_per_s"].to_numpy()
        touched = slice(150, 152)  # 1,500 s to 1,515 s
        assert (features[touched] > absurd / 10).all()
        np.testing.assert_allclose(np.delete(features, touched), np.delete(expected, touched))

    @settings(deadline=None)
    @given(
        st.lists(st.one_of(st.floats(0, 1e6), st.just(NAN)), min_size=2, max_size=60),
        st.sampled_from([1, 2, 7, 10, 15, 60]),
    )
    def test_records_are_neither_made_nor_lost(self, values, interval):
        values = np.asarray(values)
        times = 1_000_000.0 + interval * np.arange(1, len(values) + 1)
        ends, means = step_means(times, values, 1.0)
        assert np.nansum(means) == pytest.approx(np.nansum(values) * interval)
        assert np.nanmin(means, initial=np.inf) >= np.nanmin(values, initial=np.inf) - 1e-6
        assert (np.diff(ends) == 1).all()


class TestCapacity:
    seconds = np.arange(15, 15 * 41, 15)

    def test_cpu_of_a_minute_stands_beside_throughput_of_that_minute(self):
        seconds = np.arange(1, 901)
        throughput = 1000 + 400 * np.sin(seconds / 90)
        minute = pd.Series(throughput).rolling(60).mean().to_numpy()
        features = capacity_features(
            workers(seconds, (0.1 + minute / 2000)[:, None], throughput[:, None]), job(seconds, scale_out=[1] * 900)
        )
        np.testing.assert_allclose(features["cpu_load"], 0.1 + features["throughput_per_s"] / 2000, rtol=1e-9)
        assert list(features.columns) == CAPACITY_FEATURES.columns.names
        assert features["ts"].diff().dropna().dt.total_seconds().min() == 15

    def test_an_instantaneous_cpu_is_averaged_first(self):
        rng = np.random.default_rng(5)
        seconds = np.arange(1, 1801)
        throughput = 1000 + 400 * np.sin(seconds / 200)
        cpu = 0.1 + throughput / 2000 + rng.normal(0, 0.15, 1800)
        features = capacity_features(workers(seconds, cpu[:, None], throughput[:, None]), job(seconds))
        slope, base = np.polyfit(features["cpu_load"], features["throughput_per_s"], 1)
        assert slope + base == pytest.approx(1800, rel=0.03)
        raw, raw_base = np.polyfit(cpu, throughput, 1)
        assert abs(raw + raw_base - 1800) > 5 * abs(slope + base - 1800)

    def test_warm_up_after_a_rescale_is_dropped(self):
        n = len(self.seconds)
        observed = job(self.seconds, scale_out=[2] * 20 + [3] * (n - 20))
        features = capacity_features(workers(self.seconds, [[0.5]] * n, [[100.0]] * n), observed)
        changed = self.seconds[20]
        kept = (features["ts"] - START).dt.total_seconds().to_numpy()
        assert not ((kept >= changed) & (kept < changed + 120)).any()
        assert (kept >= changed + 120).any()
        assert (kept < changed).any()
        assert set(features["scale_out"]) == {2, 3}

    def test_warm_up_counts_from_the_start_that_uptime_tells(self):
        n = len(self.seconds)
        uptime = np.concatenate([self.seconds[:20] + 5000.0, self.seconds[20:] - self.seconds[20] + 7.0])
        features = capacity_features(
            workers(self.seconds, [[0.5]] * n, [[100.0]] * n), job(self.seconds, uptime_s=uptime, scale_out=[2] * n)
        )
        kept = (features["ts"] - START).dt.total_seconds().to_numpy()
        started = self.seconds[20] - 7
        assert not ((kept >= self.seconds[20]) & (kept < started + 120)).any()
        assert kept.min() <= 45

    def test_a_job_that_has_just_started_is_warming_up(self):
        n = len(self.seconds)
        features = capacity_features(
            workers(self.seconds, [[0.5]] * n, [[100.0]] * n),
            job(self.seconds, uptime_s=self.seconds, scale_out=[1] * n),
        )
        assert (features["ts"] - START).dt.total_seconds().min() == 120

    def test_shares(self):
        n = len(self.seconds)
        features = capacity_features(
            workers(self.seconds, [[0.8, 0.4]] * n, [[300.0, 100.0]] * n), job(self.seconds, scale_out=[2] * n)
        )
        by_worker = features.groupby("worker")[["cpu_share", "throughput_share"]].mean()
        assert by_worker.loc["w-0"].tolist() == pytest.approx([1, 0.75])
        assert by_worker.loc["w-1"].tolist() == pytest.approx([0.5, 0.25])

    def test_shares_are_unknown_while_a_worker_is_missing(self):
        n = len(self.seconds)
        cpu = np.tile([0.8, 0.4], (n, 1))
        cpu[10:15, 0] = NAN
        features = capacity_features(
            workers(self.seconds, cpu, [[300.0, 100.0]] * n), job(self.seconds, scale_out=[2] * n)
        )
        alone = features[features["ts"].isin(stamps(self.seconds[10:15]))]
        assert set(alone["worker"]) == {"w-1"}
        assert alone[["cpu_share", "throughput_share"]].isna().all(axis=None)
        assert features["cpu_share"].notna().sum() > n

    def test_nobody(self):
        nothing = workers([], np.empty((0, 1)), np.empty((0, 1)))
        features = capacity_features(nothing, job([]))
        assert features.empty
        assert list(features.columns) == CAPACITY_FEATURES.columns.names

    def test_a_job_without_any_job_metric(self):
        n = len(self.seconds)
        features = capacity_features(workers(self.seconds, [[0.5]] * n, [[9.0]] * n), job([]))
        assert len(features) == n - 1  # the first minute has one sample only
        assert features["scale_out"].isna().all()


def measured(cpu, throughput):
    parts = []
    for metric, file in (("cpu_load", cpu), ("throughput_per_s", throughput)):
        wide = pd.read_csv(SHARED / file, encoding="utf-8-sig")
        long = wide.melt("Time", var_name="worker", value_name="value").rename(columns={"Time": "ts"})
        parts.append(long.assign(metric=metric, series_id=metric + long.worker, ts=pd.to_datetime(long.ts, utc=True)))
    samples = pd.concat(parts)
    of_job, of_workers, _ = observe(samples, "measured")
    return capacity_features(of_workers, of_job)


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.exists(), reason="measured data is not beside this checkout")
class TestMeasured:
    def test_the_ramp_below_70_percent_tells_what_saturation_gives(self):
        features = measured("figures/cpu_1.csv", "figures/throughput_1.csv")
        low = features[features["cpu_load"] < 0.7]
        slope, base = np.polyfit(low["cpu_load"], low["throughput_per_s"], 1)
        assert slope + base == pytest.approx(61_757, rel=0.02)

    def test_the_twelve_skewed_workers_by_proportional_skew(self):
        features = measured("figures/data_skew_cpu_12.csv", "figures/data_skew_throughput_12.csv")
        assert set(features["scale_out"]) == {12}
        mean_cpu = features.groupby("worker")["cpu_load"].mean()
        total = 0.0
        for worker, rows in features.groupby("worker"):
            slope, base = np.polyfit(rows["cpu_load"], rows["throughput_per_s"], 1)
            total += base + slope * mean_cpu[worker] / mean_cpu.max()
        assert total == pytest.approx(488_277, rel=0.02)
        assert features.groupby("ts")["throughput_share"].sum().tolist() == pytest.approx(
            [1] * features["ts"].nunique()
        )

"""Learning from a past: what is known of a good one, and in which words a bad one is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from perdix.scan.learning import CannotJudgeError, Restarts, learn, restarts_of
from perdix.scan.reading import ALL_WORKERS, Past
from perdix.settings.stream_job import Bounds
from perdix.telemetry.plausible import plausible_ranges, screened
from perdix.telemetry.window import Values, Window

WORKERS = ("tm-1", "tm-2")
LINE = 0.1  # CPU of an idle worker


def past(hours=24, cpu_scale=1.0, **of_job):
    """Two workers that take 1,000 records/s each at CPU 1, with a load that swings between 400 and 1,200/s."""
    fine, coarse = window(hours, 60.0), window(hours, 300.0)
    rates = {len(times_s): 800.0 + 400.0 * np.sin(times_s / 9_000.0) for times_s in (fine, coarse)}
    metrics = {
        "workload_per_s": rates[len(fine)],
        "scale_out": np.full(len(fine), 2.0),
        "uptime_s": fine - fine[0] + 10_000.0,
        "latency_p95_ms": np.full(len(fine), 700.0),
        **of_job,
    }
    whole = Window("j", 60.0, fine, (ALL_WORKERS,), metrics, {"throughput_per_s": rates[len(fine)][:, None]})
    each = np.column_stack([rates[len(coarse)] / 2.0] * 2)
    cpu = LINE + (1.0 - LINE) * each / 1_000.0
    of_workers = Window(
        "j",
        300.0,
        coarse,
        WORKERS,
        {"scale_out": np.full(len(coarse), 2.0), "uptime_s": coarse - coarse[0] + 10_000.0},
        {"throughput_per_s": each, "cpu_load": cpu_scale * cpu},
    )
    return Past(whole, screened(of_workers, plausible_ranges(Bounds())))


def window(hours, step_s):
    return step_s * np.arange(1.0, hours * 3_600.0 / step_s + 1)


def test_load_capacity_and_workers_are_learned():
    found = learn(past())
    assert found.capacities[2].per_s == pytest.approx(2_000.0, rel=0.1)
    assert found.capacities[2].seen
    assert not found.capacities[3].seen
    assert found.average_workers == found.peak_workers == 2
    assert found.known_share == pytest.approx(1.0, abs=0.01)
    assert not found.load_is_derived
    assert found.usual_latency_ms == pytest.approx(700.0)
    assert np.nanmax(found.load.per_s) == pytest.approx(1_200.0, rel=0.02)


def test_sizes_beyond_those_that_ran_are_looked_at():
    assert learn(past()).maximum > 2 * 2


def test_without_a_topic_the_load_is_what_was_consumed():
    n = len(window(24, 60.0))
    found = learn(past(workload_per_s=np.full(n, np.nan)))
    assert found.load_is_derived
    assert np.nanmax(found.load.per_s) == pytest.approx(1_200.0, rel=0.02)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (past(cpu_scale=100.0), "is it in percent"),
        (past(hours=2), "only 2 h of its load"),
        (past(cpu_scale=np.nan), "no cpu_load in Prometheus"),
        (past(workload_per_s=np.zeros(len(window(24, 60.0)))), "nothing arrived"),
        (
            past(workload_per_s=np.where(np.arange(1_440) % 10 < 7, np.nan, 5.0)),
            "known for only",
        ),
    ],
)
def test_what_cannot_be_judged_is_refused_with_its_reason(bad, said):
    with pytest.raises(CannotJudgeError, match=said):
        learn(bad)


def test_without_any_throughput_nothing_is_guessed():
    good = past()
    empty = replace(good.of_job, worker_metrics={}, workers=(), job_metrics={})
    with pytest.raises(CannotJudgeError, match="no throughput_per_s"):
        learn(replace(good, of_job=empty))


def test_what_the_server_refused_is_told_as_refused_and_not_as_absent():
    refused = replace(past(cpu_scale=np.nan), warnings=("cpu_load: http://p refuses the query: too many samples",))
    with pytest.raises(CannotJudgeError, match="too many samples; where that is too much for the server, give fewer"):
        learn(refused)


def restarts(times_s: Values, uptime_s: Values, throughput_per_s: Values) -> Restarts:
    """What a minute-by-minute window of one job shows of its restarts; arrays of shape ``(n,)``."""
    of_workers = {"throughput_per_s": throughput_per_s[:, None]}
    return restarts_of(Window("j", 60.0, times_s, (ALL_WORKERS,), {"uptime_s": uptime_s}, of_workers))


def test_restarts_are_seen_by_the_uptime_and_their_standstill_by_the_throughput():
    times_s = window(2, 60.0)
    uptime = times_s + 5_000.0
    throughput = np.full(len(times_s), 100.0)
    stopped = (times_s > 3_000.0) & (times_s <= 3_240.0)
    uptime[stopped], throughput[stopped] = np.nan, np.nan
    uptime[times_s > 3_240.0] = times_s[times_s > 3_240.0] - 3_230.0
    seen = restarts(times_s, uptime, throughput)
    assert seen.seen == 1
    assert seen.standstill_s == pytest.approx(230.0, abs=60.0)


def test_a_restart_in_idle_hours_is_no_standstill_of_hours():
    """Nothing arrives from 600 s on, so nothing is consumed; the job runs all the same, until 7,200 s."""
    times_s = window(4, 60.0)
    uptime = np.where(times_s <= 7_200.0, times_s + 5_000.0, times_s - 7_270.0)
    uptime[times_s == 7_260.0] = np.nan
    throughput = np.where((times_s > 600.0) & (times_s <= 9_000.0), 0.0, 100.0)
    seen = restarts(times_s, uptime, throughput)
    assert seen.seen == 1
    assert seen.standstill_s == pytest.approx(70.0, abs=60.0)


def test_a_job_that_loses_a_worker_stands_still_although_its_uptime_goes_on_until_that_is_noticed():
    times_s = window(2, 60.0)
    uptime = np.where(times_s <= 3_060.0, times_s + 5_000.0, times_s - 3_130.0)
    uptime[times_s == 3_120.0] = np.nan
    throughput = np.where((times_s > 3_000.0) & (times_s <= 3_120.0), 0.0, 100.0)
    seen = restarts(times_s, uptime, throughput)
    assert seen.standstill_s == pytest.approx(100.0)


def test_hours_without_the_job_are_no_restart():
    """Stopped from 3,000 to 12,000 s, or not scraped meanwhile; and restarted in 100 s later on."""
    times_s = window(6, 60.0)
    uptime = np.where(times_s <= 3_000.0, times_s + 5_000.0, times_s - 12_000.0)
    gone = (times_s > 3_000.0) & (times_s <= 12_000.0)
    throughput = np.where(gone, np.nan, 100.0)
    uptime[gone] = np.nan
    assert restarts(times_s, uptime, throughput) == Restarts()
    uptime[times_s > 18_000.0] = times_s[times_s > 18_000.0] - 18_130.0
    uptime[times_s == 18_060.0], uptime[times_s == 18_120.0], throughput[times_s == 18_060.0] = np.nan, np.nan, np.nan
    throughput[times_s == 18_120.0] = np.nan
    assert restarts(times_s, uptime, throughput) == Restarts(1, 100.0)


class TestStopped:
    """From hour 8 to 16 of 24 the job has no metrics; its topic is measured by the brokers."""

    HOURS = window(24, 60.0) / 3_600.0
    GONE = (HOURS > 8.0) & (HOURS <= 16.0)

    def stopped(self, gone=GONE, missing=("scale_out", "uptime_s", "throughput_per_s"), **of_job):
        made = past(**of_job)
        job = made.of_job
        job_metrics = {
            name: np.where(gone & (name in missing), np.nan, job.job_metric(name)) for name in job.job_metrics
        }
        throughput = np.where(
            gone[:, None] & ("throughput_per_s" in missing), np.nan, job.worker_metrics["throughput_per_s"]
        )
        of_job = replace(job, job_metrics=job_metrics, worker_metrics={"throughput_per_s": throughput})
        return learn(replace(made, of_job=of_job))

    AGAIN = np.where(HOURS <= 8.0, 3_600.0 * HOURS + 9_000.0, 3_600.0 * (HOURS - 16.0) + 30.0)  # uptime, begun anew

    def test_it_has_no_workers_while_it_is_stopped(self):
        found = self.stopped(uptime_s=self.AGAIN)
        assert found.average_workers == pytest.approx(2.0 * 16.0 / 24.0, abs=0.01)
        assert found.peak_workers == 2
        assert set(found.workers) == {0.0, 2.0}

    def test_a_job_that_does_not_come_back_is_stopped_to_the_end(self):
        found = self.stopped(gone=self.HOURS > 22.0)
        assert found.average_workers == pytest.approx(2.0 * 22.0 / 24.0, abs=0.01)

    @pytest.mark.parametrize("missing", [("scale_out",), ("scale_out", "uptime_s"), ("scale_out", "throughput_per_s")])
    def test_a_job_of_which_anything_is_measured_runs(self, missing):
        assert self.stopped(missing=missing, uptime_s=self.AGAIN).average_workers == 2.0

    def test_a_job_whose_uptime_went_on_meanwhile_ran_and_was_not_scraped(self):
        assert self.stopped().average_workers == 2.0

    def test_where_its_size_is_unknown_for_hours_single_missing_steps_are_gaps(self):
        holes = self.GONE & (np.arange(len(self.HOURS)) % 5 == 0)
        made = past(uptime_s=np.full(len(self.HOURS), np.nan), scale_out=np.where(self.GONE, np.nan, 2.0))
        throughput = np.where(holes[:, None], np.nan, made.of_job.worker_metrics["throughput_per_s"])
        of_job = replace(made.of_job, worker_metrics={"throughput_per_s": throughput})
        assert learn(replace(made, of_job=of_job)).average_workers == 2.0

    def test_a_short_gap_is_a_gap(self):
        gone = (self.HOURS > 8.0) & (self.HOURS <= 8.2)
        uptime = np.where(self.HOURS <= 8.0, 3_600.0 * self.HOURS + 9_000.0, 3_600.0 * (self.HOURS - 8.2) + 30.0)
        assert self.stopped(gone=gone, uptime_s=uptime).average_workers == 2.0

    def test_a_time_in_which_nothing_at_all_is_known_is_a_gap(self):
        everything = ("scale_out", "uptime_s", "throughput_per_s", "workload_per_s", "latency_p95_ms")
        assert self.stopped(missing=everything, uptime_s=self.AGAIN).average_workers == 2.0

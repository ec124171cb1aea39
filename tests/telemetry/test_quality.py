"""Rules of the hot path: what is stale, thin, missing or skewed is said, and nothing is decided on it."""

from __future__ import annotations

import numpy as np
import pytest

from perdix.telemetry.quality import assess
from perdix.telemetry.window import Window

NOW = 1_700_000_000.0
NAN = float("nan")


def window(n=60, step=1.0, workers=3, scale_out=3, newest=NOW, ahead=0, **changes):
    table = np.ones((n, workers))
    metrics = {"throughput_per_s": table.copy(), "cpu_load": table.copy() * 0.5}
    for name, change in changes.items():
        change(metrics[name])
    return Window(
        job="ads",
        step_s=step,
        times_s=NOW - step * np.arange(n)[::-1],
        workers=tuple(f"w-{i}" for i in range(workers)),
        job_metrics={} if scale_out is None else {"scale_out": np.full(n, float(scale_out))},
        worker_metrics=metrics,
        newest_sample_s=newest,
        ahead=ahead,
    )


def lost(rows=slice(None), workers=slice(None)):
    def change(table):
        table[rows, workers] = NAN

    return change


def test_a_whole_window_is_fine():
    quality = assess(window(), NOW, 15)
    assert quality.ok
    assert not quality.blind
    assert quality.problems == ()
    assert quality.coverage == {"throughput_per_s": 1, "cpu_load": 1}


@pytest.mark.parametrize(("age", "blind"), [(0, False), (30, False), (31, True), (600, True)])
def test_two_scrape_intervals_without_a_sample_are_blindness(age, blind):
    quality = assess(window(newest=NOW - age), NOW, 15)
    assert (quality.blind, quality.ok) == (blind, not blind)
    assert quality.age_s == age
    assert bool(quality.problems) is blind


def test_no_sample_at_all():
    quality = assess(Window("ads", 1.0, np.arange(3.0)), NOW, 15)
    assert quality.blind
    assert quality.problems[0] == "no sample at all"
    assert "throughput_per_s is absent" in quality.problems


def test_a_stale_metric_is_not_hidden_by_a_fresh_one():
    quality = assess(window(cpu_load=lost(slice(20, None))), NOW, 15)
    assert quality.blind
    assert any(problem.startswith("cpu_load is 40 s old") for problem in quality.problems)


def test_a_metric_that_is_not_needed_may_be_stale():
    assert assess(window(cpu_load=lost()), NOW, 15, needed={"throughput_per_s": 0.8}).ok


def test_thin_coverage_makes_no_decision_but_is_not_blindness():
    quality = assess(window(throughput_per_s=lost(slice(10, 30))), NOW, 15)
    assert not quality.ok
    assert not quality.blind
    assert quality.coverage["throughput_per_s"] == pytest.approx(40 / 60)
    assert quality.problems == ("throughput_per_s covers 66% of the window, 80% is needed",)


def test_what_falls_a_little_short_is_not_rounded_to_what_is_asked_for():
    quality = assess(window(n=1_000, throughput_per_s=lost(slice(400, 602))), NOW, 15)
    assert quality.problems == ("throughput_per_s covers 79% of the window, 80% is needed",)
    assert assess(window(newest=NOW - 30.2), NOW, 15).problems == ("newest sample is 31 s old, 30 s are allowed",)


def test_a_worker_that_joins_in_the_window_is_no_gap():
    assert assess(window(throughput_per_s=lost(slice(0, 30), 2), cpu_load=lost(slice(0, 30), 2)), NOW, 15).ok


def test_an_outage_at_the_start_is_a_gap():
    quality = assess(window(throughput_per_s=lost(slice(0, 30))), NOW, 15)
    assert quality.coverage["throughput_per_s"] == 0.5


def test_the_restart_of_a_scale_in_counts_against_those_who_go_on() -> None:
    """Three workers, eight steps of standstill, then one: those that were released did not stand still."""
    found = window(n=40)
    for table in found.worker_metrics.values():
        table[20:28] = np.nan
        table[28:, 1:] = np.nan
    assert assess(found, NOW, 1).coverage["cpu_load"] == pytest.approx((3 * 20 + 12) / (3 * 20 + 20))


def test_a_worker_that_was_released_before_the_window_counts_in_none_of_its_steps() -> None:
    found = window()
    for table in found.worker_metrics.values():
        table[:, 1:] = np.nan
        table[:10] = np.nan
    assert assess(found, NOW, 1).coverage["cpu_load"] == pytest.approx(50 / 60)


def test_a_worker_that_falls_silent_is_named():
    quality = assess(window(throughput_per_s=lost(slice(20, None), 1), cpu_load=lost(slice(20, None), 1)), NOW, 15)
    assert not quality.ok
    assert quality.silent_workers == ("w-1",)
    assert quality.missing_workers == 1
    assert "2 of 3 workers report (silent: w-1)" in quality.problems


def test_workers_that_never_reported_are_counted():
    quality = assess(window(scale_out=5), NOW, 15)
    assert not quality.ok
    assert quality.missing_workers == 2
    assert "3 of 5 workers report" in quality.problems


def test_workers_released_by_a_rescale_are_not_missing():
    gone = lost(slice(20, None), 2)
    quality = assess(window(scale_out=2, throughput_per_s=gone, cpu_load=gone), NOW, 15)
    assert quality.ok
    assert quality.missing_workers == 0


def test_a_spare_worker_without_a_source_task_is_not_silent():
    assert assess(window(throughput_per_s=lost(workers=2)), NOW, 15).silent_workers == ()


def test_an_unknown_scale_out_finds_nobody_missing():
    assert assess(window(scale_out=None), NOW, 15).ok


def test_a_clock_that_is_ahead_is_said():
    quality = assess(window(ahead=4), NOW, 15)
    assert not quality.ok
    assert quality.problems == ("clock skew: 4 samples more than a scrape interval in the future",)
    (problem,) = assess(window(ahead=1), NOW, 15).problems
    assert problem.startswith("clock skew: 1 sample more")


def test_a_job_level_need():
    assert assess(window(), NOW, 15, needed={"scale_out": 1.0}).ok
    assert not assess(window(), NOW, 15, needed={"consumer_lag_records": 0.5}).ok


@pytest.mark.parametrize(("gone", "blind"), [(0, False), (1, False), (2, True), (3, True)])
def test_half_of_the_workers_missing_is_blindness(gone, blind):
    quality = assess(
        window(
            workers=4, scale_out=4, throughput_per_s=lost(workers=slice(0, gone)), cpu_load=lost(workers=slice(0, gone))
        ),
        NOW,
        15,
    )
    assert quality.blind is blind
    assert quality.ok is (gone == 0)


def test_workers_that_nobody_registers_are_missed_where_the_target_tells_of_them():
    assert assess(window(), NOW, 15, running=5).ok, "spare slots, or one that is just coming"
    quality = assess(window(), NOW, 15, running=6)
    assert quality.blind
    assert quality.problems == ("3 of 6 workers report, by the target's count",)

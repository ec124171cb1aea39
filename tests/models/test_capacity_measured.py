"""The figures that the capacity model must reach on measured data (docs/results.md), and the report behind the CLI."""

import json
import re

import pandas as pd
import pytest

from benchmarks import capacity as benchmark
from perdix.models.capacity.report import below_cpu, capacity_report

shared = pytest.mark.skipif(not benchmark.METRICS.is_dir(), reason="no measured data beside the project")
pytestmark = pytest.mark.shared


@pytest.fixture(scope="module")
def cases():
    if not benchmark.METRICS.is_dir():
        pytest.skip("no measured data beside the project")
    return {case["name"]: case for case in benchmark.cases()}


def test_ramp_below_70_percent_is_within_5_percent_of_saturation(cases):
    case = cases["ramp, CPU < 0.7"]
    assert case["measured_per_s"] == pytest.approx(61_757, abs=1)
    assert abs(case["off"]) < 0.05
    assert case["ratio_off"] < -0.28


def test_skewed_workers_are_within_3_percent(cases):
    case = cases["12 skewed workers, saturated"]
    assert case["measured_per_s"] == pytest.approx(488_277, abs=1)
    assert abs(case["off"]) < 0.03
    assert case["ratio_off"] > 0.2


def test_sine_bands(cases):
    assert abs(cases["sine, 2 workers, CPU 0.5 to 0.7"]["off"]) < 0.02
    for band, limit in (("0.3 to 0.5", 0.062), ("0.1 to 0.3", 0.175)):
        case = cases[f"sine, 2 workers, CPU {band}"]
        assert abs(case["off"]) < limit
        assert abs(case["ratio_off"]) > 2.5 * abs(case["off"])


def test_intervals_hold_what_was_measured(cases):
    assert [name for name, case in cases.items() if not case["covered"]] == []


def test_the_ramp_learnt_online_is_good_before_the_job_is_loaded(cases):
    loops = benchmark.online_ramp()
    truth = cases["ramp, all"]["measured_per_s"]
    by_loop = {loop["loop"]: loop for loop in loops}
    assert len(loops) >= 14
    assert all(abs(by_loop[k]["per_s"] / truth - 1) < 0.05 for k in by_loop if k >= 9)
    assert all(abs(by_loop[k]["per_s"] - truth) < abs(by_loop[k]["ratio_per_s"] - truth) for k in by_loop if 4 <= k < 9)
    held = [loop["low_per_s"] <= truth <= loop["high_per_s"] for loop in loops]
    assert sum(held) >= 0.9 * len(held)


def test_the_benchmark_speaks_json(cases, capsys):
    assert benchmark.main(["--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {case["name"] for case in found["cases"]} == set(cases)


@shared
def test_report_of_the_ramp():
    report = capacity_report(benchmark.features("ramp"), maximum=12, cpu_below=0.7)
    assert [estimate.scale_out for estimate in report] == list(range(1, 13))
    assert report[0].per_s == pytest.approx(61_757, rel=0.05)
    assert report[0].seen
    assert re.match(r"observed until \d{4}-\d\d-\d\d \d\d:\d\dZ at 1 worker, ", report[0].basis)
    assert not any("before" in estimate.basis or "ago" in estimate.basis for estimate in report)
    # Twelve times one worker is 34 % above what twelve workers did three days earlier: the interval must own that.
    assert report[11].low_per_s < 488_277 < report[11].high_per_s


@shared
def test_report_of_twelve_workers():
    report = capacity_report(benchmark.features("skew"), maximum=6)
    assert len(report) == 12
    assert report[11].per_s == pytest.approx(488_277, rel=0.03)


@shared
def test_report_says_when_no_minute_is_calm_enough():
    with pytest.raises(ValueError, match=r"below a CPU load of 0.7: the calmest minute had 0.9"):
        capacity_report(benchmark.features("skew"), maximum=12, cpu_below=0.7)


def test_report_needs_a_scale_out_and_cpu():
    frame = pd.DataFrame({"ts": [pd.Timestamp("2026-01-01", tz="UTC")], "worker": ["w"], "cpu_load": [float("nan")]})
    with pytest.raises(ValueError, match="not up to 0"):
        capacity_report(frame, 0)
    with pytest.raises(ValueError, match="no CPU load was measured"):
        below_cpu(frame, 0.7)

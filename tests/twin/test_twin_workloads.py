from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from perdix.settings.yaml_files import SettingsError
from perdix.twin.workloads import WorkloadSpec, arrivals_from, workload

SHAPES = ["constant", "sine", "daily", "step", "spikes"]
SHARED = Path(__file__).parents[3] / "shared" / "data" / "workloads"


def spec_of(shape: str, **changes) -> WorkloadSpec:
    return WorkloadSpec(**{"shape": shape, "peak_per_s": 1_000.0, "period_s": 7_200, **changes})


@settings(max_examples=60, deadline=None)
@given(
    shape=st.sampled_from(SHAPES),
    start_s=st.integers(0, 2_000_000_000),
    seconds=st.integers(2, 5_000),
    cut=st.integers(0, 5_000),
    seed=st.integers(0, 1_000),
)
def test_any_stretch_is_the_same_as_part_of_a_longer_one(shape, start_s, seconds, cut, seed):
    cut = min(cut, seconds)
    spec = spec_of(shape)
    whole = workload(spec, seconds, seed, start_s)
    parts = [workload(spec, cut, seed, start_s), workload(spec, seconds - cut, seed, start_s + cut)]
    np.testing.assert_array_equal(whole, np.concatenate(parts))
    assert whole.shape == (seconds,)
    assert (whole >= 0).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_the_pattern_lies_between_low_and_peak(shape):
    rates = workload(spec_of(shape, low=0.3, noise=0.0, slow_noise=0.0), 4 * 7_200, seed=3)
    assert rates.max() <= 1_000.0 + 1e-6
    assert rates.min() >= 300.0 - 1e-6
    if shape != "spikes":  # spikes reach the peak only by luck
        assert rates.max() == pytest.approx(1_000.0, rel=1e-3)


def test_another_seed_is_another_workload():
    assert not np.array_equal(workload(spec_of("sine"), 600, 1), workload(spec_of("sine"), 600, 2))


def test_noise_has_the_asked_size():
    flat = workload(spec_of("constant", noise=0.05, slow_noise=0.0), 36_000, seed=5) / 1_000.0
    assert flat.std() == pytest.approx(0.05, rel=0.05)
    slow = workload(spec_of("constant", noise=0.0, slow_noise=0.05), 360_000, seed=5) / 1_000.0
    assert np.abs(np.diff(slow)).max() < 0.002
    assert 0.03 < slow.std() < 0.05


def test_spikes_rise_at_once_and_fade():
    calm = spec_of("spikes", low=0.0, period_s=10**9, noise=0.0, slow_noise=0.0, spikes_per_hour=2.0)
    steps = np.diff(workload(calm, 36_000, seed=1))
    assert steps.max() > 100.0
    assert steps.min() > -5.0


def test_peak_utilisation_becomes_a_rate_of_the_capacity():
    spec = WorkloadSpec(shape="constant", peak_utilisation=0.5, noise=0.0, slow_noise=0.0)
    with pytest.raises(ValueError, match="scaled_to"):
        workload(spec, 10, 0)
    assert workload(spec.scaled_to(4_000.0), 10, 0) == pytest.approx(np.full(10, 2_000.0))


def test_a_csv_trace_is_scaled_and_starts_anew_after_its_end(tmp_path):
    file = tmp_path / "trace.csv"
    file.write_text("second,tuples_per_second\n0,10\n1,20\n3,40\n")
    spec = WorkloadSpec(shape="csv", file=file, peak_per_s=80.0, noise=0.0, slow_noise=0.0)
    assert workload(spec, 6, 0).tolist() == [20.0, 40.0, 60.0, 80.0, 20.0, 40.0]  # second 2 is interpolated
    plain = WorkloadSpec(shape="csv", file=file, noise=0.0, slow_noise=0.0)
    assert workload(plain, 2, 0, start_s=3).tolist() == [40.0, 10.0]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("a,b\n1,2\n", ":1: expected the columns"),
        ("", ":1: expected the columns"),
        ("second,tuples_per_second\n", "no rows"),
        ("second,tuples_per_second\n0,1\n1,x\n", ":3: expected a second and a rate"),
        ("second,tuples_per_second\n0,1\n1\n", ":3: expected a second and a rate"),
        ("second,tuples_per_second\n0,nan\n", ":2: the rate must be finite"),
        ("second,tuples_per_second\n0,-1\n", ":2: the rate must be finite"),
        ("second,tuples_per_second\n5,1\n5,1\n", ":3: second 5 does not come after 5"),
    ],
)
def test_a_bad_trace_is_named_by_file_and_line(tmp_path, content, says):
    file = tmp_path / "bad.csv"
    file.write_text(content)
    with pytest.raises(SettingsError, match=f"bad.csv.*{says}"):
        workload(WorkloadSpec(shape="csv", file=file), 1, 0)


def test_an_absent_trace_is_named(tmp_path):
    with pytest.raises(SettingsError, match=r"none\.csv: cannot be read"):
        workload(WorkloadSpec(shape="csv", file=tmp_path / "none.csv"), 1, 0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"shape": "csv"},
        {"shape": "sine"},
        {"shape": "sine", "peak_per_s": 1, "file": "x.csv"},
        {"shape": "sine", "peak_per_s": 1, "peak_utilisation": 0.5},
        {"shape": "sine", "peak_per_s": -1},
        {"shape": "wave", "peak_per_s": 1},
    ],
)
def test_a_spec_that_contradicts_itself_is_refused(wrong):
    with pytest.raises(ValidationError):
        WorkloadSpec.model_validate(wrong)


def test_arrivals_from_an_array_end_with_an_error():
    read = arrivals_from(np.array([1.0, 2.0, 3.0]), 100)
    assert read(101, 2).tolist() == [2.0, 3.0]
    for second, count in ((99, 1), (102, 2)):
        with pytest.raises(ValueError, match="covers 3 s from second 100"):
            read(second, count)


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.exists(), reason="measured data is not beside the project")
def test_measured_traces_are_read():
    for file in sorted(SHARED.glob("*.csv")):
        rates = workload(WorkloadSpec(shape="csv", file=file, peak_per_s=500.0, noise=0.0, slow_noise=0.0), 21_000, 0)
        assert 0.0 <= rates.min() < rates.max() <= 500.0

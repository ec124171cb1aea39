"""A trace becomes whole records per second, compressed and scaled, and none is lost on the way."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdix.cli.output import UserError
from perdix.replay.workload import Trace
from perdix.settings.yaml_files import SettingsError
from testbed.arrivals import LONGEST_S, Load, rates, trace_of, whole

QUIET = Load(peak_per_s=100, noise=0.0)
some_rates = st.lists(st.floats(0, 1_000), min_size=60, max_size=400).filter(lambda found: max(found) > 1)


def trace(values: list[float]) -> Trace:
    found = np.array(values)
    return Trace("t", np.arange(len(found), dtype=float), found, float(len(found)), float(found.max()))


@given(st.lists(st.floats(0, 50_000), min_size=1, max_size=500))
def test_whole_records_are_never_more_than_one_away_from_the_rates(values: list[float]) -> None:
    counts = whole(np.array(values))
    assert (counts >= 0).all()
    assert np.abs(np.cumsum(counts) - np.cumsum(values)).max() <= 1.0


@given(some_rates)
def test_uncompressed_it_is_the_trace_scaled_to_the_peak(values: list[float]) -> None:
    played = rates(QUIET, trace(values))
    np.testing.assert_allclose(played, 100 * np.array(values) / max(values), atol=1e-6)


@given(some_rates, st.floats(1.0, 30.0))
def test_compressed_it_has_the_same_shape_and_the_same_peak(values: list[float], compress: float) -> None:
    found = trace(values)
    load = QUIET.model_copy(update={"compress": compress})
    played = rates(load, found)
    assert len(played) == int(len(values) / compress)
    assert played.max() == pytest.approx(100)
    share = compress * played.sum() / np.sum(values[: int(len(played) * compress)] or [0])
    per_unit = 100 / max(_means(values, compress))
    assert share == pytest.approx(per_unit, rel=max(values) * 2 / sum(values) + 1e-6)


def _means(values: list[float], compress: float) -> list[float]:
    total = np.concatenate(([0.0], np.cumsum(values)))
    edges = np.arange(int(len(values) / compress) + 1) * compress
    return list(np.diff(np.interp(edges, np.arange(len(total)), total)) / compress)


@given(some_rates, st.integers(1, 300), st.integers(0, 500))
def test_it_begins_where_it_is_told_and_starts_anew_after_its_end(
    values: list[float], seconds: int, start_s: int
) -> None:
    load = QUIET.model_copy(update={"seconds": seconds, "start_s": float(start_s)})
    expected = [values[(start_s + second) % len(values)] for second in range(seconds)]
    np.testing.assert_allclose(rates(load, trace(values)), 100 * np.array(expected) / max(values), atol=1e-6)


def test_a_part_of_a_trace_keeps_the_scale_of_the_whole() -> None:
    values = [10.0] * 100 + [50.0] * 20
    load = QUIET.model_copy(update={"seconds": 60})
    np.testing.assert_allclose(rates(load, trace(values)), 20.0)


def test_the_same_seed_plays_the_same_load_and_another_another() -> None:
    found = trace([5.0, 7.0] * 100)
    noisy = Load(peak_per_s=100, noise=0.1)
    assert (rates(noisy, found) == rates(noisy, found)).all()
    assert (rates(noisy, found) != rates(noisy.model_copy(update={"seed": 2}), found)).any()


def test_a_recorded_file_is_read_as_a_replay_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text("second,tuples_per_second\n" + "".join(f"{60 * k},{k % 7}\n" for k in range(100)))
    load = Load(trace=file, compress=60, peak_per_s=600, noise=0)
    played = rates(load, trace_of(load))
    assert len(played) == 100
    assert played.max() == pytest.approx(600)


def test_a_file_that_is_no_trace_is_named(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text("a,b\nx,y\n")
    with pytest.raises(SettingsError, match=r"trace\.csv"):
        trace_of(Load(trace=file))


@pytest.mark.parametrize("shape", ["constant", "sine", "daily", "step", "spikes"])
def test_a_shape_is_played_once_through_its_period(shape: str) -> None:
    load = Load.model_validate({"shape": shape, "period_s": 3600, "compress": 10, "peak_per_s": 400, "noise": 0})
    played = rates(load, trace_of(load))
    assert len(played) == 360
    assert played.max() == pytest.approx(400)
    assert played.min() > 0


@pytest.mark.parametrize("asked", [{}, {"shape": "csv"}, {"shape": "sine", "trace": "t.csv"}])
def test_one_of_trace_and_shape_must_be_named(asked: dict[str, str]) -> None:
    with pytest.raises(UserError, match="either a trace"):
        trace_of(Load.model_validate(asked))


def test_a_load_of_weeks_is_refused() -> None:
    with pytest.raises(UserError, match="give --seconds or --compress"):
        rates(Load(period_s=30 * 86_400, shape="sine"), trace_of(Load(period_s=30 * 86_400, shape="sine")))
    assert LONGEST_S == 7 * 86_400


def test_a_trace_compressed_to_nothing_is_refused() -> None:
    with pytest.raises(UserError, match="not even a second"):
        rates(Load(compress=1_000), trace([1.0, 2.0]))

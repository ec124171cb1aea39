"""The line: exact, mergeable, forgetting, and usable when the data alone do not determine it."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from perdix.models.capacity.line import Line, lines_of, merged, reach_of, refuse_unusable

cpu = st.floats(0.02, 1.0)
sample = st.tuples(cpu, st.floats(0.0, 1e6), st.floats(0.05, 3.0))
samples = st.lists(sample, min_size=2, max_size=40)


def line_of(rows):
    x, y, w = np.array(rows, dtype=float).reshape(-1, 3).T
    return Line.of(x, y, w)


def assert_same(found, other):
    for name, mine, theirs in zip(
        (f.name for f in dataclasses.fields(Line)), dataclasses.astuple(found), dataclasses.astuple(other), strict=True
    ):
        scale = {"throughput_m2": 1e12, "comoment": 1e6, "throughput_mean": 1e6}.get(name, 1.0) * max(1.0, found.weight)
        assert mine == pytest.approx(theirs, rel=1e-9, abs=1e-11 * scale), name


def ramp(slope=70_000.0, idle=0.09, low=0.1, high=0.7, n=60, noise=0.0, seed=0):
    x = np.linspace(low, high, n)
    return x, slope * (x - idle) + np.random.default_rng(seed).normal(0, noise, n)


@given(samples)
def test_equals_numpy_polyfit_of_cpu_on_throughput(rows):
    x, y, w = np.array(rows).T
    assume(np.ptp(x) > 0.05)
    assume(np.ptp(y) > 1.0)
    line = Line.of(x, y, w)
    cpu_per_record, idle = np.polyfit(y, x, 1, w=np.sqrt(w))
    assume(abs(cpu_per_record) * np.ptp(y) > 1e-3)
    assert 1.0 / line.slope == pytest.approx(cpu_per_record, rel=1e-6, abs=1e-12)
    assert line.cpu_mean - line.throughput_mean / line.slope == pytest.approx(idle, rel=1e-6, abs=1e-6)


def test_cpu_that_scatters_does_not_flatten_the_line():
    rng, promised, regressed = np.random.default_rng(5), [], []
    for _ in range(50):
        y = 70_000 * rng.uniform(0.10, 0.30, 200)
        x = 0.09 + y / 70_000 + rng.normal(0.0, 0.05, 200)
        promised.append(Line.of(x, y).fit().predict(1.0))
        slope, intercept = np.polyfit(x, y, 1)
        regressed.append(slope + intercept)
    assert np.mean(promised) == pytest.approx(70_000 * 0.91, rel=0.03)
    assert np.mean(regressed) < 0.75 * 70_000 * 0.91  # what throughput regressed on CPU would promise


@pytest.mark.parametrize("seed", range(20))
def test_the_scatter_of_an_idle_worker_promises_no_mountain(seed):
    rng = np.random.default_rng(seed)
    line = Line.of(0.10 + rng.normal(0.0, 0.02, 30), 600.0 + rng.normal(0.0, 60.0, 30))
    assert line.fit().predict(1.0) < 1.3 * 600.0 / 0.10  # the plain ratio, and a little


@given(samples, st.data())
def test_any_split_of_the_data_gives_the_same_line(rows, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=5)))
    parts = [rows[a:b] for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
    merged = Line()
    for part in parts:
        merged = merged.merge(line_of(part) if part else Line())
    assert_same(merged, line_of(rows))


@given(samples, samples, samples)
def test_merge_is_commutative_and_associative(a, b, c):
    a, b, c = line_of(a), line_of(b), line_of(c)
    assert_same(a.merge(b), b.merge(a))
    assert_same(a.merge(b).merge(c), a.merge(b.merge(c)))
    assert_same(a.merge(Line()), a)


def test_is_immutable():
    line = Line.of([0.1, 0.5], [1.0, 5.0])
    with pytest.raises(dataclasses.FrozenInstanceError):
        line.weight = 3.0
    before = dataclasses.astuple(line)
    line.merge(Line.of([0.9], [9.0]))
    assert dataclasses.astuple(line) == before


def test_ignores_what_is_not_finite():
    x, y = ramp()
    dirty_x, dirty_y = np.append(x, [np.nan, 0.5, np.inf, 0.5]), np.append(y, [1.0, np.nan, 1.0, -np.inf])
    assert_same(Line.of(dirty_x, dirty_y), Line.of(x, y))
    assert Line.of([np.nan], [1.0]) == Line()


def test_refuses_samples_that_are_not_paired():
    with pytest.raises(ValueError, match="3 CPU samples against 2 throughput samples"):
        Line.of([1, 2, 3], [1, 2])


@pytest.mark.parametrize("load", [0.3, 0.6, 0.9])
def test_steady_cpu_falls_back_to_the_idle_share_and_doubts_itself(load):
    steady = Line.of(np.full(30, load), np.full(30, 70_000 * (load - 0.09)))
    assert math.isnan(steady.slope)
    assert steady.fit().predict(1.0) == pytest.approx(70_000 * 0.91, rel=1e-3)
    x, y = ramp(low=0.1, high=1.0)
    assert steady.fit().sd(1.0) > Line.of(x, y).fit().sd(1.0)


def test_a_wide_range_of_cpu_outweighs_the_idle_share():
    x, y = ramp(idle=0.02, low=0.15, high=0.95, noise=300.0)
    line = Line.of(x, y)
    alone = line.throughput_mean + line.slope * (1.0 - line.cpu_mean)
    assert line.fit().predict(1.0) == pytest.approx(alone, rel=0.005)


def test_refuses_a_negative_slope():
    line = Line.of([0.5, 0.6, 0.7, 0.8], [60_000, 50_000, 40_000, 30_000])
    assert line.slope < 0
    fit = line.fit()
    assert fit.slope > 0
    assert fit.predict(1.0) > fit.predict(0.5) > 0


@given(st.lists(st.tuples(cpu, st.floats(0, 1e6)), min_size=1, max_size=20), st.floats(0.0, 1.0))
def test_is_usable_whatever_was_measured(rows, asked):
    line = Line.of(*np.array(rows).T)
    fit = line.fit()
    assert fit.slope >= 0
    assert 0.0 <= fit.predict(asked) < math.inf
    assert 0.0 <= fit.sd(asked) < math.inf


def test_knows_nothing_without_samples():
    with pytest.raises(ValueError, match="no CPU and throughput samples"):
        Line().fit()


def test_doubt_grows_with_distance():
    x, y = ramp(noise=500.0)
    fit = Line.of(x, y).fit()
    doubts = [fit.sd(at) for at in (0.4, 0.8, 1.0)]
    assert doubts == sorted(doubts)


@pytest.mark.parametrize("state", [[1, 2], [1, 2, 3, 4, 5, math.nan], [-1, 0, 0, 0, 0, 0], ["a"] * 6])
def test_refuses_a_foreign_state(state):
    with pytest.raises(ValueError, match=r"not the state of a line|could not convert"):
        refuse_unusable(state)


def test_several_lines_at_once_are_the_same_lines():
    """Workers are kept in arrays: their lines are made, merged and read as single ones are."""
    rng = np.random.default_rng(5)
    cpu, rates, weights = rng.uniform(0.1, 1.0, (4, 12)), rng.uniform(1.0, 1e5, (4, 12)), rng.uniform(0.1, 1.0, (4, 12))
    parts = [slice(0, 7), slice(7, 12)]
    first, second = (lines_of(cpu[:, part], rates[:, part], weights[:, part]) for part in parts)
    for k, (mine, both, reach) in enumerate(zip(first.T, merged(first, second).T, reach_of(first), strict=True)):
        one, other = (Line.of(cpu[k, part], rates[k, part], weights[k, part]) for part in parts)
        assert mine.tolist() == pytest.approx(dataclasses.astuple(one), rel=1e-12)
        assert both.tolist() == pytest.approx(dataclasses.astuple(one.merge(other)), rel=1e-12)
        assert reach == pytest.approx(one.reach, rel=1e-12)

"""The latency model by a limit of utilisation."""

import json
import math
import time

import numpy as np
import pytest

from perdix.models.latency.overload import overloaded_points
from perdix.models.latency.state import latency_from_state
from perdix.models.latency.utilisation import UtilisationLatency, UtilisationLimit
from perdix.models.profiling.profile import ProfilePoint
from tests.models.measured_profile import OVERLOADED_MS, known_job, measured_profile


@pytest.fixture(scope="module")
def model():
    return UtilisationLatency.fit(*known_job())


def test_it_finds_the_limit_and_the_latency_of_a_known_job(model):
    assert 0.85 < model.limit.now <= 0.96
    found = model.predict([2, 5, 24, 8], [10_000, 40_000, 120_000, 200_000])
    assert found.normal.tolist() == [True, True, True, False]
    truth = 500 * (1 + 0.1 * np.array([0.5 / 0.5, 0.8 / 0.2, 0.5 / 0.5]))
    assert found.latency_ms[:3] == pytest.approx(truth, rel=0.1)
    assert math.isnan(found.latency_ms[3])


def test_overloads_of_a_known_job_are_the_overloads():
    points, most = known_job()
    model = UtilisationLatency.fit(points, most)
    found, _ = overloaded_points(points, model.rates)
    assert found.tolist() == [not point.valid for point in points]


def test_latency_that_grows_as_queueing_does_is_not_overload():
    """A quick job: 20 ms, and ten times that at 90 %, all of it steady."""
    points = [
        ProfilePoint(n, u * n * 1e4, u * n * 1e4, 20 * (1 + u / (1 - u)), valid=True)
        for n in (2, 6, 12)
        for u in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    ]
    model = UtilisationLatency.fit(points, {n: n * 1e4 for n in (2, 6, 12)})
    assert model.limit.now == 1.0
    assert model.predict(6, 0.9 * 6e4).latency_ms[0] == pytest.approx(200, rel=0.05)


def test_with_only_normal_points_nothing_is_abnormal():
    """The original forces two clusters: 17 of 70 normal points are then abnormal."""
    points, most = known_job()
    normal = [point for point in points if point.valid]
    model = UtilisationLatency.fit(normal, most)
    found = model.predict([point.scale_out for point in normal], [point.rate_per_s for point in normal])
    assert found.normal.all()
    assert not model.predict([5], [60_000.0]).normal[0]  # above T_max it is overload, whatever was seen


def test_one_outlier_more_or_less_does_not_move_the_boundary():
    """The original scales by the distance of two extreme minima."""
    points, most = known_job()
    limits = [
        UtilisationLatency.fit([p for j, p in enumerate(points) if j != i], most).limit.now for i in range(len(points))
    ]
    assert max(limits) - min(limits) < 0.11  # the steps of the profile are 0.1


def test_it_does_not_memorise():
    points, most = known_job(noise=0.15)
    model = UtilisationLatency.fit(points, most)
    normal = [point for point in points if point.valid]
    found = model.predict([p.scale_out for p in normal], [p.rate_per_s for p in normal]).latency_ms
    off = np.abs(found / [p.latency_ms for p in normal] - 1)
    assert np.nanmedian(off) > 0.03


@pytest.mark.parametrize("seed", range(5))
def test_above_the_minimum_more_load_never_means_less_latency(seed):
    points, most = known_job(noise=0.3, seed=seed)
    model = UtilisationLatency.fit(points, most)
    rates = np.linspace(0, model.limit.now * float(model.rates.per_s(8)), 200)
    latency = model.predict(8, rates).latency_ms
    rising = latency[np.argmin(latency) :]
    assert (np.diff(rising) >= -1e-9).all()


def test_what_cannot_be_known_is_not_normal(model):
    found = model.predict([5, 0, 5, 5], [math.nan, 1_000.0, -1.0, math.inf])
    assert not found.normal.any()
    assert np.isnan(found.latency_ms).all()
    assert model.predict(5, 0.0).normal[0]


def test_an_overload_lowers_the_limit_step_by_step(model):
    once = model.learned(5, 0.99 * 5e4 * model.limit.now, 20_000.0)
    assert once.limit.now == pytest.approx(model.limit.now, rel=0.05)
    assert once.limit.now < model.limit.now
    lower = model
    for _ in range(60):
        lower = lower.learned(5, 35_000.0, 20_000.0)
    assert lower.limit.now == pytest.approx(0.98 * 0.7, abs=0.03)
    assert not lower.predict(8, 60_000.0).normal[0]
    assert lower.curve is model.curve


def test_an_overload_far_below_the_limit_is_hardly_believed(model):
    """A failure, or a neighbour on the same machine: it must not keep the job from scaling in."""
    assert model.learned(5, 15_000.0, 20_000.0).limit.now > 0.995 * model.limit.now


def test_normal_operation_above_raises_it_and_is_forgotten(model):
    higher = model
    for _ in range(40):
        higher = higher.learned(5, 52_000.0, 700.0)
    assert higher.limit.now > 1.0
    for _ in range(1_500):
        higher = higher.learned(5, 30_000.0, 550.0)
    assert higher.limit.now == pytest.approx(model.limit.now, abs=0.01)


def test_the_curve_follows_the_job(model):
    slower = model
    for _ in range(200):
        slower = slower.learned(5, 30_000.0, 800.0)
    assert model.predict(5, 30_000.0).latency_ms[0] == pytest.approx(575, rel=0.05)
    assert slower.predict(5, 30_000.0).latency_ms[0] > 700


def test_learning_takes_no_time_and_no_room(model):
    learned = model
    began = time.process_time()
    for k in range(300):
        learned = learned.learned(5, 20_000.0 + 50.0 * k, 560.0)
    assert (time.process_time() - began) / 300 < 0.005  # 0.2 ms on an idle machine
    assert len(json.dumps(learned.to_state())) < 4_000


def test_what_is_no_measurement_teaches_nothing(model):
    for arguments in ((0, 1.0, 1.0), (5, math.nan, 1.0), (5, 1.0, math.nan), (5, 1.0, 0.0)):
        assert model.learned(*arguments) is model


def test_the_state_is_json(model):
    learned = model.learned(5, 45_000.0, 20_000.0).learned(5, 20_000.0, 540.0)
    again = latency_from_state(json.loads(json.dumps(learned.to_state())))
    sizes, rates = np.repeat(np.arange(1, 13), 5), np.tile(np.linspace(1e3, 2e5, 5), 12)
    for name, other in zip(vars(learned.predict(sizes, rates)), vars(again.predict(sizes, rates)), strict=True):
        assert name == other
    assert again.predict(sizes, rates).latency_ms == pytest.approx(
        learned.predict(sizes, rates).latency_ms, nan_ok=True
    )
    assert again.family == "utilisation-limit"


def test_a_state_of_something_else_is_refused(model):
    for state in ({}, {"format": "x"}, {"format": model.to_state()["format"]}, [], None):
        with pytest.raises(ValueError, match="latency"):
            latency_from_state(state)
    with pytest.raises(ValueError, match="limit"):
        latency_from_state({**model.to_state(), "limit": {"profiled": 0.0, "now": 1.0}})
    with pytest.raises(ValueError, match="curve"):
        latency_from_state({**model.to_state(), "curve": {**model.curve.to_state(), "profiled": [[1.0]]}})


def test_a_profile_without_anything_to_learn_from_says_so():
    with pytest.raises(ValueError, match="profile the job anew"):
        UtilisationLatency.fit([], {2: 1e4})
    behind = [ProfilePoint(2, 1e5, 1e4, 9e4, valid=False)] * 3
    with pytest.raises(ValueError, match="at lower rates"):
        UtilisationLatency.fit(behind, {2: 1e4})


def test_without_t_max_the_highest_throughput_stands_for_it():
    points, _ = known_job()
    model = UtilisationLatency.fit(points, {})
    assert model.rates.per_s(8) == pytest.approx(80_000, rel=0.02)


def test_an_overload_costs_three_false_alarms():
    used = np.array([0.2, 0.4, 0.6, 0.8, 0.9, 1.0])
    assert UtilisationLimit.fit(used, np.array([0, 0, 1, 0, 0, 1], bool)).now == pytest.approx(0.5)
    assert UtilisationLimit.fit(used, np.zeros(6, bool)).now == 1.0
    assert UtilisationLimit.fit(used, np.ones(6, bool)).now < 0.2


@pytest.mark.shared
def test_the_measured_overloads_are_found_without_being_told(shared_data):
    points, most = measured_profile(shared_data)
    model = UtilisationLatency.fit(points, most)
    found, _ = overloaded_points(points, model.rates)
    assert found.tolist() == [point.latency_ms > OVERLOADED_MS for point in points]

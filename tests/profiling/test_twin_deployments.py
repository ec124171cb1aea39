"""Profiling against twins whose truth is known: T_max, downtime, and the same again."""

from __future__ import annotations

import numpy as np
import pytest

from perdix.models.profiling.profile import Profile
from perdix.profiling.campaign import profile
from perdix.profiling.plan import Plan
from perdix.profiling.recording import Recording
from perdix.profiling.twin_deployments import TwinDeployments
from perdix.twin.job import JobTwin
from tests.control.rig import parameters

SIZES = (2, 5, 8)
RECORDING = Recording(10_000.0 * (1.0 + 0.02 * np.random.default_rng(1).normal(size=600)))
PLAN = Plan(SIZES, first_per_s=8_000.0, step_per_s=8_000.0, settle_s=180, measure_s=60)


def profiled(seed: int = 4) -> Profile:
    return profile("orders", PLAN, TwinDeployments(parameters(), RECORDING, seed, start_s=50_000))


@pytest.fixture(scope="module")
def found() -> Profile:
    return profiled()


def test_the_highest_rates_are_the_truth_within_a_few_percent(found: Profile) -> None:
    truth = JobTwin(parameters(), 4)
    assert set(found.maximum_per_s) == set(SIZES)
    for scale_out, highest_per_s in found.maximum_per_s.items():
        assert highest_per_s == pytest.approx(truth.true_capacity(scale_out), rel=0.08)


def test_a_deployment_has_workers_and_keys_of_its_own() -> None:
    """What is profiled is not the deployment in production; a rehearsal on the same luck would know too much."""
    deployment = TwinDeployments(parameters(), RECORDING, 4).deploy(5)
    overloaded = deployment.measure(90_000.0, 60, 120)
    production = JobTwin(parameters(), 4, scale_out=5).current_capacity()
    assert abs(overloaded.throughput_per_s / production - 1.0) > 1e-3
    assert overloaded.lag_growth_per_s == pytest.approx(90_000.0 - overloaded.throughput_per_s, rel=0.05)
    assert overloaded.latency_ms > 5_000.0


def test_calm_deployments_have_the_calm_latency_of_the_twin(found: Profile) -> None:
    calm = [point.latency_ms for point in found.points if point.rate_per_s < 0.5 * 10_000.0 * point.scale_out]
    base_ms = parameters().latency.base_ms
    assert calm
    assert all(0.8 * base_ms < latency < 2.0 * base_ms for latency in calm)


def test_downtimes_are_those_of_detection_and_restart(found: Profile) -> None:
    restart = parameters().restart
    median_s = restart.failure.median_s + restart.detection.median_s
    assert len(found.downtimes_s) >= 2
    assert all(0.5 * median_s < downtime_s < 2.0 * median_s for downtime_s in found.downtimes_s)


def test_time_passes_for_a_deployment_only_while_it_is_asked_something(found: Profile) -> None:
    assert found.began_s == 50_000.0
    steps = max(sum(1 for point in found.points if point.scale_out == n) for n in SIZES)
    assert found.ended_s == pytest.approx(50_000.0 + steps * 240.0 + max(found.downtimes_s), abs=60.0)
    deployment = TwinDeployments(parameters(), RECORDING, 4, start_s=7).deploy(2)
    deployment.delete()
    deployment.delete()
    assert (deployment.scale_out, deployment.now_s) == (2, 7.0)


def test_one_that_does_not_come_back_in_time_has_no_downtime() -> None:
    deployment = TwinDeployments(parameters(), RECORDING, 4).deploy(2)
    deployment.measure(5_000.0, 10, 10)
    assert deployment.fail(3) is None


def test_the_same_seed_gives_the_same_profile_and_another_one_another(found: Profile) -> None:
    """Deployments run in threads beside each other; whose turn it is must make no difference."""
    assert repr(profiled()) == repr(found)
    assert profiled(5).maximum_per_s != found.maximum_per_s

"""Replays: the loop over hours against the twin's truth."""

import json
import time

import numpy as np
import pytest

from control.replay import ReplayResult, replay
from settings.stream_job import Objectives, PolicySettings
from tests.control.rig import HIGH, LOW, START_S, constant, parameters
from twin.job import JobTwin
from twin.workloads import arrivals_from


def wave(hours: float) -> np.ndarray:
    """A slow wave between one worker and seven, over three hours, then calm."""
    seconds = np.arange(int(3600 * hours))
    return np.asarray(LOW + (HIGH - LOW) * 0.5 * (1 - np.cos(2 * np.pi * seconds / 10_800)))


def twin(arrivals: np.ndarray, warm_s: int = 1_800) -> JobTwin:
    made = JobTwin(parameters(), 5, start_s=START_S, scale_out=4, arrivals=arrivals_from(arrivals, START_S))
    made.step(warm_s)
    return made


@pytest.fixture(scope="module")
def results() -> dict[str, ReplayResult]:
    before = constant(LOW, 0.5)
    load = np.concatenate([before, wave(3.0), constant(LOW, 0.5)])
    policies = {
        "daedalus": PolicySettings(name="daedalus"),
        "static": PolicySettings(name="static"),
        "hpa": PolicySettings(name="hpa", options={"target_cpu": 0.8}),
    }
    return {name: replay(twin(load), policy, 3.25) for name, policy in policies.items()}


def test_daedalus_ends_with_nothing_left_and_fewer_workers_than_static(results: dict[str, ReplayResult]) -> None:
    daedalus, static = results["daedalus"], results["static"]
    assert daedalus.unprocessed_records == 0
    assert daedalus.workers_mean < 0.75 * static.workers_mean
    assert static.workers_mean > 7.9
    assert daedalus.above_objective < 0.25
    assert daedalus.hours == pytest.approx(3.25)
    assert daedalus.ticks == 195


def test_beliefs_are_near_the_twins_truth(results: dict[str, ReplayResult]) -> None:
    daedalus = results["daedalus"]
    assert daedalus.capacity_error is not None
    assert daedalus.capacity_error < 0.06
    assert daedalus.capacity_error_all is not None
    assert daedalus.capacity_error_all < 0.12
    assert daedalus.first_minute_wape is not None
    assert daedalus.first_minute_wape < 0.05
    assert daedalus.forecast_wape is not None


def test_recoveries_are_predicted_observed_and_true(results: dict[str, ReplayResult]) -> None:
    known = [one for one in results["daedalus"].recoveries if one.observed_s is not None and one.true_s is not None]
    assert len(known) >= 3
    assert len(known) >= 0.7 * results["daedalus"].rescales
    errors = [abs(one.observed_s - one.true_s) for one in known]
    assert np.median(errors) <= 10.0
    assert all(one.predicted_s is not None for one in known)


def test_the_same_seed_gives_the_same_result(results: dict[str, ReplayResult]) -> None:
    load = np.concatenate([constant(LOW, 0.5), wave(3.0), constant(LOW, 0.5)])
    again = replay(twin(load), PolicySettings(name="daedalus"), 3.25)
    assert again == results["daedalus"]


def test_failures_are_survived_and_their_downtime_is_learnt() -> None:
    made = twin(constant(3 * LOW, 3.0))
    made.fail(1)
    result = replay(made, PolicySettings(name="static", options={"scale_out": 4}), 1.0)
    assert result.rescales == 0
    assert result.unprocessed_records == 0


def test_a_result_is_json(results: dict[str, ReplayResult]) -> None:
    document = json.loads(json.dumps(results["hpa"].to_dict()))
    assert document["policy"] == "hpa"
    assert "reports" not in document
    assert isinstance(document["recoveries"], list)


def test_two_hours_take_seconds() -> None:
    load = np.concatenate([constant(LOW, 0.5), wave(3.0)])
    began_s = time.perf_counter()
    replay(twin(load), PolicySettings(name="daedalus"), 2.0)
    assert time.perf_counter() - began_s < 20.0


def test_too_short_a_replay_is_refused() -> None:
    with pytest.raises(ValueError, match="do not cover one tick"):
        replay(twin(constant(LOW, 1.0)), PolicySettings(name="static"), 0.001)


def test_the_objective_counts() -> None:
    load = constant(LOW, 1.0)
    strict = replay(twin(load), PolicySettings(name="static"), 0.2, objectives=Objectives(latency_p95_ms=1.0))
    assert strict.above_objective == pytest.approx(1.0)

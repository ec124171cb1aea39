"""Sampling a running job of one worker, which commands resize and put under load."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from perdix.models.sampling.course import FixedStep
from perdix.models.sampling.rows import OperatorSamples
from perdix.profiling.live.commands import CommandError
from perdix.profiling.live.sampling import LiveSamplingInstances
from perdix.profiling.sampling import SamplingPlan, sample_operator
from perdix.profiling.sampling_instance import SamplingError
from perdix.telemetry import metrics
from tests.profiling.live_rig import GRID, MOST_PER_S, PER_CORE, OneWorker


def sampled(job: OneWorker, plan: SamplingPlan | None = None) -> OperatorSamples:
    return sample_operator("orders", FixedStep(1), GRID, LiveSamplingInstances(job.live, job.commands()), plan)


def test_each_size_is_sampled_and_the_worker_gets_its_own_back(tmp_path: Path) -> None:
    job = OneWorker(tmp_path)
    found = sampled(job)
    assert found.failed == ()
    assert found.notes == ()
    by_cores = {sample.cpu_cores: sample.per_s for sample in found.samples}
    assert set(by_cores) == {1.0, 2.0, 3.0}
    for cores, per_s in by_cores.items():
        assert per_s == pytest.approx(PER_CORE * cores, rel=0.1)
    assert job.load.rate_per_s == 0.0
    job.pause(1.0)
    assert job.sizes[-1] == "2 512"


def test_each_size_begins_with_one_hundredth_of_the_load_and_no_backlog(tmp_path: Path) -> None:
    job = OneWorker(tmp_path)
    sampled(job)
    assert job.load.rates_per_s[0] == 0.01 * MOST_PER_S
    assert job.load.rates_per_s.count(0.01 * MOST_PER_S) == 3
    assert max(job.load.rates_per_s) <= MOST_PER_S


def test_a_resize_that_fails_is_a_size_that_could_not_be_started(tmp_path: Path) -> None:
    job = OneWorker(tmp_path)
    job.resize = (sys.executable, "-c", "import sys; sys.exit('no node has so much memory')", "{cpu_cores}{memory_mb}")
    with pytest.raises(
        SamplingError, match=r"not one of \d sizes .* failed with exit code 1: no node has so much memory"
    ):
        sampled(job)
    assert job.load.rates_per_s == []


def test_several_workers_are_not_sampled_as_one(tmp_path: Path) -> None:
    job = OneWorker(tmp_path)
    job.meanwhile = lambda: None
    job.with_worker_of(PER_CORE, scale_out=4)
    with pytest.raises(SamplingError, match="the job has 4 workers; sample a job of one"):
        sampled(job)


def test_without_a_command_that_restores_nothing_is_resized(tmp_path: Path) -> None:
    job = OneWorker(tmp_path)
    with pytest.raises(ValueError, match="'resize' and 'restore'"):
        LiveSamplingInstances(job.live, job.commands().model_copy(update={"restore": None}))


def test_a_load_that_does_not_arrive_is_not_taken_for_a_worker_that_is_slow(tmp_path: Path) -> None:
    job = OneWorker(tmp_path)
    job.load.factor = 0.1
    with pytest.raises(SamplingError, match=r"60\.0 records/s arrived where the load was asked for 600\.0"):
        sampled(job)


def test_a_load_that_ends_is_named(tmp_path: Path) -> None:
    job = OneWorker(tmp_path)
    job.load.ends_at = 5_000.0
    with pytest.raises(SamplingError, match="the load ended by itself"):
        sampled(job)


def test_where_the_workload_is_not_measured_nothing_is_sampled(tmp_path: Path) -> None:
    job = OneWorker(tmp_path)
    job.without(metrics.WORKLOAD.name)
    with pytest.raises(SamplingError, match="nobody measures what arrives"):
        sampled(job)


def test_a_worker_that_works_off_nothing_is_given_up(tmp_path: Path) -> None:
    job = OneWorker(tmp_path)
    job.without(metrics.THROUGHPUT.name)
    with pytest.raises(SamplingError, match="nothing came out within 300 s"):
        sampled(job, SamplingPlan(window_s=30, most_s=300))


def test_where_no_size_was_given_there_is_nothing_to_restore(tmp_path: Path) -> None:
    job = OneWorker(tmp_path)

    def unendable() -> None:
        raise CommandError("process 7 could not be ended (Operation not permitted); end it by hand")

    job.load.stop = unendable  # type: ignore[method-assign]
    LiveSamplingInstances(job.live, job.commands()).restore()
    assert not job.file.exists()

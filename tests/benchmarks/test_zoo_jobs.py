"""Jobs of the zoo: drawn from a seed, the same whoever asks, and such that a fixed size can serve nearly all."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.zoo.contenders import STATIC_MAX, contender_of, default_policy, usual_policies
from benchmarks.zoo.jobs import CALM, KINDS, QUIET, TRACE, ZooJob, draw, kind_of
from benchmarks.zoo.traces import NoTracesError
from perdix.settings.stream_job import StreamJob
from perdix.twin.job import JobTwin
from perdix.twin.regimes import under

NOWHERE = Path("nowhere")
SEEDS = (1, 2)


def jobs(seed: int, count: int = 2 * len(KINDS), hours: float = 2.0) -> list[ZooJob]:
    """The first jobs of a seed, those of real traces left out."""
    return [draw(seed, k, hours, data=NOWHERE) for k in range(count) if kind_of(seed, k) != TRACE]


@pytest.fixture(scope="module")
def drawn() -> list[ZooJob]:
    return [job for seed in SEEDS for job in jobs(seed)]


def test_a_job_is_the_same_however_many_are_drawn() -> None:
    few, many = jobs(5, count=4), jobs(5, count=9)
    for before, after in zip(few, many, strict=False):
        assert before == after
        np.testing.assert_array_equal(before.arrivals, after.arrivals)


def test_another_seed_has_other_jobs(drawn: list[ZooJob]) -> None:
    each = len(drawn) // len(SEEDS)
    of_seeds = (drawn[:each], drawn[each:])
    ours, theirs = ({(job.maximum, job.objectives.latency_p95_ms) for job in of_one} for of_one in of_seeds)
    assert len(ours) == len(theirs) == 2 * len(KINDS) - 2
    assert not ours & theirs


def test_every_kind_is_dealt_once_before_any_comes_again() -> None:
    for seed in range(20):
        for begin in (0, len(KINDS)):
            assert sorted(kind_of(seed, begin + k) for k in range(len(KINDS))) == sorted(KINDS)
    assert len({tuple(kind_of(seed, k) for k in range(len(KINDS))) for seed in range(20)}) == 20


def test_a_clone_without_traces_draws_the_others_as_they_are(shared_data) -> None:
    for job in jobs(3, count=5):
        there = draw(3, job.number, 2.0, data=shared_data)
        assert there == job
        np.testing.assert_array_equal(there.arrivals, job.arrivals)
    trace = next(k for k in range(len(KINDS)) if kind_of(3, k) == TRACE)
    assert draw(3, trace, 2.0, data=shared_data).about.startswith("trace ")
    with pytest.raises(NoTracesError):
        draw(3, trace, 2.0, data=NOWHERE)


def test_jobs_differ_by_orders_of_magnitude(drawn: list[ZooJob]) -> None:
    speeds = np.array([job.parameters.workers.capacity_per_s for job in drawn])
    assert speeds.min() < 300
    assert speeds.max() > 30_000
    assert min(job.maximum for job in drawn) <= 5
    assert max(job.maximum for job in drawn) >= 40
    assert all(3 <= job.maximum <= 60 for job in drawn)
    assert {job.parameters.source.partitions is None for job in drawn} == {True, False}
    assert {job.parameters.keys.dealt_groups is None for job in drawn} == {True, False}


def test_the_objective_leaves_room_above_what_a_loaded_job_shows(drawn: list[ZooJob]) -> None:
    for job in drawn:
        load = 0.75 * JobTwin(job.parameters, 1).current_capacity()
        twin = JobTwin(job.parameters, 1, arrivals=lambda _, count, load=load: np.full(count, load))
        twin.step(300)
        shown = np.nanmedian(twin.history.column("latency_p95_ms")[120:])
        assert 1.5 * shown < job.objectives.latency_p95_ms < 2.5 * shown + 6_000


def test_the_load_is_what_the_kind_says(drawn: list[ZooJob]) -> None:
    for job in drawn:
        twin = JobTwin(job.parameters, job.case("daedalus").seed)
        run = job.arrivals[:7_200]
        assert (run == np.rint(run)).all()
        assert (run >= 0).all()
        if job.kind in QUIET:
            least, most = QUIET[job.kind]
            assert 0.9 * least < run.mean() / twin.true_capacity(1) < 1.15 * most
        else:
            best = max(twin.true_capacity(n) for n in range(1, job.maximum + 1))
            assert 0.15 < run.reshape(-1, 60).mean(axis=1).max() / best < 1.05


def test_metrics_have_gaps_only_where_the_kind_says_so(drawn: list[ZooJob]) -> None:
    for job in drawn:
        assert bool(job.scraping.silences) == (job.kind == "metric-gaps")


def test_the_policy_of_a_job_that_names_none_comes_first() -> None:
    assert usual_policies()[0] == default_policy() == StreamJob(name="a").policy.name
    assert contender_of("hpa-80", 5).tick_interval_s == 60
    assert contender_of("hpa-80:tick_s=15", 5).tick_interval_s == 15
    assert contender_of(STATIC_MAX, 5).settings.options == {"scale_out": 5}
    assert set(CALM) <= set(KINDS)


def test_a_regime_changes_what_rescales_cost_and_nothing_else() -> None:
    drawn, there = (draw(2, 0, 2.0, data=NOWHERE, regime=regime) for regime in (None, "in-place"))
    assert there.parameters == under(drawn.parameters, "in-place") != drawn.parameters
    assert there.objectives == drawn.objectives
    assert there.parameters.restart.failure == drawn.parameters.restart.failure
    assert np.array_equal(there.arrivals, drawn.arrivals)


def test_too_short_a_run_is_refused() -> None:
    with pytest.raises(ValueError, match="do not cover one tick of 60 s"):
        draw(1, 0, 0.01)

"""Replays of policies that need a profile: it is made before the first tick, and its cost is told."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import orjson
import pytest

from perdix.control.champions import GivenChampions
from perdix.models.latency.boosting import PublishedLatency
from perdix.models.latency.utilisation import UtilisationLatency
from perdix.models.profiling.profiled import Profiled
from perdix.replay.case import Case
from perdix.replay.contenders import contender
from perdix.replay.document import result
from perdix.replay.outcome import Played
from perdix.replay.run import fresh_twin, job_of, play
from perdix.replay.training import profiled
from perdix.settings.stream_job import Bounds
from perdix.twin.parameters import load_twin


def case(label: str, hours: float = 1.0) -> Case:
    """The advertisement job on up to 24 workers."""
    parameters = load_twin("ysb")
    return Case(
        contender(label), "ysb", parameters, 3, hours, bounds=Bounds(minimum=1, maximum=24), forecaster="damped-trend"
    )


@pytest.fixture(scope="module")
def replays() -> dict[str, Played]:
    return {label: play(case(label)) for label in ("phoebe", "twres")}


@pytest.mark.slow
@pytest.mark.parametrize("label", ["phoebe", "twres"])
def test_an_hour_is_played_on_what_the_profile_taught(label: str, replays: dict[str, Played]) -> None:
    outcome, reports = replays[label].outcome, replays[label].reports
    assert outcome.ticks == 60
    sentences = {report.sentence for report in reports}
    assert not any("not profiled" in sentence for sentence in sentences)
    assert not any(report.notes and "cannot be used" in " ".join(report.notes) for report in reports)
    assert outcome.unprocessed == 0
    assert any(report.decision is not None and report.decision.candidates for report in reports), "it did evaluate"


@pytest.mark.slow
def test_what_profiling_cost_is_told_beside_what_the_run_cost(replays: dict[str, Played]) -> None:
    outcome = replays["phoebe"].outcome
    assert outcome.profiling_worker_s is not None
    assert outcome.profiling_worker_s > 8 * 420
    assert outcome.worker_s == pytest.approx(3_600 * outcome.average_workers), "it is no part of it"
    assert result(outcome, 1.0)["profiling_worker_seconds"] == outcome.profiling_worker_s
    assert replays["twres"].outcome.profiling_worker_s == outcome.profiling_worker_s, "both profile the same"


@cache
def begun(label: str, seed: int = 3) -> Profiled:
    asked = replace(case(label), seed=seed)
    found = profiled(asked, fresh_twin(asked, job_of(asked).bounds))
    assert found is not None
    row = found.champions.rows["ysb"]
    assert (row.version, row.family) == (1, orjson.loads(row.state)["family"])
    assert found.notes == ()
    return Profiled.from_state(orjson.loads(row.state))


def test_each_contender_has_the_latency_model_that_it_is_known_for() -> None:
    assert isinstance(begun("phoebe").latency, UtilisationLatency)
    published = begun("phoebe-paper")
    assert isinstance(published.latency, PublishedLatency)
    assert published.downtime_s is not None
    assert 20.0 < published.downtime_s < 200.0


def test_t_max_is_near_the_truth_over_all_scale_outs() -> None:
    asked = case("phoebe")
    twin, highest = fresh_twin(asked, job_of(asked).bounds), begun("phoebe").highest
    off = [float(highest.per_s(n)) / twin.true_capacity(n) - 1.0 for n in range(2, 25)]
    assert max(map(abs, off)) < 0.1


def test_no_other_policy_is_profiled_nor_one_whose_champions_are_given() -> None:
    other = case("static-12", hours=0.1)
    assert profiled(other, fresh_twin(other, job_of(other).bounds)) is None
    assert play(other).outcome.profiling_worker_s is None
    given = play(case("phoebe", hours=0.1), champions=GivenChampions())
    assert given.outcome.profiling_worker_s is None
    assert "not profiled" in given.reports[-1].sentence


def test_profiles_differ_by_the_seed_and_by_nothing_else() -> None:
    assert begun("twres").to_state() == begun("phoebe").to_state()
    assert begun("twres", 4).highest != begun("twres").highest


def test_a_run_that_begins_in_a_night_without_load_is_profiled_at_a_constant_rate() -> None:
    night = np.concatenate([np.zeros(900), np.full(2_000, 1e4)])
    asked = replace(case("phoebe", hours=0.1), bounds=Bounds(minimum=1, maximum=2), arrivals=night)
    assert profiled(asked, fresh_twin(asked, job_of(asked).bounds)) is not None

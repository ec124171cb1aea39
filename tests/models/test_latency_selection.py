"""Families of latency models judged on what they had not seen, and the gate."""

import json
from dataclasses import replace

import numpy as np
import pytest

from perdix.models.latency.boosting import PublishedLatency
from perdix.models.latency.contract import LatencyPredictions
from perdix.models.latency.selection import Judgement, challenge, held_out_predictions, select_latency
from perdix.models.latency.state import latency_from_state
from perdix.models.latency.utilisation import UtilisationLatency
from perdix.models.profiling.profile import Profile
from perdix.models.profiling.tmax import HighestRates
from tests.models.measured_profile import OVERLOADED_MS, known_job, measured_profile

FALSE_ALARMS = (0, 43, 77)  # of the published model, among the points of the measured profile


def profile(**arguments) -> Profile:
    points, most = known_job(**arguments)
    return Profile("orders", tuple(points), most, worker_s=1_000.0)


@pytest.fixture(scope="module")
def trained():
    return select_latency(profile(), families=(UtilisationLatency,))


@pytest.fixture(scope="module")
def both():
    points, most = known_job()
    return select_latency(Profile("orders", tuple(p for p in points if p.scale_out in (2, 8)), most, 1_000.0))


def test_a_judgement_counts_both_kinds_of_mistakes():
    found = LatencyPredictions(np.array([10.0, 20.0, np.nan, 40.0]), np.array([True, True, False, True]))
    one = Judgement.of(found, np.array([11.0, 24.0, 30.0, 400.0]), np.array([False, False, False, True]))
    assert (one.missed, one.overloads, one.false_alarms, one.normals, one.mae_ms) == (1, 1, 1, 3, 2.5)
    assert one.balanced_error == pytest.approx((1 + 1 / 3) / 2)
    assert str(one) == "misses 1 of 1 overloads with 1 false alarms of 3"
    nothing_wrong = Judgement.of(found, np.zeros(4), np.zeros(4, bool))
    assert nothing_wrong.balanced_error == 0.25


def test_each_point_is_predicted_by_a_model_that_had_not_seen_it():
    points, most = known_job()
    seen = []

    class Memory:
        family = "memory"

        def fit(self, others, maximum_per_s, seed=0):
            seen.append((len(others), set(maximum_per_s)))
            return UtilisationLatency.fit(others, maximum_per_s, seed)

    held_out_predictions(Memory(), points, most, list(range(len(points))))
    assert seen == [(len(points) - 1, set(most))] * len(points)
    seen.clear()
    held_out_predictions(Memory(), points, most, [p.scale_out for p in points], without_their_maximum=True)
    assert [sizes for _, sizes in seen] == [set(most) - {n} for n in most]


def test_the_better_family_wins_and_says_why(both):
    assert both.winner == "utilisation-limit"
    published = next(candidate for candidate in both.candidates if candidate.family == "boosting-clusters")
    assert both.best.score < published.score
    assert "utilisation-limit has the lowest balanced error" in both.sentence
    assert set(both.best.metrics()) == set(published.metrics())
    assert next(iter(both.best.metrics())) == "balanced_error"


def test_a_profile_without_any_limit_teaches_no_highest_rate():
    """What was offered at most would be taken for all that each size can do."""
    points, _ = known_job()
    held = tuple(point for point in points if point.valid)
    with pytest.raises(ValueError, match="profile until a deployment no longer keeps up"):
        select_latency(Profile("orders", held, {}, worker_s=1_000.0), families=(UtilisationLatency,))


def test_a_family_that_cannot_be_fitted_stops_nobody():
    class Broken:
        family = "broken"

        def fit(self, points, maximum_per_s, seed=0):
            raise ValueError("no such luck")

    trained = select_latency(profile(), families=(Broken(), UtilisationLatency))
    assert trained.winner == "utilisation-limit"
    assert trained.candidates[0].error == "no such luck"
    assert trained.candidates[0].metrics()["balanced_error"] is None
    with pytest.raises(ValueError, match="broken: no such luck"):
        select_latency(profile(), families=(Broken(),))


def test_the_state_holds_what_the_policy_needs(trained):
    state = json.loads(json.dumps(trained.to_state()))
    assert latency_from_state(state).family == "utilisation-limit"
    assert HighestRates.from_state(state["highest_rates"]).per_s(3) == pytest.approx(30_000, rel=0.01)
    assert state["profile"] == trained.digest


def test_the_first_model_is_champion(trained):
    verdict = challenge(None, None, trained)
    assert verdict.promoted
    assert "is the first champion" in verdict.sentence


def test_the_same_family_on_the_same_profile_changes_nothing(trained):
    assert not challenge(trained.model, trained.digest, trained).promoted


def test_a_champion_that_memorised_the_profile_is_judged_by_what_it_had_not_seen(both):
    verdict = challenge(PublishedLatency.fit(both.points, {}), both.digest, both)
    assert verdict.promoted
    assert "boosting-clusters" in verdict.sentence


def test_a_champion_of_a_slower_job_gives_way_to_a_new_profile(trained):
    slower, most = known_job(per_worker=6_000.0)
    verdict = challenge(UtilisationLatency.fit(slower, most), "another", trained)
    assert verdict.promoted
    assert verdict.champion_error > 5.0 * verdict.challenger_error


def test_a_champion_that_calls_no_load_normal_has_no_error_of_latency_to_speak_of(trained):
    slower, most = known_job(per_worker=100.0)
    verdict = challenge(UtilisationLatency.fit(slower, most), "another", trained)
    assert verdict.promoted
    assert "nan" not in verdict.sentence


def test_a_champion_that_is_as_good_stays(trained):
    points, most = known_job(noise=0.0)
    assert not challenge(UtilisationLatency.fit(points, most), "another", trained).promoted


def test_a_profile_of_one_scale_out_is_judged_on_points_alone():
    points, most = known_job()
    one = Profile("orders", tuple(p for p in points if p.scale_out == 5), {5: most[5]}, 1.0)
    trained = select_latency(one, families=(UtilisationLatency,))
    assert trained.best.scale_out_out is None
    assert trained.best.one_out is not None
    assert np.isnan([errors.mape for errors in trained.rates_errors.values()]).all()


def test_a_profile_without_points_says_so():
    with pytest.raises(ValueError, match="profile the job anew"):
        select_latency(replace(profile(), points=()))


@pytest.mark.shared
def test_on_the_measured_profile_one_overload_is_missed_with_two_false_alarms(shared_data):
    points, most = measured_profile(shared_data)
    trained = select_latency(Profile("cars", tuple(points), most, 0.0), families=(UtilisationLatency,))
    assert trained.overloaded.tolist() == [point.latency_ms > OVERLOADED_MS for point in points]
    for judged in (trained.best.one_out, trained.best.scale_out_out):
        assert judged is not None
        assert (judged.overloads, judged.normals) == (9, 70)
        assert judged.missed <= 1
        assert judged.false_alarms <= 2
        assert judged.mae_ms < 80


@pytest.mark.shared
@pytest.mark.slow
def test_the_published_model_memorises_the_measured_profile(shared_data):
    points, most = measured_profile(shared_data)
    model = PublishedLatency.fit(points, most)
    found = model.predict([p.scale_out for p in points], [p.throughput_per_s for p in points])
    truth = np.array([point.latency_ms for point in points])
    assert np.abs(found.latency_ms / truth - 1).max() < 1e-5
    numbers, overloaded = np.arange(len(points)), truth > OVERLOADED_MS
    alone = overloaded | np.isin(numbers, FALSE_ALARMS) | (numbers % 7 == 0)  # all of them take a quarter of a minute
    left_out = held_out_predictions(PublishedLatency, points, most, np.where(alone, numbers, -1).tolist())
    found = LatencyPredictions(left_out.latency_ms[alone], left_out.normal[alone])
    judged = Judgement.of(found, truth[alone], overloaded[alone])
    assert (judged.missed, judged.false_alarms) == (7, 3)

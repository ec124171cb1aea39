"""The latency model as published, with what is wrong with it."""

import json

import numpy as np
import pytest

from perdix.models.latency.boosting import Clusters, PublishedLatency
from perdix.models.latency.state import latency_from_state
from perdix.models.profiling.profile import ProfilePoint
from tests.models.measured_profile import OVERLOADED_MS, known_job, measured_profile


@pytest.fixture(scope="module")
def fitted():
    points, most = known_job()
    return points, PublishedLatency.fit(points, most)


def test_it_memorises(fitted):
    points, model = fitted
    found = model.predict([p.scale_out for p in points], [p.throughput_per_s for p in points])
    twice = {(p.scale_out, p.throughput_per_s) for p in points}
    assert len(twice) < len(points)  # several latencies at full throughput: there it must average
    alone = [i for i, p in enumerate(points) if p.valid]
    assert found.latency_ms[alone] == pytest.approx([points[i].latency_ms for i in alone], rel=0.02)


def test_what_is_far_above_is_another_cluster(fitted):
    _, model = fitted
    found = model.predict([8, 8], [30_000.0, 80_000.0])
    assert found.normal.tolist() == [True, False]


def test_two_clusters_are_found_where_there_is_one():
    """The defect that the published model keeps: normal latencies alone are parted, too."""
    latencies = np.random.default_rng(0).normal(1_000.0, 100.0, 70)
    assert not Clusters.of(latencies).normal(latencies).all()


def test_latencies_that_are_all_alike_are_normal():
    alike = np.full(10, 500.0)
    assert Clusters.of(alike).normal(alike).all()


def test_learning_appends_a_point_and_the_state_is_the_points(fitted):
    _, model = fitted
    learned = model.learned(8, 65_000.0, 9_000.0)
    assert len(learned.points) == len(model.points) + 1
    assert learned.predict(8, 65_000.0).latency_ms[0] == pytest.approx(9_000.0, rel=0.02)
    assert model.learned(0, 1.0, 1.0) is model
    again = latency_from_state(json.loads(json.dumps(model.to_state())))
    asked = np.repeat([2, 5, 24], 3), np.tile([1e4, 3e4, 9e4], 3)
    assert again.predict(*asked).latency_ms.tolist() == model.predict(*asked).latency_ms.tolist()
    assert again.family == "boosting-clusters"


def test_a_rate_that_is_not_known_is_not_normal(fitted):
    found = fitted[1].predict([5, 5], [np.nan, 20_000.0])
    assert not found.normal[0]
    assert np.isnan(found.latency_ms).tolist() == [True, False]


def test_a_state_without_points_is_refused(fitted):
    state = fitted[1].to_state()
    for broken in ({**state, "points": []}, {**state, "points": [[1, 2]]}, {"format": state["format"]}):
        with pytest.raises(ValueError, match=r"latency|points"):
            latency_from_state(broken)
    with pytest.raises(ValueError, match="two points"):
        PublishedLatency.fit([ProfilePoint(2, 1.0, 1.0, 1.0, valid=True)], {})


@pytest.mark.shared
def test_clusters_of_the_measured_latencies(shared_data):
    points, _ = measured_profile(shared_data)
    latencies = np.array([point.latency_ms for point in points])
    normal = Clusters.of(latencies).normal(latencies)
    assert normal.tolist() == (latencies <= OVERLOADED_MS).tolist()
    alone = latencies[normal]
    assert np.count_nonzero(~Clusters.of(alone).normal(alone)) == 17

"""Whatever a profile holds, the model is fitted or says why not; what it calls normal has a latency."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdix.models.latency.boosting import Clusters
from perdix.models.latency.state import latency_from_state
from perdix.models.latency.utilisation import UtilisationLatency
from perdix.models.profiling.profile import ProfilePoint
from perdix.models.profiling.tmax import FAMILIES, HighestRates

rates = st.one_of(st.floats(0.0, 1e7), st.just(float("nan")), st.just(float("inf")))
points = st.lists(
    st.builds(
        ProfilePoint,
        scale_out=st.integers(1, 64),
        rate_per_s=rates,
        throughput_per_s=rates,
        latency_ms=st.one_of(st.floats(0.0, 1e8), st.just(float("nan"))),
        valid=st.booleans(),
    ),
    max_size=25,
)
most = st.dictionaries(st.integers(1, 64), st.one_of(st.floats(-1.0, 1e7), st.just(float("nan"))), max_size=6)


@settings(max_examples=150, deadline=None)
@given(points=points, most=most, seen=st.lists(st.tuples(st.integers(0, 64), rates, rates), max_size=5))
def test_any_profile(points, most, seen):
    try:
        model = UtilisationLatency.fit(points, most)
    except ValueError:
        return
    for scale_out, rate, latency in seen:
        model = model.learned(scale_out, rate, latency)
    again = latency_from_state(json.loads(json.dumps(model.to_state(), allow_nan=False)))
    sizes, offered = np.repeat([1, 7, 64], 4), np.tile([0.0, 1e3, 1e6, 1e9], 3)
    found = again.predict(sizes, offered)
    assert np.isfinite(found.latency_ms[found.normal]).all()
    assert (found.latency_ms[found.normal] >= 0.0).all()
    assert np.isnan(found.latency_ms[~found.normal]).all()


@settings(max_examples=100, deadline=None)
@given(most=most, family=st.sampled_from([*FAMILIES[1:], None]))
def test_any_highest_rates(most, family):
    try:
        found = HighestRates.fit(most, family).per_s(np.arange(1, 65))
    except ValueError:
        return
    assert np.isfinite(found).all()
    assert (found >= 0.0).all()


@pytest.mark.parametrize("count", [1, 2, 3, 40])
def test_any_number_of_latencies_is_clustered(count):
    latencies = 100.0 * 2.0 ** np.arange(count)
    normal = Clusters.of(latencies).normal(latencies)
    assert normal[0]

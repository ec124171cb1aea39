"""What a job shows of itself: noise that persists for seconds, CPU, latency."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdix.twin.observables import FLICKER_S, Flicker, Observables


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 70), min_size=1, max_size=12), st.integers(1, 4), st.integers(0, 99))
def test_noise_is_the_same_however_time_is_cut(pieces, width, seed):
    whole, cut = (Flicker(np.random.default_rng(seed), width) for _ in range(2))
    together = [cut.draw(piece) for piece in pieces]
    np.testing.assert_array_equal(whole.draw(sum(pieces)), np.vstack(together))


def test_noise_has_variance_one_and_persists_for_ten_seconds():
    noise = Flicker(np.random.default_rng(0), 8).draw(100_000)
    assert noise.std() == pytest.approx(1.0, rel=0.02)

    def correlation(lag):
        return np.mean([np.corrcoef(column[lag:], column[:-lag])[0, 1] for column in noise.T])

    assert correlation(1) == pytest.approx(1 - 1 / FLICKER_S, abs=0.02)
    assert correlation(FLICKER_S) == pytest.approx(0.0, abs=0.02)


def test_minute_means_keep_what_was_measured_of_it():
    # measured, 12 workers, minute means every 15 s: .69, .44, .21, -.04
    noise = Flicker(np.random.default_rng(1), 12).draw(60_000)
    means = np.array([noise[second - 60 : second].mean(axis=0) for second in range(60, 60_000, 15)])
    measured = [0.69, 0.44, 0.21, -0.04]
    for lag, expected in enumerate(measured, start=1):
        found = np.mean([np.corrcoef(column[lag:], column[:-lag])[0, 1] for column in means.T])
        assert found == pytest.approx(expected, abs=0.12)


def test_cpu_is_one_at_full_capacity_and_idle_at_rest(parameters):
    observables = Observables(parameters(cpu={"idle": 0.1, "noise": 0.0}), seed=1)
    shares, capacities = np.array([0.6, 0.4]), np.array([900.0, 900.0])
    records, cpu = observables.workers(np.array([0.0, 750.0, 1_500.0]), np.ones(3), shares, capacities)
    assert cpu[:, 0].tolist() == pytest.approx([0.1, 0.55, 1.0])
    assert cpu[:, 1] == pytest.approx(0.1 + 0.9 * records[:, 1] / 900.0)
    assert np.isnan(cpu[:, 2:]).all()


def test_latency_is_highest_when_there_is_least_to_do_and_when_there_is_most(parameters):
    latency = {"fill_records": 400.0, "fill_at_most_ms": 5_000.0, "queueing": 0.05}
    observables = Observables(parameters(latency=latency), seed=1)
    processed = np.array([0.0, 20.0, 200.0, 1_000.0, 1_700.0, 1_990.0])
    p95_ms = observables.latency_p95_ms(processed, np.full(6, 2_000.0), np.zeros(6), scale_out=2)
    assert np.isnan(p95_ms[0])  # nothing comes out
    assert p95_ms[1] == pytest.approx(100 * (1 + 0.05 * 0.01 / 0.99) + 5_000, rel=1e-3)  # the time-out
    assert (np.diff(p95_ms[1:4]) < 0).all()
    assert p95_ms[5] > p95_ms[4]


@pytest.mark.parametrize("scale_out", [1, 2, 6])
def test_shuffling_bends_the_cpu_of_workers_among_others_only(parameters, scale_out):
    def mean_cpu(shuffling):
        observables = Observables(parameters(cpu={"idle": 0.1, "noise": 0.0, "shuffling": shuffling}), seed=1)
        shares, capacities = np.full(scale_out, 1 / scale_out), np.full(scale_out, 1_000.0)
        _, cpu = observables.workers(np.array([500.0, 1_000.0]) * scale_out, np.ones(2), shares, capacities)
        return np.nanmean(cpu, axis=1)

    bent, straight = mean_cpu(0.8), mean_cpu(0.0)
    assert bent[0] - straight[0] == pytest.approx(0.9 * 0.8 * (1 - 1 / scale_out) * 0.25)
    assert bent[1] == pytest.approx(straight[1]) == pytest.approx(1.0)

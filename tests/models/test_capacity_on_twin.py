"""Capacity learnt online from a twin whose truth is known: skew redrawn at each rescale, sub-linear scaling, noise."""

import numpy as np
import pytest

from perdix.models.capacity.pairing import trailing_mean
from perdix.models.capacity.scale_outs import ScaleOuts
from perdix.telemetry.window import Window
from perdix.twin.job import JobTwin
from perdix.twin.parameters import TwinParameters

PARAMETERS = TwinParameters.model_validate(
    {
        "name": "orders",
        "workers": {"capacity_per_s": 20_000, "maximum": 12, "speed_spread": 0.08, "contention": 0.02},
        "keys": {"skew_spread": 0.10},
        "workload": {"shape": "daily", "peak_utilisation": 0.8, "low": 0.2, "period_s": 7_200},
    }
)


def window(twin, window_s=180, step_s=5):
    """What the loop would be handed: CPU as the mean of the last minute, throughput of the moment."""
    history, now = twin.history, twin.now_s
    start = max(history.start_s, now - window_s - 60)
    columns = {
        name: history.column(name, start)[: now - start]
        for name in ("worker_cpu", "worker_processed", "uptime_s", "scale_out")
    }
    kept = slice(-window_s, None, step_s)
    job = {name: columns[name][kept] for name in ("uptime_s", "scale_out")}
    workers = {
        "cpu_load": trailing_mean(columns["worker_cpu"], 60)[kept],
        "throughput_per_s": columns["worker_processed"][kept],
    }
    times = np.arange(start, now, dtype=float)[kept]
    names = tuple(f"w{index}" for index in range(columns["worker_cpu"].shape[1]))
    return Window("orders", float(step_s), times, names, job, workers)


@pytest.fixture(scope="module", params=[1, 2])
def lived(request):
    """Three hours under changing scale-outs, and what was believed at the end of each stay."""
    twin, model, beliefs = JobTwin(PARAMETERS, request.param, scale_out=8), ScaleOuts(), []
    for scale_out in (8, 11, 7, 9, 12, 8):
        twin.rescale(scale_out, f"{len(beliefs)}")
        for _ in range(30):
            twin.step(60)
            if twin.settled:
                model = model.update(window(twin), twin.scale_out)
        beliefs.append((model.capacity(scale_out), twin.current_capacity(), model))
    return twin, model, beliefs


def test_the_current_stay_is_known_within_minutes(lived):
    _, _, beliefs = lived
    errors = [abs(estimate.per_s / truth - 1) for estimate, truth, _ in beliefs]
    assert np.median(errors) < 0.03
    held = [estimate.low_per_s <= truth <= estimate.high_per_s for estimate, truth, _ in beliefs]
    assert sum(held) >= 5


def test_other_scale_outs_are_expected_within_their_intervals(lived):
    twin, model, _ = lived
    table = model.table(12)
    errors = [abs(table[n].per_s / twin.true_capacity(n) - 1) for n in range(4, 13)]
    assert np.mean(errors) < 0.10
    held = [table[n].low_per_s <= twin.true_capacity(n) <= table[n].high_per_s for n in range(4, 13)]
    assert np.mean(held) >= 0.75


def test_seen_scale_outs_are_told_from_others(lived):
    _, model, _ = lived
    assert {n for n, estimate in model.table(12).items() if estimate.seen} == {7, 8, 9, 11, 12}

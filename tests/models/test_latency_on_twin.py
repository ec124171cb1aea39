"""A twin is profiled as the paper profiles a job, and the model is asked about scale-outs and rates it was not."""

import numpy as np

from perdix.models.latency.utilisation import UtilisationLatency
from perdix.models.profiling.profile import ProfilePoint, valid_deployments
from perdix.twin.job import JobTwin
from perdix.twin.parameters import load_twin
from perdix.twin.workloads import arrivals_from

SIZES = (2, 5, 8, 12)


def measured(scale_out: int, rate_per_s: float, seed: int) -> tuple[float, float, float]:
    """Return throughput, latency and true capacity of a fresh deployment: 120 s after 300 s of settling."""
    arrivals = arrivals_from(np.full(420, rate_per_s), 0)
    twin = JobTwin(load_twin("wordcount"), seed, scale_out=scale_out, arrivals=arrivals)
    twin.step(420)
    throughput, latency = (twin.history.column(name, 300) for name in ("processed", "latency_p95_ms"))
    return float(throughput.mean()), float(np.nanmean(latency)), twin.current_capacity()


def test_a_profiled_twin_is_predicted_where_it_was_not_profiled():
    step = measured(SIZES[-1], 1e8, 0)[0] / 12
    points, active, k = [], set(SIZES), 0
    while active and k < 16:
        k += 1
        found = {n: measured(n, k * step, 100 * k + n) for n in active}
        valid = valid_deployments(
            {n: figures[1] for n, figures in found.items()},
            k * step,
            points,
            throughputs_per_s={n: figures[0] for n, figures in found.items()},
        )
        points += [ProfilePoint(n, k * step, *found[n][:2], valid[n]) for n in sorted(active)]
        active = {n for n in active if valid[n]}
    assert not active, "every deployment reaches its T_max"
    model = UtilisationLatency.fit(points, {n: measured(n, 1e8, 7 + n)[0] for n in SIZES})
    assert 0.7 < model.limit.now < 1.0
    chance = np.random.default_rng(5)
    missed, off = 0, []
    for seed in range(20):
        n = int(chance.choice([3, 4, 6, 7, 10, 11]))
        rate = float(chance.uniform(0.2, 1.2) * model.rates.per_s(n))
        _, latency, capacity = measured(n, rate, 9_000 + seed)
        said = model.predict(n, rate)
        missed += bool(said.normal[0] and rate > capacity)
        if said.normal[0] and rate < 0.9 * capacity:
            off.append(abs(float(said.latency_ms[0]) / latency - 1.0))
        if rate < 0.65 * capacity:
            assert said.normal[0]
    assert missed <= 1
    assert np.median(off) < 0.05

from __future__ import annotations

import numpy as np
import pytest

from models.forecasting.contract import Workload
from models.forecasting.errors import coverage
from models.forecasting.families import DampedTrend, LastValue
from models.forecasting.spread import Spread, measure
from models.forecasting.tail import Tail


def walk(count: int, seed: int, step_s: float = 10.0) -> Workload:
    rng = np.random.default_rng(seed)
    return Workload(0.0, step_s, 50_000.0 + np.cumsum(rng.normal(0.0, 150.0, count)))


def test_the_upper_quantile_of_a_random_walk_covers_what_it_promises():
    shares = []
    for seed in range(40):
        whole = walk(1440 + 90, seed)
        forecaster = LastValue.fit(Workload(0.0, 10.0, whole.per_s[:1440]))
        shares.append(coverage(whole.per_s[1440:], forecaster.forecast(900, 10.0).quantiles[0.9]))
    assert 0.75 <= np.mean(shares) <= 0.98  # 40 walks, each of one path: a standard error of about 4 %


def test_offsets_grow_with_the_lead_and_the_probability():
    spread = DampedTrend.fit(walk(720, 1)).spread
    assert (np.diff(spread.offsets[1:], axis=1) >= 0.0).all()
    assert (np.diff(spread.offsets, axis=0) >= 0.0).all()


def test_beyond_the_measured_leads_the_spread_goes_on_growing():
    spread = Spread(np.array([30.0, 870.0]), np.array([[0.0, 0.0], [10.0, 20.0], [10.0, 30.0]]))
    upper = spread.around(np.full(2, 100.0), np.array([870.0, 4 * 870.0]))[0.9]
    assert upper.tolist() == pytest.approx([120.0, 140.0])


def test_quantiles_are_never_negative():
    spread = Spread(np.array([30.0]), np.array([[-20.0], [1.0], [2.0]]))
    assert spread.around(np.full(1, 10.0), np.array([30.0]))[0.5].tolist() == [0.0]


def test_a_short_history_falls_back_on_a_random_walk():
    spread = LastValue.fit(walk(4, 0)).spread
    assert (spread.offsets[0] == 0.0).all()
    assert (np.diff(spread.offsets[1]) > 0.0).all()


def test_only_what_came_before_an_origin_reaches_the_projection():
    history = Tail.of(walk(300, 3), 1.0)
    seen: list[float] = []

    def project(tail: Tail, edges_s: np.ndarray) -> np.ndarray:
        seen.append(tail.end_s + edges_s[1])
        assert len(tail.per_s) * tail.cell_s + tail.start_s <= tail.end_s + 1e-9
        return np.full(len(edges_s) - 1, tail.per_s[-1])

    measure(project, history, 300.0)
    assert len(seen) >= 50
    assert max(seen) <= history.end_s + 1e-6

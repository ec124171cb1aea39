from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

from models.forecasting.backtest import backtest, backtest_fitted, spaced_origins
from models.forecasting.contract import Workload
from models.forecasting.families import FAMILIES, AutoArima, DampedTrend, LastValue, Linear

QUICK = [LastValue, Linear, DampedTrend]


def trace(seed: int = 0, count: int = 720, step_s: float = 10.0) -> Workload:
    rng = np.random.default_rng(seed)
    at_s = step_s * np.arange(count)
    rates = 30_000 + 10_000 * np.sin(2 * np.pi * at_s / 3600) + rng.normal(0, 150, count)
    return Workload(1_700_000_000.0, step_s, rates)


def test_origins_are_on_the_grid_and_leave_a_whole_truth():
    history = trace()
    origins_s = spaced_origins(history, 10, history.start_s + 1800)
    assert len(origins_s) == 10
    assert origins_s[0] == history.start_s + 1800
    assert origins_s[-1] == history.end_s - 900
    assert np.allclose((origins_s - history.start_s) % history.step_s, 0.0)
    assert len(spaced_origins(history, 10, history.end_s)) == 0
    assert len(spaced_origins(Workload(0.0, 60.0, np.ones(16)), 10, 0.0)) == 1


@pytest.mark.parametrize("family", [*QUICK, AutoArima])
def test_a_poisoned_future_changes_no_forecast_made_before_it(family):
    history = trace(count=360)
    origins_s = spaced_origins(history, 5, history.start_s + 1200)
    poisoned = history.per_s.copy()
    third = round((origins_s[2] - history.start_s) / history.step_s)
    poisoned[third:] = 1e9
    clean = backtest(family, history, origins_s=origins_s, refit_every=3)
    spoilt = backtest(family, Workload(history.start_s, 10.0, poisoned), origins_s=origins_s, refit_every=3)
    assert np.array_equal(clean.forecast[:3], spoilt.forecast[:3])
    assert np.array_equal(clean.upper[:3], spoilt.upper[:3])
    assert not np.array_equal(clean.forecast[3:], spoilt.forecast[3:])


@pytest.mark.parametrize("family", QUICK)
def test_the_same_history_gives_the_same_backtest(family):
    first, second = (
        backtest(family, trace(), origins_s=spaced_origins(trace(), 8, trace().start_s + 3600), seed=1)
        for _ in range(2)
    )
    assert np.array_equal(first.forecast, second.forecast)
    assert first.wape() == second.wape()


def test_the_errors_of_the_last_value_are_those_computed_by_hand():
    history = trace()
    origins_s = spaced_origins(history, 5, history.start_s + 1800)
    made = backtest(LastValue, history, origins_s=origins_s)
    missed, total, maxima = 0.0, 0.0, []
    for origin_s in origins_s:
        end = round((origin_s - history.start_s) / 10)
        truth, last = history.per_s[end : end + 90], history.per_s[end - 1]
        missed, total = missed + np.abs(truth - last).sum(), total + truth.sum()
        maxima.append((last - truth.max()) / truth.max())
    assert made.wape() == pytest.approx(missed / total)
    assert np.allclose(made.errors_of_maximum(), maxima)
    assert made.wape(60) < made.wape(300) < made.wape(900)
    assert made.evidence == 5


def test_a_row_is_flat_and_complete():
    clock = itertools.count()
    history = trace()
    made = backtest(
        Linear, history, origins_s=spaced_origins(history, 4, history.start_s + 900), timer=lambda: float(next(clock))
    )
    row = made.to_row()
    assert (row["fit_s"], row["update_s"], row["forecast_s"]) == (1.0, 1.0, 1.0)
    assert 0 < row["state_bytes"] < 100_000
    assert 0.0 <= row["coverage_p90"] <= 1.0
    assert {"wape_60s", "wape_300s", "wape_900s", "maximum_under_forecast_rate"} <= set(row)
    json.dumps(row)


def test_missing_truth_is_left_out_and_counted():
    history = trace()
    holed = history.per_s.copy()
    holed[400:520] = np.nan
    made = backtest(
        LastValue,
        Workload(history.start_s, 10.0, holed),
        origins_s=[history.start_s + 3000, history.start_s + 4000, history.start_s + 6000],
    )
    assert made.evidence == 2
    assert np.isfinite(made.wape())
    assert np.isnan(made.wape_by_origin()[1])


def test_truth_beyond_the_history_is_missing_not_invented():
    history = trace()
    made = backtest(LastValue, history, origins_s=[history.end_s - 100])
    assert np.isfinite(made.actual).sum() == 10


def test_no_origin_is_refused():
    with pytest.raises(ValueError, match="no origin"):
        backtest(LastValue, trace(), origins_s=[])
    with pytest.raises(ValueError, match="no origin"):
        backtest_fitted(LastValue.fit(trace()), trace(), origins_s=[0.0])


def test_a_fitted_one_is_judged_as_it_is_and_flagged_when_it_had_seen_the_truth():
    history = trace()
    early = Workload(history.start_s, 10.0, history.per_s[:300])
    origins_s = spaced_origins(history, 5, early.end_s)
    frozen = DampedTrend.fit(early)
    judged = backtest_fitted(frozen, history, origins_s=origins_s)
    assert not judged.in_sample
    assert np.array_equal(judged.forecast, backtest(DampedTrend, history, origins_s=origins_s).forecast)
    assert backtest_fitted(DampedTrend.fit(history), history, origins_s=origins_s).in_sample


def test_every_family_has_a_name_of_its_own():
    assert all(name == family.family for name, family in FAMILIES.items())

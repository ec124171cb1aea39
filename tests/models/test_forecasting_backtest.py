from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

from perdix.models.forecasting.backtest import backtest, backtest_fitted
from perdix.models.forecasting.contract import Workload
from perdix.models.forecasting.families import ENSEMBLE, FAMILIES, DampedTrend, LastValue, Linear
from perdix.models.forecasting.forecaster import Forecaster
from perdix.models.forecasting.origins import Stops

QUICK = {family.family: family for family in (LastValue, Linear, DampedTrend)}


class Moody(LastValue):
    """A family that cannot forecast from a level above 35,000 records/s."""

    family = "moody"

    def project(self, tail, edges_s):
        if tail.newest_per_s > 35_000:
            raise ValueError("too high for me")
        return super().project(tail, edges_s)


def trace(seed: int = 0, count: int = 720, step_s: float = 10.0) -> Workload:
    rng = np.random.default_rng(seed)
    at_s = step_s * np.arange(count)
    rates = 30_000 + 10_000 * np.sin(2 * np.pi * at_s / 3600) + rng.normal(0, 150, count)
    return Workload(1_700_000_000.0, step_s, rates)


def spaced_origins(history, count, first_s):
    """``count`` origins on the history's grid, from ``first_s`` to 15 minutes before its end."""
    first, last = (round((at_s - history.start_s) / history.step_s) for at_s in (first_s, history.end_s - 900))
    return history.start_s + history.step_s * np.linspace(first, last, count).astype(int)


def alone(family, history, **options):
    return backtest({family.family: family}, history, **options).backtests[family.family]


def test_one_drive_judges_every_member_as_if_it_had_been_alone():
    history = trace()
    origins_s = spaced_origins(history, 8, history.start_s + 2400)
    together = backtest(QUICK, history, stops=Stops.at(origins_s), refit_every=3)
    assert set(together.backtests) == {*QUICK, ENSEMBLE}
    for family in QUICK.values():
        lonely = alone(family, history, stops=Stops.at(origins_s), refit_every=3)
        shared = together.backtests[family.family]
        for values in ("forecast", "upper", "upper_p95", "highest", "actual"):
            assert np.array_equal(getattr(shared, values), getattr(lonely, values))


def test_the_ensemble_is_judged_on_what_a_forecaster_driven_by_hand_says():
    history = trace()
    origins_s = spaced_origins(history, 6, history.start_s + 2400)
    judged = backtest(QUICK, history, stops=Stops.at(origins_s)).backtests[ENSEMBLE]
    ends = np.round((origins_s - history.start_s) / history.step_s).astype(int)
    driven = Forecaster.unproven(history.part(0, int(ends[0])), QUICK)
    for row, (end, before) in enumerate(zip(ends, [ends[0], *ends[:-1]], strict=True)):
        driven = driven.update(history.part(int(before), int(end)))
        forecast = driven.forecast(900, 10.0)
        assert np.array_equal(judged.forecast[row], forecast.mean)
        assert np.array_equal(judged.upper[row], forecast.quantiles[0.9])
        assert np.array_equal(judged.upper_p95[row], forecast.quantiles[0.95])
        assert np.array_equal(judged.highest[row], forecast.maxima[0.9])


def test_a_new_fit_keeps_the_record():
    history = trace()
    origins_s = spaced_origins(history, 12, history.start_s + 2400)
    walk = backtest(QUICK, history, stops=Stops.at(origins_s), refit_every=4)
    expected = origins_s[1:]  # the first origin is where they were fitted: nothing was new
    assert np.allclose(walk.forecaster.record.origins_s, expected[np.diff(origins_s) >= 60.0])


def test_origins_that_are_not_scored_fill_the_record_only():
    history = trace()
    origins_s = spaced_origins(history, 12, history.start_s + 2400)
    scored = np.arange(12) >= 8
    walk = backtest(QUICK, history, stops=Stops.at(origins_s, scored))
    whole = backtest(QUICK, history, stops=Stops.at(origins_s))
    for name, judged in walk.backtests.items():
        assert np.array_equal(judged.origins_s, origins_s[8:])
        assert np.array_equal(judged.forecast, whole.backtests[name].forecast[8:])
    assert len(walk.forecaster.record) > 8
    with pytest.raises(ValueError, match="2 marks for 12 origins"):
        backtest(QUICK, history, stops=Stops.at(origins_s, [True, False]))


@pytest.mark.parametrize("family", list(QUICK.values()))
def test_the_same_history_gives_the_same_backtest(family):
    first, second = (
        alone(family, trace(), stops=Stops.at(spaced_origins(trace(), 8, trace().start_s + 3600)), seed=1)
        for _ in range(2)
    )
    assert np.array_equal(first.forecast, second.forecast)
    assert first.score == second.score


def test_the_errors_of_the_last_value_are_those_computed_by_hand():
    history = trace()
    origins_s = spaced_origins(history, 5, history.start_s + 1800)
    made = alone(LastValue, history, stops=Stops.at(origins_s))
    missed, total, maxima, sooner = 0.0, 0.0, [], []
    for origin_s in origins_s:
        end = round((origin_s - history.start_s) / 10)
        truth, last = history.per_s[end : end + 90], history.per_s[end - 1]
        missed, total = missed + np.abs(truth - last).sum(), total + truth.sum()
        maxima.append((last - truth.max()) / truth.max())
        sooner.append((last - truth[:60].max()) / truth[:60].max())
    assert made.wape() == pytest.approx(missed / total)
    assert np.allclose(made.errors_of_maximum(), maxima)
    assert np.allclose(made.errors_of_maximum(600), sooner)
    assert made.wape(60) < made.wape(300) < made.wape(900)
    assert made.evidence == 5
    row = made.to_row()
    assert row["maximum_bias"] == pytest.approx(np.mean(maxima))
    assert row["recovery_maximum_bias"] == pytest.approx(np.mean(sooner))
    assert row["maximum_under_forecast_rate"] == np.mean(np.array(maxima) < -0.1)


def test_the_calibrated_maximum_is_judged_against_the_highest_measured_rate():
    history = trace()
    made = alone(Linear, history, stops=Stops.at(spaced_origins(history, 12, history.start_s + 3600)))
    errors = made.highest[:, -1] / made.actual.max(axis=1) - 1.0
    row = made.to_row()
    assert row["maximum_p90_over_provision"] == pytest.approx(errors.mean())
    assert row["maximum_p90_under_forecast_rate"] == np.mean(errors < -0.1)
    assert made.maximum_loss == pytest.approx(np.maximum(-0.9 * errors, 0.1 * errors).mean())
    assert made.score == made.wape() + made.maximum_loss


def test_a_row_is_flat_and_complete():
    clock = itertools.count()
    history = trace()
    made = alone(
        Linear,
        history,
        stops=Stops.at(spaced_origins(history, 4, history.start_s + 900)),
        timer=lambda: float(next(clock)),
    )
    row = made.to_row()
    assert (row["fit_s"], row["update_s"], row["forecast_s"]) == (1.0, 1.0, 1.0)
    assert 0 < row["state_bytes"] < 100_000
    for metric in ("wape_60s", "wape_300s", "wape", "smape", "mae_per_s", "coverage_p90", "coverage_p95"):
        assert row[metric] >= 0.0
    for metric in ("smape_60s", "mae_per_s_300s", "coverage_p90_60s", "coverage_p95_300s"):
        assert row[metric] >= 0.0
    assert {f"{part}maximum_p90_under_forecast_rate" for part in ("", "recovery_")} <= set(row)
    json.dumps(row)


def test_horizons_are_fractions_of_the_one_that_was_asked_for():
    hourly = Workload(0.0, 3600.0, trace(count=400).per_s)
    made = alone(LastValue, hourly, stops=Stops.at(3600.0 * np.arange(200, 300, 20)), horizon_s=12 * 3600.0)
    assert made.forecast.shape == (5, 12)
    assert made.recovery_s == 8 * 3600.0
    row = made.to_row()
    assert {"wape_2880s", "wape_14400s", "wape", "smape", "smape_14400s"} <= set(row)
    assert row["wape"] == made.wape()


def test_missing_truth_is_left_out_and_counted():
    history = trace()
    holed = history.per_s.copy()
    holed[400:520] = np.nan
    made = alone(
        LastValue,
        Workload(history.start_s, 10.0, holed),
        stops=Stops.at([history.start_s + 3000, history.start_s + 4000, history.start_s + 6000]),
    )
    assert made.evidence == 2
    assert np.isfinite(made.wape())
    assert np.isnan(made.errors_of_maximum()[1])


def test_truth_beyond_the_history_is_missing_not_invented():
    history = trace()
    made = alone(LastValue, history, stops=Stops.at([history.end_s - 100]))
    assert np.isfinite(made.actual).sum() == 10


def test_an_origin_without_a_forecast_is_counted_and_the_others_say_it_together():
    history = trace()
    origins_s = spaced_origins(history, 12, history.start_s + 2400)
    walk = backtest({**QUICK, "moody": Moody}, history, stops=Stops.at(origins_s))
    silent = np.isnan(walk.backtests["moody"].forecast).all(axis=1)
    assert 0 < silent.sum() < 12
    assert walk.backtests["moody"].unanswered == silent.sum()
    assert walk.backtests[ENSEMBLE].unanswered == 0
    assert np.isfinite(walk.backtests[ENSEMBLE].forecast).all()


def test_no_origin_is_refused():
    with pytest.raises(ValueError, match="no origin"):
        backtest(QUICK, trace(), stops=Stops.at([]))
    with pytest.raises(ValueError, match="no origin"):
        backtest(QUICK, trace(), stops=Stops.at([trace().start_s + 900], [False]))
    with pytest.raises(ValueError, match="no origin"):
        backtest_fitted(Forecaster.fit(trace(), QUICK), trace(), stops=Stops.at([0.0]))


def test_a_fitted_one_is_judged_as_it_is_and_flagged_when_it_had_seen_the_truth():
    history = trace()
    early = Workload(history.start_s, 10.0, history.per_s[:300])
    origins_s = spaced_origins(history, 5, early.end_s)
    judged = backtest_fitted(Forecaster.fit(early, QUICK), history, stops=Stops.at(origins_s))
    assert judged.family == ENSEMBLE
    assert not judged.in_sample
    assert np.array_equal(
        judged.forecast, backtest(QUICK, history, stops=Stops.at(origins_s)).backtests[ENSEMBLE].forecast
    )
    single = backtest_fitted(Forecaster.fit(history, QUICK).only("linear"), history, stops=Stops.at(origins_s))
    assert single.family == "linear"
    assert single.in_sample


def test_every_family_has_a_name_of_its_own():
    assert all(name == family.family for name, family in FAMILIES.items())

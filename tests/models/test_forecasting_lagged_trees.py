"""Trees learn from one job's history, or from those of many, and keep only numbers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from perdix.models.forecasting.contract import Workload
from perdix.models.forecasting.lagged_trees import LaggedTrees
from perdix.models.forecasting.pooled_trees import PooledTrees
from perdix.models.forecasting.tail import Tail

HOUR_S = 3600.0
HALF_DAY_S = 12 * HOUR_S
EDGES_S = HOUR_S * np.arange(13.0)


def daily(days: int, seed: int = 0, scale: float = 1.0) -> Workload:
    hours = np.arange(24 * days)
    rates = 1000.0 + 400.0 * np.sin(2.0 * np.pi * hours / 24.0)
    return Workload(0.0, HOUR_S, scale * (rates + np.random.default_rng(seed).normal(0.0, 10.0, len(hours))))


@dataclass(frozen=True)
class Kept:
    name: str
    until_s: float
    state: dict[str, Any]


@pytest.fixture(scope="module")
def pooled() -> type[PooledTrees]:
    histories = [daily(6, seed, scale) for seed, scale in enumerate((1.0, 30.0, 0.01))]
    models = [
        Kept(f"*/{days}", days * 86_400.0, dict(PooledTrees.fit_shared(part, horizon_s=HALF_DAY_S)))
        for days in (4, 6)
        for part in [[history.part(0, 24 * days) for history in histories]]
    ]
    return PooledTrees.sharing(models)


@pytest.fixture(params=["lagged", "pooled"])
def family(request: pytest.FixtureRequest, pooled: type[PooledTrees]) -> type[LaggedTrees | PooledTrees]:
    return LaggedTrees if request.param == "lagged" else pooled


def forecast_of(member: LaggedTrees | PooledTrees, history: Workload) -> np.ndarray:
    return member.project(Tail.of(history, member.cell_s, member.keep_s), EDGES_S)


def test_they_learn_the_day(family):
    whole, origin = daily(8, seed=9), 24 * 7 - 6
    member = family.fit(whole.part(0, origin), horizon_s=HALF_DAY_S)
    truth = whole.per_s[origin : origin + 12]
    error = np.abs(forecast_of(member, whole.part(0, origin)) - truth).mean()
    assert error < 0.25 * np.abs(whole.per_s[origin - 1] - truth).mean()


def test_the_same_seed_grows_the_same_trees():
    states = [json.dumps(LaggedTrees.fit(daily(5), horizon_s=HALF_DAY_S, seed=3).to_state()) for _ in range(2)]
    assert states[0] == states[1]


def test_a_state_of_numbers_brings_them_back(family):
    history = daily(7)
    member = family.fit(history, horizon_s=HALF_DAY_S)
    state = json.loads(json.dumps(member.to_state()))
    again = family.with_parameters(state["cell_s"], state["keep_s"], state["parameters"])
    assert np.array_equal(forecast_of(again, history), forecast_of(member, history))


def test_gaps_are_taken(family):
    history = daily(8)
    gappy = Workload(0.0, HOUR_S, np.where(np.arange(len(history)) % 50 > 44, np.nan, history.per_s))
    member = family.fit(gappy, horizon_s=HALF_DAY_S)
    assert np.abs(forecast_of(member, gappy) - forecast_of(member, history)).mean() < 60.0


@pytest.mark.parametrize(
    ("per_s", "words"),
    [
        (np.full(24 * 7, 5.0), "does not vary"),
        (daily(1).per_s, "needs 48 h of workload"),
        (np.full(24 * 7, np.nan), "none with a value"),
    ],
)
def test_what_cannot_be_learnt_from_is_refused_in_words(per_s, words):
    with pytest.raises(ValueError, match=words):
        LaggedTrees.fit(Workload(0.0, HOUR_S, per_s), horizon_s=HALF_DAY_S)
    with pytest.raises(ValueError, match=words):
        PooledTrees.fit_shared([Workload(0.0, HOUR_S, per_s)], horizon_s=HALF_DAY_S)


class TestPooled:
    def test_a_job_of_any_size_is_forecast_on_its_scale(self, pooled):
        small, large = daily(7), daily(7, scale=1e6)
        forecasts = [forecast_of(pooled.fit(workload, horizon_s=HALF_DAY_S), workload) for workload in (small, large)]
        assert np.allclose(forecasts[1], 1e6 * forecasts[0], rtol=1e-3)

    def test_a_history_gets_the_newest_model_that_does_not_know_its_future(self, pooled):
        assert pooled.fit(daily(7), horizon_s=HALF_DAY_S).shared == "*/6"
        assert pooled.fit(daily(5), horizon_s=HALF_DAY_S).shared == "*/4"
        with pytest.raises(ValueError, match="no shared model"):
            pooled.fit(daily(3), horizon_s=HALF_DAY_S)

    def test_states_name_the_trees_and_do_not_hold_them(self, pooled):
        member = pooled.fit(daily(7), horizon_s=HALF_DAY_S)
        text = json.dumps(member.to_state())
        assert '"*/6"' in text
        assert len(text) < 500
        loaded = PooledTrees.with_parameters(member.cell_s, member.keep_s, member.parameters())
        with pytest.raises(ValueError, match="was not given"):
            forecast_of(loaded, daily(7))
        given = loaded.given({model.name: model.state for model in pooled.models})
        assert np.array_equal(forecast_of(given, daily(7)), forecast_of(member, daily(7)))

    def test_jobs_that_cannot_be_learnt_from_are_left_out(self):
        constant = Workload(0.0, HOUR_S, np.full(24 * 5, 3.0))
        assert PooledTrees.fit_shared([constant, daily(5)], horizon_s=HALF_DAY_S)["cell_s"] == HOUR_S
        with pytest.raises(ValueError, match="there is none"):
            PooledTrees.fit_shared([], horizon_s=HALF_DAY_S)

    def test_a_model_of_other_cells_is_refused(self, pooled):
        with pytest.raises(ValueError, match="forecasts cells of 3600 s"):
            pooled.fit(Workload(6 * 86_400.0, 60.0, np.random.default_rng(0).random(3000)))

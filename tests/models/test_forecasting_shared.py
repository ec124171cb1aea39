"""A champion finds the model that it shares with other jobs by name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from perdix.models.forecasting import pooled_trees
from perdix.models.forecasting.contract import Workload
from perdix.models.forecasting.families import FAMILIES
from perdix.models.forecasting.forecaster import Forecaster, forecaster_from_state
from perdix.models.forecasting.pooled_trees import PooledTrees
from perdix.models.forecasting.seasonal_naive import LastValue

MINUTE_S, DAY = 60.0, 1_440


@dataclass(frozen=True)
class Handed:
    """A shared model as it is handed over."""

    name: str
    until_s: float
    state: Mapping[str, Any]


def job(seed: int, days: int = 4) -> Workload:
    rng = np.random.default_rng(seed)
    minutes = np.arange(days * DAY)
    shape = np.exp(0.4 * np.cos(2 * np.pi * minutes / DAY + seed) + 0.01 * rng.normal(size=len(minutes)))
    return Workload(1_700_006_400.0, MINUTE_S, 1_000.0 * shape)


@pytest.fixture(scope="module")
def shared() -> dict[str, Mapping[str, Any]]:
    """Trees for backtests, grown on what precedes them, and trees for champions."""
    fleet = [job(seed) for seed in (1, 2)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pooled_trees, "ROUNDS", 5)  # what they are worth is not asked here
        return {
            "*/early": PooledTrees.fit_shared([workload.part(0, 2 * DAY) for workload in fleet]),
            "*/late": PooledTrees.fit_shared(fleet),
        }


@pytest.fixture
def families(shared, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setitem(FAMILIES, PooledTrees.family, PooledTrees)
    ends_s = {"*/early": job(0).start_s + 2 * DAY * MINUTE_S, "*/late": job(0).end_s}
    models = [Handed(name, ends_s[name], state) for name, state in shared.items()]
    return {LastValue.family: LastValue, PooledTrees.family: PooledTrees.sharing(models)}


def stored(families: Mapping[str, Any]) -> dict[str, Any]:
    state: dict[str, Any] = json.loads(json.dumps(Forecaster.fit(job(0), families).to_state()))
    return state


def test_a_state_holds_the_name_and_not_the_trees(families, shared) -> None:
    text = json.dumps(stored(families)["members"])
    assert '"*/late"' in text
    assert "packed" not in text


def test_a_forecaster_comes_back_with_the_trees_that_it_refers_to(families, shared) -> None:
    fitted = Forecaster.fit(job(0), families)
    restored = forecaster_from_state(stored(families)).given(shared)
    np.testing.assert_allclose(restored.forecast(900.0, 60.0).mean, fitted.forecast(900.0, 60.0).mean, rtol=1e-6)


def test_trees_can_be_given_later_and_once_is_enough(families, shared) -> None:
    without = forecaster_from_state(stored(families))
    edges_s = 60.0 * np.arange(16.0)
    assert np.isnan(without.projections(edges_s)[1]).all()
    given = without.given(shared)
    assert np.isfinite(given.projections(edges_s)).all()
    assert given.given({}) is given


def test_a_backtest_only_knows_trees_that_end_before_it(families) -> None:
    """The walk over the second half starts from the early trees; the champion has the late ones."""
    early_only = families[PooledTrees.family].fit(job(0).part(0, 3 * DAY))
    assert early_only.shared == "*/early"
    assert families[PooledTrees.family].fit(job(0)).shared == "*/late"

"""Documents come back as they went, or not at all; forecasts wait for their truth."""

import numpy as np
import pytest
import sqlalchemy as sa

from perdix.control.state.learned import Kind
from perdix.control.state.schema import learned as learned_table
from perdix.control.state.store import StateStore
from perdix.models.forecasting.contract import Forecast

CAPACITY, DRIFT = Kind("capacity"), Kind("drift")


def forecast(origin_s: float = 1_000.0, steps: int = 900) -> Forecast:
    mean = np.linspace(10_000.0, 12_000.0, steps)
    return Forecast(origin_s, 1.0, mean, {0.95: mean * 1.2, 0.5: mean}, "auto-arima", 7)


def test_documents_come_back_by_kind(store: StateStore) -> None:
    document = {"count": 12, "means": [0.5, 1.25], "nested": {"name": "taskmanager-1", "ok": True, "none": None}}
    store.learned.learn("wordcount", 5.0, {CAPACITY: document, DRIFT: {"poor": 3}})
    store.learned.learn("wordcount", 65.0, {DRIFT: {"poor": 4}})
    found = store.learned.recall("wordcount", CAPACITY, DRIFT, Kind("memory"))
    assert found["capacity"].document == document
    assert found["capacity"].learned_s == 5.0
    assert (found["drift"].document, found["drift"].learned_s) == ({"poor": 4}, 65.0)
    assert (found["memory"].document, found["memory"].note) == (None, None)
    assert store.learned.recall("ysb", CAPACITY)["capacity"].document is None


def test_numpy_numbers_are_kept_as_numbers(store: StateStore) -> None:
    store.learned.learn(
        "wordcount", 5.0, {CAPACITY: {"slope": np.float64(2.5), "sums": np.arange(3.0), 4: np.int64(7)}}
    )
    assert store.learned.recall("wordcount", CAPACITY)["capacity"].document == {"slope": 2.5, "sums": [0, 1, 2], "4": 7}


@pytest.mark.parametrize("stored", [1, 3])
def test_an_unknown_schema_starts_afresh_and_says_so(store: StateStore, stored: int) -> None:
    store.learned.learn("wordcount", 5.0, {Kind("capacity", stored): {"count": 12}})
    found = store.learned.recall("wordcount", Kind("capacity", 2))["capacity"]
    assert found.document is None
    assert found.note == f"'capacity' was stored with schema {stored}, this perdix knows 2; starting afresh"


def test_a_broken_document_starts_afresh_and_says_so(store: StateStore) -> None:
    store.learned.learn("wordcount", 5.0, {CAPACITY: {"count": 12}})
    with store.database.writing() as connection:
        connection.execute(sa.update(learned_table).values(document='{"count": 1'))
    found = store.learned.recall("wordcount", CAPACITY)["capacity"]
    assert found.document is None
    assert "not JSON" in (found.note or "")


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), np.array([1.0, np.nan])])
def test_what_is_not_finite_is_refused_by_its_place_and_nothing_is_kept(store: StateStore, bad: object) -> None:
    with pytest.raises(ValueError, match=r"drift\.workers\[1\]\.slope is not a finite number"):
        store.learned.learn("w", 5.0, {CAPACITY: {"count": 1}, DRIFT: {"workers": [{"slope": 1.0}, {"slope": bad}]}})
    assert store.learned.recall("w", CAPACITY)["capacity"].document is None


def test_forecasts_wait_for_their_truth_and_leave_a_score(store: StateStore) -> None:
    assert store.learned.save_forecast("wordcount", forecast(1_060.0))
    assert store.learned.save_forecast("wordcount", forecast(1_000.0, 120))
    assert not store.learned.save_forecast("wordcount", forecast(1_000.0, 120)), "the same origin twice"
    first, second = store.learned.pending_forecasts("wordcount")
    assert (first.origin_s, first.family, first.version, len(first.mean)) == (1_000.0, "auto-arima", 7, 120)
    np.testing.assert_allclose(first.mean, forecast(1_000.0, 120).mean, rtol=1e-6)
    assert len(second.mean) == 900
    assert sorted(second.quantiles) == [0.5, 0.95]
    np.testing.assert_allclose(second.quantiles[0.95], forecast().quantiles[0.95], rtol=1e-6)
    assert store.learned.settle("wordcount", 1_000.0, 1_200.0, 0.08)
    assert store.learned.settle("wordcount", 1_060.0, 1_200.0, None)
    assert not store.learned.settle("wordcount", 1_000.0, 1_300.0, 0.5), "settled twice"
    assert store.learned.pending_forecasts("wordcount") == []
    assert [(score.origin_s, score.wape) for score in store.learned.scores("wordcount")] == [
        (1_060.0, None),
        (1_000.0, 0.08),
    ]
    assert [score.origin_s for score in store.learned.scores("wordcount", since_s=1_030.0)] == [1_060.0]


def test_a_forecast_without_quantiles_is_kept(store: StateStore) -> None:
    store.learned.save_forecast("wordcount", Forecast(0.0, 60.0, np.array([1.0, 2.0])))
    assert store.learned.pending_forecasts("wordcount")[0].mean.tolist() == [1.0, 2.0]


def test_pruning_forgets_old_forecasts_and_no_documents(store: StateStore) -> None:
    store.learned.learn("wordcount", 0.0, {CAPACITY: {"count": 1}})
    store.learned.save_forecast("wordcount", forecast(100.0))
    store.learned.save_forecast("wordcount", forecast(200.0))
    assert store.learned.prune(150.0) == 1
    assert [item.origin_s for item in store.learned.pending_forecasts("wordcount")] == [200.0]
    assert store.learned.recall("wordcount", CAPACITY)["capacity"].document == {"count": 1}

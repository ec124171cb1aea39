"""Trees taken out of the library say what the library says, and survive as numbers."""

from __future__ import annotations

import json

import numpy as np
import pytest
import xgboost

from perdix.models.forecasting.tree_tables import TreeTables

ROWS = np.random.default_rng(0).random((300, 6)).astype(np.float32)
ROWS[::7, 2] = np.nan


@pytest.fixture(scope="module", params=["reg:absoluteerror", "reg:squarederror"])
def boosters(request: pytest.FixtureRequest) -> list[xgboost.Booster]:
    options = {"objective": request.param, "max_depth": 3, "nthread": 1, "seed": 1}
    return [
        xgboost.train(options, xgboost.QuantileDMatrix(ROWS, np.nan_to_num(ROWS[:, 2]) + lead * ROWS[:, 0]), 12)
        for lead in range(4)
    ]


def test_they_say_what_the_library_says(boosters):
    tables = TreeTables.of(boosters, 3)
    for row in ROWS[:40]:
        said = [booster.inplace_predict(row[None])[0] for booster in boosters]
        assert np.allclose(tables.predict(np.tile(row, (4, 1))), said, atol=1e-5)


def test_they_survive_as_numbers(boosters):
    tables = TreeTables.of(boosters, 3)
    again = TreeTables.from_state(json.loads(json.dumps(tables.to_state())))
    assert np.array_equal(again.predict(ROWS[:4]), tables.predict(ROWS[:4]))


@pytest.mark.parametrize(
    "damage",
    [{"leads": 5}, {"trees": 0}, {"inner": 6}, {"packed": "AAAA"}, {"packed": "not base64!"}, {"leads": 10**9}],
)
def test_damaged_numbers_are_refused(boosters, damage):
    state = {**TreeTables.of(boosters, 3).to_state(), **damage}
    with pytest.raises(ValueError):  # noqa: PT011 -- whatever it says, it is one
        TreeTables.from_state(state)


def test_a_tree_that_stops_early_has_its_leaf_wherever_one_falls():
    rows = np.array([[0.0], [1.0]] * 20, dtype=np.float32)
    booster = xgboost.train(
        {"max_depth": 4, "nthread": 1}, xgboost.QuantileDMatrix(rows, rows[:, 0] * 10.0), num_boost_round=3
    )
    tables = TreeTables.of([booster], 4)
    assert np.allclose([tables.predict(row[None])[0] for row in rows[:2]], booster.inplace_predict(rows[:2]), atol=1e-6)

"""Paths of a forecast that are worked out when they are read."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from perdix.models.forecasting.contract import Forecast, Paths
from perdix.models.forecasting.trust import Trust


def paths(read: list[float]) -> Paths:
    def path(probability: float) -> np.ndarray:
        read.append(probability)
        return np.full(3, 100.0 * probability)

    return Paths((0.5, 0.9), path)


def test_a_path_is_worked_out_once_when_it_is_first_read():
    read: list[float] = []
    found = paths(read)
    assert (list(found), len(found), 0.9 in found, 0.95 in found, read) == ([0.5, 0.9], 2, True, False, [])
    assert found[0.9] is found[0.9]
    assert found.get(0.95) is None
    assert read == [0.9]
    with pytest.raises(KeyError):
        found[0.95]


def test_they_are_pickled_copied_and_shown_as_all_of_them():
    for kept in (pickle.loads(pickle.dumps(paths([]))), copy.deepcopy(paths([]))):
        assert {probability: values.tolist() for probability, values in kept.items()} == {
            0.5: [50.0] * 3,
            0.9: [90.0] * 3,
        }
    assert repr(paths([])) == repr(dict(paths([])))


def test_a_forecast_that_is_tempered_reads_no_path_by_itself():
    read: list[float] = []
    made = Forecast(0.0, 60.0, np.array([100.0, 150.0, 200.0]), paths(read), maxima=paths(read))
    doubted = Trust(said=1.0, came=0.0, judged=1.0).tempered(made, 100.0, np.full(60, 400.0))
    assert read == []
    assert (doubted.quantiles[0.9] >= doubted.mean).all()
    assert read == [0.9]

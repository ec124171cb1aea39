"""How members stand: what each counts, and how far off it was of late."""

import numpy as np
import pytest

from perdix.control.standing import standings
from perdix.models.forecasting.contract import Workload
from perdix.models.forecasting.damped_trend import Linear
from perdix.models.forecasting.forecaster import Forecaster
from perdix.models.forecasting.seasonal_naive import LastValue


def rising(seconds: int) -> Workload:
    return Workload(0.0, 10.0, 1_000.0 + np.arange(0.0, seconds, 10.0))


def test_who_was_right_of_late_counts_most_and_comes_first() -> None:
    made = Forecaster.fit(rising(4 * 3_600), {LastValue.family: LastValue, Linear.family: Linear})
    first, second = standings(made)
    assert (first.family, second.family) == ("linear", "last-value")
    assert first.weight > 0.9
    assert first.weight + second.weight == pytest.approx(1.0)
    assert first.wape == pytest.approx(0.0, abs=1e-3)
    assert second.wape is not None
    assert second.wape > 0.01


def test_before_anything_has_come_true_nothing_is_known() -> None:
    made = Forecaster.unproven(rising(3_600), {LastValue.family: LastValue, Linear.family: Linear})
    assert [standing.wape for standing in standings(made)] == [None, None]
    assert [standing.weight for standing in standings(made)] == [0.5, 0.5]


def test_a_lone_member_counts_for_all() -> None:
    (one,) = standings(Forecaster.fit(rising(3_600), {Linear.family: Linear}))
    assert (one.family, one.weight) == ("linear", 1.0)

"""Forecasts of arrivals on the way: from what was measured, split by shares, never above what was seen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from perdix.replay.hosts.run import FIRST_S, ArrivalForecasts
from perdix.twin.hosts.system import Measured

EVERY_S = 15


def measured(rates: Sequence[float]) -> list[dict[str, Measured]]:
    """Return measurements of two types, of which one gets three times as much as the other."""
    return [
        {name: Measured(0.0, part * rate, 0.5, None) for name, part in (("a", 0.75), ("b", 0.25))} for rate in rates
    ]


def test_there_is_no_forecast_before_there_is_something_to_learn_from() -> None:
    enough = round(FIRST_S / EVERY_S)
    assert ArrivalForecasts("last-value", 600.0).of(measured([8.0] * (enough - 1)), EVERY_S) == {}
    assert set(ArrivalForecasts("last-value", 600.0).of(measured([8.0] * enough), EVERY_S)) == {"a", "b"}
    assert ArrivalForecasts(None, 600.0).of(measured([8.0] * 40), EVERY_S) == {}


def test_a_type_gets_its_share_from_the_end_of_what_was_measured() -> None:
    found = ArrivalForecasts("last-value", 600.0).of(measured([8.0] * 40), EVERY_S)
    assert found["a"].origin_s == 40 * EVERY_S
    assert found["a"].horizon_s == 600.0
    assert found["a"].mean == pytest.approx(np.full(10, 6.0))
    assert found["b"].mean == pytest.approx(np.full(10, 2.0))


def test_nothing_is_forecast_above_what_was_seen() -> None:
    steps = np.repeat([2.0, 5.0, 8.0, 5.0] * 4, 16)[:-16]  # it ends at the highest level
    noise = 1.0 + 0.02 * np.random.default_rng(1).standard_normal(len(steps))
    rates = (steps * noise).tolist()
    found = ArrivalForecasts("last-value", 600.0).of(measured(rates), EVERY_S)
    assert found["a"].maximum_per_s(600.0, 0.95) <= 0.75 * max(rates) + 1e-9
    assert found["a"].maximum_per_s(600.0, 0.95) >= 0.75 * 7.5
    for values in (found["a"].mean, *found["a"].quantiles.values()):
        assert values.max() <= 0.75 * max(rates) + 1e-9


def test_it_learns_as_it_goes_and_gives_the_same_whether_asked_often_or_once() -> None:
    rates = [4.0] * 30 + [8.0] * 30
    often = ArrivalForecasts("last-value", 600.0)
    for until in range(20, 60, 4):
        often.of(measured(rates[:until]), EVERY_S)
    assert often.of(measured(rates), EVERY_S)["a"].mean[0] == pytest.approx(6.0)
    assert often.notes == []


def test_what_cannot_be_forecast_is_noted_once() -> None:
    forecasts = ArrivalForecasts("seasonal-naive", 600.0)  # it needs two days
    assert forecasts.of(measured([8.0] * 40), EVERY_S) == {}
    assert forecasts.of(measured([8.0] * 40), EVERY_S) == {}
    assert len(forecasts.notes) == 1
    assert "two seasons" in forecasts.notes[0]

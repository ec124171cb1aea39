"""Every family of forecasters, by name: the one place to add another."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from models.forecasting.auto_arima import AutoArima
from models.forecasting.contract import Workload
from models.forecasting.damped_trend import DampedTrend
from models.forecasting.last_value import LastValue
from models.forecasting.linear import Linear
from models.forecasting.seasonal_naive import SeasonalNaive
from models.forecasting.tail_forecaster import TailForecaster

FAMILIES: dict[str, type[TailForecaster]] = {
    family.family: family for family in (LastValue, Linear, DampedTrend, SeasonalNaive, AutoArima)
}
NAIVE = LastValue.family


def forecaster_from_state(state: Mapping[str, Any]) -> TailForecaster:
    """Rebuild a forecaster of any family from its state. Raises ``ValueError`` naming an unknown family."""
    return family_named(str(state.get("family"))).from_state(state)


def family_named(name: str) -> type[TailForecaster]:
    """Return the family called ``name``. Raises ``ValueError`` with the nearest name, and all that there are."""
    if name not in FAMILIES:
        close = difflib.get_close_matches(name, FAMILIES, n=1)
        meant = f"did you mean '{close[0]}'? " if close else ""
        raise ValueError(f"no family of forecasters is called {name!r}; {meant}known: {', '.join(FAMILIES)}")
    return FAMILIES[name]


def fallback(history: Workload) -> TailForecaster:
    """Return the forecaster for when no model is good enough: a line through the last minute.

    Raises ``ValueError`` when the history has no finite rate.
    """
    return Linear.fit(history)

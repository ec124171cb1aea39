"""Every family of forecasters, by name: the one place to add another."""

import difflib
from collections.abc import Mapping
from typing import Any

from perdix.models.forecasting.auto_arima import AutoArima
from perdix.models.forecasting.damped_trend import DampedTrend, Linear
from perdix.models.forecasting.failures import positive
from perdix.models.forecasting.fast_arima import Autoregression, FastArima, LocalArima, MinuteArima
from perdix.models.forecasting.gaussian_process import LogGaussianProcess, PlainGaussianProcess
from perdix.models.forecasting.lagged_trees import LaggedTrees
from perdix.models.forecasting.member import Member
from perdix.models.forecasting.pooled_trees import PooledTrees
from perdix.models.forecasting.seasonal_naive import LastValue, SeasonalNaive, WeeklyNaive
from perdix.models.forecasting.seasonal_trend import SeasonalTrend
from perdix.models.forecasting.statistical import ExponentialSmoothing, Theta

FAMILIES: dict[str, type[Member]] = {
    family.family: family
    for family in (
        LastValue, Linear, DampedTrend, SeasonalNaive, WeeklyNaive, FastArima, LocalArima, MinuteArima,
        Autoregression, AutoArima, ExponentialSmoothing, Theta, SeasonalTrend, PlainGaussianProcess,
        LogGaussianProcess, LaggedTrees, PooledTrees,
    )
}  # fmt: skip
MEMBERS = (  # of an ensemble; the others are on request
    LastValue,
    DampedTrend,
    SeasonalNaive,
    FastArima,
    LocalArima,
    MinuteArima,
    Autoregression,
)
STAND_INS = (LastValue, DampedTrend)  # while no champion forecasts well enough
NAIVE = LastValue.family
ENSEMBLE = "ensemble"


def families_named(name: str) -> dict[str, type[Member]]:
    """Return the families behind a name: one, or those of an ensemble for ``ensemble``.

    Raises ``ValueError`` with the nearest name, and all that there are.
    """
    if name == ENSEMBLE:
        return {family.family: family for family in MEMBERS}
    if name not in FAMILIES:
        known = [*FAMILIES, ENSEMBLE]
        close = difflib.get_close_matches(name, known, n=1)
        meant = f"did you mean '{close[0]}'? " if close else ""
        raise ValueError(f"no family of forecasters is called {name!r}; {meant}known: {', '.join(known)}")
    return {name: FAMILIES[name]}


def member_from_state(state: Mapping[str, Any]) -> Member:
    """Rebuild a member from its state. Raises ``ValueError`` naming an unknown family, or what is no length."""
    (family,) = families_named(str(state["family"])).values()
    parameters = state["parameters"]
    if not isinstance(parameters, Mapping):
        raise ValueError(f"{family.family} has {parameters!r:.40} for parameters")
    cell_s, keep_s = positive("cell_s", state["cell_s"]), positive("keep_s", state["keep_s"])
    return family.with_parameters(cell_s, keep_s, parameters)

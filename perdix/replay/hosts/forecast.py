"""Forecasts of arrivals while a replay runs, from what was measured by then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from perdix.models.forecasting.contract import Forecast, Workload
from perdix.models.forecasting.forecaster import Forecaster, fitted
from perdix.twin.hosts.system import Measured

FIRST_S = 120.0  # of measurements before a forecast is made
SHARES_S = 600.0  # shares of the types are taken over as long
STEP_S = 60.0


class ArrivalForecasts:
    """One forecaster of all that arrives at all types together, split by the types' recent shares.

    What reaches a type is in a fixed proportion to what the sensors emit, so one forecast serves all of them, at a
    ninth of the time.

    ``notes``: why there was no forecast, once per reason.
    """

    def __init__(self, family: str | None, horizon_s: float, seed: int = 0) -> None:
        self.notes: list[str] = []
        self._family = family
        self._horizon_s = horizon_s
        self._seed = seed
        self._forecaster: Forecaster | None = None
        self._rates = np.empty((0, 0))  # arrivals/s at each type in each measurement

    def of(self, measured: Sequence[Mapping[str, Measured]], every_s: int, start_s: int) -> Mapping[str, Forecast]:
        """Return operator -> forecast from the end of what was measured; empty where there is none yet."""
        if self._family is None or len(measured) * every_s < FIRST_S:
            return {}
        new = [[rates.arrived_per_s for rates in row.values()] for row in measured[len(self._rates) :]]
        if new:
            self._rates = np.concatenate((self._rates.reshape(-1, len(new[0])), new))
        rates = self._rates
        seen = Workload(float(start_s), float(every_s), rates.sum(axis=1))
        try:
            if self._forecaster is None:
                self._forecaster = fitted(self._family, seen, horizon_s=self._horizon_s, seed=self._seed)
            else:
                self._forecaster = self._forecaster.update(seen)
            total = self._forecaster.forecast(step_s=STEP_S)
        except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
            if str(error) not in self.notes:
                self.notes.append(str(error))
            return {}
        total = _capped(total, float(seen.per_s.max()))
        late = rates[-max(1, round(SHARES_S / every_s)) :].sum(axis=0)
        shares = late / max(float(late.sum()), 1e-12)
        return {name: _part(total, float(share)) for name, share in zip(measured[-1], shares, strict=True)}


def _capped(total: Forecast, highest_per_s: float) -> Forecast:
    """Return the forecast with nothing above the highest rate that was ever measured.

    Its quantiles come from errors that are alike at all rates, so at the highest level they expect further steps up
    that never came. No room is kept for what was never seen; whoever is surprised by it scales out then.
    """
    return replace(
        total,
        mean=np.minimum(total.mean, highest_per_s),
        quantiles={level: np.minimum(values, highest_per_s) for level, values in total.quantiles.items()},
        maxima={level: np.minimum(values, highest_per_s) for level, values in total.maxima.items()},
    )


def _part(total: Forecast, share: float) -> Forecast:
    return replace(
        total,
        mean=total.mean * share,
        quantiles={level: values * share for level, values in total.quantiles.items()},
        maxima={level: values * share for level, values in total.maxima.items()},
    )

"""How the members of a forecaster stand: how much each counts now, and how far off it has been recently."""

from dataclasses import dataclass

import numpy as np

from perdix.models.forecasting.errors import wape
from perdix.models.forecasting.forecaster import Forecaster

LATE_HORIZONS = 4.0  # an hour of forecasts of 15 minutes


@dataclass(frozen=True)
class Standing:
    """One member."""

    family: str
    weight: float  # 0 to 1, mean over the horizon; the weights of all members sum to 1
    # WAPE (1.0 = 100 %) of what it said in the last hour, as far as it has come true; ``None`` when nothing has
    wape: float | None


def standings(forecaster: Forecaster) -> tuple[Standing, ...]:
    """Return how the members stand, the one that counts most first."""
    record = forecaster.record
    weights = forecaster.weights.mean(axis=1)
    late = int(record.origins_s.searchsorted(forecaster.end_s - LATE_HORIZONS * forecaster.horizon_s))
    actual, forecasts = record.actual[late:], record.forecasts[late:]
    errors = [wape(actual, forecasts[:, member]) for member in range(len(forecaster.members))]
    found = [
        Standing(family, float(weight), float(error) if np.isfinite(error) else None)
        for family, weight, error in zip(forecaster.names, weights, errors, strict=True)
    ]
    return tuple(sorted(found, key=lambda standing: -standing.weight))

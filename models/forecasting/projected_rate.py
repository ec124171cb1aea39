"""The rate that a scale-out is chosen for: the highest averaging bin of a forecast (Phoebe, 3.5, figure 5)."""

import numpy as np

from perdix.models.forecasting.contract import Forecast
from perdix.models.recovery.prediction import forecast_rates
from perdix.telemetry.window import Values

BINS = 5  # of the published program; the paper says "a number of bins"


def averaging_bins_per_s(forecast: Forecast, bins: int = BINS, *, quantile: float | None = None) -> Values:
    """Return the mean rate of each of ``bins`` equally long parts of the horizon; records/s, shape ``(bins,)``.

    The parts are of equal length even where steps do not divide evenly: a step on a boundary counts for both sides by
    its shares. Raises ``ValueError`` when there is no bin or no step, or a step is not finite.
    """
    if bins < 1:
        raise ValueError(f"a forecast is averaged in 1 bin or more, not {bins}")
    rates = forecast_rates(forecast, quantile)
    edges = np.linspace(0.0, len(rates), bins + 1)
    total = np.interp(edges, np.arange(len(rates) + 1), np.concatenate([[0.0], np.cumsum(rates)]))
    return np.asarray(np.diff(total) * bins / len(rates), float)


def projected_rate_per_s(forecast: Forecast, bins: int = BINS, *, quantile: float | None = None) -> float:
    """Return the mean rate of the highest bin, records/s: late for a rising workload, early for a falling one.

    Raises ``ValueError`` as :func:`averaging_bins_per_s`.
    """
    return float(averaging_bins_per_s(forecast, bins, quantile=quantile).max())

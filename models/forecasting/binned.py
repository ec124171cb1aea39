"""Forecasts of an ARIMA made on means over bins: what its families share. Filtering and forecasting are our own."""

import numpy as np

from perdix.models.forecasting.arma import Arima
from perdix.models.forecasting.regrid import bridged, mean_preserving
from perdix.models.forecasting.tail import Tail
from perdix.telemetry.window import Values

LEAST_SERIES = 20
LONGEST_BRIDGE_CELLS = 30


def bins_of(tail: Tail, bin_s: float) -> Values:
    """Return gap-free bins that end at the newest measurement; the last bin is held where most of it is missing."""
    bins = tail.bins(bin_s, np.inf)
    if len(bins) and not np.isfinite(bins[-1]):
        bins[-1] = tail.newest_per_s
    return bridged(bins, int(LONGEST_BRIDGE_CELLS * tail.cell_s // bin_s))


def project(arima: Arima, bin_s: float, tail: Tail, edges_s: Values) -> Values:
    """Return mean rates between ``edges_s``, bin means interpolated so that they keep their means.

    Raises ``ValueError`` when the tail has no finite rate.
    """
    steps = int(np.ceil(edges_s[-1] / bin_s - 1e-9))
    means = tail.once(arima, steps, lambda: _ahead(arima, bin_s, tail, steps))
    knots_s = bin_s * np.arange(steps - len(means), steps + 1, dtype=np.float64)
    return mean_preserving(knots_s, means, edges_s)


def _ahead(arima: Arima, bin_s: float, tail: Tail, steps: int) -> Values:
    """Return the newest bins and those forecast, never negative."""
    series = bins_of(tail, bin_s)
    if len(series) < arima.d + 1:  # the start after a long gap: the newest value stands for what is not known
        newest = tail.newest_per_s
        series = np.concatenate([np.full(arima.d + 1 - len(series), series[0] if len(series) else newest), series])
    return np.asarray(np.maximum(np.concatenate([series[-2:], arima.forecast(series, steps)]), 0.0))

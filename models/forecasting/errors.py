"""How wrong a forecast was. Pairs in which either side is NaN are left out; without any pair an error is NaN."""

import numpy as np
from numpy.typing import ArrayLike

from perdix.telemetry.window import Values


def _pairs(actual: ArrayLike, forecast: ArrayLike) -> tuple[Values, Values]:
    truth, guess = np.asarray(actual, dtype=np.float64).ravel(), np.asarray(forecast, dtype=np.float64).ravel()
    if truth.shape != guess.shape:
        raise ValueError(f"{truth.size} actual values against {guess.size} forecast ones; align them first")
    known = np.isfinite(truth) & np.isfinite(guess)
    return truth[known], guess[known]


def wape(actual: ArrayLike, forecast: ArrayLike) -> float:
    """Weighted absolute percentage error, ``sum |a - f| / sum |a|`` (1.0 = 100 %; Daedalus 3.2).

    Of a truth that is zero throughout: 0 when the forecast is zero, too, and infinite otherwise.
    """
    truth, guess = _pairs(actual, forecast)
    if not len(truth):
        return float("nan")
    missed, total = float(np.abs(truth - guess).sum()), float(np.abs(truth).sum())
    if total == 0.0:
        return 0.0 if missed == 0.0 else float("inf")
    return missed / total


def smape(actual: ArrayLike, forecast: ArrayLike) -> float:
    """Symmetric mean absolute percentage error, ``mean 2 |a - f| / (|a| + |f|)``, 0 to 2; a pair of zeros counts 0."""
    truth, guess = _pairs(actual, forecast)
    if not len(truth):
        return float("nan")
    size = np.abs(truth) + np.abs(guess)
    return float(np.mean(np.divide(2.0 * np.abs(truth - guess), size, out=np.zeros_like(size), where=size > 0.0)))


def mae(actual: ArrayLike, forecast: ArrayLike) -> float:
    """Mean absolute error, in the unit of the values."""
    truth, guess = _pairs(actual, forecast)
    return float(np.abs(truth - guess).mean()) if len(truth) else float("nan")


def coverage(actual: ArrayLike, bound: ArrayLike) -> float:
    """Share (0..1) of actual values at or below ``bound``: what a quantile forecast promises."""
    truth, upper = _pairs(actual, bound)
    return float((truth <= upper).mean()) if len(truth) else float("nan")


def error_of_maximum(actual: ArrayLike, forecast: ArrayLike) -> float:
    """Signed error of the highest rate, ``(max f - max a) / max a``; negative is an under-forecast.

    The maxima are those of the pairs that are known. Of a truth that is zero throughout: 0 or infinite.
    """
    truth, guess = _pairs(actual, forecast)
    if not len(truth):
        return float("nan")
    highest, expected = float(truth.max()), float(guess.max())
    if highest <= 0.0:
        return 0.0 if expected <= 0.0 else float("inf")
    return (expected - highest) / highest


def under_forecast_rate(errors_of_maximum: ArrayLike, tolerance: float = 0.1) -> float:
    """Share (0..1) of origins whose maximum was under-forecast by more than ``tolerance``.

    ``errors_of_maximum``: one :func:`error_of_maximum` per origin, shape ``(origins,)``.
    """
    errors = np.asarray(errors_of_maximum, dtype=np.float64)
    errors = errors[~np.isnan(errors)]
    return float((errors < -tolerance).mean()) if len(errors) else float("nan")


def quantile_loss(errors: ArrayLike, probability: float) -> float:
    """Mean loss of a quantile (pinball loss): ``probability`` times what it lay below the truth, ``1 - p`` times above.

    Least in expectation for the true quantile (Koenker and Bassett 1978).

    ``errors``: quantile minus truth, shape ``(n,)``, in the truth's unit or as shares of it; NaN are left out.
    """
    known = np.asarray(errors, dtype=np.float64)
    known = known[~np.isnan(known)]
    return float(np.maximum(-probability * known, (1.0 - probability) * known).mean()) if len(known) else float("nan")

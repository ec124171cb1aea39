"""Performance as the product of two curves that never fall, one over cores and one over memory.

Samples lie along two lines: cores with the most memory, memory with the most cores. A regression that knows nothing of
how the two act together must guess what lies between; a tree that split on cores has never seen little memory with few
cores. Too little memory makes every record dearer (misses, garbage collection), and cores say how much of that cost is
paid per second, so the two multiply.
"""

from typing import Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.isotonic import IsotonicRegression

from perdix.telemetry.window import Values


class RisingCurves(RegressorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """``f(cores) g(memory)`` by least squares, each curve in turn: isotonic, straight between samples, flat beyond.

    So a prediction rises with either resource, and lies between those of the sampled amounts around it; like those of
    trees it is never above the highest rate that was sampled, wherever samples lie.

    ``rounds``: how often each curve is fitted to what the other one leaves. 20 bring samples along two lines to within
    a hundred-thousandth of where more would.
    """

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds

    def fit(self, sizes: Values, rates: Values) -> Self:
        """Fit to sizes, shape ``(n, 2)``, cores and memory in any unit, and rates of at least 0, shape ``(n,)``."""
        cores, memory = sizes.T
        # What most of the other resource makes possible is where both curves begin, and mostly where they end.
        self.by_cores_ = _rising(*_highest(cores, rates))
        self.highest_ = rates.max()
        for _ in range(self.rounds):
            self.by_memory_ = _divided(memory, rates, self.by_cores_.predict(cores))
            self.by_cores_ = _divided(cores, rates, self.by_memory_.predict(memory))
        return self

    def predict(self, sizes: Values) -> Values:
        """Return rates, shape ``(n,)``."""
        cores, memory = sizes.T
        product = self.by_cores_.predict(cores) * self.by_memory_.predict(memory)
        return np.asarray(np.minimum(product, self.highest_))


def _highest(amounts: Values, rates: Values) -> tuple[Values, Values]:
    """Return each amount once, with the highest of its rates."""
    found, which = np.unique(amounts, return_inverse=True)
    highest = np.zeros(len(found))
    np.maximum.at(highest, which, rates)
    return found, highest


def _divided(amounts: Values, rates: Values, other: Values) -> IsotonicRegression:
    """Return the curve that makes the product with the other one come nearest to the rates."""
    weights = (other / max(other.max(), np.finfo(float).tiny)) ** 2  # of rates near 1e-200 no square is above 0
    known = weights > 0.0
    if not known.any():
        return _rising(amounts, np.zeros(len(amounts)))
    return _rising(amounts[known], rates[known] / other[known], weights[known])


def _rising(amounts: Values, values: Values, weights: Values | None = None) -> IsotonicRegression:
    return IsotonicRegression(out_of_bounds="clip").fit(amounts, values, sample_weight=weights)

"""An ARIMA model as numbers: its exact filter and its forecasts by linear recursion, without any fitting library.

With ``z_t`` the differenced series minus its mean, the model is ``phi(B) z_t = theta(B) e_t``. The innovations are
``e = phi(B) / theta(B) z``, one call of :func:`scipy.signal.lfilter`. The filter's unknown state before the first value
has the stationary distribution as its prior; estimating it by least squares gives what the Kalman filter gives, in one
small solve instead of a loop over time.

Forecasts of one made on means over bins are here, too: what its families share.
"""

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import LinAlgWarning, solve_discrete_lyapunov

from perdix.models.forecasting.regrid import bridged, mean_preserving
from perdix.models.forecasting.tail import Tail
from perdix.telemetry.window import Values


def _filtered(*arguments: Any, **named: Any) -> Any:
    """Call :func:`scipy.signal.lfilter`."""
    from scipy.signal import lfilter  # noqa: PLC0415 -- brings scipy.stats along: a second that only ARIMA needs

    return lfilter(*arguments, **named)


@dataclass(frozen=True)
class Arima:
    """An ARIMA(p, d, q) with constant."""

    d: int  # order of differencing, 0 to 2
    constant: float  # ``c`` in ``z_t = c + sum(phi_i z_{t-i}) + ...``, in the series' unit
    # ar, ma: coefficients ``phi_1..phi_p`` and ``theta_1..theta_q``
    ar: tuple[float, ...]
    ma: tuple[float, ...]
    sigma2: float  # variance of the innovations, the series' unit squared

    @property
    def order(self) -> tuple[int, int, int]:
        """Return ``(p, d, q)``."""
        return len(self.ar), self.d, len(self.ma)

    @property
    def mean(self) -> float:
        """Mean of the differenced series."""
        return self.constant / (1.0 - sum(self.ar)) if self.constant else 0.0

    @cached_property
    def _polynomials(self) -> tuple[Values, Values]:
        size = max(len(self.ar), len(self.ma)) + 1
        phi, theta = np.zeros(size), np.zeros(size)
        phi[0] = theta[0] = 1.0
        phi[1 : len(self.ar) + 1] = -np.asarray(self.ar)
        theta[1 : len(self.ma) + 1] = self.ma
        return phi, theta

    @cached_property
    def _prior_root(self) -> Values:
        """A square root ``L`` of the stationary covariance of the filter's state, in units of ``sigma2``."""
        phi, theta = self._polynomials
        gain = phi[1:] - theta[1:]
        move = np.eye(len(gain), k=1)
        move[:, 0] -= phi[1:]
        with warnings.catch_warnings():  # what hardly fades has a covariance beyond all digits: vague, and meant so
            warnings.simplefilter("ignore", LinAlgWarning)
            covariance = solve_discrete_lyapunov(move, np.outer(gain, gain))
        variances, axes = np.linalg.eigh(covariance)
        return np.asarray(axes * np.sqrt(np.maximum(variances, 0.0)))

    def forecast(self, series: Values, steps: int) -> Values:
        """Forecast the ``steps`` values that follow a gap-free ``series``, shape ``(steps,)``.

        Needs at least ``d + 1`` values; the filter warms up on the rest.
        """
        levels = [series]
        for _ in range(self.d):
            levels.append(levels[-1][1:] - levels[-1][:-1])
        state = self._state_after(levels[-1] - self.mean)
        moves = np.full(steps, self.mean)
        if len(state):
            phi, _ = self._polynomials
            moves -= _filtered([1.0], phi, np.zeros(steps), zi=state)[0]
        for level in reversed(levels[:-1]):
            moves = level[-1] + moves.cumsum()
        return moves

    def _state_after(self, centred: Values) -> Values:
        phi, theta = self._polynomials
        size = len(phi) - 1
        if size == 0:
            return np.empty(0)
        # In one call, as each costs more than its filtering: the series from rest, and silence from each prior state.
        series, states = np.zeros((size + 1, len(centred))), np.zeros((size + 1, size))
        series[0], states[1:] = centred, self._prior_root.T
        found, ends = _filtered(phi, theta, series, zi=states)
        innovations, responses = found[0], found[1:]
        weights = np.linalg.solve(np.eye(size) + responses @ responses.T, -responses @ innovations)
        return np.asarray(ends[0] + weights @ ends[1:])


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

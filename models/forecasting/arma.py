"""An ARIMA model as numbers: its exact filter and its forecasts by linear recursion, without any fitting library.

With ``z_t`` the differenced series minus its mean, the model is ``phi(B) z_t = theta(B) e_t``. The innovations are
``e = phi(B) / theta(B) z``, one call of :func:`scipy.signal.lfilter`. The filter's unknown state before the first value
has the stationary distribution as its prior; estimating it by least squares gives what the Kalman filter gives, in one
small solve instead of a loop over time.
"""

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import LinAlgWarning, solve_discrete_lyapunov

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

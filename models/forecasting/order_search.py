"""Which ARIMA fits a series: pmdarima's stepwise search, made safe and bounded. The only module that fits one.

pmdarima is imported when a search begins (it takes seconds), so that a loop that only forecasts never loads it.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from perdix.models.forecasting.arma import Arima
from perdix.telemetry.window import Values

LARGEST_ORDER = 3
ITERATIONS = 30


@dataclass(frozen=True)
class Search:
    """The outcome of one search: the model and how many fits on the way to it did not converge."""

    arima: Arima
    not_converged: int


def search(series: Values, d: int) -> Search:
    """Choose p and q for a gap-free series by AICc and fit, with differencing ``d`` given.

    The series is divided by the size of its steps before fitting: the optimiser's tolerance and statsmodels' diffuse
    prior (a variance of 1e6) are made for numbers near one, and rates of 1e5 records/s leave it with worse orders.
    A constant belongs to ``d = 0`` only: differenced, it is a slope or a parabola over the whole horizon, without end.
    The covariance of the parameters, which nobody asks for, is left out: a workload without noise gives it values on
    which LAPACK may never return. BLAS is held to one thread: its matrices are tiny here, and threads doubled the CPU
    time. Raises ``ValueError`` when no order can be fitted.
    """
    scale = float(np.std(np.diff(series))) if len(series) > 1 else 0.0
    if scale <= 1e-12 * float(np.max(np.abs(series), initial=1.0)):
        return Search(Arima(1, 0.0, (), (), 0.0), 0)  # constant: it stays as it is
    from pmdarima import ARIMA, auto_arima  # noqa: PLC0415 -- seconds of import that only training pays
    from threadpoolctl import threadpool_limits  # noqa: PLC0415

    with warnings.catch_warnings(record=True) as caught, threadpool_limits(1):
        warnings.simplefilter("always")
        try:
            fitted = auto_arima(
                series / scale,
                d=d,
                seasonal=False,
                max_p=LARGEST_ORDER,
                max_q=LARGEST_ORDER,
                with_intercept=d == 0,
                information_criterion="aicc",
                maxiter=ITERATIONS,
                error_action="ignore",
                suppress_warnings=False,
                cov_type="none",
            )
            if d > 0 and fitted.with_intercept:  # the stepwise search tries a constant whatever it was asked
                fitted = ARIMA(fitted.order, maxiter=ITERATIONS, with_intercept=False).fit(
                    series / scale, cov_type="none"
                )
        except (ValueError, np.linalg.LinAlgError) as error:
            raise ValueError(f"no ARIMA with d = {d} could be fitted to {len(series)} values ({error})") from error
    not_converged = sum("converge" in str(warning.message).lower() for warning in caught)
    return Search(_numbers(fitted, scale), not_converged)


def _numbers(fitted: object, scale: float) -> Arima:
    p, d, q = fitted.order  # type: ignore[attr-defined]
    result = fitted.arima_res_  # type: ignore[attr-defined]
    values = dict(zip(result.param_names, (float(value) for value in result.params), strict=True))
    return Arima(
        d,
        values.get("intercept", 0.0) * scale,
        tuple(values[f"ar.L{lag}"] for lag in range(1, p + 1)),
        tuple(values[f"ma.L{lag}"] for lag in range(1, q + 1)),
        values["sigma2"] * scale**2,
    )

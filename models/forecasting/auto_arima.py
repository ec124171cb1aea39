"""Auto-ARIMA on means over 10 s or 60 s, forecast at second level by our own recursion.

The order is found by pmdarima's stepwise search, made safe and bounded. pmdarima is imported when a search begins (it
takes seconds), so that a loop that only forecasts never loads it.
"""

import warnings
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from perdix.models.forecasting.arma import LEAST_SERIES, LONGEST_BRIDGE_CELLS, Arima, bins_of, project
from perdix.models.forecasting.contract import HORIZON_S, Workload
from perdix.models.forecasting.errors import wape
from perdix.models.forecasting.member import Member, stretched
from perdix.models.forecasting.tail import Tail
from perdix.telemetry.window import Values

CANDIDATES = ((10.0, 1), (10.0, 2), (60.0, 1))  # bin in seconds, order of differencing
LARGEST_SERIES = 360  # the last hour of 10 s, the last six of 60 s
FIT_SPAN_S = 6 * 3600.0
LEAST_CELL_S = 10.0
KEEP_S = 7200.0
ORIGINS = 24
LARGEST_ORDER = 3  # of p and of q
ITERATIONS = 30


@dataclass(frozen=True)
class Search:
    """The outcome of one search: the model and how many fits on the way to it did not converge."""

    arima: Arima
    not_converged: int


@dataclass(frozen=True)
class AutoArima(Member):
    """ARIMA(p, d, q): p and q by pmdarima, the bin and d by how well they forecast 900 s from origins of the history.

    Information criteria cannot choose between series that are binned or differenced differently. Bins of 10 s with two
    differences follow a smooth workload best, bins of 60 s with one a noisy workload (``benchmarks/forecast.py``).
    Fitting is pmdarima's; filtering and forecasting are :class:`~perdix.models.forecasting.arma.Arima`'s.
    """

    family: ClassVar[str] = "auto-arima"

    bin_s: float
    arima: Arima
    not_converged: int

    @classmethod
    def fit(cls, history: Workload, *, horizon_s: float = HORIZON_S, seed: int = 0) -> Self:  # noqa: ARG003
        """Fit to a history.

        A bin and ``d`` for which no order can be fitted is passed over: a workload without noise leaves some of them no
        solution, and which depends on the last bit.

        Raises ``ValueError`` when fewer than 20 bins of 10 s follow the last long gap, or nothing could be fitted to
        any of them.
        """
        tail = Tail.of(history, stretched(LEAST_CELL_S, horizon_s), stretched(FIT_SPAN_S, horizon_s))
        candidates: list[tuple[float, float, Search]] = []
        failures: list[str] = []
        bins = {(max(stretched(bin_s, horizon_s), tail.cell_s), d) for bin_s, d in CANDIDATES}
        for bin_s, d in sorted(bins):
            series = bins_of(tail, bin_s)
            if len(series) >= LEAST_SERIES:
                try:
                    found = search(series[-LARGEST_SERIES:], d)
                except ValueError as error:
                    failures.append(f"bins of {bin_s:g} s: {error}")
                    continue
                candidates.append((_rolling_wape(found.arima, series, int(horizon_s / bin_s)), bin_s, found))
        if failures and not candidates:
            raise ValueError("; ".join(failures))
        if not candidates:
            raise ValueError(
                f"{cls.family} needs {LEAST_SERIES} bins of {tail.cell_s:g} s in a row; the history has "
                f"{len(bins_of(tail, tail.cell_s))} since its last gap above {LONGEST_BRIDGE_CELLS} of them"
            )
        _, bin_s, best = min(candidates, key=lambda candidate: candidate[0])
        not_converged = sum(found.not_converged for _, _, found in candidates)
        return cls(tail.cell_s, stretched(KEEP_S, horizon_s), bin_s, best.arima, not_converged)

    def project(self, tail: Tail, edges_s: Values) -> Values:
        """Return the model's forecast, bin means interpolated so that they keep their means."""
        return project(self.arima, self.bin_s, tail, edges_s)


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


def _rolling_wape(arima: Arima, series: Values, steps: int) -> float:
    """WAPE over origins of the series, all together, as many ``steps`` ahead as there is truth."""
    first = max(arima.d + 1, LEAST_SERIES // 2)
    origins = np.unique(np.linspace(first, max(first, len(series) - steps), ORIGINS).astype(int))
    pairs = []
    for origin in origins:
        truth = series[origin : origin + steps]
        pairs.append((truth, np.maximum(arima.forecast(series[:origin], len(truth)), 0.0)))
    return wape(np.concatenate([truth for truth, _ in pairs]), np.concatenate([guess for _, guess in pairs]))

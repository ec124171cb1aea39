"""Auto-ARIMA on means over 10 s or 60 s, forecast at second level by our own recursion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from perdix.models.forecasting.arma import Arima
from perdix.models.forecasting.binned import LEAST_SERIES, LONGEST_BRIDGE_CELLS, bins_of, project
from perdix.models.forecasting.contract import HORIZON_S, Workload
from perdix.models.forecasting.errors import wape
from perdix.models.forecasting.member import Member, stretched
from perdix.models.forecasting.order_search import Search, search
from perdix.models.forecasting.tail import Tail
from perdix.telemetry.window import Values

CANDIDATES = ((10.0, 1), (10.0, 2), (60.0, 1))  # bin in seconds, order of differencing
LARGEST_SERIES = 360  # the last hour of 10 s, the last six of 60 s
FIT_SPAN_S = 6 * 3600.0
LEAST_CELL_S = 10.0
KEEP_S = 7200.0
ORIGINS = 24


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

    def parameters(self) -> dict[str, Any]:
        """Return bin, order and coefficients."""
        return {"bin_s": self.bin_s, "not_converged": self.not_converged, "arima": self.arima.to_state()}

    @classmethod
    def with_parameters(cls, cell_s: float, keep_s: float, parameters: Mapping[str, Any]) -> Self:
        """Rebuild."""
        arima = Arima.from_state(parameters["arima"])
        return cls(cell_s, keep_s, float(parameters["bin_s"]), arima, int(parameters["not_converged"]))


def _rolling_wape(arima: Arima, series: Values, steps: int) -> float:
    """WAPE over origins of the series, all together, as many ``steps`` ahead as there is truth."""
    first = max(arima.d + 1, LEAST_SERIES // 2)
    origins = np.unique(np.linspace(first, max(first, len(series) - steps), ORIGINS).astype(int))
    pairs = []
    for origin in origins:
        truth = series[origin : origin + steps]
        pairs.append((truth, np.maximum(arima.forecast(series[:origin], len(truth)), 0.0)))
    return wape(np.concatenate([truth for truth, _ in pairs]), np.concatenate([guess for _, guess in pairs]))

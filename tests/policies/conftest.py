"""A situation to start from: 1,000 records/s per worker, a flat load, nothing rescaled lately."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from perdix.models.capacity.contract import Estimate
from perdix.models.forecasting.contract import Forecast
from perdix.models.recovery.downtime import Downtimes
from perdix.policies.contract import Situation
from perdix.settings.stream_job import Bounds, Objectives
from perdix.telemetry.lateness import SeenLate

NOW_S = 1_700_000_000.0
Situate = Callable[..., Situation]


def situation_of(
    *,
    load: float = 3_500.0,
    forecast: float | np.ndarray[Any, Any] | None = None,
    step_s: float = 1.0,
    capacities: Mapping[int, float] | None = None,
    bounds: tuple[int, int] = (1, 12),
    **changes: Any,
) -> Situation:
    """Return a situation; ``forecast`` is a rate or the rates of the steps, the load when absent."""
    rates = np.full(900, load if forecast is None else forecast) if np.ndim(forecast) == 0 else np.asarray(forecast)
    known = {n: 1_000.0 * n for n in range(bounds[0], bounds[1] + 1)} if capacities is None else capacities
    given: dict[str, Any] = {
        "now_s": NOW_S,
        "scale_out": 5,
        "workload_per_s": load,
        "recent_workload_per_s": load,
        "lag_records": 0.0,
        "cpu_load": 0.7,
        "forecast": Forecast(NOW_S, step_s, rates, {}, "linear", 0),
        "capacities": {n: Estimate(n, value, 0.9 * value, 1.1 * value, False, "test") for n, value in known.items()},
        "downtimes": Downtimes.assumed(out_s=30.0, in_s=15.0, failure_s=30.0),
        "bounds": Bounds(minimum=bounds[0], maximum=bounds[1]),
        "objectives": Objectives(recovery_time_s=600.0, checkpoint_interval_s=10.0),
    }
    latency_ms = changes.get("latency_p95_ms")
    if latency_ms is not None:  # measured once, just now
        late = float(latency_ms > {**given, **changes}["objectives"].latency_p95_ms)
        given["seen_late"] = SeenLate(np.array([changes.get("now_s", NOW_S)]), np.array([late]))
    return Situation(**{**given, **changes})


@pytest.fixture
def situate() -> Situate:
    """The maker of situations."""
    return situation_of

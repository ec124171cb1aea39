"""What a job's metrics can be: plausible ranges from its own bounds and history, and the window without the rest.

Belongs here: one metric by itself. Does not belong here: metrics that contradict each other
(:mod:`perdix.telemetry.agreement`), and what is made of either (``control``).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from perdix.settings.stream_job import MOST_WORKERS, Bounds
from perdix.telemetry.metrics import CANONICAL, LAG, SCALE_OUT, THROUGHPUT, WORKLOAD
from perdix.telemetry.window import Rejected, Values, Window

BEYOND_BOUNDS: Final = 10  # times the largest scale-out that perdix may choose, or that the target says it runs
SURGE: Final = 1_000.0  # times the highest workload of the last hours
ANY_WORKER_PER_S: Final = 1e7  # what a job may do that has hardly been seen yet, records/s per worker
RETAINED_S: Final = 30 * 86_400.0  # of the highest workload, that may wait in the source


@dataclass(frozen=True)
class Plausible:
    """The range of one metric, in its unit."""

    low: float
    high: float


_USUAL: Final = {name: Plausible(metric.low, metric.high) for name, metric in CANONICAL.items()}


def plausible_ranges(
    bounds: Bounds, running: int | None = None, highest_per_s: float | None = None
) -> Mapping[str, Plausible]:
    """Return canonical metric -> what it can be.

    ``running``: workers that the target says run; ``None`` where it does not say.
    ``highest_per_s``: the highest workload that the job is known to have had, records/s; ``None`` where nothing is
    known.
    """
    workers = max(bounds.maximum, running or 0)
    surge_per_s = SURGE * (highest_per_s or 0.0)
    rate_per_s = max(surge_per_s, ANY_WORKER_PER_S * workers)
    highest = {
        WORKLOAD.name: rate_per_s,
        THROUGHPUT.name: max(surge_per_s, ANY_WORKER_PER_S),
        LAG.name: RETAINED_S * rate_per_s,
        SCALE_OUT.name: float(min(BEYOND_BOUNDS * workers, MOST_WORKERS)),
    }
    return {**_USUAL, **{name: Plausible(CANONICAL[name].low, high) for name, high in highest.items()}}


def screened(window: Window, ranges: Mapping[str, Plausible]) -> Window:
    """Return the window without what cannot be: NaN in the arrays, and named in :attr:`Window.rejected`."""
    found: list[Rejected] = []

    def without(name: str, values: Values) -> Values:
        limits = ranges.get(name)
        if limits is None or not values.size:
            return values
        wrong = (values < limits.low) | (values > limits.high)  # NaN is neither
        if not wrong.any():
            return values
        times_s = np.broadcast_to(window.times_s.reshape(-1, *[1] * (values.ndim - 1)), values.shape)[wrong]
        found.append(Rejected(name, limits.low, limits.high, times_s, values[wrong]))
        return np.where(wrong, np.nan, values)

    job_metrics = {name: without(name, values) for name, values in window.job_metrics.items()}
    worker_metrics = {name: without(name, values) for name, values in window.worker_metrics.items()}
    if not found:
        return window
    return replace(window, job_metrics=job_metrics, worker_metrics=worker_metrics, rejected=(*window.rejected, *found))

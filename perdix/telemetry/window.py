"""A window: everything that one read of the clock saw of one job, aligned on one grid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from perdix.telemetry.metrics import CANONICAL

Values = NDArray[np.float64]
OF_RECORDS = frozenset(name for name, metric in CANONICAL.items() if metric.unit.startswith("records"))


@dataclass(frozen=True)
class SampleCounts:
    """Where every sample that was read went; ``read == used + masked + duplicate + outside``."""

    read: int = 0
    used: int = 0
    masked: int = 0
    duplicate: int = 0
    outside: int = 0
    out_of_order: int = 0  # information only: these are among the used
    resets: int = 0  # counter resets seen: information only

    def __add__(self, other: SampleCounts) -> SampleCounts:
        return SampleCounts(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class Rejected:
    """Values of one metric that cannot be: they lie outside ``low`` to ``high``. Never used, never learned."""

    metric: str
    low: float
    high: float
    # times_s, values: epoch seconds of each, and the value in the metric's unit, shape ``(n,)``; at least one
    times_s: Values
    values: Values

    def sentence(self) -> str:
        """Return in words what was rejected and why; of several values the newest is named."""
        newest = self.values[int(np.argmax(self.times_s))]
        if newest < self.low:
            return f"{self.metric} {newest:g} is below {self.low:g}"
        of_bytes = " (if its query counts bytes, let it count records)" if self.metric in OF_RECORDS else ""
        return f"{self.metric} {newest:g} is outside {self.low:g} to {self.high:g}{of_bytes}"


@dataclass(frozen=True)
class Window:
    """Aligned metrics of one job. A missing value is NaN in the arrays; ask :meth:`missing` for the mask."""

    job: str
    step_s: float
    # Grid of epoch seconds, shape ``(n,)``, spaced ``step_s``; the last one is the newest step that is complete
    times_s: Values
    workers: tuple[str, ...] = ()
    job_metrics: Mapping[str, Values] = field(default_factory=dict)  # canonical job-level metric -> shape ``(n,)``
    # Canonical worker-level metric -> shape ``(n, len(workers))``, columns in the order of ``workers``
    worker_metrics: Mapping[str, Values] = field(default_factory=dict)
    # Epoch seconds of the newest finite sample of any metric, up to the window's end; ``None`` when there was none
    newest_sample_s: float | None = None
    counts: SampleCounts = SampleCounts()
    # Samples that lie more than a scrape interval after the window's end: a clock runs ahead. They are not used
    ahead: int = 0
    rejected: tuple[Rejected, ...] = ()  # what was read and cannot be; NaN in the arrays

    def __len__(self) -> int:
        return len(self.times_s)

    def job_metric(self, name: str) -> Values:
        """Return a job-level metric, shape ``(n,)``; all NaN where it was never read."""
        found = self.job_metrics.get(name)
        return np.full(len(self), np.nan) if found is None else found

    def worker_metric(self, name: str) -> Values:
        """Return a worker-level metric, shape ``(n, workers)``; all NaN where it was never read."""
        found = self.worker_metrics.get(name)
        return np.full((len(self), len(self.workers)), np.nan) if found is None else found

    def missing(self, name: str) -> NDArray[np.bool_]:
        """Return the mask of missing values of a metric, in that metric's shape."""
        return np.isnan(self.worker_metrics[name] if name in self.worker_metrics else self.job_metric(name))

    def age_s(self, now_s: float) -> float:
        """Return how old the newest finite sample is at ``now_s``; infinite when there was none."""
        return float("inf") if self.newest_sample_s is None else now_s - self.newest_sample_s

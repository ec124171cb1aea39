"""The last hours of one job: what was measured, what is forecast of it, and which decisions rescaled it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perdix.control.explain import RESCALES, Explanation, explain
from perdix.control.sources import MetricsSource, SourceError
from perdix.control.state.ledger import Entry
from perdix.control.state.store import StateStore
from perdix.models.forecasting.contract import Forecast
from perdix.settings.stream_job import StreamJob
from perdix.telemetry.metrics import LATENCY, WORKLOAD
from perdix.telemetry.window import Window

HOURS = 6.0  # that are read and shown


@dataclass(frozen=True)
class JobCourse:
    """What happened to a job lately."""

    job: StreamJob
    now_s: float  # epoch seconds of its end
    # Its metrics as a tick reads them; ``None`` where they cannot be read, and ``unread`` says why
    window: Window | None
    unread: str
    explanation: Explanation  # of the last decision
    rescales: Sequence[Entry] = ()  # decisions of the time shown that were applied, oldest first
    forecasts: Sequence[Forecast] = ()  # those whose truth is not known yet, oldest first

    @property
    def load_per_s(self) -> float | None:
        """Mean load of the newest five minutes, records/s; ``None`` where it was not measured."""
        if self.window is None:
            return None
        newest = self.window.job_metric(WORKLOAD.name)[self.window.times_s > self.now_s - 300.0]
        return float(np.nanmean(newest)) if np.isfinite(newest).any() else None

    @property
    def late_share(self) -> float | None:
        """Share of the time, as far as it was measured, in which the p95 latency was above its objective."""
        latency_ms = np.empty(0) if self.window is None else self.window.job_metric(LATENCY.name)
        known = latency_ms[np.isfinite(latency_ms)]
        return float((known > self.job.objectives.latency_p95_ms).mean()) if len(known) else None

    @property
    def budget_left(self) -> float | None:
        """What is left of the error budget of the last hours, fading over 8 h: 1 all of it, below 0 overspent."""
        entry = self.explanation.entry
        left = None if entry is None else entry.intent.explanation.get("error_budget_left")
        return None if left is None else float(left)


def job_course(
    job: StreamJob, source: MetricsSource, store: StateStore, now_s: float, hours: float = HOURS
) -> JobCourse:
    """Read what happened to a job in the last ``hours``; metrics that cannot be read are left out, with the reason."""
    since_s = now_s - 3_600.0 * hours
    window, unread = None, ""
    try:
        window = source.read(job, now_s, since_s).window
    except SourceError as error:
        unread = str(error)
    decided = store.ledger.decisions(job.name, since_s=since_s, until_s=now_s, states=RESCALES)
    return JobCourse(
        job=job,
        now_s=now_s,
        window=window if window is not None and window.newest_sample_s is not None else None,
        unread=unread or "its Prometheus has no series of these hours",
        explanation=explain(store, job.name, now_s),
        rescales=tuple(reversed([entry for entry in decided if entry.applied_s is not None])),
        forecasts=tuple(store.learned.pending_forecasts(job.name)),
    )

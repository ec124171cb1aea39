"""Observe: read a job's metrics, judge whether they are good enough, and say what they show."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from control.sources import BESIDE_THE_TICK_S, NEEDED_TO_DECIDE, MetricsSource, SourceError
from models.forecasting.contract import Workload
from settings.stream_job import StreamJob
from telemetry import metrics
from telemetry.quality import Quality, assess
from telemetry.window import Values, Window


@dataclass(frozen=True)
class Observation:
    """What one read showed. Numbers are ``None`` where nothing was measured, and never a guess.

    Attributes
    ----------
    window
        All that was read: what models learn from. ``None`` when the source could not be read.
    quality
        Judgement of its newest part, on which a decision would rest.
    workload_per_s, throughput_per_s, cpu_load, latency_p95_ms
        Means since the last tick: records/s, records/s over all workers, ratio over workers, ms.
    recent_workload_per_s
        Mean over the last checkpoint interval, records/s.
    worker_cpu, worker_busy
        Means since the last tick of each worker that reports in the newest steps, ratios; empty where unmeasured.
    lag_records, scale_out, uptime_s
        Newest values.
    """

    window: Window | None
    quality: Quality
    workload_per_s: float | None = None
    recent_workload_per_s: float | None = None
    throughput_per_s: float | None = None
    cpu_load: float | None = None
    lag_records: float | None = None
    latency_p95_ms: float | None = None
    scale_out: int | None = None
    problems: tuple[str, ...] = field(default=())
    worker_cpu: tuple[float, ...] = ()
    worker_busy: tuple[float, ...] = ()
    uptime_s: float | None = None

    @property
    def end_s(self) -> float | None:
        """Epoch seconds of the newest complete step."""
        return None if self.window is None or not len(self.window) else float(self.window.times_s[-1])


def observe(job: StreamJob, source: MetricsSource, now_s: float, since_s: float, tick_interval_s: float) -> Observation:
    """Read and judge; whatever is wrong with the metrics becomes a judgement, never an exception."""
    try:
        reading = source.read(job, now_s, since_s)
    except SourceError as error:
        return Observation(None, Quality(ok=False, blind=True, problems=(str(error),)), problems=(str(error),))
    window = reading.window
    recent = newest(window, tick_interval_s + BESIDE_THE_TICK_S)
    # A job that is known to stand still has no throughput to miss: after a rescale that would read as blindness.
    still = standing_still(recent)
    quality = assess(rows(recent, ~still), now_s, window.step_s, NEEDED_TO_DECIDE)
    if len(still) and still.all():  # for longer than a decision looks back: of how the job works, nothing is left
        stopped = f"the job has stood still for the last {recent.times_s[-1] - recent.times_s[0] + window.step_s:.0f} s"
        quality = replace(quality, ok=False, blind=True, problems=(stopped,))
    if not len(window):
        return Observation(window, quality, problems=(*quality.problems, *reading.warnings))
    tick = newest(window, tick_interval_s)
    checkpoint = newest(window, max(job.objectives.checkpoint_interval_s, window.step_s))
    scale_out = last_finite(window.job_metric(metrics.SCALE_OUT.name))
    return Observation(
        window=window,
        quality=quality,
        workload_per_s=_mean(tick.job_metric(metrics.WORKLOAD.name)),
        recent_workload_per_s=_mean(checkpoint.job_metric(metrics.WORKLOAD.name)),
        throughput_per_s=_mean(total_throughput(tick)),
        cpu_load=_mean(tick.worker_metric(metrics.CPU.name)),
        lag_records=last_finite(recent.job_metric(metrics.LAG.name)),
        latency_p95_ms=_mean(tick.job_metric(metrics.LATENCY.name)),
        scale_out=None if scale_out is None else round(scale_out),
        problems=(*quality.problems, *reading.warnings),
        worker_cpu=_means_of_present(tick.worker_metric(metrics.CPU.name)),
        worker_busy=_means_of_present(tick.worker_metric(metrics.BUSY.name)),
        uptime_s=last_finite(tick.job_metric(metrics.UPTIME.name)),
    )


def newest(window: Window, seconds: float) -> Window:
    """Return the rows of the last ``seconds`` of a window."""
    return rows(window, window.times_s > window.times_s[-1] - seconds) if len(window) else window


def rows(window: Window, kept: NDArray[np.bool_]) -> Window:
    """Return some rows of a window, shape of the mask ``(n,)``; its counts still tell of the whole read."""
    return replace(
        window,
        times_s=window.times_s[kept],
        job_metrics={name: values[kept] for name, values in window.job_metrics.items()},
        worker_metrics={name: values[kept] for name, values in window.worker_metrics.items()},
    )


def workload_of(window: Window) -> Workload:
    """Return the workload of a window in the form that forecasters take."""
    start_s = float(window.times_s[0]) - window.step_s if len(window) else 0.0
    return Workload(start_s, window.step_s, np.asarray(window.job_metric(metrics.WORKLOAD.name)))


def total_throughput(window: Window) -> Values:
    """Return records/s summed over workers, shape ``(n,)``; NaN where a worker that was there does not report.

    A missing worker is not a worker that stands still: summing over those that report would look like an outage. A
    registered worker that never reports in the window (a spare one, without a source) is not waited for.
    """
    per_worker = window.worker_metric(metrics.THROUGHPUT.name)
    reporting = np.isfinite(per_worker).sum(axis=1)
    registered = window.job_metric(metrics.SCALE_OUT.name)
    most = reporting.max(initial=0)
    expected = np.minimum(np.where(np.isfinite(registered), registered, 1.0), max(most, 1))
    return np.where((reporting > 0) & (reporting >= expected), np.nansum(per_worker, axis=1), np.nan)


def standing_still(window: Window) -> NDArray[np.bool_]:
    """Return where the job is known to stand still, shape ``(n,)``.

    Its workers show no throughput, while records arrive and the engine itself says that it is not up: its uptime is 0
    (Flink's JobManager), or it has none while the scale-out is still told. That is no lost scrape.
    """
    silent = np.isnan(window.worker_metric(metrics.THROUGHPUT.name)).all(axis=1)
    uptime = window.job_metric(metrics.UPTIME.name)
    known = np.isfinite(uptime)
    down = (uptime == 0.0) | (~known & np.isfinite(window.job_metric(metrics.SCALE_OUT.name)))
    arriving = np.isfinite(window.job_metric(metrics.WORKLOAD.name))
    return np.asarray(silent & arriving & down & known.any())


def last_finite(values: Values) -> float | None:
    """Return the newest value that was measured."""
    known = np.flatnonzero(np.isfinite(values))
    return float(values[known[-1]]) if len(known) else None


def _means_of_present(per_worker: Values) -> tuple[float, ...]:
    """Return the mean of each column of ``(n, workers)`` that has a value in the last two rows (one may still be owed).

    A worker that was released by a rescale since the last tick says nothing of those that run.
    """
    present = per_worker[:, np.isfinite(per_worker[-2:]).any(axis=0)]
    known = np.isfinite(present)
    means = np.where(known, present, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    return tuple(means.tolist())


def _mean(values: Values) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.mean()) if known.size else None

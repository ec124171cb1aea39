"""Observe: read a job's metrics, judge whether they are good enough, and say what they show."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from perdix.control.sources import BESIDE_THE_TICK_S, NEEDED_TO_DECIDE, MetricsSource, SourceError
from perdix.models.capacity.workers import Against
from perdix.models.forecasting.contract import Workload
from perdix.settings.replacing import replace
from perdix.settings.stream_job import StreamJob
from perdix.telemetry import metrics
from perdix.telemetry.agreement import Agreement, surroundings
from perdix.telemetry.lateness import SeenLate
from perdix.telemetry.plausible import Plausible, screened
from perdix.telemetry.quality import Quality, assess
from perdix.telemetry.uptime import starts_s
from perdix.telemetry.window import Values, Window

NEWEST_STEPS = 2  # of the grid, by which the present is judged: the newest may still be owed


@dataclass(frozen=True)
class Observation:
    """What one read showed. Numbers are ``None`` where nothing was measured, and never a guess.

    ``window``: all that was read and may be true: what models learn from. ``None`` when the source could not be read.
    ``quality``: judgement of its newest part, on which a decision would rest.
    ``workload_per_s``, ``throughput_per_s``, ``cpu_load``, ``latency_p95_ms``: means since the last tick: records/s,
    records/s over all workers, ratio over workers, ms.
    ``recent_workload_per_s``: mean over the last checkpoint interval, records/s.
    ``worker_cpu``, ``worker_busy``: means since the last tick of each worker that reports in the newest steps, ratios;
    empty where unmeasured.
    ``lag_records``, ``scale_out``, ``uptime_s``, ``memory_ratio``: newest values; the last is the share of its heap
    that the fullest worker uses.
    ``waited_records``: fewest records that waited at any moment since the last tick.
    ``contradiction``: what of it cannot be true together, in words with both numbers; ``None`` where all agrees.
    ``seen_late``: when in the window it was late.
    ``still``: whether the job is known to stand still.
    ``unchecked``: why it is unknown whether fewer workers would do, in words: the job was restarted so lately that its
    metrics cannot be held against each other yet, or a backlog drains too slowly for the reported workload; else
    ``None``.
    ``past``: the workload of the hours before the window; ``None`` where it was not read.
    """

    window: Window | None
    quality: Quality
    workload_per_s: float | None = None
    recent_workload_per_s: float | None = None
    throughput_per_s: float | None = None
    cpu_load: float | None = None
    lag_records: float | None = None
    waited_records: float | None = None
    latency_p95_ms: float | None = None
    seen_late: SeenLate = field(default_factory=SeenLate)
    scale_out: int | None = None
    problems: tuple[str, ...] = field(default=())
    worker_cpu: tuple[float, ...] = ()
    worker_busy: tuple[float, ...] = ()
    uptime_s: float | None = None
    contradiction: str | None = None
    still: bool = False
    memory_ratio: float | None = None
    unchecked: str | None = None
    past: Workload | None = None

    @property
    def clear(self) -> bool:
        """Whether enough was seen, and all of it agrees."""
        return self.quality.ok and self.contradiction is None

    @property
    def teaches(self) -> bool:
        """Whether models may learn from it; that a job stands still is seen although its throughput is not."""
        return self.contradiction is None and (not self.quality.blind or self.still)

    @property
    def end_s(self) -> float | None:
        """Epoch seconds of the newest complete step."""
        return None if self.window is None or not len(self.window) else float(self.window.times_s[-1])


def observe(
    job: StreamJob,
    source: MetricsSource,
    now_s: float,
    since_s: float,
    tick_interval_s: float,
    *,
    ranges: Mapping[str, Plausible] | None = None,
    running: int | None = None,
) -> Observation:
    """Read and judge; whatever is wrong with the metrics becomes a judgement, never an exception.

    ``ranges``: canonical metric -> what it can be; the rest is dropped and reported.
    ``running``: workers that the target says run; ``None`` where it does not say, or where that is about to change.
    """
    try:
        reading = source.read(job, now_s, since_s)
    except SourceError as error:
        return Observation(None, Quality(ok=False, blind=True, problems=(str(error),)), problems=(str(error),))
    window = reading.window if ranges is None else screened(reading.window, ranges)
    recent = newest(window, tick_interval_s + BESIDE_THE_TICK_S)
    # A job that is known to stand still has no throughput to miss: after a rescale that would read as blindness.
    still = standing_still(recent)
    quality = assess(rows(recent, ~still) if still.any() else recent, now_s, window.step_s, NEEDED_TO_DECIDE, running)
    if len(still) and still.all():  # for longer than a decision looks back: of how the job works, nothing is left
        stopped = f"the job has stood still for the last {recent.times_s[-1] - recent.times_s[0] + window.step_s:.0f} s"
        quality = replace(quality, ok=False, blind=True, problems=(stopped,))
    if not len(window):
        return Observation(window, quality, problems=(*quality.problems, *reading.warnings))
    tick = newest(window, tick_interval_s)
    workload = window.job_metric(metrics.WORKLOAD.name)
    checkpoint = _begin(window, max(job.objectives.checkpoint_interval_s, window.step_s))
    scale_out = last_finite(window.job_metric(metrics.SCALE_OUT.name))
    halted = still if recent is window else standing_still(window)
    interrupted = halted | _just_restarted(window)
    agreement = _agreement(job, window, interrupted)
    wrong = agreement.contradicting()
    contradiction = _contradiction(tick) if wrong[-NEWEST_STEPS:].any() else None
    problems = (*(() if contradiction is None else (contradiction,)), *quality.problems, *_rejected(tick, quality))
    return Observation(
        window=_without(job, window, wrong),
        quality=quality,
        workload_per_s=mean_of_known(tick.job_metric(metrics.WORKLOAD.name)),
        recent_workload_per_s=mean_of_known(workload[checkpoint:]),
        throughput_per_s=mean_of_known(total_throughput(tick)),
        cpu_load=mean_of_known(tick.worker_metric(metrics.CPU.name)),
        lag_records=last_finite(recent.job_metric(metrics.LAG.name)),
        waited_records=_least(tick.job_metric(metrics.LAG.name)),
        latency_p95_ms=mean_of_known(tick.job_metric(metrics.LATENCY.name)),
        seen_late=_seen_late(window, halted, job.objectives.latency_p95_ms),
        scale_out=None if scale_out is None else round(scale_out),
        problems=(*problems, *reading.warnings),
        worker_cpu=_means_of_present(tick.worker_metric(metrics.CPU.name)),
        worker_busy=_means_of_present(tick.worker_metric(metrics.BUSY.name)),
        uptime_s=last_finite(tick.job_metric(metrics.UPTIME.name)),
        memory_ratio=last_finite(tick.job_metric(metrics.MEMORY.name)),
        contradiction=contradiction,
        still=bool(still[-1]),
        unchecked=_unchecked(window, agreement),
        past=_past(reading.past, ranges or {}),
    )


def _agreement(job: StreamJob, window: Window, interrupted: NDArray[np.bool_]) -> Agreement:
    """Return how workload, throughput and lag of a window go together."""
    return Agreement(
        window.step_s,
        window.job_metric(metrics.WORKLOAD.name),
        total_throughput(window),
        window.job_metric(metrics.LAG.name),
        interrupted=interrupted,
        checkpoint_interval_s=job.objectives.checkpoint_interval_s,
    )


def _unchecked(window: Window, agreement: Agreement) -> str | None:
    """Return in words why metrics that ask for fewer workers cannot be checked, else ``None``."""
    if agreement.unjudged()[-NEWEST_STEPS:].all():
        uptime_s = last_finite(window.job_metric(metrics.UPTIME.name))
        restarted = "Just restarted" if uptime_s is None else f"Restarted {uptime_s:.0f} s ago"
        return f"{restarted}; whether what is measured since then is true is not known yet."
    if agreement.understated()[-NEWEST_STEPS:].any():
        return "The backlog drains so slowly that far more must arrive than the reported workload."
    if agreement.unexplained()[-NEWEST_STEPS:].any():
        return "Workload and throughput are apart, and the consumer lag does not say why."
    return None


def _just_restarted(window: Window) -> NDArray[np.bool_]:
    """Return the first step after each restart, shape ``(n,)``: the stop may have fitted between two scrapes."""
    starts = starts_s(window)
    if starts is None:
        return np.zeros(len(window), dtype=np.bool_)
    return np.asarray((starts <= window.times_s) & (window.times_s <= starts + window.step_s))


def _contradiction(tick: Window) -> str:
    workload, throughput = mean_of_known(tick.job_metric(metrics.WORKLOAD.name)), mean_of_known(total_throughput(tick))
    lag = tick.job_metric(metrics.LAG.name)
    known = lag[np.isfinite(lag)]
    moved = f"moved by {known[-1] - known[0]:,.0f}" if len(known) > 1 else "is not measured"
    return (
        f"workload {workload or 0.0:,.0f}/s and throughput {throughput or 0.0:,.0f}/s contradict each other: "
        f"the consumer lag {moved} records"
    )


def _without(job: StreamJob, window: Window, wrong: NDArray[np.bool_]) -> Window:
    """Return the window without what contradicts itself; whatever of it may be wrong is not learned."""
    if not wrong.any():
        return window
    around = surroundings(wrong, window.step_s, job.objectives.checkpoint_interval_s)
    kept = (metrics.SCALE_OUT.name, metrics.UPTIME.name)
    of_job = {
        name: values if name in kept else np.where(around, np.nan, values)
        for name, values in window.job_metrics.items()
    }
    of_workers = {name: np.where(around[:, None], np.nan, values) for name, values in window.worker_metrics.items()}
    return replace(window, job_metrics=of_job, worker_metrics=of_workers)


def _rejected(tick: Window, quality: Quality) -> tuple[str, ...]:
    """Return in words what was rejected since the last tick, unless the judgement says so already."""
    begins_s = tick.times_s[0] - tick.step_s
    sentences = (item.sentence() for item in tick.rejected if item.times_s.max() > begins_s)
    return tuple(text for text in sentences if not any(text in problem for problem in quality.problems))


def doubting(observation: Observation, doubted: Against | None) -> Observation:
    """Return the observation with what the workers did at their CPU load before held against it.

    ``doubted``: what of it contradicts the capacity model; ``None`` where nothing does.
    """
    if doubted is None or observation.contradiction is not None:
        return observation
    each = doubted.cpu_load / max(doubted.workers, 1)
    contradiction = (
        f"throughput {doubted.done_per_s:,.0f}/s and CPU load {each:.0%} contradict each other: "
        f"at that load the workers were found to take {max(doubted.believed_per_s, 0.0):,.0f}/s"
    )
    return replace(observation, contradiction=contradiction, problems=(contradiction, *observation.problems))


def newest(window: Window, seconds: float) -> Window:
    """Return the rows of the last ``seconds`` of a window."""
    begin = _begin(window, seconds) if len(window) else 0
    return rows(window, slice(begin, None)) if begin else window


def _begin(window: Window, seconds: float) -> int:
    """Return the first row of the last ``seconds`` of a window that has any."""
    return int(window.times_s.searchsorted(window.times_s[-1] - seconds, side="right"))  # times ascend


def rows(window: Window, kept: NDArray[np.bool_] | slice) -> Window:
    """Return some rows of a window, by a mask of shape ``(n,)`` or a slice; its counts are still of the whole read."""
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


def _past(window: Window | None, ranges: Mapping[str, Plausible]) -> Workload | None:
    """Return the workload of the hours before, from where it begins; ``None`` where nothing is known of it."""
    if window is None:
        return None
    workload = workload_of(screened(window, ranges))
    known = np.flatnonzero(np.isfinite(workload.per_s))
    return workload.part(int(known[0]), len(workload)) if len(known) else None


def total_throughput(window: Window) -> Values:
    """Return records/s summed over workers, shape ``(n,)``; NaN where a worker that was there does not report.

    A missing worker is not a worker that stands still: summing over those that report would look like an outage. A
    registered worker that never reports in the window (a spare one, without a source) is not waited for.
    """
    per_worker = window.worker_metric(metrics.THROUGHPUT.name)
    known = np.isfinite(per_worker)
    reporting = known.sum(axis=1)
    registered = window.job_metric(metrics.SCALE_OUT.name)
    most = reporting.max(initial=0)
    expected = np.minimum(np.where(np.isfinite(registered), registered, 1.0), max(most, 1))
    return np.where((reporting > 0) & (reporting >= expected), np.where(known, per_worker, 0.0).sum(axis=1), np.nan)


def standing_still(window: Window) -> NDArray[np.bool_]:
    """Return where the job is known to stand still, shape ``(n,)``.

    Its workers show no throughput, while records arrive and the engine itself says that it is not up: its uptime is 0
    (Flink's JobManager), or it has none while the scale-out is still reported. That is no lost scrape.
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


def mean_of_known(values: Values) -> float | None:
    """Return the mean of what was measured."""
    known = values[np.isfinite(values)]
    return float(known.sum()) / known.size if known.size else None


def _seen_late(window: Window, halted: NDArray[np.bool_], objective_ms: float) -> SeenLate:
    """Return when a window was late; nothing where the latency is not measured at all."""
    latency_ms = window.job_metric(metrics.LATENCY.name)
    measured = np.isfinite(latency_ms)
    if not measured.any():
        return SeenLate()
    with np.errstate(invalid="ignore"):
        late = ((latency_ms > objective_ms) | halted).astype(np.float64)
    return SeenLate(window.times_s, np.where(measured | halted, late, np.nan))


def _least(values: Values) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.min()) if known.size else None

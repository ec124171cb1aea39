"""What a run on the testbed came to, from its own Prometheus: the same figures and courses as those of a replay.

Belongs here: arithmetic on a window of metrics. Does not belong here: reading it, and who scaled the job meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from perdix.control.observe import standing_still
from perdix.replay.figures import latency_of
from perdix.replay.outcome import Course, Outcome, Played, Recovery
from perdix.telemetry import metrics
from perdix.telemetry.window import Values, Window

BEHIND_S = 5.0  # of the workload in the consumer lag, above which a job has not yet caught up
CALM_S = 10.0  # for so long it must hold
TOGETHER_S = 5.0  # changes of the scale-out that are one


@dataclass(frozen=True)
class Rescale:
    """A change of what runs, as the metrics show it."""

    at_s: float  # epoch second since which the new scale-out is seen
    from_scale_out: int
    scale_out: int
    downtime_s: float  # seconds around it in which nothing was processed
    # From the stop until the job had caught up; ``None`` when it had not by the next rescale, or the end
    recovery_s: float | None


def workers_of(window: Window) -> Values:
    """Return workers held in each step, shape ``(n,)``: while a job restarts it still holds those that it had."""
    return _carried(window.job_metric(metrics.SCALE_OUT.name))


def rescales_of(window: Window) -> list[Rescale]:
    """Return every change of the scale-out, oldest first, with the downtime and the recovery that followed.

    Workers appear and vanish within a few seconds: that is one change. A worker that dies and is replaced shows as two.
    """
    held = workers_of(window)
    changes = _changes(held, max(1, round(TOGETHER_S / window.step_s)))
    stopped = _stopped(window)
    calm = _calm(window, stopped)
    found = []
    for number, at in enumerate(changes):
        until = changes[number + 1] if number + 1 < len(changes) else len(window)
        began = _began(stopped, at)
        caught_up = np.flatnonzero(calm[at:until])
        found.append(
            Rescale(
                at_s=float(window.times_s[at]),
                from_scale_out=round(float(held[changes[number - 1] if number else 0])),
                scale_out=round(float(held[at])),
                downtime_s=float(stopped[began:until].sum()) * window.step_s,
                recovery_s=(at + int(caught_up[0]) - began) * window.step_s if len(caught_up) else None,
            )
        )
    return found


def _changes(held: Values, together: int) -> list[int]:
    """Return the steps in which another scale-out is reached, of ``held`` with shape ``(n,)``.

    Of changes with less than ``together`` steps between them the last one counts, unless nothing has changed by then.
    """
    reached: list[int] = []
    before = held[0] if len(held) else np.nan
    for k in np.flatnonzero(np.diff(held) != 0) + 1:
        if reached and k - reached[-1] < together:
            reached.pop()
        elif reached:
            before = held[reached[-1]]
        if held[k] != before:
            reached.append(int(k))
    return reached


def quantiles_ms(below: Mapping[float, float], asked: Sequence[float]) -> list[float]:
    """Return quantiles of a cumulative histogram, by lines within its buckets.

    ``below``: upper bound in ms (the last may be infinite) -> records at or below it.
    ``asked``: quantiles in (0, 1).
    Returns ms; the largest finite bound where a quantile lies above it, NaN where there are no records.
    """
    bounds = np.array(sorted(below))
    counts = np.maximum.accumulate(np.array([below[bound] for bound in bounds]))
    if not len(bounds) or counts[-1] <= 0:
        return [float("nan")] * len(asked)
    finite = bounds[np.isfinite(bounds)]
    edges = np.concatenate(([0.0], np.where(np.isfinite(bounds), bounds, finite[-1])))
    shares = np.concatenate(([0.0], counts / counts[-1]))
    found = []
    for quantile in asked:
        k = int(np.searchsorted(shares[1:], quantile))  # the first bucket that reaches it
        within = (quantile - shares[k]) / (shares[k + 1] - shares[k])
        found.append(float(edges[k] + within * (edges[k + 1] - edges[k])))
    return found


def played(
    window: Window,
    *,
    contender: str,
    trace: str,
    repeat: int,
    objective_ms: float,
    predicted_s: Mapping[float, float] | None = None,
    ticks: int = 0,
) -> Played:
    """Return a run as a replay would tell it.

    ``window``: the whole run, a step per second.
    ``predicted_s``: epoch seconds of a decision -> recovery time that was predicted for it.
    """
    workload, lag = _carried(window.job_metric(metrics.WORKLOAD.name)), _carried(window.job_metric(metrics.LAG.name))
    latency, held = window.job_metric(metrics.LATENCY.name), workers_of(window)
    stopped = _stopped(window)
    throughput = np.where(stopped, 0.0, np.nansum(window.worker_metric(metrics.THROUGHPUT.name), axis=1))
    nothing = np.full(len(window), np.nan)
    course = Course(
        times_s=window.times_s,
        workload_per_s=workload,
        throughput_per_s=throughput,
        workers=held,
        lag_records=lag,
        latency_p95_ms=latency,
        cpu_load=np.asarray(pd.DataFrame(window.worker_metric(metrics.CPU.name)).mean(axis=1)),
        capacity_per_s=nothing,
        forecast_per_s=nothing,
        price_per_h=nothing,
    )
    rescales = rescales_of(window)
    late = np.where(stopped & (lag > 0), True, _carried(latency) > objective_ms)
    outcome = Outcome(
        policy=contender,
        trace=trace,
        seed=repeat,
        hours=len(window) * window.step_s / 3_600.0,
        ticks=ticks,
        average_workers=float(np.nanmean(held)),
        worker_s=float(np.nansum(held)) * window.step_s,
        rescales=len(rescales),
        failures=0,
        latency_ms=latency_of(course),
        share_above_objective=float(late.mean()),
        lag_maximum_records=float(np.nanmax(lag, initial=0.0)),
        lag_at_end_records=float(np.nan_to_num(lag[-1])),
        unprocessed=0.0,
        wall_s=len(window) * window.step_s,
        recoveries=tuple(_recovery(rescale, predicted_s or {}) for rescale in rescales),
    )
    return Played(outcome, course)


def _recovery(rescale: Rescale, predicted_s: Mapping[float, float]) -> Recovery:
    """Match a rescale with the newest decision before it, of the last two minutes."""
    before = [at for at in predicted_s if 0.0 <= rescale.at_s - at <= 120.0]
    return Recovery(
        at_s=rescale.at_s,
        cause="out" if rescale.scale_out > rescale.from_scale_out else "in",
        from_scale_out=rescale.from_scale_out,
        scale_out=rescale.scale_out,
        predicted_s=predicted_s[max(before)] if before else None,
        observed_s=rescale.recovery_s,
        true_s=rescale.recovery_s,
        interrupted=rescale.recovery_s is None,
    )


def _stopped(window: Window) -> NDArray[np.bool_]:
    """Return where nothing was processed because the job was down, shape ``(n,)``."""
    silent = ~np.isfinite(window.worker_metric(metrics.THROUGHPUT.name)).any(axis=1)
    return np.asarray(standing_still(window) | silent)


def _calm(window: Window, stopped: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return where the job had caught up and stayed so for ``CALM_S``, shape ``(n,)``."""
    lag, workload = window.job_metric(metrics.LAG.name), _carried(window.job_metric(metrics.WORKLOAD.name))
    with np.errstate(invalid="ignore"):
        fine = (lag <= BEHIND_S * workload) & ~stopped
    steps = max(1, round(CALM_S / window.step_s))
    following = np.array([fine[k : k + steps].all() and k + steps <= len(fine) for k in range(len(fine))], dtype=bool)
    return following if len(fine) else fine


def _began(stopped: NDArray[np.bool_], at: int) -> int:
    """Return the step in which the stop began that belongs to a change seen at step ``at``."""
    k = at
    while k > 0 and stopped[k - 1]:
        k -= 1
    return k


def _carried(values: Values) -> Values:
    """Fill what is missing with the last known value, and what comes before the first with that."""
    return np.asarray(pd.Series(values).ffill().bfill(), dtype=np.float64)

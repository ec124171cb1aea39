"""What a job's past teaches: its load, what each scale-out can take, its restarts and its usual latency.

Pure: from two aligned windows to values. What cannot be judged is refused with the reason, in words for a reader.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from perdix.models.capacity.contract import Estimate
from perdix.models.capacity.pairing import epoch_s
from perdix.models.capacity.scale_outs import ScaleOuts
from perdix.models.forecasting.contract import Workload
from perdix.scan.reading import Past
from perdix.settings.durations import DAY_S, in_words
from perdix.settings.plain_error import PlainError
from perdix.telemetry.features import capacity_features, workload_features
from perdix.telemetry.metrics import CPU, LAG, LATENCY, SCALE_OUT, THROUGHPUT, UPTIME, WORKLOAD
from perdix.telemetry.observations import tables
from perdix.telemetry.window import Values, Window

LEAST_S: Final = 6 * 3_600.0  # of load that must be known
LEAST_COVERAGE: Final = 0.5  # share of the time between the first and the last known load
ROOM: Final = 2.0  # times the most workers that ran: how far sizes are looked at
ROOM_WORKERS: Final = 2
MOST_ROOM: Final = 4  # times that, where the load is more than it takes
CALM: Final = 0.5  # quantile of the latency that counts as the usual one
CARRIED_S: Final = 900.0  # for which a scale-out that is not measured is the last known one, whatever else is missing
DYING_S: Final = 180.0  # for which the uptime of a job that works no more may go on: heartbeats have to time out first
LONGEST_RESTART_S: Final = 1_800.0
MANY_WORKERS: Final = 2_000  # of one job: more is a fault of its metrics, rather


class CannotJudgeError(PlainError):
    """No recommendation is possible for a job. The message gives the reason and the fix."""


@dataclass(frozen=True)
class Restarts:
    """What was seen of a job's restarts."""

    seen: int = 0  # how many
    # Median time for which the job did not run around one, seconds; ``None`` where none was seen
    standstill_s: float | None = None


@dataclass(frozen=True)
class Learned:
    """What is known of a job."""

    load: Workload  # what arrived, records/s; NaN where it was not measured
    load_is_derived: bool  # whether it was not measured, but is what was consumed and what the lag grew by
    capacities: Mapping[int, Estimate]  # scale-out -> what it takes, from 1 worker to :attr:`maximum`
    workers: Values  # workers of each step of the load, shape ``(n,)``; the last known one is carried on; 0: stopped
    restarts: Restarts
    usual_latency_ms: float | None  # median of the measured p95 latency; ``None`` where none was measured
    # latency_ms, lag_records, throughput_per_s: as measured in each step, shape ``(n,)``, NaN where not
    latency_ms: Values
    lag_records: Values
    throughput_per_s: Values
    partitions: int | None = None  # of its source; ``None`` where that is not known
    notes: tuple[str, ...] = ()

    @property
    def maximum(self) -> int:
        """The largest scale-out that is looked at."""
        return max(self.capacities)

    @property
    def known_s(self) -> float:
        """How long its load is known, seconds."""
        return float(np.isfinite(self.load.per_s).sum()) * self.load.step_s

    @property
    def known_days(self) -> float:
        """How long its load is known, days."""
        return self.known_s / DAY_S

    @property
    def known_share(self) -> float:
        """Share of the time from its first to its last known load for which it is known, 0 to 1."""
        return self.known_s / (len(self.load) * self.load.step_s)

    @property
    def average_workers(self) -> float:
        """Mean of the workers that ran: none while the job was stopped."""
        return float(self.workers.mean())

    @property
    def peak_workers(self) -> int:
        """Most workers that ran for a step."""
        return int(self.workers.max())


def learn(past: Past, partitions: int | None = None) -> Learned:
    """Return what a job's past teaches.

    Raises ``CannotJudgeError``, naming what is missing or implausible, and the fix.

    ``partitions``: of its source, where that is known.
    """
    _check_there(past)
    of_job, _ = tables(past.of_job)
    load, derived = _load(of_job, past.of_job.step_s)
    known_s = float(np.isfinite(load.per_s).sum()) * load.step_s
    _check_known(load, known_s)
    workers = _workers(past, load)
    return Learned(
        load=load,
        load_is_derived=derived,
        capacities=_capacities(past, workers, float(np.nanmax(load.per_s)), partitions),
        workers=workers,
        restarts=restarts_of(past.of_job),
        usual_latency_ms=_usual(past.of_job.job_metric(LATENCY.name)),
        latency_ms=_at(past.of_job, past.of_job.job_metric(LATENCY.name), load),
        lag_records=_at(past.of_job, past.of_job.job_metric(LAG.name), load),
        throughput_per_s=_at(past.of_job, _throughput(past.of_job), load),
        partitions=partitions,
        notes=past.warnings,
    )


def _check_there(past: Past) -> None:
    """Refuse a job of which something that is needed was never seen, or cannot be."""
    if np.isnan(_throughput(past.of_job)).all() and np.isnan(past.of_job.job_metric(WORKLOAD.name)).all():
        raise CannotJudgeError(_missing(THROUGHPUT.name, past, "what it consumes is not known"))
    if np.isnan(past.of_workers.worker_metric(CPU.name)).all():
        raise CannotJudgeError(_missing(CPU.name, past, "how busy its workers are is not known"))
    if np.isnan(past.of_workers.worker_metric(THROUGHPUT.name)).all():
        raise CannotJudgeError(_missing(THROUGHPUT.name, past, "what each worker consumes is not known"))


def _missing(metric: str, past: Past, so: str) -> str:
    """Return why a metric is missing: it cannot be true, it was refused, or it is not there."""
    rejected = {
        values.metric: values.sentence() for window in (past.of_job, past.of_workers) for values in window.rejected
    }
    if metric in rejected:
        hint = "; is it in percent? divide its query in conf/queries by 100" if metric == CPU.name else ""
        return f"no usable {metric}: {rejected[metric]}{hint}"
    refused = next((warning for warning in past.warnings if warning.startswith(f"{metric}: ")), None)
    if refused is not None:
        return f"{refused}; where that is too much for the server, give fewer --days"
    return f"no {metric} in Prometheus, so {so}; see the query of {metric} in conf/queries"


def _load(of_job: pd.DataFrame, step_s: float) -> tuple[Workload, bool]:
    derived = bool(of_job[WORKLOAD.name].isna().all())
    rows = workload_features(of_job, step_s)
    if rows.empty:
        return Workload(0.0, step_s, np.empty(0)), derived
    ends_s = epoch_s(rows["ts"])
    rates = rows[WORKLOAD.name].to_numpy(dtype=np.float64)
    return Workload(float(ends_s[0]) - step_s, step_s, rates).plausible(), derived


def _check_known(load: Workload, known_s: float) -> None:
    if known_s < LEAST_S:
        had = in_words(known_s) if known_s else "nothing"
        raise CannotJudgeError(f"only {had} of its load is known; at least {in_words(LEAST_S)} are needed")
    length_s = len(load) * load.step_s
    if known_s < LEAST_COVERAGE * length_s:
        share = known_s / length_s
        raise CannotJudgeError(f"its load is known for only {share:.0%} of the time; is it scraped throughout?")
    if not float(np.nanmax(load.per_s)) > 0.0:
        raise CannotJudgeError("nothing arrived in all of this time; is it still needed?")


def _workers(past: Past, load: Workload) -> Values:
    """Return the scale-out of each step of the load, shape ``(len(load),)``; before the first known one, that one.

    0 while the job is stopped. Raises ``CannotJudgeError`` where no scale-out is known.
    """
    window = past.of_job
    measured = window.job_metric(SCALE_OUT.name)
    if np.isnan(measured).all():
        of_job, _ = tables(past.of_workers)
        window, measured = past.of_workers, of_job[SCALE_OUT.name].to_numpy(dtype=np.float64)
    known = np.isfinite(measured) & (measured >= 1)
    if not known.any():
        raise CannotJudgeError("how many workers it has is not known; see the query of scale_out in conf/queries")
    ends_s = load.start_s + load.step_s * np.arange(1, len(load) + 1)
    place = np.clip(np.searchsorted(window.times_s[known], ends_s + 1e-6, side="right") - 1, 0, None)
    carried = np.round(measured[known])[place]
    return np.asarray(np.where(_stopped(past.of_job, window, known, load), 0.0, carried), dtype=np.float64)


def _stopped(of_job: Window, window: Window, known: NDArray[np.bool_], load: Workload) -> NDArray[np.bool_]:
    """Return in which steps of the load the job is stopped, shape ``(len(load),)``.

    It is where its load goes on being measured, and for longer than ``CARRIED_S`` nothing shows the job: no scale-out,
    uptime or throughput. Where nothing at all is measured, or the uptime has gone on meanwhile, it is a gap.

    ``window``, ``known``: where its scale-out stands, and in which steps of that it is known.
    """
    uptime, throughput = of_job.job_metric(UPTIME.name), _throughput(of_job)
    shown_s = of_job.times_s[np.isfinite(uptime) | np.isfinite(throughput)]
    edges_s = np.append(np.union1d(window.times_s[known], shown_s), load.end_s + load.step_s)
    up = np.isfinite(uptime) & (uptime > 0)
    up_s, started_s = of_job.times_s[up], (of_job.times_s - uptime)[up]
    ends_s = load.start_s + load.step_s * np.arange(1, len(load) + 1)
    stopped = np.zeros(len(load), dtype=np.bool_)
    for place in np.flatnonzero(np.diff(edges_s) > max(CARRIED_S, 2.0 * window.step_s) + 1e-6):
        began_s, ended_s = edges_s[place], edges_s[place + 1]
        again = np.searchsorted(up_s, ended_s - 1e-6)
        ran_on = again < len(up_s) and started_s[again] <= began_s + window.step_s
        if not ran_on:
            stopped |= (ends_s > began_s + 1e-6) & (ends_s < ended_s - 1e-6) & np.isfinite(load.per_s)
    return stopped


def _capacities(past: Past, workers: Values, peak_per_s: float, partitions: int | None) -> Mapping[int, Estimate]:
    of_job, of_workers = tables(past.of_workers)
    features = capacity_features(of_workers, of_job)
    try:
        model = ScaleOuts.from_features(features)
    except ValueError as error:
        raise CannotJudgeError(f"its capacity cannot be learned: {error}") from None
    most = int(workers.max())
    if most > MANY_WORKERS:
        raise CannotJudgeError(f"it is said to have {most:,} workers; perdix looks at {MANY_WORKERS:,} at most")
    highest = int(np.ceil(ROOM * most)) + ROOM_WORKERS
    table = model.table(highest, partitions=partitions)
    if table[highest].per_s < peak_per_s:
        more = min(int(np.ceil(highest * 1.5 * peak_per_s / table[highest].per_s)), MOST_ROOM * highest)
        table = model.table(more, partitions=partitions)
    return table


def restarts_of(window: Window) -> Restarts:
    """Return the restarts that a window shows: where the uptime fell, or went up after it was gone.

    Where the job was gone for longer than ``LONGEST_RESTART_S``, somebody stopped it, or nothing was measured.
    """
    uptime, throughput = window.job_metric(UPTIME.name), _throughput(window)
    known = np.flatnonzero(np.isfinite(uptime) & (uptime > 0))  # Flink shows 0 while a job is not yet running again
    if len(known) < 2:
        return Restarts()
    started_s = window.times_s[known] - uptime[known]
    again = np.flatnonzero(np.diff(started_s) > 1.5 * window.step_s) + 1
    gone: list[float] = []
    for place in again:
        before = known[known < known[place]]
        worked = before[np.isfinite(throughput[before]) & (throughput[before] > 0)]
        if len(worked):
            # The job stopped at some moment after the last step in which it worked. One that was idle for longer than
            # it takes to notice that workers are lost ran on: it stopped after the last step of its uptime.
            idle_s = float(window.times_s[before[-1]] - window.times_s[worked[-1]])
            last = worked[-1] if idle_s <= max(DYING_S, window.step_s) else before[-1]
            last_s = float(window.times_s[last]) + 0.5 * window.step_s
            gone.append(max(float(started_s[place]) - last_s, 1.0))
    took = [seconds for seconds in gone if seconds <= LONGEST_RESTART_S]
    return Restarts(len(again) - len(gone) + len(took), float(np.median(took)) if took else None)


def _throughput(window: Window) -> Values:
    """Return what all workers consumed, shape ``(n,)``."""
    table = window.worker_metric(THROUGHPUT.name)
    return np.asarray(table[:, 0]) if table.shape[1] else np.full(len(window), np.nan)


def _usual(latency_ms: Values) -> float | None:
    known = latency_ms[np.isfinite(latency_ms) & (latency_ms > 0)]
    return float(np.quantile(known, CALM)) if len(known) else None


def _at(window: Window, values: Values, load: Workload) -> Values:
    """Return values at the ends of the load's steps, NaN where there is none; shape ``(len(load),)``."""
    places: NDArray[np.int64] = np.round((window.times_s - load.start_s) / load.step_s).astype(np.int64) - 1
    inside = (places >= 0) & (places < len(load))
    found = np.full(len(load), np.nan)
    found[places[inside]] = values[inside]
    return found

"""Samples of the lake to observations: what was true of a job, and of each of its workers, at each step.

Belongs here: rows to series and an aligned window to wide tables, in plain pandas so that Spark can run it per job and
day. Does not belong here: reading and writing the lake, features.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from perdix.telemetry.alignment import align, natural_step_s
from perdix.telemetry.features import timestamps
from perdix.telemetry.joining import UNNAMED_WORKER
from perdix.telemetry.landing import was_pulled
from perdix.telemetry.metrics import BUSY, CANONICAL, CPU, LAG, LATENCY, SCALE_OUT, THROUGHPUT, UPTIME, WORKLOAD
from perdix.telemetry.series import Kind, Series
from perdix.telemetry.window import SampleCounts, Values, Window

SHORTEST_STEP_S = 1.0
USUAL_STEP_S = 15.0  # of a job that was scraped once, where no spacing can be seen
SAME_SUM = 0.05  # relative: two queries look at windows of their own
ABSENT_AFTER_S = 120.0  # a worker that is silent for longer is gone, not late

_JOB_LEVEL = (WORKLOAD.name, LAG.name, LATENCY.name, UPTIME.name)


def observe(samples: pd.DataFrame, job: str, day: str | None = None) -> tuple[pd.DataFrame, pd.DataFrame, SampleCounts]:
    """Align the samples of one job (and day) on the grid of its scrape interval.

    ``samples``: rows of the lake's ``samples``: ``metric``, ``worker``, ``ts``, ``value`` (null where masked), and
    ``series_id`` and ``kind`` where known; with ``labels`` (JSON), the replicas of a Prometheus pair are distinguished
    from the slots of a worker, else each ``series_id`` is a series of its own; with ``source``, what was pulled of a
    metric counts where no export by hand has it. Other than canonical metrics are left alone. Copies are to be one
    already (:mod:`perdix.telemetry.copies`).
    ``job``: name of the stream job.
    ``day``: ``YYYY-MM-DD`` (UTC): only steps whose end lies in the day are kept, and a sample after the day's last step
    is counted as outside. Without it, everything.

    Returns ``of_job``, the columns of ``job_observations``, one row per step from the first sample to the last, null =
    missing; ``of_workers``, the columns of ``worker_observations``, a row per step and worker that has any value;
    ``counts``, where every sample of a canonical metric went. ``throughput_per_s`` is the sum over workers, missing
    while a worker that is there is silent; one without a name that is the sum of the others is the job's. Where no
    scale-out was ever measured, ``scale_out`` is the count of workers that are there (silent for at most two minutes).
    """
    by_hand, pulled = _series(samples[samples["metric"].isin(list(CANONICAL))])
    step_s = _step_s([*by_hand, *pulled])
    start_s, end_s = _span([*by_hand, *pulled], step_s, day)
    window, throughput = _without_total(align(job, by_hand or pulled, start_s, end_s, step_s))
    if by_hand and pulled:
        window, of_both = _completed(window, align(job, pulled, start_s, end_s, step_s))
        throughput = np.where(np.isnan(of_both), throughput, of_both)
    of_job, of_workers = tables(window)
    return of_job.assign(**{THROUGHPUT.name: throughput}), of_workers, window.counts


def _without_total(window: Window) -> tuple[Window, Values]:
    """Return a window without the worker that has no name where it is the sum of those that have, as of another panel.

    Beside it the throughput of the job, shape ``(n,)``: that of all workers, else that sum.
    """
    table, workers = window.worker_metric(THROUGHPUT.name), window.workers
    of_all = total_of_workers(table, window.step_s)
    if UNNAMED_WORKER not in workers:
        return window, of_all
    at = workers.index(UNNAMED_WORKER)
    total, of_named = table[:, at], total_of_workers(np.delete(table, at, axis=1), window.step_s)
    both = np.isfinite(total) & (of_named > 0)
    if not both.any() or np.median(np.abs(total[both] / of_named[both] - 1.0)) > SAME_SUM:
        return window, of_all
    metrics = {name: np.delete(values, at, axis=1) for name, values in window.worker_metrics.items()}
    kept = (*workers[:at], *workers[at + 1 :])
    return replace(window, workers=kept, worker_metrics=metrics), np.where(np.isnan(of_named), total, of_named)


def _completed(by_hand: Window, pulled: Window) -> tuple[Window, Values]:
    """Return a window of what exports by hand have of each metric, and of what was pulled where they have nothing.

    Where they have it of workers that are not among those pulled, it is all of it: under other names, or the sum. Its
    workers count where they have the names of all that were pulled, or none was. Else those that were pulled are kept,
    and only the total is of the export: the throughput of the job, shape ``(n,)``, which is returned, too.
    """
    workers = tuple(sorted({*by_hand.workers, *pulled.workers}))

    def of(window: Window, name: str) -> Values:
        return pd.DataFrame(window.worker_metric(name), columns=window.workers).reindex(columns=workers).to_numpy()

    worker_metrics = {}
    total = np.full(len(pulled), np.nan)
    for name in {**by_hand.worker_metrics, **pulled.worker_metrics}:
        first, second = of(by_hand, name), of(pulled, name)
        others = np.isfinite(first[:, np.isnan(second).all(axis=0)]).any(axis=1, keepdims=True)
        there, named = (_there(np.isfinite(table), pulled.step_s) for table in (second, first))
        kept = others & (there & ~named).any(axis=1, keepdims=True)
        worker_metrics[name] = np.where(kept | (np.isnan(first) & ~others), second, first)
        if name == THROUGHPUT.name:
            of_kept = total_of_workers(worker_metrics[name], pulled.step_s)
            total = np.where(kept.ravel(), total_of_workers(first, pulled.step_s), of_kept)
    job_metrics = {}
    for name in {**by_hand.job_metrics, **pulled.job_metrics}:
        first, second = by_hand.job_metric(name), pulled.job_metric(name)
        job_metrics[name] = np.where(np.isnan(first), second, first)
    window = replace(
        pulled,
        workers=workers,
        job_metrics=job_metrics,
        worker_metrics=worker_metrics,
        counts=by_hand.counts + pulled.counts,
    )
    return window, total


def tables(window: Window) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return an aligned window as the tables ``of_job`` and ``of_workers`` of :func:`observe`."""
    return _of_job(window), _of_workers(window)


def _series(samples: pd.DataFrame) -> tuple[list[Series], list[Series]]:
    """Split rows into series of exports by hand and series that were pulled, keeping the order in which they came."""
    found: tuple[list[Series], list[Series]] = [], []
    if samples.empty:
        return found
    keys = [name for name in ("metric", "worker", "labels", "series_id", "kind") if name in samples.columns]
    if "labels" in keys and "series_id" in keys:
        keys.remove("series_id")
    number = np.asarray(samples.groupby(keys, dropna=False, sort=False, observed=True).ngroup(), dtype=np.int64)
    counts_as_pulled = _counts_as_pulled(samples, number)
    number = 2 * number + counts_as_pulled
    order = np.argsort(number, kind="stable")
    times_ms = _milliseconds(samples["ts"])[order]
    values = samples["value"].to_numpy(dtype=np.float64, na_value=np.nan)[order]
    begins = np.flatnonzero(np.diff(number[order], prepend=-1))
    ends = np.append(begins[1:], len(order))
    heads = samples[keys].iloc[order[begins]].to_dict("records")
    pulled = counts_as_pulled[order]
    for head, begin, end in zip(heads, begins, ends, strict=True):
        series = Series(
            metric=str(head["metric"]),
            worker=_text(head.get("worker")),
            times_ms=times_ms[begin:end],
            values=values[begin:end],
            labels=_labels(head),
            kind=cast(Kind, _text(head.get("kind")) or "gauge"),
        )
        found[int(pulled[begin])].append(series)
    return found


def _counts_as_pulled(samples: pd.DataFrame, number: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which rows were pulled, or are of an export by hand that has only copies of what was, of their metric.

    Where it has others, too, its copies count as by hand, or the others would be taken for all that it has.

    ``number``: of the series of each row, shape ``(n,)``; a copy has that of its original.
    """
    if "source" not in samples.columns:
        return np.zeros(len(samples), dtype=np.bool_)
    sources = samples["source"]
    pulled = sources.isin([source for source in sources.unique() if was_pulled(source)]).to_numpy()
    if pulled.all() or not pulled.any():
        return pulled
    rows = samples[["source", "metric"]].assign(
        series=samples["series_id"] if "series_id" in samples.columns else number,
        copy=np.isin(number, number[pulled]),
    )
    copy = rows.groupby(["source", "metric", "series"], observed=True, dropna=False)["copy"].transform("any")
    rows["copy"] = copy | samples["value"].isna()
    only_copies = rows.groupby(["source", "metric"], observed=True, dropna=False)["copy"].transform("all")
    counts: NDArray[np.bool_] = pulled | only_copies.to_numpy(dtype=np.bool_)
    return counts


def _milliseconds(ts: pd.Series[pd.Timestamp]) -> NDArray[np.int64]:
    utc = pd.DatetimeIndex(pd.to_datetime(ts, utc=True)).tz_localize(None)
    return np.asarray(utc.to_numpy(dtype="datetime64[ms]").astype(np.int64))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _labels(head: Mapping[Hashable, object]) -> dict[str, str]:
    if labels := _text(head.get("labels")):
        return {str(name): str(value) for name, value in json.loads(labels).items()}
    return {"series_id": str(head["series_id"])} if "series_id" in head else {}


def _step_s(series: list[Series]) -> float:
    try:
        return max(SHORTEST_STEP_S, natural_step_s(series))
    except ValueError:
        return USUAL_STEP_S


def _span(series: list[Series], step_s: float, day: str | None) -> tuple[float, float]:
    """Return start and end of a grid that holds every sample (of the day)."""
    times = np.concatenate([np.empty(0, dtype=np.int64), *(stream.times_ms for stream in series)]) / 1000.0
    if day is not None:
        midnight = datetime.fromisoformat(day).replace(tzinfo=UTC)
        first, after = midnight.timestamp(), (midnight + timedelta(days=1)).timestamp()
        times = times[(times >= first) & (times < after)]
    if not len(times):
        return 0.0, 0.0
    start_s = (np.ceil(times.min() / step_s) - 1) * step_s
    end_s = np.ceil(times.max() / step_s) * step_s
    if day is not None:
        end_s = min(end_s, (np.ceil(after / step_s) - 1) * step_s)
    return float(start_s), float(max(start_s, end_s))


def _of_job(window: Window) -> pd.DataFrame:
    throughput = window.worker_metric(THROUGHPUT.name)
    reporting = _reporting(window)
    cpu = np.where(reporting, window.worker_metric(CPU.name), np.nan)
    columns: dict[str, object] = {"ts": timestamps(window.times_s)}
    columns |= {name: window.job_metric(name) for name in _JOB_LEVEL}
    columns[THROUGHPUT.name] = total_of_workers(throughput, window.step_s)
    columns[SCALE_OUT.name] = _scale_out(window, reporting)
    hottest = _over_workers(cpu, np.maximum)
    mean = _over_workers(cpu, np.add) / np.maximum((~np.isnan(cpu)).sum(axis=1), 1)
    columns["cpu_load_mean"] = np.minimum(mean, hottest)  # rounding takes the mean of equal workers above each of them
    columns["cpu_load_max"] = hottest
    columns["workers_reporting"] = reporting.sum(axis=1).astype(np.int64)
    order = ["ts", WORKLOAD.name, THROUGHPUT.name, LAG.name, LATENCY.name, SCALE_OUT.name, UPTIME.name]
    return pd.DataFrame(columns)[[*order, "cpu_load_mean", "cpu_load_max", "workers_reporting"]]


def _reporting(window: Window) -> NDArray[np.bool_]:
    """Return which workers work for the job at each step, shape ``(n, workers)``.

    A worker shows its CPU also while it has nothing to do with the job (the spare ones of a session cluster), so that
    counts only where the job's own metrics are not there at all.
    """
    known = [~np.isnan(window.worker_metric(metric.name)) for metric in (THROUGHPUT, BUSY)]
    working = known[0] | known[1]
    return working if working.any() else ~np.isnan(window.worker_metric(CPU.name))


def _scale_out(window: Window, reporting: NDArray[np.bool_]) -> Values:
    measured = window.job_metric(SCALE_OUT.name)
    if not np.isnan(measured).all() or not reporting.any():
        return measured
    there = _there(reporting, window.step_s).sum(axis=1)
    return np.where(there > 0, there, np.nan).astype(np.float64)


def total_of_workers(table: Values, step_s: float) -> Values:
    """Sum a table ``(n, workers)`` over workers, shape ``(n,)``; NaN while a worker that is there is silent.

    A worker is there from its first value to its last, but for silences longer than two minutes.
    """
    known = ~np.isnan(table)
    complete = (known | ~_there(known, step_s)).all(axis=1) & known.any(axis=1)
    return np.where(complete, np.where(known, table, 0.0).sum(axis=1), np.nan)


def _there(known: NDArray[np.bool_], step_s: float) -> NDArray[np.bool_]:
    """Fill silences of at most ``ABSENT_AFTER_S`` between two known steps, per column of ``(n, workers)``."""
    steps = np.arange(len(known))[:, None]
    before = np.maximum.accumulate(np.where(known, steps, -1), axis=0)
    after = np.minimum.accumulate(np.where(known, steps, len(known))[::-1], axis=0)[::-1]
    between = (before >= 0) & (after < len(known)) & ((after - before) * step_s <= ABSENT_AFTER_S)
    return known | between


def _over_workers(table: Values, how: np.ufunc) -> Values:
    """Reduce the known values of each row; NaN where a row has none."""
    known = ~np.isnan(table)
    return np.where(known.any(axis=1), how.reduce(np.where(known, table, 0.0), axis=1, initial=0.0), np.nan)


def _of_workers(window: Window) -> pd.DataFrame:
    n, workers = len(window), len(window.workers)
    frame = pd.DataFrame(
        {
            "ts": timestamps(window.times_s).repeat(workers),
            "worker": np.tile(np.array(window.workers, dtype=object), n),
            THROUGHPUT.name: window.worker_metric(THROUGHPUT.name).reshape(-1),
            CPU.name: window.worker_metric(CPU.name).reshape(-1),
        }
    )
    return frame.dropna(subset=[THROUGHPUT.name, CPU.name], how="all").reset_index(drop=True)

"""Pairing CPU with throughput: the same minute of both, without warm-ups and without rows that were learnt before."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from perdix.settings.durations import MINUTE_S
from perdix.telemetry.metrics import CPU, SCALE_OUT, THROUGHPUT
from perdix.telemetry.uptime import starts_s
from perdix.telemetry.window import Values, Window

WARM_UP_S = 120.0  # Daedalus' program: CPU and caches are not themselves before that
ROWS_AROUND = 41  # of 15 s, where the workers that report show the scale-out
HALF = 0.5  # share of the minute's samples that must be there
COLUMNS = ("ts", "worker", "scale_out", "cpu_load", "throughput_per_s")


@dataclass(frozen=True)
class Rows:
    """Paired rows: CPU (one-minute mean, as exporters give it) and the mean throughput of that same minute.

    ``cpu`` and ``throughput_per_s`` have shape ``(n, workers)``; ``minutes_each`` is what one row is worth.
    ``restarted_s``: epoch seconds since which the job runs by the last known uptime; -infinity where none is measured.
    """

    cpu: Values
    throughput_per_s: Values
    minutes_each: float
    newest_s: float
    restarted_s: float


def trailing_mean(values: Values, steps: int) -> Values:
    """Return the mean of each row and the ``steps - 1`` before it, NaN where fewer than half of ``steps`` are there.

    Shape ``(n, workers)`` in and out. CPU is a mean over the last minute and so lags a momentary throughput by about
    45 s (measured); on a ramp that tilts the line by some 5 %.
    """
    present = np.isfinite(values)
    sums = np.where(present, values, 0.0).cumsum(axis=0)
    counts = present.cumsum(axis=0)
    if len(values) > steps:
        sums[steps:], counts[steps:] = sums[steps:] - sums[:-steps], counts[steps:] - counts[:-steps]
    enough = counts >= max(1.0, HALF * steps)
    return np.where(enough, sums / np.maximum(counts, 1), np.nan)


def paired_minutes(window: Window, scale_out: int, after_s: float, arrived_s: float) -> Rows | None:
    """Return the rows of a window that a capacity model may learn from; ``None`` when there is none.

    Left out: rows up to ``after_s``; rows of another scale-out; rows within 120 s of a (re)start, by the job's uptime
    where that is measured, else by when the scale-out was first seen (``arrived_s``). After the last known uptime the
    job may have restarted: such rows are learnt from once a later one is known.
    """
    if not len(window) or not window.workers:
        return None
    steps = max(1, round(MINUTE_S / window.step_s))
    usable = window.times_s > after_s
    usable &= ~_of_another(window, scale_out)
    started_s = starts_s(window)
    usable &= window.times_s >= (arrived_s if started_s is None else started_s) + WARM_UP_S
    if not usable.any():
        return None
    throughput = trailing_mean(window.worker_metric(THROUGHPUT.name), steps)[usable]
    cpu = window.worker_metric(CPU.name)[usable]
    restarted_s = -math.inf if started_s is None else float(started_s[np.isfinite(started_s)][-1])
    return Rows(cpu, throughput, min(1.0, window.step_s / MINUTE_S), float(window.times_s[usable][-1]), restarted_s)


def seen_from_s(window: Window, scale_out: int) -> float:
    """Return the epoch second from which on no other scale-out is seen in a window that is not empty."""
    others = np.flatnonzero(_of_another(window, scale_out))
    return float(window.times_s[min(int(others[-1]) + 1, len(window) - 1) if len(others) else 0])


def _of_another(window: Window, scale_out: int) -> NDArray[np.bool_]:
    running = window.job_metric(SCALE_OUT.name)
    return np.asarray(np.isfinite(running) & (running.round() != scale_out))


@dataclass(frozen=True)
class Run:
    """A stretch of history at one scale-out; arrays of shape ``(n, len(workers))``, NaN where missing."""

    scale_out: int
    workers: tuple[str, ...]
    times_s: Values
    cpu: Values
    throughput_per_s: Values
    minutes_each: float


def runs_of_scale_out(frame: pd.DataFrame) -> Iterator[Run]:
    """Yield the stretches of a ``capacity_features`` frame at one scale-out, oldest first.

    Raises ``ValueError``, naming the columns that are missing.
    """
    missing = [name for name in COLUMNS if name not in frame.columns]
    if missing:
        raise ValueError(f"capacity features lack {', '.join(missing)}; build them with the feature pipeline")
    rows = frame.loc[frame["ts"].notna() & frame["worker"].notna(), list(COLUMNS)]
    if rows.empty:
        return
    scale_outs = scale_out_of(rows).groupby(rows["ts"]).max()
    times, counts = epoch_s(scale_outs.index), scale_outs.to_numpy()
    minutes = min(1.0, float(np.median(np.diff(times))) / MINUTE_S) if len(times) > 1 else 1.0
    starts = np.flatnonzero(np.diff(counts, prepend=counts[0] - 1))
    # A table each: where pods get new names at every rescale, one of all of them would have as many columns.
    number = np.searchsorted(starts, scale_outs.index.get_indexer(pd.Index(rows["ts"])), side="right") - 1
    for run, part in rows.groupby(number):
        cpu, throughput = (
            part.pivot_table(index="ts", columns="worker", values=name, dropna=False, observed=True)
            for name in ("cpu_load", "throughput_per_s")
        )
        reporting = cpu.columns[cpu.notna().any(axis=0)]
        yield Run(
            int(counts[starts[int(cast("int", run))]]),
            tuple(map(str, reporting)),
            epoch_s(cpu.index),
            cpu[reporting].to_numpy(float),
            throughput.reindex(index=cpu.index, columns=reporting).to_numpy(float),
            minutes,
        )


def scale_out_of(rows: pd.DataFrame) -> pd.Series[int]:
    """Return the scale-out of every row, whole and at least 1.

    Exports without the engine's own count (Grafana panels of pods, for one) still show it by who reports: the most
    workers in the ten minutes or so around a row, so that a pod that misses a scrape is not a rescale.
    """
    stated = rows["scale_out"].astype(float)
    reporting = rows.groupby("ts", sort=True)["worker"].nunique().rolling(ROWS_AROUND, center=True, min_periods=1).max()
    return stated.fillna(rows["ts"].map(reporting)).round().clip(lower=1).astype(int)


def epoch_s(index: pd.Index | pd.Series) -> Values:
    """Return epoch seconds of timestamps (naive ones are UTC)."""
    stamps = pd.DatetimeIndex(pd.to_datetime(index, utc=True)).as_unit("us")
    return np.asarray(stamps.astype("int64"), dtype=np.float64) / 1e6

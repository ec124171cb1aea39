"""Observations to features: the workload on a regular grid, and CPU beside throughput of the same minute.

Belongs here: derived tables that models are trained on, in plain pandas so that Spark can run them per job and day.
Does not belong here: fitting anything.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from perdix.settings.durations import DAY_S, MINUTE_S
from perdix.telemetry.metrics import CPU, LAG, SCALE_OUT, THROUGHPUT, UPTIME, WORKLOAD
from perdix.telemetry.window import Values

ROW_EVERY_S = 15.0
WARM_UP_S = 120.0  # rows so soon after a restart or rescale are dropped (as Daedalus): no minute reaches across one
JUMPY = -0.25  # lag-1 autocorrelation of changes: white noise -0.5; minute means in the measured data at least -0.19

WORKLOAD_COLUMNS = ["ts", WORKLOAD.name]
CAPACITY_COLUMNS = ["ts", "worker", SCALE_OUT.name, CPU.name, THROUGHPUT.name, "cpu_share", "throughput_share"]


def workload_features(job_obs: pd.DataFrame, step_s: float = 10.0) -> pd.DataFrame:
    """Return the workload as means over ``step_s``.

    ``job_obs``: ``job_observations`` of one job, in any order.
    ``step_s``: width of the grid in seconds; a step is named by its end.

    Returns ``ts``, ``workload_per_s`` on a regular grid from the first known step to the last; null = missing (less
    than half of the step is known). Observations coarser than the grid count for each step that they cover.

    Where the workload was never measured, it is what the workers consumed plus what the lag grew by (records are
    neither made nor lost), not below zero; where the lag is not known, throughput alone.
    """
    rows = job_obs.sort_values("ts").drop_duplicates("ts", keep="last")
    times_s = _seconds(rows["ts"])
    workload = _floats(rows, WORKLOAD.name)
    if np.isnan(workload).all():
        workload = _consumed_and_queued(rows, times_s)
    ends_s, means = step_means(times_s, workload, step_s)
    return pd.DataFrame({"ts": timestamps(ends_s), WORKLOAD.name: means})[WORKLOAD_COLUMNS]


def capacity_features(worker_obs: pd.DataFrame, job_obs: pd.DataFrame) -> pd.DataFrame:
    """Return CPU and throughput of each worker over the same minute.

    ``worker_obs``, ``job_obs``: observations of one job, from the same alignment, in any order.

    Returns ``ts``, ``worker``, ``scale_out``, ``cpu_load``, ``throughput_per_s``, ``cpu_share`` (of the hottest
    worker's CPU, the proportional skew of Daedalus 3.2) and ``throughput_share`` (of the sum), at most one row per
    worker and 15 s; rows that lack CPU or throughput are left out. Shares are null while a worker of the stretch
    between two restarts is missing.

    ``cpu_load`` is a mean of the last minute (and made one where it jumps like an instantaneous reading), so it trails
    throughput. Throughput is averaged over that same minute, without a further lag: on the four measured runs this
    pairing had the smallest error of capacity from samples below 70 % CPU (``docs/results.md``).
    """
    if worker_obs.empty:
        return _no_capacity_rows()
    times_s, workers, cpu, throughput = _wide(worker_obs)
    step_s = _usual_step_s(times_s)
    steps = max(1, round(MINUTE_S / step_s))
    cpu = np.column_stack([_trailing_mean(column, steps) if _jumps(column) else column for column in cpu.T])
    throughput = np.column_stack([_trailing_mean(column, steps) for column in throughput.T])
    scale_out, stretch, since_s = _stretches(job_obs, times_s)
    complete = ~np.isnan(cpu) & ~np.isnan(throughput)
    settled = (since_s >= WARM_UP_S) & _every(times_s, ROW_EVERY_S)
    cpu_share, throughput_share = _shares(cpu, throughput, complete, stretch)
    at, who = np.nonzero(complete & settled[:, None])
    return pd.DataFrame(
        {
            "ts": timestamps(times_s[at]),
            "worker": np.array(workers, dtype=object)[who],
            SCALE_OUT.name: scale_out[at],
            CPU.name: cpu[at, who],
            THROUGHPUT.name: throughput[at, who],
            "cpu_share": cpu_share[at, who],
            "throughput_share": throughput_share[at, who],
        }
    )[CAPACITY_COLUMNS]


def step_means(times_s: Values, values: Values, step_s: float) -> tuple[Values, Values]:
    """Spread values that each hold for the time since the one before onto a grid of ``step_s``.

    Returns ends of steps and means, both shape ``(m,)``, trimmed to the known part; NaN where less than half is known.
    """
    if not len(times_s) or np.isnan(values).all():
        return np.empty(0), np.empty(0)
    usual_s = _usual_step_s(times_s)
    width = np.minimum(np.diff(times_s, prepend=times_s[0] - usual_s), 1.5 * usual_s)
    known = ~np.isnan(values)
    begins, ends = times_s[known] - width[known], times_s[known]
    edges = np.arange(np.floor(begins[0] / step_s), np.ceil(ends[-1] / step_s) + 1) * step_s
    cuts = np.unique(np.concatenate([edges, begins, ends]))
    piece, middle = np.diff(cuts), (cuts[:-1] + cuts[1:]) / 2
    value = np.searchsorted(ends, middle)
    holds = (value < len(ends)) & (begins[np.minimum(value, len(ends) - 1)] <= middle)
    step, piece, value = np.searchsorted(edges, middle)[holds] - 1, piece[holds], value[holds]
    # each step by itself: in a running total, one absurd value would swallow all that come after it
    total = np.bincount(step, values[known][value] * piece, minlength=len(edges) - 1)
    covered = np.bincount(step, piece, minlength=len(edges) - 1)
    means = np.full(len(covered), np.nan)
    days = np.floor(times_s / DAY_S)  # a step of the day before or after belongs to that day's observations
    enough = (covered >= 0.5 * step_s) & np.isin(np.floor(edges[1:] / DAY_S), days)
    means[enough] = total[enough] / covered[enough]
    if not enough.any():
        return np.empty(0), np.empty(0)
    first, last = np.flatnonzero(enough)[[0, -1]]
    return edges[1:][first : last + 1], means[first : last + 1]


def _consumed_and_queued(rows: pd.DataFrame, times_s: Values) -> Values:
    consumed = _floats(rows, THROUGHPUT.name)
    lag = _floats(rows, LAG.name)
    if len(lag) < 2:
        return consumed
    growth = np.diff(lag, prepend=np.nan) / np.diff(times_s, prepend=np.nan)
    return np.maximum(consumed + np.nan_to_num(growth, nan=0.0), 0.0)


def _wide(worker_obs: pd.DataFrame) -> tuple[Values, list[str], Values, Values]:
    """Return the regular grid (epoch seconds), worker names, and CPU and throughput, each ``(n, workers)``."""
    rows = worker_obs.drop_duplicates(["ts", "worker"], keep="last")
    workers = sorted(rows["worker"].unique().tolist())
    column = pd.Categorical(rows["worker"], categories=workers).codes
    seen_s = _seconds(rows["ts"])
    step_s = _usual_step_s(np.unique(seen_s))
    at = np.round((seen_s - seen_s.min()) / step_s).astype(np.int64)
    times_s = seen_s.min() + step_s * np.arange(at.max() + 1)
    tables = np.full((2, len(times_s), len(workers)), np.nan)
    for table, name in zip(tables, (CPU.name, THROUGHPUT.name), strict=True):
        table[at, column] = _floats(rows, name)
    return times_s, workers, tables[0], tables[1]


def _trailing_mean(values: Values, steps: int) -> Values:
    """Mean of the last ``steps`` values; NaN unless the newest and at least half of them are known."""
    means = pd.Series(values).rolling(steps, min_periods=(steps + 1) // 2).mean().to_numpy()
    return np.where(np.isnan(values), np.nan, means)


def _jumps(cpu: Values) -> bool:
    """Whether CPU goes back and forth from step to step, as no mean of a minute can (a raw JVM load does)."""
    changes = np.diff(cpu)
    before, after = changes[:-1], changes[1:]
    known = ~np.isnan(before) & ~np.isnan(after)
    if known.sum() < 8 or before[known].std() == 0.0 or after[known].std() == 0.0:
        return False
    return bool(np.corrcoef(before[known], after[known])[0, 1] < JUMPY)


def _stretches(job_obs: pd.DataFrame, times_s: Values) -> tuple[Values, NDArray[np.int64], Values]:
    """Return scale-out, number of the stretch between restarts, and seconds since its start, at ``times_s``."""
    rows = job_obs.sort_values("ts").drop_duplicates("ts", keep="last")
    if rows.empty:
        nothing = np.full(len(times_s), np.nan)
        return nothing, np.zeros(len(times_s), dtype=np.int64), np.full(len(times_s), np.inf)
    seen_s = _seconds(rows["ts"])
    scale_out = _carried(_floats(rows, SCALE_OUT.name))
    uptime = _floats(rows, UPTIME.name)
    last_uptime = np.append(np.nan, _carried(uptime)[:-1])
    changed = (np.diff(scale_out, prepend=np.nan) != 0) & ~np.isnan(np.append(np.nan, scale_out[:-1]))
    started_s = np.where(changed, seen_s, -np.inf)
    started_s[uptime < last_uptime] = (seen_s - np.nan_to_num(uptime))[uptime < last_uptime]
    started_s[0] = seen_s[0] - uptime[0] if not np.isnan(uptime[0]) else -np.inf
    restarted = changed | (uptime < last_uptime)
    at = np.clip(np.searchsorted(seen_s, times_s, side="right") - 1, 0, None)
    latest_start_s: Values = np.maximum.accumulate(started_s)
    return scale_out[at], np.cumsum(restarted, dtype=np.int64)[at], times_s - latest_start_s[at]


def _carried(values: Values) -> Values:
    """Carry the last known value forward."""
    return np.asarray(pd.Series(values).ffill(), dtype=np.float64)


def _shares(
    cpu: Values, throughput: Values, complete: NDArray[np.bool_], stretch: NDArray[np.int64]
) -> tuple[Values, Values]:
    present = complete.sum(axis=1)
    fullest = np.zeros(int(stretch.max()) + 1, dtype=np.int64)
    np.maximum.at(fullest, stretch, present)
    whole = (present == fullest[stretch]) & (present > 0)
    hottest = np.where(complete, cpu, 0.0).max(axis=1)
    total = np.where(complete, throughput, 0.0).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        cpu_share = np.where((whole & (hottest > 0))[:, None], cpu / hottest[:, None], np.nan)
        throughput_share = np.where((whole & (total > 0))[:, None], throughput / total[:, None], np.nan)
    return cpu_share, throughput_share


def _every(times_s: Values, spacing_s: float) -> NDArray[np.bool_]:
    """Keep the first time of each ``spacing_s``."""
    slot = np.ceil(times_s / spacing_s)
    return np.diff(slot, prepend=-np.inf) > 0


def _usual_step_s(times_s: Values) -> float:
    return float(np.median(np.diff(times_s))) if len(times_s) > 1 else 1.0


def _seconds(ts: pd.Series[pd.Timestamp]) -> Values:
    utc = pd.DatetimeIndex(pd.to_datetime(ts, utc=True)).tz_localize(None)
    return np.asarray(utc.to_numpy(dtype="datetime64[us]").astype(np.int64) / 1e6, dtype=np.float64)


def _floats(rows: pd.DataFrame, name: str) -> Values:
    if name not in rows.columns:
        return np.full(len(rows), np.nan)
    return rows[name].to_numpy(dtype=np.float64, na_value=np.nan)


def timestamps(times_s: Values) -> pd.DatetimeIndex:
    """Return epoch seconds as the column ``ts`` holds them, to the microsecond."""
    return pd.to_datetime(np.round(times_s * 1e6).astype(np.int64), unit="us", utc=True).as_unit("us")


def _no_capacity_rows() -> pd.DataFrame:
    empty = {name: pd.Series(dtype="float64") for name in CAPACITY_COLUMNS}
    return pd.DataFrame(empty | {"ts": timestamps(np.empty(0)), "worker": pd.Series(dtype="object")})[CAPACITY_COLUMNS]

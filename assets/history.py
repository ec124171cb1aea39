"""A job's newest stretch of features, read from the lake in the form that models take. Knows no Dagster."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta

import numpy as np
import pandas as pd

from perdix.models.forecasting.contract import Workload
from perdix.replay.asked import Ingested
from perdix.settings.durations import DAY_S
from perdix.telemetry.lake import Lake
from perdix.telemetry.partitions import content_of

WORKLOAD_STEP_S = 10.0
EVERY_DAY = 36_500
COARSER = (30, 6, 3, 2)  # steps of the lake: observations every 5 minutes, every minute, 30 and 20 s
NEEDED_COVERAGE = 0.5
SAME = 1e-6  # relative: a held value comes back from the lake's sums with an error of some 1e-12


def newest_days(lake: Lake, table: str, job: str, history_days: int, now_s: float) -> list[str]:
    """Return the days with rows among the ``history_days`` that end with the job's newest day."""
    return newest_of(lake.days(table, job), history_days, now_s)


def newest_of(every: Sequence[str], history_days: int, now_s: float) -> list[str]:
    """Return the days (ISO, ascending) among the ``history_days`` that end with the newest one.

    Days from the future, of a clock that was wrong, hide no others: they count where there are no others.
    """
    tomorrow = datetime.fromtimestamp(now_s + DAY_S, UTC).date().isoformat()
    days = [day for day in every if day <= tomorrow] or list(every)
    if not days:
        return []
    oldest = date.fromisoformat(days[-1]) - timedelta(days=history_days - 1)
    return [day for day in days if date.fromisoformat(day) >= oldest]


def digest_of_days(lake: Lake, table: str, job: str, history_days: int, now_s: float) -> str:
    """Return a SHA-256 over the content of the days that a training reads: the same data has the same digest."""
    days = newest_days(lake, table, job, history_days, now_s)
    return content_of(lake.manifests(table, job, days=days))


def workload_history(lake: Lake, job: str, history_days: int, now_s: float) -> Workload:
    """Return the workload on the grid on which it was observed, NaN where nothing was measured.

    The lake's grid is 10 s. A workload that was observed every minute only holds each value for six of its steps;
    those are put together again, so that no model takes six copies of a value for a calm minute.

    Raises ``ValueError`` when the job has no workload at all.
    """
    days = newest_days(lake, "workload_features", job, history_days, now_s)
    table = lake.read("workload_features", job, columns=["ts", "workload_per_s"], days=days or ["1970-01-01"])
    ends_s = table["ts"].to_numpy().astype("datetime64[us]").astype(np.int64) / 1e6
    rates = table["workload_per_s"].to_numpy().astype(np.float64)
    known = np.isfinite(rates)
    if not known.any():
        raise ValueError(f"no workload of {job} is in the lake; ingest exports that hold workload or throughput")
    steps = np.round(ends_s[known] / WORKLOAD_STEP_S).astype(np.int64)
    first = int(steps.min())
    per_s = np.full(int(steps.max()) - first + 1, np.nan)
    per_s[steps - first] = rates[known]
    return as_observed(Workload((first - 1) * WORKLOAD_STEP_S, WORKLOAD_STEP_S, per_s))


def ingested(lake: Lake, now_s: float) -> Ingested:
    """Return the jobs whose workload is in the lake, for a replay: all of it that there is."""
    return Ingested(lambda: lake.jobs("workload_features"), lambda job: workload_history(lake, job, EVERY_DAY, now_s))


def as_observed(history: Workload) -> Workload:
    """Return the workload on the coarsest of some grids on which it never changes within a step.

    A workload that never changes at all says nothing about its grid: it is taken for minutes.
    """
    finite = history.per_s[np.isfinite(history.per_s)]
    constant = bool(np.ptp(finite) <= SAME * np.abs(finite).max())
    for width in COARSER:
        if constant and width * history.step_s > 60.0:
            continue
        blocks, start_s = _blocks(history, width)
        known = np.isfinite(blocks)
        low = np.where(known, blocks, np.inf).min(axis=1)
        high = np.where(known, blocks, -np.inf).max(axis=1)
        some, all_of_it = known.any(axis=1), known.all(axis=1)
        if not all_of_it.any() or 2 * all_of_it.sum() < some.sum():
            continue  # a step of which a part is known does not show that its value is held
        if (high[some] - low[some] <= SAME * np.abs(high[some])).all():
            per_s = np.where(known.mean(axis=1) >= NEEDED_COVERAGE, high, np.nan)
            first, last = np.flatnonzero(all_of_it)[[0, -1]]  # the end must not lie after the newest measurement
            step_s = width * history.step_s
            return Workload(start_s + step_s * float(first), step_s, per_s[first : last + 1])
    return history


def _blocks(history: Workload, width: int) -> tuple[np.ndarray, float]:
    """Return the rates in rows of ``width`` steps that begin at multiples of their length since the epoch."""
    first = round(history.start_s / history.step_s)
    before = first % width
    after = -(before + len(history)) % width
    padded = np.pad(history.per_s, (before, after), constant_values=np.nan)
    return padded.reshape(-1, width), (first - before) * history.step_s


def capacity_history(lake: Lake, job: str, history_days: int, now_s: float) -> pd.DataFrame:
    """Return the rows of ``capacity_features``, in the order of time. Raises ``ValueError`` when the job has none."""
    days = newest_days(lake, "capacity_features", job, history_days, now_s)
    rows = lake.read("capacity_features", job, days=days or ["1970-01-01"]).to_pandas()
    if rows.empty:
        raise ValueError(f"no CPU load beside throughput of {job} is in the lake; ingest exports that hold both")
    found: pd.DataFrame = rows.drop(columns=["job", "day"]).sort_values(["ts", "worker"]).reset_index(drop=True)
    return found

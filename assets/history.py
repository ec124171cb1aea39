"""A job's newest stretch of features, read from the lake in the form that models take. Knows no Dagster."""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np
import pandas as pd

from models.forecasting.contract import Workload
from telemetry.lake import Lake

WORKLOAD_STEP_S = 10.0


def newest_days(lake: Lake, table: str, job: str, history_days: int) -> list[str]:
    """Return the days with rows among the ``history_days`` that end with the job's newest day."""
    days = lake.days(table, job)
    if not days:
        return []
    oldest = date.fromisoformat(days[-1]) - timedelta(days=history_days - 1)
    return [day for day in days if date.fromisoformat(day) >= oldest]


def workload_history(lake: Lake, job: str, history_days: int) -> Workload:
    """Return the workload on the 10 s grid, NaN where nothing was measured.

    Raises
    ------
    ValueError
        When the job has no workload at all.
    """
    days = newest_days(lake, "workload_features", job, history_days)
    frame = lake.read("workload_features", job, columns=["ts", "workload_per_s"], days=days or ["1970-01-01"])
    rows = frame.to_pandas().dropna().sort_values("ts")
    if rows.empty:
        raise ValueError(f"no workload of {job} is in the lake; ingest exports that hold workload or throughput")
    ends_s = rows["ts"].astype("int64").to_numpy() / 1e6
    steps = np.round(ends_s / WORKLOAD_STEP_S).astype(int)
    per_s = np.full(steps[-1] - steps[0] + 1, np.nan)
    per_s[steps - steps[0]] = rows["workload_per_s"].to_numpy()
    return Workload((steps[0] - 1) * WORKLOAD_STEP_S, WORKLOAD_STEP_S, per_s)


def capacity_history(lake: Lake, job: str, history_days: int) -> pd.DataFrame:
    """Return the rows of ``capacity_features``, in the order of time.

    Raises
    ------
    ValueError
        When the job has none.
    """
    days = newest_days(lake, "capacity_features", job, history_days)
    rows = lake.read("capacity_features", job, days=days or ["1970-01-01"]).to_pandas()
    if rows.empty:
        raise ValueError(f"no CPU load beside throughput of {job} is in the lake; ingest exports that hold both")
    return rows.drop(columns=["job", "day"]).sort_values(["ts", "worker"]).reset_index(drop=True)

"""A day of samples through the real ``observe_day``, its tasks in this process: no Spark."""

from __future__ import annotations

import warnings
from typing import Any

import dagster as dg
import pandas as pd

from perdix.assets.resources import Spark, Workspace
from perdix.assets.spark.tasks import Answer, attempt
from perdix.settings.home import Home
from perdix.telemetry.lake import Lake

with warnings.catch_warnings():
    warnings.simplefilter("ignore", (dg.BetaWarning, dg.PreviewWarning))
    from perdix.assets.validation import build_checks
    from perdix.pipelines.ingesting import INGESTING, observe_day
    from perdix.pipelines.progress import progress_logger

    CHECKS = build_checks()

DAY = "2026-03-04"


class NoSpark(Spark):
    def session(self) -> Any:
        return None


def run_here(_: object, keys: list[Any], task: Any) -> list[Answer]:
    return [Answer(key=key, **attempt(key, task)) for key in keys]


def definitions(home: Home) -> dg.Definitions:
    workspace = Workspace(home=str(home.root))
    return dg.Definitions(
        assets=INGESTING,
        asset_checks=CHECKS,
        jobs=[observe_day],
        resources={"workspace": workspace, "spark": NoSpark(workspace=workspace)},
        loggers={"progress": progress_logger},
    )


def sampled(home: Home, job: str, cpu_load: float, day: str = DAY, source: str = "a.json", hours: int = 1) -> None:
    """Put some hours of one worker into the lake, those before 13:00."""
    times = pd.date_range(end=f"{day}T12:59:45", periods=240 * hours, freq="15s", tz="UTC")
    metrics = {"workload_per_s": 9_000.0, "throughput_per_s": 9_000.0, "cpu_load": cpu_load}
    rows = [
        pd.DataFrame({"series_id": n, "metric": metric, "ts": times, "value": value, "worker": "w", "mask": None})
        for n, (metric, value) in enumerate(metrics.items())
    ]
    frame = pd.concat(rows, ignore_index=True).astype({"mask": object})
    lake, keys = Lake(home.lake), {"job": job, "source": source}
    lake.put("samples", {**keys, "day": day}, frame)
    series = frame[["series_id", "metric", "worker"]].drop_duplicates()
    lake.put("series", keys, series.assign(name="", labels="{}", mapped=True, kind="gauge"))

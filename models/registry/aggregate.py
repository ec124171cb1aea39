"""What a table of per-job metrics says about the whole fleet: the figures of a run's page."""

from __future__ import annotations

import numpy as np
import pandas as pd


def aggregate(per_job: pd.DataFrame) -> dict[str, float]:
    """Return what a table of per-job metrics says about the fleet.

    Numbers give ``<metric>_median`` and ``<metric>_p90`` (``fit_s`` its ``_total`` too), booleans ``<metric>_share``,
    and the column ``error`` the count of jobs that have one. Values that are missing or infinite take no part.
    """
    metrics: dict[str, float] = {}  # in the order of the columns: MLflow's compare page plots the first one
    for name in per_job.columns:
        known = per_job[name].dropna()
        if (
            known.empty
            or not known.map(lambda value: isinstance(value, bool | int | float | np.number | np.bool_)).all()
        ):
            continue  # text, or nothing to aggregate
        if known.map(lambda value: isinstance(value, bool | np.bool_)).all():
            metrics[f"{name}_share"] = float(known.astype(float).mean())
            continue
        values = known.astype(float)
        values = values[np.isfinite(values)]
        if values.empty:
            continue
        metrics[f"{name}_median"] = float(values.median())
        metrics[f"{name}_p90"] = float(values.quantile(0.9))
        if name == "fit_s":
            metrics["fit_s_total"] = float(values.sum())
    metrics["jobs"] = float(len(per_job))
    if "error" in per_job:
        metrics["jobs_failed"] = float(len(failures(per_job)))
    return metrics


def failures(per_job: pd.DataFrame) -> list[str]:
    """Return why jobs could not be judged: the texts of the column ``error``, where there are any."""
    if "error" not in per_job:
        return []
    reasons = per_job["error"].fillna("").astype(str)
    return reasons[reasons.ne("")].tolist()

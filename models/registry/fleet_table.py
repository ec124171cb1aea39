"""The fleet table: one row per job with the family and state of its model, and how two such tables merge."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pandas as pd

from models.registry.errors import FleetCorrupt

KEYS = ("job", "family", "state")
VERDICT = "verdict"
PROMOTE = "promote"
FLEET_FILE = "fleet.parquet"


def merge_rows(champion: pd.DataFrame | None, trained: pd.DataFrame) -> pd.DataFrame:
    """Return the fleet that results from a training of some or all jobs.

    A trained row takes the place of the job's champion only when its ``verdict`` is ``promote``. Every other row of the
    champion is carried over unchanged, so that retraining one job can never touch another.

    Parameters
    ----------
    champion
        The table of the present champion; ``None`` when there is none yet.
    trained
        The new rows, with the column ``verdict`` (``promote`` or any other word) beside those of the fleet table.

    Returns
    -------
    pandas.DataFrame
        Sorted by job, without ``verdict``. A job that has no champion and no promoted row is absent: the loop uses its
        fallback for it. A metric that only one side knows is NaN on the other.

    Raises
    ------
    ValueError
        When a column is missing or a job occurs twice.
    """
    _refuse_bad_rows(trained, required=(*KEYS, VERDICT), what="the trained rows")
    accepted = trained[trained[VERDICT] == PROMOTE].drop(columns=VERDICT)
    if champion is None:
        return _ordered(accepted)
    _refuse_bad_rows(champion, required=KEYS, what="the champion's table")
    kept = champion[~champion["job"].isin(accepted["job"])]
    # concat over an empty side would decide dtypes from nothing and warns about it
    parts = [part for part in (kept, accepted) if len(part)]
    return _ordered(pd.concat(parts, ignore_index=True) if parts else accepted)


def checked_fleet(fleet: pd.DataFrame) -> pd.DataFrame:
    """Return ``fleet`` in the form that is published: sorted by job, keys first.

    Raises
    ------
    ValueError
        When it is empty, a column is missing, a job occurs twice, or a state is not JSON.
    """
    if fleet.empty:
        raise ValueError("the fleet table has no rows: no job has a model that may be published")
    _refuse_bad_rows(fleet, required=KEYS, what="the fleet table")
    for job, state in zip(fleet["job"], fleet["state"], strict=True):
        try:
            json.loads(state)
        except (TypeError, ValueError) as error:
            raise ValueError(f"the state of job '{job}' is not JSON text: {error}") from None
    return _ordered(fleet.drop(columns=VERDICT, errors="ignore"))


def write_fleet(fleet: pd.DataFrame, path: Path) -> str:
    """Write a checked fleet table and return the SHA-256 of the file."""
    fleet.to_parquet(path, index=False, compression="zstd")
    return digest_of(path)


def read_fleet(path: Path) -> pd.DataFrame:
    """Read a fleet table; it holds text and numbers only, so nothing is unpickled.

    Raises
    ------
    FleetCorrupt
        When the file is not Parquet or lacks a column.
    """
    try:
        fleet = pd.read_parquet(path)
        _refuse_bad_rows(fleet, required=KEYS, what=str(path))
    except (OSError, ValueError) as error:  # pyarrow's errors are ValueErrors
        raise FleetCorrupt(f"{path}: not a fleet table: {error}; delete it and it is fetched again") from error
    return fleet


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file as hexadecimal text."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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
        metrics["jobs_failed"] = float(per_job["error"].fillna("").astype(str).ne("").sum())
    return metrics


def _ordered(fleet: pd.DataFrame) -> pd.DataFrame:
    rest = [name for name in fleet.columns if name not in KEYS]
    return fleet[[*KEYS, *rest]].sort_values("job").reset_index(drop=True)


def _refuse_bad_rows(fleet: pd.DataFrame, required: tuple[str, ...], what: str) -> None:
    missing = [name for name in required if name not in fleet.columns]
    if missing:
        raise ValueError(f"{what}: column {', '.join(missing)} is missing")
    if fleet["job"].isna().any():
        raise ValueError(f"{what}: a row has no job")
    twice = fleet["job"][fleet["job"].duplicated()].unique()
    if len(twice):
        raise ValueError(f"{what}: more than one row for job {', '.join(map(str, twice[:5]))}")

"""The fleet table: one row per job with the family and state of its model, and how two such tables merge.

Models that several jobs share are named by their content, referred to by name from the jobs' states, and rows of the
same file, so that a version is one file with one digest; in memory they stand apart (:class:`Fleet`).
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pandas as pd

from perdix.models.registry.errors import FleetCorrupt
from perdix.telemetry.partitions import digest_of

PREFIX = "*/"  # no stream job can be called so: names of jobs name folders
_REFERENCE = re.compile(r'"(\*/[0-9a-f]{64})"')


def to_text(state: Mapping[str, Any]) -> str:
    """Return a state as the JSON text that a fleet table holds."""
    return json.dumps(state, separators=(",", ":"), allow_nan=False)


def name_of(text: str) -> str:
    """Return the name of a shared model, ``*/`` and the SHA-256 of its JSON text: the same model has one name."""
    return PREFIX + hashlib.sha256(text.encode()).hexdigest()


def references(states: Iterable[str]) -> set[str]:
    """Return the names of shared models that occur in the JSON texts of states, wherever they stand there."""
    found: set[str] = set()
    for state in states:
        found.update(_REFERENCE.findall(state))
    return found


KEYS = ("job", "family", "state")
VERDICT = "verdict"
PROMOTE = "promote"
FLEET_FILE = "fleet.parquet"
SHARED = "shared"  # in place of a family, in the rows of shared models
VERSION = "version"  # in which a row was trained; missing in rows that are new in their version
_ROW_GROUP = 64  # rows: one job is found without reading the others' states
_UNREADABLE = (OSError, ValueError, TypeError, NotImplementedError)  # the last two: a column of another type


@dataclass(frozen=True)
class Fleet:
    """Models of a fleet."""

    # One row per job: ``job, family, state`` (JSON text), the metrics that were judged, and where it is known the
    # ``version`` in which the row was trained
    jobs: pd.DataFrame
    shared: Mapping[str, str] = field(default_factory=dict)  # name -> JSON text of the models that states refer to

    def __len__(self) -> int:
        return len(self.jobs)


@dataclass(frozen=True)
class FleetRow:
    """One job's model: family, state as JSON text, and the shared models that the state refers to, by name."""

    family: str
    state: str
    shared: Mapping[str, str] = field(default_factory=dict)


def merge_rows(champion: Fleet | None, trained: pd.DataFrame, shared: Mapping[str, str] | None = None) -> Fleet:
    """Return the fleet that results from a training of some or all jobs.

    A trained row takes the place of the job's champion only when its ``verdict`` is ``promote``. Every other row of the
    champion is carried over unchanged, so that retraining one job can never touch another.

    Raises ``ValueError`` when a column is missing, a job occurs twice, or a row refers to a shared model that neither
    side has.

    ``champion``: the fleet of the present champion; ``None`` when there is none yet.
    ``trained``: the new rows, with the column ``verdict`` (``promote`` or any other word) beside those of the fleet
    table.
    ``shared``: shared models that the new rows may refer to; only those of either side that a row refers to are kept.
    Returns sorted by job, without ``verdict``. A job that has no champion and no promoted row is absent: the loop uses
    its fallback for it. A metric that only one side knows is NaN on the other.
    """
    _refuse_bad_rows(trained, required=(*KEYS, VERDICT), what="the trained rows")
    accepted = trained[trained[VERDICT] == PROMOTE].drop(columns=VERDICT)
    if champion is None:
        return _referring(_ordered(accepted), shared or {})
    _refuse_bad_rows(champion.jobs, required=KEYS, what="the champion's table")
    kept = champion.jobs[~champion.jobs["job"].isin(accepted["job"])]
    # concat over an empty side would decide dtypes from nothing and warns about it
    accepted = accepted.assign(**{VERSION: pd.Series(pd.NA, accepted.index, dtype="Int64")})
    parts = [part for part in (kept, accepted) if len(part)]
    merged = _ordered(pd.concat(parts, ignore_index=True) if parts else accepted)
    return _referring(merged, {**champion.shared, **(shared or {})})


def checked_fleet(fleet: Fleet) -> Fleet:
    """Return ``fleet`` in the form that is published: sorted by job, keys first, no shared model that nobody uses.

    Raises ``ValueError`` when it is empty, a column is missing, a job occurs twice, a state is not JSON, or a shared
    model is missing or not the one that its name says.
    """
    if fleet.jobs.empty:
        raise ValueError("the fleet table has no rows: no job has a model that may be published")
    _refuse_bad_rows(fleet.jobs, required=KEYS, what="the fleet table")
    for job, state in zip(fleet.jobs["job"], fleet.jobs["state"], strict=True):
        try:
            orjson.loads(state)
        except (TypeError, ValueError) as error:
            raise ValueError(f"the state of job '{job}' is not JSON text: {error}") from None
    if wrong := [name for name, text in fleet.shared.items() if name_of(text) != name]:
        raise ValueError(f"the shared model {wrong[0]} is not the one that its name says")
    return _referring(_ordered(fleet.jobs.drop(columns=VERDICT, errors="ignore")), fleet.shared)


def write_fleet(fleet: Fleet, path: Path) -> str:
    """Write a checked fleet and return the SHA-256 of the file."""
    shared = [{"job": name, "family": SHARED, "state": text} for name, text in sorted(fleet.shared.items())]
    table = pd.concat([pd.DataFrame(shared), fleet.jobs], ignore_index=True) if shared else fleet.jobs
    table.to_parquet(path, index=False, compression="zstd", row_group_size=_ROW_GROUP)
    return digest_of(path)


def read_fleet(path: Path, version: int | None = None) -> Fleet:
    """Read a fleet; it holds text and numbers only, so nothing is unpickled.

    Raises ``FleetCorrupt`` when the file is not Parquet, lacks a column, or lacks a shared model.

    ``version``: number of the version that the file is of: rows that were not carried over were trained in it.
    """
    try:
        table = pd.read_parquet(path)
        _refuse_bad_rows(table, required=KEYS, what=str(path))
        is_shared = table["job"].astype(str).str.startswith(PREFIX)
        shared = dict(zip(table.loc[is_shared, "job"], table.loc[is_shared, "state"], strict=True))
        jobs = table[~is_shared].reset_index(drop=True)
        return _referring(jobs if version is None else _dated(jobs, version), shared)
    except _UNREADABLE as error:
        raise FleetCorrupt(f"{path}: not a fleet table: {error}; delete it and it is fetched again") from error


def read_row(path: Path, job: str) -> FleetRow | None:
    """Read one job's row, and what it shares, without the others' (milliseconds); ``None`` when the job is not there.

    Raises ``FleetCorrupt`` when the file is not Parquet, lacks a column, or lacks a shared model.
    """
    try:
        found = pd.read_parquet(path, columns=list(KEYS), filters=[("job", "==", job)])
        if found.empty:
            return None
        family, state = str(found["family"].iloc[0]), str(found["state"].iloc[0])
        named = references([state])
        if not named:
            return FleetRow(family, state)
        rows = pd.read_parquet(path, columns=["job", "state"], filters=[("job", "in", named)])
        shared = dict(zip(rows["job"], rows["state"], strict=True))
        _refuse_missing(named, shared)
        return FleetRow(family, state, shared)
    except _UNREADABLE as error:
        raise FleetCorrupt(f"{path}: not a fleet table: {error}; delete it and it is fetched again") from error


def is_whole(path: Path, digest: str) -> bool:
    """Return whether a file is there and is what was published under ``digest``."""
    return path.exists() and digest_of(path) == digest


def _dated(jobs: pd.DataFrame, version: int) -> pd.DataFrame:
    known = jobs[VERSION] if VERSION in jobs else pd.Series(pd.NA, jobs.index)
    return jobs.assign(**{VERSION: known.astype("Int64").fillna(version)})


def _referring(jobs: pd.DataFrame, shared: Mapping[str, str]) -> Fleet:
    named = references(jobs["state"])
    _refuse_missing(named, shared)
    return Fleet(jobs, {name: shared[name] for name in sorted(named)})


def _refuse_missing(named: set[str], shared: Mapping[str, str]) -> None:
    if missing := sorted(named - set(shared)):
        raise ValueError(f"a state refers to the shared model {missing[0]}, which is not there")


def _ordered(jobs: pd.DataFrame) -> pd.DataFrame:
    rest = [name for name in jobs.columns if name not in KEYS]
    return jobs[[*KEYS, *rest]].sort_values("job").reset_index(drop=True)


def _refuse_bad_rows(jobs: pd.DataFrame, required: tuple[str, ...], what: str) -> None:
    missing = [name for name in required if name not in jobs.columns]
    if missing:
        raise ValueError(f"{what}: column {', '.join(missing)} is missing")
    if jobs["job"].isna().any():
        raise ValueError(f"{what}: a row has no job")
    twice = jobs["job"][jobs["job"].duplicated()].unique()
    if len(twice):
        raise ValueError(f"{what}: more than one row for job {', '.join(map(str, twice[:5]))}")

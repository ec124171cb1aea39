"""A profile as a table: rows with units, a digest that names its content, and Parquet files by job."""

import hashlib
import json
import math
from pathlib import Path

import pandas as pd

from perdix.models.profiling.profile import Profile, ProfilePoint
from perdix.telemetry.named_by_content import newest, read_named, require, write_named

COLUMNS = {
    "job": "string",
    "scale_out": "int64",  # workers
    "rate_per_s": "float64",  # offered, records/s; NaN in a row of a highest throughput alone
    "throughput_per_s": "float64",
    "latency_ms": "float64",  # p95, end to end
    "valid": "bool",
    "maximum_per_s": "float64",  # T_max of the scale-out, on each of its rows; NaN where it was not found
    "worker_s": "float64",  # of the whole profile, on every row, as are the following
    "began_s": "float64",
    "ended_s": "float64",
}
LISTS = ("downtimes_s", "notes")


def rows_of(profile: Profile) -> pd.DataFrame:
    """Return a profile as rows: one per point, in order, then one per scale-out of which only T_max is known.

    Raises ``ValueError`` when it has neither a point nor a T_max.
    """
    most = {int(scale_out): float(value) for scale_out, value in profile.maximum_per_s.items()}
    without = sorted(set(most) - {point.scale_out for point in profile.points})
    points = [*profile.points, *(ProfilePoint(n, math.nan, math.nan, math.nan, valid=False) for n in without)]
    if not points:
        raise ValueError(f"the profile of {profile.job} has neither a point nor a T_max: there is nothing to keep")
    whole = {
        "job": profile.job,
        **{name: float(getattr(profile, name)) for name in ("worker_s", "began_s", "ended_s")},
        **{name: list(getattr(profile, name)) for name in LISTS},
    }
    rows = [{**vars(point), "maximum_per_s": most.get(point.scale_out, math.nan), **whole} for point in points]
    return pd.DataFrame(rows)[[*COLUMNS, *LISTS]].astype(COLUMNS)


def profile_of(rows: pd.DataFrame, place: str = "the profile") -> Profile:
    """Return the profile of rows.

    Raises ``ValueError`` when a column is missing, there is no row, or rows of several jobs are mixed.

    ``place``: where they are from, for the messages.
    """
    require(rows, (*COLUMNS, *LISTS), "job", what="a profile is", place=place, fix="profile the job anew")
    first = rows.iloc[0]
    measured = rows[rows["rate_per_s"].notna()]
    found = rows.dropna(subset=["maximum_per_s"])
    names = ("scale_out", "rate_per_s", "throughput_per_s", "latency_ms", "valid")
    return Profile(
        str(first["job"]),
        tuple(
            ProfilePoint(int(n), float(rate), float(throughput), float(latency), bool(valid))
            for n, rate, throughput, latency, valid in measured[list(names)].itertuples(index=False)
        ),
        {int(n): float(value) for n, value in zip(found["scale_out"], found["maximum_per_s"], strict=True)},
        float(first["worker_s"]),
        float(first["began_s"]),
        float(first["ended_s"]),
        tuple(float(value) for value in first["downtimes_s"]),
        tuple(str(note) for note in first["notes"]),
    )


def profile_digest(profile: Profile) -> str:
    """Return the SHA-256 of a profile's content: the same measurements have the same digest on any machine."""
    content = {
        **{name: getattr(profile, name) for name in ("job", "worker_s", "began_s", "ended_s", *LISTS)},
        "points": [[None if value != value else value for value in vars(point).values()] for point in profile.points],  # noqa: PLR0124  NaN is no JSON
        "maximum_per_s": sorted([int(n), float(value)] for n, value in profile.maximum_per_s.items()),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def write_profile(profile: Profile, folder: Path) -> Path:
    """Write ``<folder>/<job>/<digest>.parquet`` and return it; the file appears whole or not at all."""
    return write_named(rows_of(profile), folder / profile.job, profile_digest(profile))


def read_profile(path: Path) -> Profile:
    """Read a profile. Raises ``ValueError`` naming the file when it is not one."""
    return profile_of(read_named(path, "a profile", "delete it and profile the job anew"), str(path))


def newest_profile(folder: Path, job: str) -> tuple[Path, Profile] | None:
    """Return the profile of a job that began last, and its file; ``None`` when the job was never profiled."""
    return newest(folder / job, read_profile, lambda profile: (profile.began_s, profile.ended_s))

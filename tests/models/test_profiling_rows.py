"""A profile as a table and back."""

import math

import pytest

from perdix.models.profiling.profile import Profile, ProfilePoint
from perdix.models.profiling.rows import (
    newest_profile,
    profile_digest,
    profile_of,
    read_profile,
    rows_of,
    write_profile,
)


def profile(job="cars", ended_s=10.0, began_s=1.0, **changes):
    points = (
        ProfilePoint(2, 20_000.0, 19_990.5, 1_012.25, valid=True),
        ProfilePoint(2, 40_000.0, 36_000.0, math.nan, valid=False),
    )
    base = {"points": points, "maximum_per_s": {2: 36_500.0, 5: 83_000.0}, "worker_s": 840.0, "downtimes_s": (31.5,)}
    return Profile(job, began_s=began_s, ended_s=ended_s, **{**base, **changes})


def test_rows_carry_everything(tmp_path):
    kept = profile(notes=("deployment 8 was lost",))
    found = read_profile(write_profile(kept, tmp_path))
    assert repr(found) == repr(kept)
    assert rows_of(kept)["maximum_per_s"].tolist() == [36_500.0, 36_500.0, 83_000.0]
    assert repr(profile_of(rows_of(profile(downtimes_s=())))) == repr(profile(downtimes_s=()))


def test_the_file_is_named_by_job_and_content(tmp_path):
    path = write_profile(profile(), tmp_path)
    assert path == tmp_path / "cars" / f"{profile_digest(profile())}.parquet"
    assert profile_digest(profile()) == profile_digest(read_profile(path))
    assert profile_digest(profile()) != profile_digest(profile(worker_s=841.0))


def test_the_newest_is_the_one_that_began_last(tmp_path):
    """A twin's clock begins with the wall's and runs hours ahead of it."""
    assert newest_profile(tmp_path, "cars") is None
    write_profile(profile(began_s=1_000.0, ended_s=26_200.0), tmp_path)
    late = write_profile(profile(began_s=1_060.0, ended_s=2_000.0), tmp_path)
    for _ in range(2):
        found = newest_profile(tmp_path, "cars")
        assert found is not None
        assert found[0] == late
        write_profile(profile(began_s=1_060.0, ended_s=1_500.0), tmp_path)  # of two that began together, not this one


def test_what_is_no_profile_says_so(tmp_path):
    with pytest.raises(ValueError, match="nothing to keep"):
        rows_of(Profile("cars", (), {}, 0.0))
    with pytest.raises(ValueError, match="latency_ms is missing"):
        profile_of(rows_of(profile()).drop(columns="latency_ms"))
    bad = tmp_path / "cars" / "x.parquet"
    bad.parent.mkdir()
    bad.write_bytes(b"no table")
    with pytest.raises(ValueError, match=r"x\.parquet: not a profile"):
        newest_profile(tmp_path, "cars")

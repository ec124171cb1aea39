"""Samples as a versioned table: what is kept comes back, content names it, and what is no table is said to be none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdix.models.performance.samples import Sample
from perdix.models.sampling.rows import (
    FailedSize,
    OperatorSamples,
    newest_samples,
    read_samples,
    rows_of,
    samples_digest,
    samples_of,
    write_samples,
)

FOUND = OperatorSamples(
    "parse",
    "dsa",
    (Sample(0.5, 256.0, 4_100.5, 300.0), Sample(1.0, 256.0, 8_000.25, 330.0)),
    (FailedSize(4.0, 32.0, "out of memory: killed at 32 MB", 60.0),),
    core_s=720.0,
    worker_s=690.0,
    began_s=1_700_000_000.0,
    ended_s=1_700_000_690.0,
    ended_because="the end of the range",
    notes=("one could not be stopped",),
)
NUMBER = st.floats(0.001, 1e9)


def test_what_is_kept_comes_back(tmp_path: Path) -> None:
    path = write_samples(FOUND, tmp_path)
    assert path == tmp_path / "parse" / f"{samples_digest(FOUND)}.parquet"
    assert read_samples(path) == FOUND
    assert [file.name for file in path.parent.iterdir()] == [path.name], "nothing unfinished is left"


def test_the_same_samples_are_the_same_file_and_others_are_another(tmp_path: Path) -> None:
    assert write_samples(FOUND, tmp_path) == write_samples(FOUND, tmp_path)
    other = replace(FOUND, samples=FOUND.samples[:1])
    assert write_samples(other, tmp_path) != write_samples(FOUND, tmp_path)


@settings(max_examples=30)
@given(
    samples=st.lists(st.builds(Sample, NUMBER, NUMBER, NUMBER, NUMBER), max_size=5),
    failed=st.lists(st.builds(FailedSize, NUMBER, NUMBER, st.text(min_size=1), NUMBER), min_size=1, max_size=3),
)
def test_any_samples_survive_their_rows(samples: list[Sample], failed: list[FailedSize]) -> None:
    found = replace(FOUND, samples=tuple(samples), failed=tuple(failed))
    again = samples_of(rows_of(found))
    assert again == found
    assert samples_digest(again) == samples_digest(found)


def test_the_newest_is_the_one_that_began_last(tmp_path: Path) -> None:
    """A twin's clock begins with the wall's and runs hours ahead of it."""
    assert newest_samples(tmp_path, "parse") is None
    older = write_samples(replace(FOUND, began_s=1_000.0, ended_s=29_140.0), tmp_path)
    newer = replace(FOUND, began_s=1_300.0, ended_s=8_620.0)
    path = write_samples(newer, tmp_path)
    assert older != path
    assert newest_samples(tmp_path, "parse") == (path, newer)


def test_a_sampling_that_found_nothing_cannot_be_kept(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is nothing to keep"):
        write_samples(replace(FOUND, samples=(), failed=()), tmp_path)


def test_what_is_no_table_of_samples_is_said_to_be_none(tmp_path: Path) -> None:
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1")
    with pytest.raises(ValueError, match=r"broken\.parquet: not samples: .*delete it and sample the operator anew"):
        read_samples(broken)
    rows = rows_of(FOUND)
    with pytest.raises(ValueError, match="column per_s is missing"):
        samples_of(rows.drop(columns="per_s"))
    with pytest.raises(ValueError, match="of one operator, found 2"):
        samples_of(rows.assign(operator=["a", "b", "b"]))
    with pytest.raises(ValueError, match="a sample without a performance"):
        samples_of(rows.assign(per_s=float("nan")))

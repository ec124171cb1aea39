"""Retraining one job never touches another, shared models follow those who use them, and a table is what it says."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdix.models.registry.errors import FleetCorrupt
from perdix.models.registry.fleet_table import (
    Fleet,
    checked_fleet,
    digest_of,
    merge_rows,
    name_of,
    read_fleet,
    read_row,
    references,
    to_text,
    write_fleet,
)

COLUMNS = ["job", "family", "state", "wape"]
BOOSTERS = {name_of(text): text for text in (to_text({"trees": [1, 2]}), to_text({"trees": [3]}))}
OLD, NEW = sorted(BOOSTERS)


def using(name: str) -> str:
    """Return a state that refers to a shared model somewhere inside."""
    return to_text({"members": [{"family": "global-trees", "parameters": {"shared": name}}]})


def fleet_of(**states: str) -> Fleet:
    rows = [{"job": job, "family": "linear", "state": state, "wape": 0.1} for job, state in states.items()]
    return Fleet(pd.DataFrame(rows, columns=COLUMNS))


def trained_of(*rows: tuple[str, str, str]) -> pd.DataFrame:
    frame = [{"job": job, "family": "auto-arima", "state": s, "wape": 0.05, "verdict": v} for job, s, v in rows]
    return pd.DataFrame(frame, columns=[*COLUMNS, "verdict"])


def test_only_promoted_rows_replace_their_job() -> None:
    merged = merge_rows(fleet_of(a="1", b="2", c="3"), trained_of(("b", "20", "promote"), ("c", "30", "keep"))).jobs
    assert list(zip(merged["job"], merged["state"], merged["family"], strict=True)) == [
        ("a", "1", "linear"),
        ("b", "20", "auto-arima"),
        ("c", "3", "linear"),
    ]
    assert "verdict" not in merged


def test_without_a_champion_only_promoted_jobs_are_in_the_fleet() -> None:
    merged = merge_rows(None, trained_of(("b", "2", "promote"), ("a", "1", "keep")))
    assert list(merged.jobs["job"]) == ["b"]


def test_a_metric_that_one_side_does_not_know_is_missing_there() -> None:
    champion = Fleet(fleet_of(a="1").jobs.assign(coverage=0.9))
    merged = merge_rows(champion, trained_of(("b", "2", "promote"))).jobs.set_index("job")
    assert merged.loc["a", "coverage"] == 0.9
    assert np.isnan(merged.loc["b", "coverage"])


names = st.sampled_from("abcdefgh")


@given(
    champion=st.dictionaries(names, st.integers(0, 9)),
    trained=st.dictionaries(names, st.tuples(st.integers(10, 19), st.sampled_from(["promote", "keep"]))),
)
def test_every_row_comes_from_the_right_side(champion: dict, trained: dict) -> None:
    merged = merge_rows(
        fleet_of(**{job: str(state) for job, state in champion.items()}),
        trained_of(*[(job, str(state), verdict) for job, (state, verdict) in trained.items()]),
    ).jobs
    promoted = {job: str(state) for job, (state, verdict) in trained.items() if verdict == "promote"}
    expected = {**{job: str(state) for job, state in champion.items()}, **promoted}
    assert dict(zip(merged["job"], merged["state"], strict=True)) == expected
    assert list(merged["job"]) == sorted(expected)


class TestVersions:
    """A row says in which version it was trained, so that the loop takes in what is new and nothing else."""

    def test_rows_that_are_carried_over_keep_theirs(self, tmp_path: Path) -> None:
        first = merge_rows(None, trained_of(("a", "1", "promote"), ("b", "2", "promote")))
        write_fleet(checked_fleet(first), tmp_path / "4.parquet")
        second = merge_rows(read_fleet(tmp_path / "4.parquet", 4), trained_of(("b", "20", "promote")))
        write_fleet(checked_fleet(second), tmp_path / "5.parquet")
        found = read_fleet(tmp_path / "5.parquet", 5).jobs
        assert dict(zip(found["job"], found["version"], strict=True)) == {"a": 4, "b": 5}

    def test_a_table_from_before_rows_had_versions_is_of_one(self, tmp_path: Path) -> None:
        write_fleet(fleet_of(a="1", b="2"), tmp_path / "3.parquet")
        assert list(read_fleet(tmp_path / "3.parquet", 3).jobs["version"]) == [3, 3]


class TestSharedModels:
    def test_the_same_model_has_the_same_name_and_no_job_can_have_it(self) -> None:
        assert name_of(to_text({"a": 1})) == name_of('{"a":1}') != name_of('{"a":2}')
        assert name_of("{}").startswith("*/")

    def test_references_are_found_wherever_they_stand(self) -> None:
        states = [using(OLD), to_text({"shared": [NEW]}), to_text({"note": f"like {OLD} but not it"})]
        assert references(states) == {OLD, NEW}

    def test_a_version_is_one_file_with_jobs_and_shared_models_apart(self, tmp_path: Path) -> None:
        fleet = checked_fleet(Fleet(fleet_of(a=using(OLD), b="2").jobs, BOOSTERS))
        write_fleet(fleet, tmp_path / "1.parquet")
        found = read_fleet(tmp_path / "1.parquet")
        assert list(found.jobs["job"]) == ["a", "b"]
        assert found.shared == {OLD: BOOSTERS[OLD]}

    def test_a_new_training_brings_its_own_and_drops_the_one_that_nobody_uses_any_more(self) -> None:
        before = checked_fleet(Fleet(fleet_of(a=using(OLD), b="2").jobs, BOOSTERS))
        still_used = merge_rows(before, trained_of(("b", using(NEW), "promote")), BOOSTERS)
        assert set(still_used.shared) == {OLD, NEW}
        replaced = merge_rows(still_used, trained_of(("a", using(NEW), "promote")))
        assert set(replaced.shared) == {NEW}

    def test_a_row_whose_shared_model_is_missing_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="which is not there"):
            merge_rows(None, trained_of(("a", using(OLD), "promote")))
        fleet_of(a=using(OLD)).jobs.to_parquet(tmp_path / "1.parquet")
        with pytest.raises(FleetCorrupt, match="which is not there"):
            read_fleet(tmp_path / "1.parquet")
        with pytest.raises(FleetCorrupt, match="which is not there"):
            read_row(tmp_path / "1.parquet", "a")

    def test_a_shared_model_under_a_wrong_name_is_refused(self) -> None:
        with pytest.raises(ValueError, match="not the one that its name says"):
            checked_fleet(Fleet(fleet_of(a=using(OLD)).jobs, {OLD: BOOSTERS[NEW]}))

    @given(
        before=st.dictionaries(names, st.sampled_from([None, OLD, NEW]), min_size=1),
        after=st.dictionaries(names, st.sampled_from([None, OLD, NEW])),
    )
    def test_a_fleet_holds_exactly_the_shared_models_that_it_refers_to(self, before: dict, after: dict) -> None:
        states = {job: using(name) if name else "{}" for job, name in before.items()}
        champion = checked_fleet(Fleet(fleet_of(**states).jobs, BOOSTERS))
        rows = [(job, using(name) if name else "{}", "promote") for job, name in after.items()]
        merged = merge_rows(champion, trained_of(*rows), BOOSTERS)
        assert set(merged.shared) == {name for name in {**before, **after}.values() if name}


class TestOneRow:
    def test_it_is_what_the_whole_table_says(self, tmp_path: Path) -> None:
        states = {f"job-{n}": using(OLD) if n % 2 else str(n) for n in range(200)}
        write_fleet(checked_fleet(Fleet(fleet_of(**states).jobs, BOOSTERS)), tmp_path / "1.parquet")
        for job in ("job-0", "job-7", "job-199"):
            row = read_row(tmp_path / "1.parquet", job)
            assert row is not None
            assert (row.family, row.state) == ("linear", states[job])
            assert row.shared == ({OLD: BOOSTERS[OLD]} if "trees" in row.state else {})

    def test_a_job_that_is_not_there_has_none(self, tmp_path: Path) -> None:
        write_fleet(fleet_of(a="1"), tmp_path / "1.parquet")
        assert read_row(tmp_path / "1.parquet", "b") is None


@pytest.mark.parametrize(
    ("fleet", "words"),
    [
        (fleet_of().jobs, "no rows"),
        (fleet_of(a="1").jobs.drop(columns="state"), "column state is missing"),
        (pd.concat([fleet_of(a="1").jobs, fleet_of(a="2").jobs]), "more than one row for job a"),
        (fleet_of(a="{not json").jobs, "job 'a' is not JSON"),
        (fleet_of(a="1").jobs.assign(job=None), "has no job"),
    ],
)
def test_a_fleet_that_cannot_be_used_is_refused(fleet: pd.DataFrame, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        checked_fleet(Fleet(fleet))


def test_the_digest_is_of_the_content_not_of_the_order(tmp_path: Path) -> None:
    fleet = fleet_of(b="2", a="1")
    one = write_fleet(checked_fleet(fleet), tmp_path / "1.parquet")
    two = write_fleet(checked_fleet(Fleet(fleet.jobs.iloc[::-1])), tmp_path / "2.parquet")
    other = write_fleet(checked_fleet(Fleet(fleet.jobs.assign(wape=0.2))), tmp_path / "3.parquet")
    assert one == two != other
    assert one == digest_of(tmp_path / "1.parquet")
    assert read_fleet(tmp_path / "1.parquet").jobs.equals(checked_fleet(fleet).jobs)


@pytest.mark.parametrize("content", [b"", b"PAR1 but no more", None])
def test_a_file_that_is_no_fleet_table_is_corrupt(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "fleet.parquet"
    if content is None:
        pd.DataFrame({"job": ["a"]}).to_parquet(path)
    else:
        path.write_bytes(content)
    for read in (read_fleet, lambda file: read_row(file, "a")):
        with pytest.raises(FleetCorrupt, match=r"fleet\.parquet"):
            read(path)


@pytest.mark.parametrize(
    ("column", "values", "read"),
    [
        ("state", [None, "{}"], read_fleet),
        ("state", [1, 2], read_fleet),
        ("version", [1.5, 2.0], lambda path: read_fleet(path, 3)),
        ("job", [1, 2], lambda path: read_row(path, "orders")),
    ],
    ids=["no state", "numbers for states", "half a version", "numbers for jobs"],
)
def test_a_column_of_another_type_makes_a_table_corrupt(tmp_path: Path, column: str, values: list, read: Any) -> None:
    """As of a table that somebody else registered: a loop goes on with the last good one."""
    path = tmp_path / "fleet.parquet"
    rows = {"job": ["orders", "clicks"], "family": ["linear", "linear"], "state": ["{}", "{}"]}
    pd.DataFrame({**rows, column: values}).to_parquet(path)
    with pytest.raises(FleetCorrupt, match="not a fleet table"):
        read(path)


def test_a_state_that_json_cannot_hold_is_refused_before_anybody_has_to_read_it() -> None:
    assert json.loads(to_text({"per_s": [1.0, None]})) == {"per_s": [1.0, None]}
    with pytest.raises(ValueError, match="JSON"):
        to_text({"per_s": [float("nan")]})

"""Retraining one job never touches another, and a table is what it says."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.registry.errors import FleetCorrupt
from models.registry.fleet_table import aggregate, checked_fleet, merge_rows, read_fleet, write_fleet


def fleet_of(**states: str) -> pd.DataFrame:
    rows = [{"job": job, "family": "linear", "state": state, "wape": 0.1} for job, state in states.items()]
    return pd.DataFrame(rows, columns=["job", "family", "state", "wape"])


def trained_of(*rows: tuple[str, str, str]) -> pd.DataFrame:
    frame = [{"job": job, "family": "auto-arima", "state": s, "wape": 0.05, "verdict": v} for job, s, v in rows]
    return pd.DataFrame(frame, columns=["job", "family", "state", "wape", "verdict"])


def test_only_promoted_rows_replace_their_job() -> None:
    merged = merge_rows(fleet_of(a="1", b="2", c="3"), trained_of(("b", "20", "promote"), ("c", "30", "keep")))
    assert list(zip(merged["job"], merged["state"], merged["family"], strict=True)) == [
        ("a", "1", "linear"),
        ("b", "20", "auto-arima"),
        ("c", "3", "linear"),
    ]
    assert "verdict" not in merged


def test_without_a_champion_only_promoted_jobs_are_in_the_fleet() -> None:
    merged = merge_rows(None, trained_of(("b", "2", "promote"), ("a", "1", "keep")))
    assert list(merged["job"]) == ["b"]


def test_a_metric_that_one_side_does_not_know_is_missing_there() -> None:
    champion = fleet_of(a="1").assign(coverage=0.9)
    merged = merge_rows(champion, trained_of(("b", "2", "promote"))).set_index("job")
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
    )
    promoted = {job: str(state) for job, (state, verdict) in trained.items() if verdict == "promote"}
    expected = {**{job: str(state) for job, state in champion.items()}, **promoted}
    assert dict(zip(merged["job"], merged["state"], strict=True)) == expected
    assert list(merged["job"]) == sorted(expected)


@pytest.mark.parametrize(
    ("fleet", "words"),
    [
        (fleet_of(), "no rows"),
        (fleet_of(a="1").drop(columns="state"), "column state is missing"),
        (pd.concat([fleet_of(a="1"), fleet_of(a="2")]), "more than one row for job a"),
        (fleet_of(a="{not json"), "job 'a' is not JSON"),
        (fleet_of(a="1").assign(job=None), "has no job"),
    ],
)
def test_a_fleet_that_cannot_be_used_is_refused(fleet: pd.DataFrame, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        checked_fleet(fleet)


def test_the_digest_is_of_the_content_not_of_the_order(tmp_path: Path) -> None:
    fleet = fleet_of(b="2", a="1")
    one = write_fleet(checked_fleet(fleet), tmp_path / "1.parquet")
    two = write_fleet(checked_fleet(fleet.iloc[::-1]), tmp_path / "2.parquet")
    other = write_fleet(checked_fleet(fleet.assign(wape=0.2)), tmp_path / "3.parquet")
    assert one == two != other
    assert read_fleet(tmp_path / "1.parquet").equals(checked_fleet(fleet))


@pytest.mark.parametrize("content", [b"", b"PAR1 but no more", None])
def test_a_file_that_is_no_fleet_table_is_corrupt(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "fleet.parquet"
    if content is None:
        pd.DataFrame({"job": ["a"]}).to_parquet(path)
    else:
        path.write_bytes(content)
    with pytest.raises(FleetCorrupt, match=r"fleet\.parquet"):
        read_fleet(path)


def test_the_aggregate_counts_what_is_known() -> None:
    per_job = pd.DataFrame(
        {
            "job": ["a", "b", "c", "d"],
            "wape": [0.1, 0.2, 0.4, None],
            "fit_s": [1.0, 2.0, 3.0, np.inf],
            "beats_naive": [True, False, True, None],
            "error": [None, "", None, "too short"],
            "never": [None, None, None, None],
        }
    )
    found = aggregate(per_job)
    assert found == pytest.approx(
        {
            "jobs": 4,
            "jobs_failed": 1,
            "wape_median": 0.2,
            "wape_p90": 0.36,
            "fit_s_median": 2.0,
            "fit_s_p90": 2.8,
            "fit_s_total": 6.0,
            "beats_naive_share": 2 / 3,
        }
    )

"""The page for new engineers says how far it is from an export to a decision."""

from pathlib import Path

import pytest

from benchmarks.walk import new_calls, to_decision

pytestmark = pytest.mark.e2e

PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "architecture.md"


def test_the_page_has_the_calls_of_each_place_where_a_sample_rests() -> None:
    stations, page = new_calls(to_decision()), PAGE.read_text(encoding="utf-8")
    every = [call for calls in stations.values() for call in calls]
    assert f"{len(every)} calls in {len({file for file, _ in every})} files" in page
    rows = {line.split("|")[1].strip(): line.split("|")[2].strip() for line in page.splitlines() if "|" in line}
    assert {station: rows.get(station) for station in stations} == {
        station: str(len(calls)) for station, calls in stations.items()
    }

"""What of observing samples is reported."""

from __future__ import annotations

import pytest

from perdix.assets.observation_tasks import came_twice

KEY = {"job": "ads", "day": "2026-03-04"}


@pytest.mark.parametrize("counts", [{}, {"read": 1_000, "duplicate": 0}, {"read": 1_000, "duplicate": 40}])
def test_exports_that_overlap_are_nothing_to_report(counts: dict[str, int]) -> None:
    assert came_twice(KEY, counts) == ""


def test_samples_that_are_taken_for_copies_are_reported() -> None:
    """Two topics may have the very same rates: who exported both must be able to find out that one counts."""
    assert came_twice(KEY, {"read": 1_000, "duplicate": 400}).startswith(
        "ads, 2026-03-04: 400 of 1000 samples count once"
    )

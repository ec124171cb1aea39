"""Lengths of time as people write them."""

from __future__ import annotations

import pytest

from perdix.settings.durations import in_words, seconds_of


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("60", 60.0), ("30m", 1_800.0), ("30min", 1_800.0), ("1d12h", 129_600.0), ("2w", 1_209_600.0), ("1.5h", 5_400.0)],
)
def test_a_length_of_time_is_read(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "3y", "2014-07-01", "-5m", "h", "5 m x"])
def test_anything_else_is_none(text: str) -> None:
    assert seconds_of(text) is None


@pytest.mark.parametrize(("seconds", "words"), [(0, "0 s"), (45, "45 s"), (1_800, "30 min"), (194_400, "2 d 6 h")])
def test_it_is_told_in_its_largest_units(seconds: float, words: str) -> None:
    assert in_words(seconds) == words

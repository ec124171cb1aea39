"""The records of a load: as many words as asked for, as skewed as asked for."""

from collections import Counter

import pytest

from testbed.lines import lines, word


def test_words_differ_and_hold_letters_only() -> None:
    words = [word(rank) for rank in range(5_000)]
    assert len(set(words)) == len(words)
    assert all(found.isalpha() for found in words)
    assert words[:2] == ["wa", "wb"]
    assert words[26] == "wba"


def test_a_line_has_as_many_words_as_asked_for() -> None:
    assert {len(line.split(b" ")) for line in lines(50, 4, 100, 0.0, seed=1)} == {4}


def test_the_same_seed_gives_the_same_lines() -> None:
    assert lines(50, 2, 100, 1.0, seed=3) == lines(50, 2, 100, 1.0, seed=3)
    assert lines(50, 2, 100, 1.0, seed=3) != lines(50, 2, 100, 1.0, seed=4)


@pytest.mark.parametrize(("skew", "share"), [(0.0, 1 / 100), (1.0, 0.1928), (2.0, 0.6116)])
def test_the_first_word_has_the_share_that_zipf_gives_it(skew: float, share: float) -> None:
    drawn = Counter(lines(20_000, 1, 100, skew, seed=1))
    assert drawn[b"wa"] / 20_000 == pytest.approx(share, abs=0.012)

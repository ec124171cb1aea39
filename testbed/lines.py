"""The records of a load: lines of random words."""

from __future__ import annotations

import numpy as np

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def lines(count: int, words_per_line: int, vocabulary: int, skew: float, seed: int) -> list[bytes]:
    """Return ``count`` lines; the word of rank r comes with a probability in proportion to ``r ** -skew``.

    The same arguments give the same lines.
    """
    random = np.random.default_rng(seed)
    shares = np.arange(1, vocabulary + 1, dtype=np.float64) ** -skew
    drawn = random.choice(vocabulary, size=(count, words_per_line), p=shares / shares.sum())
    return [" ".join(word(int(rank)) for rank in row).encode("ascii") for row in drawn]


def word(rank: int) -> str:
    """Return the word of a rank (from 0): ``wa``, ``wb``, ..., ``wz``, ``wba``: different for every rank."""
    letters = ""
    while True:
        rank, letter = divmod(rank, len(LETTERS))
        letters = LETTERS[letter] + letters
        if rank == 0:
            return f"w{letters}"

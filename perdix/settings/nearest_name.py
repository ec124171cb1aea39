"""The name that was probably meant, where one is not known."""

import difflib
from collections.abc import Iterable

SHORTEST = 3  # letters with which a name begins that is meant


def meant(word: str, known: Iterable[str], otherwise: str, cutoff: float = 0.65) -> str:
    """Return a question for the nearest known name, or ``otherwise`` where none is near.

    Near is also a name that begins with the word: ``min`` of ``minimum``.
    """
    names = list(known)
    longer = [name for name in names if len(word) >= SHORTEST and name.startswith(word)]
    close = difflib.get_close_matches(word, names, n=1, cutoff=cutoff) or longer
    return f"did you mean '{close[0]}'?" if close else otherwise

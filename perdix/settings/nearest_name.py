"""The name that was probably meant, where one is not known."""

import difflib
from collections.abc import Iterable


def meant(word: str, known: Iterable[str], otherwise: str, cutoff: float = 0.6) -> str:
    """Return a question for the nearest known name, or ``otherwise`` where none is near."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=cutoff)
    return f"did you mean '{close[0]}'?" if close else otherwise

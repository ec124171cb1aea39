"""Models that many jobs share: named by their content, kept once per fleet, referred to by name from the jobs' states.

Belongs here: how such a model is named, and which ones a state refers to. Does not belong here: what is in it.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

PREFIX = "*/"  # no stream job can be called so: names of jobs name folders
_REFERENCE = re.compile(r'"(\*/[0-9a-f]{64})"')


def to_text(state: Mapping[str, Any]) -> str:
    """Return a state as the JSON text that a fleet table holds."""
    return json.dumps(state, separators=(",", ":"), allow_nan=False)


def name_of(text: str) -> str:
    """Return the name of a shared model, ``*/`` and the SHA-256 of its JSON text: the same model has one name."""
    return PREFIX + hashlib.sha256(text.encode()).hexdigest()


def references(states: Iterable[str]) -> set[str]:
    """Return the names of shared models that occur in the JSON texts of states, wherever they stand there."""
    found: set[str] = set()
    for state in states:
        found.update(_REFERENCE.findall(state))
    return found

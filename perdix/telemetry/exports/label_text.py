"""Series names as Prometheus writes them: ``name{label="value",...}``, ``{"dotted.name",label="value"}``.

And labels that a table has in one column.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

LABELS = "labels"  # title of such a column

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(
    r"""\s*(?:(?P<name>[a-zA-Z_:][a-zA-Z0-9_:.]*)|"(?P<quoted>(?:[^"\\]|\\.)*)")\s*"""
    r"""(?:(?P<operator>=)\s*"(?P<value>(?:[^"\\]|\\.)*)"\s*)?(?P<comma>,)?""",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", '"': '"', "\\": "\\", "t": "\t", "r": "\r"}


def parse_series(text: str) -> tuple[str, dict[str, str], int] | None:
    """Parse the series that ``text`` begins with.

    Returns ``name``, ``labels``, ``end``; ``name`` is empty where there is none, ``end`` is where the series ends in
    ``text``; ``None`` when there is no series.
    """
    start = _NAME.match(text)
    name, at = (start.group(), start.end()) if start else ("", 0)
    opened = re.compile(r"\s*\{").match(text, at)
    if not opened:
        return (name, {}, at) if name else None
    labels: dict[str, str] = {}
    at = opened.end()
    more = True
    while not (closed := re.compile(r"\s*\}").match(text, at)):
        found = _LABEL.match(text, at) if more else None
        if not found or (found["operator"] is None and (found["quoted"] is None or name)):
            return None
        key = found["name"] if found["quoted"] is None else _unescaped(found["quoted"])
        if found["operator"] is None:
            name = key
        else:
            labels[key] = _unescaped(found["value"])
        at, more = found.end(), found["comma"] is not None
    name = labels.pop("__name__", name)
    return name, labels, closed.end()


def label_map(cell: Any) -> dict[str, str]:
    """Return what a cell of :data:`LABELS` holds: a mapping, pairs, or JSON text; anything else as a label itself."""
    try:
        found = json.loads(cell) if isinstance(cell, str) else cell
        pairs = found.items() if isinstance(found, Mapping) else found
        return {str(key): str(value) for key, value in pairs if value is not None}
    except (TypeError, ValueError, RecursionError):
        return {LABELS: str(cell)}


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    return _ESCAPE.sub(lambda match: _ESCAPED.get(match.group(1), match.group()), text)

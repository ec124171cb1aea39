"""JSON of exporters that are careless with encodings."""

import re
from typing import Any

import orjson

_LONE = re.compile("[\udc80-\udcff]")


def loads(content: bytes) -> tuple[Any, bool]:
    """Parse JSON; bytes that are not UTF-8 become visible, as in ``b"..."``, in the strings that hold them.

    Raises ``ValueError`` when it is not JSON, with the parser's sentence.

    Returns ``document``, ``repaired``; the latter tells whether there were such bytes.
    """
    try:
        return orjson.loads(content), False
    except orjson.JSONDecodeError as error:
        try:
            content.decode("utf-8")
        except UnicodeDecodeError:
            pass
        else:
            raise ValueError(_plain(error)) from None
    text = content.decode("utf-8", "surrogateescape")
    visible = _LONE.sub(lambda match: f"\\\\x{ord(match.group()) - 0xDC00:02x}", text)
    try:
        return orjson.loads(visible), True
    except orjson.JSONDecodeError as error:
        raise ValueError(_plain(error)) from None


def _plain(error: orjson.JSONDecodeError) -> str:
    return f"{error.msg.partition(':')[0]} near character {error.pos}"


def labels_of(metric: Any) -> tuple[str, dict[str, str]] | None:
    """Return name and labels of a ``metric`` object; ``None`` when it is none."""
    if not isinstance(metric, dict):
        return None
    labels = {key: value if isinstance(value, str) else str(value) for key, value in metric.items()}
    return labels.pop("__name__", ""), labels

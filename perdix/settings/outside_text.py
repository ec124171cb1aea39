r"""Text from outside (a file, a server's answer, a name on the command line) as stores, logs and terminals take it.

What they do not take becomes visible, as in ``b"..."``: a byte that is not UTF-8 as ``\xNN``, half a UTF-16 pair as
``\uNNNN``.
"""

import re
from datetime import date

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")  # PostgreSQL takes no NUL
# Beside these, all that moves a terminal's cursor or turns the direction of writing; lines and tabs stay.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
MOST_SHOWN = 120  # characters of what is quoted in a message
_BYTES = range(0xDC80, 0xDD00)  # how Python keeps a byte that is not UTF-8 ("surrogateescape")


def storable(text: str) -> str:
    """Return ``text`` as every database and file format takes it; unchanged where nothing is wrong with it."""
    return text if text.isprintable() else _UNSTORABLE.sub(_visible, text)


def printable(text: str) -> str:
    """Return ``text`` as it can be stored, logged and shown: as :func:`storable`, and no control characters."""
    return text if text.isprintable() else _UNPRINTABLE.sub(_visible, text)


def quoted(value: object) -> str:
    """Return a value as a message shows it: of a long one the beginning."""
    text = value.isoformat() if isinstance(value, date) else repr(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"


def _visible(found: re.Match[str]) -> str:
    code = ord(found.group())
    if code in _BYTES:
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"

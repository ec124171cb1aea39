"""Lengths of time as people write them: ``30m``, ``6h``, ``1d12h``, or plain seconds."""

import re

MINUTE_S, HOUR_S, DAY_S = 60.0, 3_600.0, 86_400.0
_PART = re.compile(r"(\d+(?:\.\d+)?)(min|[smhdw])")
_SECONDS = {"s": 1.0, "m": MINUTE_S, "min": MINUTE_S, "h": HOUR_S, "d": DAY_S, "w": 7 * DAY_S}


def seconds_of(text: str) -> float | None:
    """Return the seconds of ``30m``, ``1d12h`` or ``60``; ``None`` where the text is no length of time."""
    text = text.strip().lower()
    parts = _PART.findall(text)
    if parts and "".join(count + unit for count, unit in parts) == text:
        return sum(float(count) * _SECONDS[unit] for count, unit in parts)
    return float(text) if re.fullmatch(r"\d+(\.\d+)?", text) else None


def in_words(seconds: float) -> str:
    """Return a length of time in its largest units: ``2 d 6 h``, ``30 min``, ``45 s``."""
    left, words = round(seconds), []
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        count, left = divmod(left, length)
        if count:
            words.append(f"{count} {unit}")
    return " ".join(words) or "0 s"


def in_minutes(seconds: float) -> str:
    """Return a length of time in its largest units, to the minute from one on: ``3 h 12 min``, ``45 s``."""
    return in_words(MINUTE_S * round(seconds / MINUTE_S) if seconds >= MINUTE_S else seconds)

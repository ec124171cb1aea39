"""Arrays of rates as short text: rounded to what matters, in a form that compresses well.

What lies side by side differs little: differences have few digits, and bytes of equal weight put together repeat.
"""

from __future__ import annotations

import base64
import zlib

import numpy as np

from perdix.telemetry.window import Values

KEPT_BITS = 13  # of a 32-bit number's 23: a rate is kept to 0.006 %
_DROPPED = 23 - KEPT_BITS
_PLANES = 4  # bytes of a 32-bit number


def rounded(values: Values) -> Values:
    """Return rates as :func:`packed` keeps them, so that a restart changes nothing."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    near = ((bits + np.uint32(1 << (_DROPPED - 1))) >> np.uint32(_DROPPED)) << np.uint32(_DROPPED)
    return np.where(np.isfinite(values), near.view(np.float32), values).astype(np.float64)


def packed(values: Values) -> str:
    """Return text that :func:`unpacked` turns into ``rounded(values)``; neighbours along the last axis are alike."""
    if not values.size:
        return ""
    bits = rounded(values).astype(np.float32).view(np.uint32)
    codes = np.where(np.isnan(values), np.float32(np.nan).view(np.uint32), bits) >> np.uint32(_DROPPED)
    steps = np.diff(codes.astype(np.int64), axis=-1, prepend=0)
    alternating = np.where(steps < 0, -2 * steps - 1, 2 * steps).astype("<u4")  # small either way
    planes = np.ascontiguousarray(alternating).view(np.uint8).reshape(-1, _PLANES).T
    return base64.b64encode(zlib.compress(planes.tobytes(), 9)).decode()


def unpacked(text: str, shape: tuple[int, ...]) -> Values:
    """Return the values of a text in a shape. Raises ``ValueError`` when it is no such text, or one of another size."""
    size = int(np.prod(shape))
    if not text and not size:
        return np.empty(shape)
    stream = zlib.decompressobj()
    try:
        planes = stream.decompress(base64.b64decode(text, validate=True), size * _PLANES + 1)
    except zlib.error as error:
        raise ValueError(f"an array is damaged ({error})") from None
    if len(planes) != size * _PLANES or not stream.eof:
        raise ValueError(f"an array of {size} values and its text differ in length")
    alternating = np.frombuffer(planes, dtype=np.uint8).reshape(_PLANES, size).T.copy().view("<u4").astype(np.int64)
    steps = np.where(alternating & 1, -(alternating + 1) // 2, alternating // 2).reshape(shape)
    codes = np.cumsum(steps, axis=-1).astype(np.uint32)
    return (codes << np.uint32(_DROPPED)).view(np.float32).astype(np.float64)

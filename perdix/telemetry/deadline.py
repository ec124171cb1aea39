"""The time by which a whole call to a server must have ended, however many pieces its answer comes in."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_until_s: ContextVar[float] = ContextVar("_until_s", default=float("inf"))


@contextmanager
def within(total_s: float) -> Iterator[None]:
    """Let whatever is read or written in this block, in this thread, end ``total_s`` seconds from now."""
    token = _until_s.set(time.monotonic() + total_s)
    try:
        yield
    finally:
        _until_s.reset(token)


def left_s(timeout_s: float | None = None) -> float:
    """Return how long the next read or write may take: ``timeout_s``, or less; not positive when the time is over."""
    left = _until_s.get() - time.monotonic()
    return left if timeout_s is None else min(timeout_s, left)

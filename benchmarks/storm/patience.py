"""How long a step may compute before it counts as hung."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

HUNG_S = 10.0  # of processor time: a step takes a hundredth of a second


class HungError(BaseException):
    """A step used up far more processor time than any step needs."""


@contextmanager
def patience() -> Iterator[None]:
    """Raise in this thread when the block needs too much processor time; within another such block, nothing new."""

    def end(*_: object) -> None:
        raise HungError

    if signal.getitimer(signal.ITIMER_VIRTUAL)[0] > 0.0 or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, HUNG_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before)
